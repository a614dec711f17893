"""Which partitions a command is about: `--topic orders --topic refunds:0,1 --all-topics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.errors import Failed, UsageError
from coordinator.why.terms import plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from cli.cluster import Cluster
    from cli.groups.reading import Tp


def parse_topics(words: list[str]) -> dict[str, list[int] | None]:
    """The partitions that are named of each topic; None for all of them. Raises: UsageError."""
    found: dict[str, list[int] | None] = {}
    for word in words:
        topic, colon, numbers = word.partition(":")
        try:
            partitions = [int(number) for number in numbers.split(",")] if colon else None
        except ValueError:
            raise UsageError(f"--topic {word}: it takes TOPIC or TOPIC:0,1,2") from None
        if not topic or (partitions is not None and min(partitions) < 0):
            raise UsageError(f"--topic {word}: it takes TOPIC or TOPIC:0,1,2")
        earlier = found.get(topic, [])
        found[topic] = None if earlier is None or partitions is None else [*earlier, *partitions]
    return found


def check_scope(options: argparse.Namespace) -> dict[str, list[int] | None]:
    """What --topic says; one of --topic and --all-topics must be there. Raises: UsageError."""
    topics = parse_topics(options.topic)
    if bool(topics) == options.all_topics:
        raise UsageError("name a --topic, or --all-topics" + (", not both" if topics else ""))
    return topics


def partitions_of(
    cluster: Cluster, topics: dict[str, list[int] | None], committed: Iterable[Tp], group_id: str
) -> list[Tp]:
    """The partitions, sorted; without topics those that have an offset. Raises: Failed for such as are not there."""
    if not topics:
        tps = sorted(committed)
        if not tps:
            raise Failed(f"group {group_id!r} has no committed offsets")
        return tps
    counts = cluster.partition_counts(list(topics))
    found: set[Tp] = set()
    for topic, numbers in topics.items():
        count = counts[topic]
        for number in range(count) if numbers is None else numbers:
            if number >= count:
                raise Failed(f"topic {topic!r} has {plural(count, 'partition')}, none of number {number}")
            found.add((topic, number))
    return sorted(found)
