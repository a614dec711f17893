"""`kohort transactions`: what kafka-transactions.sh does, against any Kafka with a listener without TLS and SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.options import Parser, add_command, add_common, carry_out

if TYPE_CHECKING:
    import argparse


def main(words: list[str]) -> int:
    """Carry out `kohort transactions`."""
    return carry_out(parser(), words)


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    whole = Parser(prog="kohort transactions", description="Transactions: which are open, and which hang.")
    commands = whole.add_subparsers(metavar="COMMAND")
    one = add_command(commands, "list", "the transactional ids", "cli.transactions.showing:list_transactions")
    one.add_argument("--running-longer-than-ms", metavar="MS", type=int, default=-1, help="open for longer than that")
    one.add_argument("--transactional-id-pattern", metavar="RE", help="whose whole id matches")
    one = add_command(
        commands, "describe", "state and partitions of one transactional id", "cli.transactions.showing:describe"
    )
    one.add_argument("id", metavar="ID", nargs="?", help="the id")
    one.add_argument("--transactional-id", metavar="ID", help="the same, as Kafka's tool spells it")
    one = add_command(
        commands, "describe-producers", "who writes to a partition", "cli.transactions.showing:describe_producers"
    )
    _add_partition(one)
    about = "transactions that are open in a partition, and that no coordinator knows of"
    one = add_command(commands, "find-hanging", about, "cli.transactions.hanging:find")
    one.add_argument("--topic", metavar="TOPIC", help="look at this topic only")
    one.add_argument("--partition", metavar="N", type=int, help="at this partition of it only")
    one.add_argument(
        "--max-transaction-timeout",
        metavar="MINUTES",
        type=int,
        default=15,
        help="the longest timeout of a producer; what is open for five minutes more is looked at (default 15)",
    )
    one = add_command(
        commands, "abort", "end a transaction that hangs in a partition", "cli.transactions.hanging:abort"
    )
    _add_partition(one)
    one.add_argument("--start-offset", metavar="OFFSET", type=int, required=True, help="where it begins")
    add_common(whole, commands.choices.values())
    return whole


def _add_partition(one: argparse.ArgumentParser) -> None:
    one.add_argument("--topic", metavar="TOPIC", required=True, help="the topic")
    one.add_argument("--partition", metavar="N", type=int, required=True, help="the partition")
