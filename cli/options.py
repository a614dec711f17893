"""What the verbs that use argparse share: the parser, the common options, and how a parsed command is run.

A verb's `parser()` declares it whole, so that `--help` and shell completion are made of the same thing. Each command of
a verb says in `set_defaults(run="module:function")` what carries it out; the function takes the parsed options.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from cli import VERSION as VERSION_OPTION
from cli import arguments, entry
from cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

BOOTSTRAP_VARIABLE = "KOHORT_BOOTSTRAP_SERVER"
DEFAULT_BOOTSTRAP = os.environ.get(BOOTSTRAP_VARIABLE) or "127.0.0.1:9092"
DEFAULT_TIMEOUT_MS = 30_000


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` instead of ending the program, and never guesses at half options."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        named.setdefault("allow_abbrev", False)
        super().__init__(*arguments, **named)
        self.set_defaults(command=self.prog)  # the innermost parser's is what the options have

    def error(self, message: str) -> NoReturn:
        """Arguments that make no command. Raises: UsageError."""
        error = UsageError(message)
        error.command = self.prog
        raise error


def described(verb: str, about: str, options: Iterable[tuple[str, str, str]], positional: tuple[str, str]) -> Parser:
    """A parser for the help and the completion of a verb that reads its words itself."""
    parser = Parser(prog=f"kohort {verb}", description=about)
    parser.add_argument(positional[0].lower(), metavar=positional[0], nargs="?", help=positional[1])
    for name, metavar, text in options:
        if metavar:
            parser.add_argument(name, metavar=metavar, help=text)
        else:
            parser.add_argument(name, action="store_true", help=text)
    return parser


def add_command(
    commands: argparse._SubParsersAction[Parser], name: str, about: str, run: str, *, more: str = ""
) -> argparse.ArgumentParser:
    """One command of a verb: `about` for the verb's help and, with `more`, for its own; `run` is `module:function`."""
    one = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.{more}")
    one.set_defaults(run=run)
    return one


def positive(text: str) -> int:
    """A whole number above 0, for `type=`."""
    number = int(text)
    if number <= 0:
        raise ValueError
    return number


positive.__name__ = "positive number"  # argparse names the type in its message


class Shared(NamedTuple):
    """An option that several verbs or Kafka's tools have: spellings, default, and the rest of what argparse is told."""

    spellings: tuple[str, ...]
    default: Any
    how: dict[str, Any]


BOOTSTRAP = Shared(
    arguments.BOOTSTRAP,
    DEFAULT_BOOTSTRAP,
    {
        "metavar": "HOST:PORT",
        "help": "where the cluster is asked first; several with commas "
        f"(default ${BOOTSTRAP_VARIABLE}, else 127.0.0.1:9092)",
    },
)
COMMAND_CONFIG = Shared(
    ("--command-config",),
    None,
    {"metavar": "FILE", "help": "client settings, one key=value a line, as Kafka's tools take them"},
)
COMMAND_PROPERTY = Shared(
    ("--command-property",),
    None,
    {"metavar": "KEY=VALUE", "action": "append", "help": "a setting of the client"},
)
TIMEOUT = Shared(
    ("--timeout",),
    DEFAULT_TIMEOUT_MS,
    {"metavar": "MS", "type": positive, "help": f"how long to wait for an answer (default {DEFAULT_TIMEOUT_MS})"},
)
JSON = Shared(("--json",), False, {"action": "store_true", "help": "JSON for programs instead of a table"})
TOPIC = Shared(("--topic",), None, {"metavar": "TOPIC", "help": "the same, as Kafka's tool spells it"})
TOPICS = Shared(TOPIC.spellings, [], {**TOPIC.how, "action": "append"})
OVERRIDE = Shared(
    arguments.OVERRIDE[:1],
    [],
    {"metavar": arguments.OVERRIDE[1], "action": "append", "help": arguments.OVERRIDE[2]},
)
CONTAINER = Shared(arguments.CONTAINER[:1], False, {"action": "store_true", "help": arguments.CONTAINER[2]})
VERSION = Shared((VERSION_OPTION,), False, {"action": "store_true", "help": "the version of this program"})


def add(
    parser: argparse.ArgumentParser, *shared: Shared, default: bool = True, also: tuple[str, ...] = (), **how: Any
) -> None:
    """Options of the table, with further spellings and with what `how` says instead, such as another help.

    Without `default` what is not given stays as the verb before has it.
    """
    for one in shared:
        value = one.default if default else argparse.SUPPRESS
        parser.add_argument(*one.spellings, *also, default=value, **{**one.how, **how})


def add_common(verb: argparse.ArgumentParser, commands: Iterable[argparse.ArgumentParser]) -> None:
    """--bootstrap-server, --command-config, --timeout and --json, before and behind the name of a command."""
    for parser in (verb, *commands):
        add(parser, *CLUSTER, JSON, default=parser is verb)


CLUSTER = (BOOTSTRAP, COMMAND_CONFIG, TIMEOUT)
"""How a cluster is reached."""


def carry_out(parser: argparse.ArgumentParser, words: list[str]) -> int:
    """Parse the words and call what their command names; its exit code. Raises: UsageError, Failed."""
    options, unknown = parser.parse_known_args(words)
    try:
        if unknown:
            raise UsageError(f"unrecognized arguments: {' '.join(unknown)}")
        place = getattr(options, "run", None)
        if place is None:
            raise UsageError(f"{parser.prog} needs a command")
        code: int = entry(parser.prog, place)(options)
    except UsageError as error:
        error.command = error.command or options.command
        raise
    return code


def print_json(value: Any) -> None:
    """One line of JSON; bytes that are no text, and what JSON has no word for, become text."""
    print(json.dumps(value, ensure_ascii=False, default=str))
