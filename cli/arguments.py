"""The arguments of the verbs that start fast: `serve`, `graduate`. No argparse, which would cost every start 12 ms.

The options are a table, from which `--help` and shell completion are made too; those that other verbs have as well are
in `cli.options` with the rest of what verbs share.
"""

from __future__ import annotations

from pathlib import Path

from cli.errors import UsageError

Option = tuple[str, str, str]
"""Name, what it takes ("" for nothing), help."""

OVERRIDE: Option = (
    "--override",
    "key=value",
    "one setting; counts over KAFKA_* in the environment, which counts over CONFIG",
)
CONTAINER: Option = (
    "--container",
    "",
    "the places and defaults of Apache Kafka's image: CONFIG from /mnt/shared/config, data in "
    "/var/lib/kafka/data, port 9092 on every address",
)
BOOTSTRAP = ("-b", "--bootstrap-server")
CONFIG_HELP = "a server.properties file, with Kafka's keys"


def parse(command: str, words: list[str], options: tuple[Option, ...]) -> tuple[Path | None, list[str], dict[str, str]]:
    """CONFIG, the overrides, and the other options that were given. Raises: UsageError."""
    takes = {name: metavar for name, metavar, _ in options}
    config: Path | None = None
    overrides: list[str] = []
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if takes.get(name):
            text = value if equals else next(rest, None)
            if text is None:
                raise UsageError(f"{name}: it takes {takes[name]}")
            if name == OVERRIDE[0]:
                overrides.append(text)
            else:
                found[name] = text
        elif word in takes:
            found[word] = ""
        elif word.startswith("-"):
            raise UsageError(f"{word}: {command} has no such option")
        elif config is None:
            config = Path(word)
        else:
            raise UsageError(f"{word}: {command} takes one CONFIG")
    return config, overrides, found


def wants_help(words: list[str]) -> bool:
    """Whether --help is among the words."""
    return "-h" in words or "--help" in words
