"""`kohort acls`: who may do what, in the words of kafka-acls.sh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.options import Parser, add_common, carry_out

if TYPE_CHECKING:
    import argparse

_RESOURCES = (
    ("--topic", "TOPIC", "a topic; * for all"),
    ("--group", "GROUP", "a group; * for all"),
    ("--transactional-id", "ID", "a transactional id; * for all"),
)


def main(words: list[str]) -> int:
    """Carry out `kohort acls`."""
    return carry_out(parser(), words)


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    whole = Parser(prog="kohort acls", description="ACLs of any Kafka cluster that has an authorizer.")
    commands = whole.add_subparsers(metavar="COMMAND")
    listed = commands.add_parser("list", help="print ACLs")
    listed.set_defaults(run="cli.acls.changing:list_acls")
    listed.add_argument("--principal", metavar="Type:name", action="append", help="only of these principals")
    added = commands.add_parser("add", help="allow or deny something")
    added.set_defaults(run="cli.acls.changing:add")
    removed = commands.add_parser("remove", help="take ACLs away; with no principal all of the resources")
    removed.set_defaults(run="cli.acls.changing:remove")
    removed.add_argument("--force", action="store_true", help="do not ask")
    for command in (listed, added, removed):
        _add_resources(command)
    for command in (added, removed):
        _add_rights(command)
    add_common(whole, (listed, added, removed))
    return whole


def _add_resources(command: argparse.ArgumentParser) -> None:
    for name, metavar, text in _RESOURCES:
        command.add_argument(name, metavar=metavar, action="append", default=[], help=text)
    command.add_argument("--cluster", action="store_true", help="the cluster")
    command.add_argument(
        "--resource-pattern-type",
        metavar="TYPE",
        type=str.lower,
        choices=("literal", "prefixed", "match", "any"),
        default="literal",
        help="literal (the default), prefixed: names that begin so; match, any: to list and remove",
    )


def _add_rights(command: argparse.ArgumentParser) -> None:
    for word in ("allow", "deny"):
        command.add_argument(
            f"--{word}-principal", metavar="Type:name", action="append", default=[], help=f"whom to {word}: User:alice"
        )
        command.add_argument(
            f"--{word}-host", metavar="ADDRESS", action="append", default=[], help=f"from where to {word} (default *)"
        )
    command.add_argument(
        "--operation", metavar="OP", action="append", default=[], help="Read, Write, Describe, ... (default All)"
    )
    command.add_argument("--producer", action="store_true", help="what a producer to --topic needs")
    command.add_argument("--consumer", action="store_true", help="what a consumer of --topic in --group needs")
    command.add_argument("--idempotent", action="store_true", help="with --producer: IdempotentWrite on the cluster")
