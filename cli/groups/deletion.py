"""`kohort groups delete` and `kohort groups delete-offsets`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cli.cluster import Cluster, said
from cli.errors import DONE, FAILED, Failed, UsageError
from cli.groups.reading import existing_groups, read_offsets, wanted_groups
from cli.groups.scope import check_scope, partitions_of
from cli.options import print_json
from cli.tables import plain, print_table
from cli.wire import text_of
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

if TYPE_CHECKING:
    import argparse

    from cli.groups.reading import Tp


def delete(options: argparse.Namespace) -> int:
    """Delete groups, each on its own; exit code 1 when some could not be. Raises: Failed, UsageError."""
    cluster = Cluster(options)
    names = wanted_groups(cluster, options)
    errors: dict[str, Any] = {}
    if names:
        cluster.await_coordinator(names[0])
        futures = cluster.admin.delete_consumer_groups(names, request_timeout=cluster.timeout_s)
        _, errors = cluster.results(futures)
    if options.json:
        print_json(
            [{"group": name, "error": said(errors[name])} if name in errors else {"group": name} for name in names]
        )
    for name in names:
        if name in errors:
            print(f"kohort: group {name!r} could not be deleted: {said(errors[name])}", file=sys.stderr)
        elif not options.json:
            print(f"Deleted group {plain(name)}.")
    return FAILED if errors else DONE


def delete_offsets(options: argparse.Namespace) -> int:
    """Delete committed offsets of one group; exit code 1 when some could not be. Raises: Failed, UsageError."""
    names = list(dict.fromkeys([*options.groups, *options.group]))
    if len(names) != 1 or options.all_groups:
        raise UsageError("delete-offsets takes one GROUP")
    topics = check_scope(options)
    cluster = Cluster(options)
    (group,) = existing_groups(cluster, names)
    tps = partitions_of(cluster, topics, read_offsets(cluster, group.group_id), group.group_id)
    codes = _offset_delete(group.coordinator, group.group_id, tps, cluster)
    rows = [(tp, codes.get(tp, -1)) for tp in tps]
    if options.json:
        print_json(
            [
                {"topic": topic, "partition": number, "error": text_of(code) if code else None}
                for (topic, number), code in rows
            ]
        )
    else:
        print()
        words = [(*tp, f"Error: {text_of(code)}" if code else "Successful") for tp, code in rows]
        print_table(["TOPIC", "PARTITION", "STATUS"], words)
    return FAILED if any(code for _, code in rows) else DONE


def _offset_delete(coordinator: str, group_id: str, tps: list[Tp], cluster: Cluster) -> dict[Tp, int]:
    """The error code of each partition. Raises: Failed when the whole request is refused."""
    numbers: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, number in tps:
        numbers.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=number))
    topics = [OffsetDeleteRequestTopic(name=name, partitions=found) for name, found in numbers.items()]
    with cluster.wire(coordinator) as wire:
        answer = wire.ask(OffsetDeleteRequest(group_id=group_id, topics=topics), 0)
    if answer.error_code:
        raise Failed(f"group {group_id!r}: {text_of(answer.error_code)}")
    return {(topic.name, one.partition_index): one.error_code for topic in answer.topics for one in topic.partitions}
