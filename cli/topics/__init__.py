"""`kohort topics`: what kafka-topics.sh does, and the configs of topics, against any Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.options import TOPICS, Parser, add, add_command, add_common, carry_out, positive

if TYPE_CHECKING:
    import argparse


def main(words: list[str]) -> int:
    """Carry out `kohort topics`."""
    return carry_out(parser(), words)


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    whole = Parser(prog="kohort topics", description="Topics: which there are, their partitions and configs.")
    commands = whole.add_subparsers(metavar="COMMAND")
    one = add_command(commands, "list", "the topics", "cli.topics.showing:list_topics")
    one.add_argument("--exclude-internal", action="store_true", help="without Kafka's own topics")
    one = add_command(commands, "describe", "partitions, replicas and configs of topics", "cli.topics.showing:describe")
    _add_topics(one, "all without one")
    one.add_argument("--exclude-internal", action="store_true", help="without Kafka's own topics")
    one.add_argument("--if-exists", action="store_true", help="a topic that is not there is no error")
    one.add_argument("--topics-with-overrides", action="store_true", help="topics with configs of their own only")
    one.add_argument("--under-replicated-partitions", action="store_true", help="only such partitions")
    one.add_argument("--unavailable-partitions", action="store_true", help="only partitions without a leader")
    one = add_command(commands, "create", "create topics", "cli.topics.changing:create")
    _add_topics(one)
    one.add_argument("--partitions", metavar="N", type=positive, help="how many; the cluster's default without")
    one.add_argument("--replication-factor", metavar="N", type=positive, help="the cluster's default without")
    one.add_argument("--config", metavar="KEY=VALUE", action="append", default=[], help="a config; may be repeated")
    one.add_argument("--if-not-exists", action="store_true", help="a topic that is there is no error")
    one = add_command(commands, "delete", "delete topics, with their records", "cli.topics.changing:delete")
    _add_topics(one)
    one.add_argument("--if-exists", action="store_true", help="a topic that is not there is no error")
    one = add_command(commands, "alter", "add partitions; set and unset configs", "cli.topics.changing:alter")
    _add_topics(one)
    one.add_argument("--partitions", metavar="N", type=positive, help="how many it shall have, more than now")
    one.add_argument("--config", metavar="KEY=VALUE", action="append", default=[], help="set it; may be repeated")
    one.add_argument("--delete-config", metavar="KEY", action="append", default=[], help="back to the default")
    one.add_argument("--if-exists", action="store_true", help="a topic that is not there is no error")
    add_common(whole, commands.choices.values())
    return whole


def _add_topics(one: argparse.ArgumentParser, more: str = "") -> None:
    one.add_argument("topics", metavar="TOPIC", nargs="*", help="a topic" + (f"; {more}" if more else ""))
    add(one, TOPICS)
