"""The command line: `kohort serve [CONFIG] [--override key=value ...] [--json-logs]`.

Whatever goes wrong ends in one sentence on standard error and an exit code: 2 when what was asked for cannot be (a
setting, an argument), 1 when the machine would not have it (a port in use, a directory that cannot be written).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED = 1
MISUSED = 2

_USAGE = """\
usage: kohort serve [CONFIG] [--override key=value ...] [--json-logs]

  CONFIG                a server.properties file, with Kafka's keys
  --override key=value  one setting; counts over KAFKA_* in the environment, which counts over CONFIG
  --json-logs           one JSON object per log line
"""


class UsageError(Exception):
    """Arguments that make no command; the message says what is wrong with them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_USAGE, end="", file=sys.stdout if words else sys.stderr)
        return 0 if words else MISUSED
    if words[0] == "--version":
        from importlib.metadata import version  # noqa: PLC0415  slow, and rarely asked for

        print(f"kohort {version('kohort')}")
        return 0
    try:
        if words[0] != "serve":
            raise UsageError(f"there is no command {words[0]!r}")
        return _serve(words[1:])
    except UsageError as error:
        return _refuse(f"{error}\n{_USAGE}", MISUSED)


def _serve(words: list[str]) -> int:
    from broker.setting_types import SettingsError  # noqa: PLC0415  each command imports what it needs
    from broker.settings_sources import gather  # noqa: PLC0415

    config, overrides, json_logs = _parse(words)
    try:
        sources = gather(config, os.environ, overrides)
    except SettingsError as error:
        return _refuse(str(error), MISUSED)
    from broker.process import StartFailed, serve  # noqa: PLC0415

    try:
        return serve(sources, json_logs=json_logs)
    except SettingsError as error:
        return _refuse(str(error), MISUSED)
    except StartFailed as error:
        return _refuse(str(error), FAILED)
    except KeyboardInterrupt:
        return _refuse("ended before it was ready", FAILED)


def _parse(words: list[str]) -> tuple[Path | None, list[str], bool]:
    config: Path | None = None
    overrides: list[str] = []
    json_logs = False
    rest = iter(words)
    for word in rest:
        if word in ("-h", "--help"):
            raise UsageError("serve: its arguments are these")
        if word == "--json-logs":
            json_logs = True
        elif word == "--override":
            value = next(rest, None)
            if value is None:
                raise UsageError("--override: it takes key=value")
            overrides.append(value)
        elif word.startswith("--override="):
            overrides.append(word.removeprefix("--override="))
        elif word.startswith("-"):
            raise UsageError(f"{word}: serve has no such option")
        elif config is None:
            config = Path(word)
        else:
            raise UsageError(f"{word}: serve takes one CONFIG")
    return config, overrides, json_logs


def _refuse(sentence: str, code: int) -> int:
    print(f"kohort: {sentence}", file=sys.stderr)
    return code
