"""The command line: one program, `kohort`, and a verb for each thing that it does.

`VERBS` names the function of each verb, which is imported when it is called: no room imports another for the sake of
the command line, and `serve` pays for no other verb. Such a function takes the words behind the verb and returns an
exit code: 0, 1 when something failed (`Failed` is raised), 2 when what was asked for cannot be (`UsageError`).
Whatever goes wrong ends in one sentence on standard error.
"""

from __future__ import annotations

import errno
import sys

from cli.errors import DONE, FAILED, MISUSED, Failed, UsageError, WrongInput

TYPE_CHECKING = False  # type checkers take it for theirs; typing would be a third of `kohort --help`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

VERBS = {
    "serve": "cli.serve:main",
    "graduate": "cli.graduate:main",
    "health": "cli.health:main",
    "groups": "cli.groups:main",
    "topics": "cli.topics:main",
    "transactions": "cli.transactions:main",
    "acls": "cli.acls:main",
    "users": "cli.users:main",
    "quotas": "cli.quotas:main",
    "certificates": "cli.certificates:main",
    "produce": "cli.produce:main",
    "consume": "cli.consume:main",
    "why": "cli.why:main",
    "storage": "cli.storage:main",
    "pipeline": "pipeline.cli:main",
    "testbed": "cli.testbed:main",
    "completion": "cli.completion:main",
}

VERSION = "--version"

_ROOMS = __name__.removesuffix("cli")
"""What stands before a room's name: nothing in a checkout; an installation has the rooms in a package of its own."""

_EXTRAS = {
    "confluent_kafka": ("confluent-kafka", "cli"),
    "shtab": ("shtab", "cli"),
    **dict.fromkeys(("pyspark", "pyarrow", "pandas", "numpy", "plotly"), ("PySpark and its companions", "spark")),
}
"""What an installation lacks, by the name it is imported by: the distribution, and the extra that brings it."""

_USAGE = """\
usage: kohort serve [CONFIG] [--override key=value ...] [--json-logs] [--container]
       kohort graduate [--check] [--to VERSION] [CONFIG] [--override key=value ...]
       kohort VERB [--help] ...

  serve       run the broker
  graduate    make sure that Apache Kafka can be started on the stopped data directory
  health      exit with 0 if a broker answers requests
  groups      list, describe, delete groups; delete and reset their offsets
  topics      list, describe, create, delete, alter topics
  transactions  list and describe transactions; find and end those that hang
  acls        list, add, remove ACLs: who may do what
  users       describe, add, delete users who log in by SCRAM
  quotas      describe and alter quotas of users, client ids and addresses
  certificates  make an authority and certificates, for development
  produce     lines of standard input become records
  consume     print records, as a member of a group or alone
  why         why a group rebalanced
  storage     print what lies in a data directory, without a broker
  pipeline    questions to logs, answered with Spark
  testbed     brokers for tests in any language, commanded over HTTP
  completion  words for the Tab key of bash, zsh and fish

groups, topics, transactions, acls, users, quotas, produce and consume work with any Kafka: --bootstrap-server
HOST:PORT (-b), else 127.0.0.1:9092.
Exit codes: 0, 1 when something failed, 2 when what was asked for cannot be.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code.

    Called under the name of one of Kafka's tools, or with that name for a verb, it is that tool.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None and sys.argv[0].endswith(".sh"):
        words.insert(0, sys.argv[0])
    if not words or words[0] in ("-h", "--help", "help"):
        print(_USAGE, end="", file=sys.stdout if words else sys.stderr)
        return DONE if words else MISUSED
    verb = words[0]
    if verb == VERSION:
        return _print_version()
    if verb not in VERBS and "kafka-" in verb:
        from cli.kafka_tools import TOOLS, tool_of  # noqa: PLC0415  not when the broker is started

        tool = tool_of(verb)
        if tool is not None:
            if VERSION in words:
                return _print_version()
            return run(f"{tool}.sh", TOOLS[tool], words[1:])
    if verb.startswith("-"):
        return refuse(f"{verb}: the verb comes first, its options behind it: kohort VERB {verb} ...", MISUSED)
    if verb not in VERBS:
        return refuse(f"there is no command {verb!r}\n{_USAGE}", MISUSED)
    return run(f"kohort {verb}", VERBS[verb], words[1:])


def run(program: str, place: str, words: list[str]) -> int:
    """Call the function at `place`; what it raises becomes a sentence and an exit code."""
    try:
        code: int = entry(program, place)(words)
        sys.stdout.flush()
    except WrongInput as error:
        return refuse(str(error), MISUSED)
    except UsageError as error:
        # Of Kafka's tools the help is their own, whatever verb carries them out.
        command = error.command if error.command.startswith(f"{program} ") else program
        return refuse(f"{error}\n{command} --help tells how", MISUSED)
    except Failed as error:
        return refuse(str(error), FAILED)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is not None:
            return refuse(f"{program} needs {extra[0]}: pip install 'kohort[{extra[1]}]'", FAILED)
        return refuse(f"{program} needs the Python package {error.name}, which is not installed", FAILED)
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG):
            raise
        # The interpreter would complain again when it flushes at the end.
        sys.stdout = None  # as it is where there is none
        if error.errno == errno.EPIPE:  # whoever read has had enough: `| head`
            return FAILED
        return refuse(f"cannot write: {(error.strerror or str(error)).lower()}", FAILED)
    except KeyboardInterrupt:
        return refuse("interrupted", 130)
    return code


def entry(program: str, place: str) -> Any:
    """The function at `module:name`. Raises: Failed when this installation does not have its module."""
    module, _, name = place.partition(":")
    if not module.startswith("kohort."):
        module = _ROOMS + module
    try:
        # Not `importlib.import_module`: the start of the broker would import importlib for it.
        return getattr(__import__(module, fromlist=[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or f"{module}.".startswith(f"{error.name}."):
            raise Failed(f"{program} is not part of this installation") from None
        raise


def _print_version() -> int:
    print(version())
    return DONE


def version() -> str:
    """What --version prints."""
    from importlib import metadata  # noqa: PLC0415  slow, and rarely asked for

    from broker.loop.running import tree_and_interpreter  # noqa: PLC0415

    running = f"({', '.join(tree_and_interpreter())})"
    try:
        return f"kohort {metadata.version('kohort')} {running}"
    except metadata.PackageNotFoundError:
        return f"kohort, run from its sources {running}"


def refuse(sentence: str, code: int) -> int:
    """Say it on standard error; the exit code."""
    print(f"kohort: {sentence}", file=sys.stderr)
    return code
