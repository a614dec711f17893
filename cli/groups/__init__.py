"""`kohort groups`: what kafka-consumer-groups.sh does, against any Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.options import Parser, add_command, add_common, carry_out

if TYPE_CHECKING:
    import argparse


def main(words: list[str]) -> int:
    """Carry out `kohort groups`."""
    return carry_out(parser(), words)


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    whole = Parser(prog="kohort groups", description="Consumer groups: who is in them, how far they are.")
    commands = whole.add_subparsers(metavar="COMMAND")
    one = add_command(commands, "list", "the groups", "cli.groups.listing:list_groups")
    one.add_argument(
        *("--state", "--states"),
        metavar="STATE,...",
        nargs="?",
        const="",
        help="with their states; those in some of them only",
    )
    one.add_argument(
        "--type", metavar="TYPE,...", nargs="?", const="", help="with their types: classic, consumer; or of these only"
    )
    _describe(commands)
    one = add_command(
        commands, "delete", "delete groups that have no members, with their offsets", "cli.groups.deletion:delete"
    )
    _add_groups(one)
    one = add_command(
        commands, "delete-offsets", "delete a group's offsets of some topics", "cli.groups.deletion:delete_offsets"
    )
    _add_groups(one)
    _add_topics(one)
    _reset(commands)
    add_common(whole, commands.choices.values())
    return whole


def _add_groups(one: argparse.ArgumentParser) -> None:
    one.add_argument("groups", metavar="GROUP", nargs="*", help="a group id")
    one.add_argument(
        "--group", metavar="GROUP", action="append", default=[], help="the same, as Kafka's tool spells it"
    )
    one.add_argument("--all-groups", action="store_true", help="every group")


def _add_topics(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--topic",
        metavar="TOPIC[:0,1]",
        action="append",
        default=[],
        help="a topic, or some of its partitions; may be repeated",
    )
    one.add_argument("--all-topics", action="store_true", help="every topic of which the group has offsets")


def _describe(commands: argparse._SubParsersAction[Parser]) -> None:
    one = add_command(
        commands, "describe", "a group's offsets and lag, members, or state", "cli.groups.describing:describe"
    )
    _add_groups(one)
    view = one.add_mutually_exclusive_group()
    view.add_argument("--offsets", action="store_true", help="offsets, lag, and who reads each partition (the default)")
    view.add_argument("--members", action="store_true", help="the members")
    view.add_argument("--state", action="store_true", help="state, coordinator, assignor")
    one.add_argument("--verbose", action="store_true", help="leader epochs; what each member is assigned")
    own = "without LAG-SECONDS: exactly what kafka-consumer-groups.sh prints"
    one.add_argument("--kafka-columns", action="store_true", help=own)


def _reset(commands: argparse._SubParsersAction[Parser]) -> None:
    about = "set the offsets of a group that has no members; only says what it would do, unless --execute"
    one = add_command(commands, "reset-offsets", about, "cli.groups.resetting:reset_offsets")
    _add_groups(one)
    _add_topics(one)
    goal = one.add_mutually_exclusive_group(required=True)
    goal.add_argument("--to-earliest", action="store_true", help="to the first record kept")
    goal.add_argument("--to-latest", action="store_true", help="behind the last record")
    goal.add_argument("--to-current", action="store_true", help="to where they are; partitions without: latest")
    goal.add_argument("--to-offset", metavar="N", type=int, help="to this offset")
    goal.add_argument(
        "--to-datetime",
        metavar="TIME",
        help="to the first record of this time or later: 2026-01-31T18:00:00.000, UTC unless it names a zone",
    )
    goal.add_argument("--by-duration", metavar="PnDTnHnMnS", help="to where records were so long ago, such as PT1H30M")
    goal.add_argument("--shift-by", metavar="N", type=int, help="on by N, back by -N")
    goal.add_argument(
        "--from-file",
        metavar="FILE",
        help="to what FILE says (- is standard input): topic,partition,offset a line, or group,topic,partition,offset",
    )
    how = one.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="only say what would be done (the default)")
    how.add_argument("--execute", action="store_true", help="do it")
    one.add_argument("--export", action="store_true", help="print CSV that --from-file takes")
