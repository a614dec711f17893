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
usage: kohort serve [CONFIG] [--override key=value ...] [--json-logs] [--container]
       kohort graduate [--check] [--to VERSION] [CONFIG] [--override key=value ...]
       kohort health [HOST:PORT]

  serve                 run the broker
  graduate              make sure that Apache Kafka can be started on the stopped data directory, and print the
                        server.properties for it (docs/graduate.md)
  health                exit with 0 if a broker answers requests there; without HOST:PORT at the first of
                        KAFKA_LISTENERS, or at 127.0.0.1:9092

  CONFIG                a server.properties file, with Kafka's keys
  --override key=value  one setting; counts over KAFKA_* in the environment, which counts over CONFIG
  --json-logs           one JSON object per log line
  --container           the places and defaults of Apache Kafka's image: CONFIG from /mnt/shared/config, data in
                        /var/lib/kafka/data, port 9092 on every address
  --check               only look; change and print nothing for Kafka
  --to VERSION          the Kafka to be started, such as 4.3: append the feature levels that it needs
"""

# Where Apache Kafka's image looks, and what a container needs that a laptop must not have: a port open to others.
_CONTAINER_CONFIG = Path("/mnt/shared/config/server.properties")
_CONTAINER_DEFAULTS = {
    "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
}


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
        command = {"serve": _serve, "graduate": _graduate, "health": _health}.get(words[0])
        if command is None:
            raise UsageError(f"there is no command {words[0]!r}")
        if {"-h", "--help"} & set(words[1:]):
            print(_USAGE, end="")
            return 0
        return command(words[1:])
    except UsageError as error:
        return _refuse(f"{error}\n{_USAGE}", MISUSED)


def _serve(words: list[str]) -> int:
    from broker.setting_types import SettingsError  # noqa: PLC0415  each command imports what it needs
    from broker.settings_sources import gather  # noqa: PLC0415

    config, overrides, options = _parse("serve", words, {"--json-logs": False, "--container": False})
    json_logs = "--json-logs" in options
    environment = dict(os.environ)
    if "--container" in options:
        config = _in_container(config, environment)
    try:
        sources = gather(config, environment, overrides)
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


def _in_container(config: Path | None, environment: dict[str, str]) -> Path | None:
    """The configuration file of a container, and into `environment` what nobody has said.

    Settings of whoever runs it, by file or by environment, take the place of each default; listeners go together.
    """
    if config is None and _CONTAINER_CONFIG.is_file():
        config = _CONTAINER_CONFIG
    said = {"KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"} & set(environment)
    for name, value in _CONTAINER_DEFAULTS.items():
        if config is None and not (said and "LISTENERS" in name):
            environment.setdefault(name, value)
    return config


def _health(words: list[str]) -> int:
    from broker.health import address, check  # noqa: PLC0415

    if len(words) > 1:
        raise UsageError("health takes one HOST:PORT")
    try:
        host, port = address(words, os.environ)
    except ValueError as error:
        raise UsageError(str(error)) from None
    wrong = check(host, port)
    if wrong is not None:
        return _refuse(wrong, FAILED)
    print(f"{host}:{port} answers")
    return 0


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
