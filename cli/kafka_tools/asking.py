"""kafka-cluster and kafka-get-offsets: the two other questions that compose files ask as health checks.

Source: Kafka's ClusterTool and GetOffsetShell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import OffsetSpec

from cli.cluster import INTERNAL_TOPICS, Cluster
from cli.errors import DONE, Failed, UsageError
from cli.groups.reading import offsets_at
from cli.options import CLUSTER, VERSION, Parser, add

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    TopicPartition = tuple[str, int]

_TIMES: dict[str, Any] = {
    "-1": OffsetSpec.latest, "latest": OffsetSpec.latest,
    "-2": OffsetSpec.earliest, "earliest": OffsetSpec.earliest,
    "-3": OffsetSpec.max_timestamp, "max-timestamp": OffsetSpec.max_timestamp,
}  # fmt: skip


def cluster(words: list[str]) -> int:
    """Carry out kafka-cluster.sh, of which `cluster-id` is here. Raises: Failed, UsageError."""
    parser = Parser(prog="kafka-cluster.sh", description="The id of a cluster.")
    parser.add_argument("command", choices=["cluster-id"], metavar="cluster-id", help="print the cluster's id")
    add(parser, *CLUSTER, VERSION)
    print(f"Cluster ID: {Cluster(parser.parse_args(words)).cluster_id}")
    return DONE


def get_offsets(words: list[str]) -> int:
    """Carry out kafka-get-offsets.sh: `topic:partition:offset`, a line each. Raises: Failed, UsageError."""
    options = _parser().parse_args(_values_of_minus(words))
    if options.topic_partitions and (options.topic or options.partitions):
        raise UsageError("--topic-partitions stands without --topic and --partitions")
    if "-" in (options.partitions or ""):
        raise UsageError(f"--partitions takes numbers, not {options.partitions!r}; --topic-partitions takes spans")
    spec = _spec(options.time)
    cluster = Cluster(options)
    tps = sorted(_partitions(options, cluster.topics))
    if not tps:
        raise Failed("no partition of any topic is meant by that")
    found = offsets_at(cluster, dict.fromkeys(tps, spec))
    for topic, partition in tps:
        offset = found.get((topic, partition), -1)
        if offset >= 0:  # no record is as late as that: Kafka's tool leaves the line out
            print(f"{topic}:{partition}:{offset}")
    return DONE


def _parser() -> Parser:
    parser = Parser(prog="kafka-get-offsets.sh", description="Offsets of partitions.")
    add(parser, *CLUSTER, VERSION)
    parser.add_argument("--topic", metavar="PATTERN", help="topics whose whole name the pattern means (default all)")
    parser.add_argument("--partitions", metavar="N,N", help="only these partitions")
    parser.add_argument("--topic-partitions", metavar="PATTERN[:N-N],...", help="topics and partitions together")
    parser.add_argument("--time", default="latest", metavar="WHEN", help="latest (-1), earliest (-2), or ms since 1970")
    parser.add_argument("--exclude-internal-topics", action="store_true", help="leave out Kafka's own topics")
    return parser


def _values_of_minus(words: list[str]) -> list[str]:
    """`--time -1` as `--time=-1`, which argparse does not take for an option."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--time":
            joined[-1] = f"--time={word}"
        else:
            joined.append(word)
    return joined


def _spec(time: str) -> Any:
    if time in _TIMES:
        return _TIMES[time]()
    try:
        return OffsetSpec.for_timestamp(int(time))
    except ValueError:
        raise UsageError(f"--time takes latest, earliest, max-timestamp or ms since 1970, not {time!r}") from None


def _partitions(options: argparse.Namespace, topics: dict[str, int]) -> Iterator[TopicPartition]:
    """The partitions that are meant, of those that are there."""
    rules = (
        [rule.partition(":")[::2] for rule in options.topic_partitions.split(",")]
        if options.topic_partitions
        else [(options.topic or ".*", options.partitions or "")]
    )
    for name, count in topics.items():
        if options.exclude_internal_topics and name in INTERNAL_TOPICS:
            continue
        meant: set[int] = set()
        for pattern, spans in rules:
            try:
                fits = re.fullmatch(pattern or ".*", name)
            except re.error as error:
                raise UsageError(f"{pattern!r} is no pattern: {error}") from None
            if fits:
                meant |= _numbers(spans, count)
        yield from ((name, number) for number in meant)


def _numbers(spans: str, count: int) -> set[int]:
    """The partitions below `count` in "0,2" or, as Kafka has it, "1-3" (without 3), "2-", "-3"."""
    if not spans:
        return set(range(count))
    numbers: set[int] = set()
    for span in spans.split(","):
        first, dash, end = span.partition("-")
        try:
            low = int(first or 0)
            high = (int(end) if end else count) if dash else low + 1
        except ValueError:
            raise UsageError(f"{span!r} is no partition and no span of them") from None
        numbers |= set(range(low, min(high, count)))
    return numbers
