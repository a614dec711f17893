"""`kohort storage`: what lies in a data directory, without a broker, Kohort's or Apache Kafka's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.options import JSON, OVERRIDE, Parser, add, carry_out

if TYPE_CHECKING:
    import argparse


def main(words: list[str]) -> int:
    """Carry out `kohort storage`."""
    return carry_out(parser(), words)


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    whole = Parser(prog="kohort storage", description="Files of a data directory, without a broker.")
    commands = whole.add_subparsers(metavar="COMMAND")
    about = "print files as text or JSON: batches and records, indexes, snapshots, checkpoints"
    one = commands.add_parser(
        "dump",
        help=about,
        description=f"{about[0].upper()}{about[1:]}. Records of __consumer_offsets, "
        "__transaction_state, __cluster_metadata and of JSON are decoded. A file that is torn or corrupt is named with "
        "the position, and makes the exit code 1.",
    )
    one.set_defaults(run="cli.storage.dump:dump")
    one.add_argument("paths", metavar="PATH", nargs="*", help="a file, a partition's folder, or a data directory")
    one.add_argument("--files", metavar="PATH,...", help="the same, as Kafka's tool spells it")
    one.add_argument("--only", metavar="KIND,...", help="only such files: log, index, timeindex, snapshot, ...")
    one.add_argument("--batches", action="store_true", help="batches without their records")
    one.add_argument("--offset", metavar="N", type=int, help="from the batch that holds this offset on")
    one.add_argument("--max-records", metavar="N", type=int, help="at most so many records of each file")
    add(one, JSON)
    about = "make a new data directory with the first users who log in by SCRAM; without users there is no need to"
    made = commands.add_parser("format", help=about, description=f"{about[0].upper()}{about[1:]}.")
    made.set_defaults(run="cli.storage.format:format_storage")
    made.add_argument("-c", "--config", metavar="FILE", help="the broker's server.properties")
    add(made, OVERRIDE, help="one setting, as for serve")
    made.add_argument("-t", "--cluster-id", metavar="ID", help="22 characters of base64 (default: a random one)")
    made.add_argument(
        "-S",
        "--add-scram",
        metavar="MECHANISM=[...]",
        action="append",
        default=[],
        help="a user: 'SCRAM-SHA-256=[name=alice,password=...]'; also iterations=, salt=, saltedpassword=",
    )
    return whole
