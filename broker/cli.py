"""The command line: `kohort serve` and `kohort graduate`, each with a CONFIG and with `--override key=value`.

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
       kohort graduate [--check] [--to VERSION] [CONFIG] [--override key=value ...]

  serve                 run the broker
  graduate              make sure that Apache Kafka can be started on the stopped data directory, and print the
                        server.properties for it (docs/graduate.md)

  CONFIG                a server.properties file, with Kafka's keys
  --override key=value  one setting; counts over KAFKA_* in the environment, which counts over CONFIG
  --json-logs           one JSON object per log line
  --check               only look; change and print nothing for Kafka
  --to VERSION          the Kafka to be started, such as 4.3: append the feature levels that it needs
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
        command = {"serve": _serve, "graduate": _graduate}.get(words[0])
        if command is None:
            raise UsageError(f"there is no command {words[0]!r}")
        return command(words[1:])
    except UsageError as error:
        return _refuse(f"{error}\n{_USAGE}", MISUSED)


def _serve(words: list[str]) -> int:
    from broker.setting_types import SettingsError  # noqa: PLC0415  each command imports what it needs
    from broker.settings_sources import gather  # noqa: PLC0415

    config, overrides, options = _parse("serve", words, {"--json-logs": False})
    json_logs = "--json-logs" in options
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


def _graduate(words: list[str]) -> int:
    from broker.graduate.command import Wish, find_target, known_versions, run  # noqa: PLC0415
    from broker.setting_types import SettingsError  # noqa: PLC0415

    config, overrides, options = _parse("graduate", words, {"--check": False, "--to": True})
    wish = Wish(config, overrides, only_check="--check" in options)
    if "--to" in options:
        wish.to = find_target(options["--to"])
        if wish.to is None:
            raise UsageError(f"--to {options['--to']}: it takes one of {known_versions()}")
    try:
        return run(wish, os.environ)
    except SettingsError as error:
        return _refuse(str(error), MISUSED)


def _parse(command: str, words: list[str], known: dict[str, bool]) -> tuple[Path | None, list[str], dict[str, str]]:
    """CONFIG, the overrides, and the command's own options; `known` says which of these take a value."""
    config: Path | None = None
    overrides: list[str] = []
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            raise UsageError(f"{command}: its arguments are these")
        if name == "--override" or (known.get(name)):
            text = value if equals else next(rest, None)
            if text is None:
                raise UsageError(f"{name}: it takes {'key=value' if name == '--override' else 'a value'}")
            if name == "--override":
                overrides.append(text)
            else:
                options[name] = text
        elif word in known:
            options[word] = ""
        elif word.startswith("-"):
            raise UsageError(f"{word}: {command} has no such option")
        elif config is None:
            config = Path(word)
        else:
            raise UsageError(f"{word}: {command} takes one CONFIG")
    return config, overrides, options


def _refuse(sentence: str, code: int) -> int:
    print(f"kohort: {sentence}", file=sys.stderr)
    return code
