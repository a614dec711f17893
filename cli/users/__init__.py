"""`kohort users`: who can log in by SCRAM, in the words of kafka-configs.sh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.options import Parser, add_common, carry_out

if TYPE_CHECKING:
    import argparse

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def main(words: list[str]) -> int:
    """Carry out `kohort users`."""
    return carry_out(parser(), words)


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    whole = Parser(prog="kohort users", description="Users who log in by SCRAM, of any Kafka cluster.")
    commands = whole.add_subparsers(metavar="COMMAND")
    described = commands.add_parser("describe", help="users, their mechanisms and iterations; never a password")
    described.set_defaults(run="cli.users.scram:describe")
    described.add_argument("users", metavar="USER", nargs="*", help="which (default all)")
    added = commands.add_parser(
        "add",
        help="give a user a password, which is read from standard input",
        description="Give a user a password, a new one where there is one. It is one line of standard input, and asked "
        "for at a terminal. Connections that are open stay.",
    )
    added.set_defaults(run="cli.users.scram:add")
    added.add_argument("user", metavar="USER")
    added.add_argument("--mechanism", choices=MECHANISMS, default=MECHANISMS[0], help=f"default {MECHANISMS[0]}")
    added.add_argument("--iterations", type=int, default=4096, metavar="N", help="4096 (the default) to 16384")
    added.add_argument("--password-file", metavar="FILE", help="take the first line of this file instead")
    removed = commands.add_parser("delete", help="take a user's password away")
    removed.set_defaults(run="cli.users.scram:delete")
    removed.add_argument("user", metavar="USER")
    removed.add_argument("--mechanism", choices=MECHANISMS, help="only this one (default all that the user has)")
    altered = commands.add_parser("alter", help="as kafka-configs.sh --alter does")
    altered.set_defaults(run="cli.users.scram:alter")
    altered.add_argument("user", metavar="USER")
    altered.add_argument(
        "--add-config", metavar="K=V,...", help="'SCRAM-SHA-256=[iterations=8192,password=...]'; others can see it run"
    )
    altered.add_argument("--delete-config", metavar="K,...", help="SCRAM-SHA-256, SCRAM-SHA-512")
    add_common(whole, (described, added, removed, altered))
    return whole
