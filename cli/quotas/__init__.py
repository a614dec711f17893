"""`kohort quotas`: how much users, client ids and addresses may ask for, in the words of kafka-configs.sh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.options import Parser, add_common, carry_out

if TYPE_CHECKING:
    import argparse

KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


def main(words: list[str]) -> int:
    """Carry out `kohort quotas`."""
    return carry_out(parser(), words)


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    whole = Parser(prog="kohort quotas", description="Quotas of users, client ids and addresses, of any Kafka cluster.")
    commands = whole.add_subparsers(metavar="COMMAND")
    described = commands.add_parser("describe", help="quotas of whom the options name (default everybody's)")
    described.set_defaults(run="cli.quotas.applying:describe")
    altered = commands.add_parser(
        "alter",
        help="set quotas and take them away",
        description=f"Set quotas and take them away: {', '.join(KEYS[:-1])} of users and client ids, or of both "
        f"together; {KEYS[-1]} of addresses.",
    )
    altered.set_defaults(run="cli.quotas.applying:alter")
    for command in (described, altered):
        add_entities(command)
    altered.add_argument("--add-config", metavar="K=V,...", help="set these: producer_byte_rate=1048576")
    altered.add_argument("--delete-config", metavar="K,...", help="take these away")
    add_common(whole, (described, altered))
    return whole


def add_entities(parser: argparse.ArgumentParser) -> None:
    """--user, --client, --ip, and --user-defaults and so on, as Kafka's tool has them."""
    for name, what in (("user", "a user"), ("client", "a client id"), ("ip", "an address")):
        parser.add_argument(f"--{name}", metavar="NAME", help=f"of {what}")
        parser.add_argument(f"--{name}-defaults", action="store_true", help=f"of {what} that has none by name")
