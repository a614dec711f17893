"""`kohort groups reset-offsets`: plan, show, and with --execute do. The default is to show only.

Source: Kafka's ConsumerGroupCommand.resetOffsets.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from cli.cluster import Cluster, said
from cli.errors import DONE, FAILED, Failed, UsageError
from cli.groups.goals import bounded, new_offsets, timestamp_of
from cli.groups.plans import csv_of, read_plan
from cli.groups.reading import read_groups, read_offsets, wanted_groups
from cli.groups.scope import check_scope, partitions_of
from cli.options import print_json
from cli.tables import print_table
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    import argparse

    from cli.groups.plans import Plan
    from cli.groups.reading import Tp


def reset_offsets(options: argparse.Namespace) -> int:
    """Plan new offsets, print them, and carry them out when asked to. Raises: Failed, UsageError."""
    if not (options.groups or options.group or options.all_groups):
        raise UsageError("name a GROUP, or --all-groups")
    timestamp_of(options)  # a wrong one is known before anything is asked
    topics = None
    if options.from_file is None:
        topics = check_scope(options)
    elif options.topic or options.all_topics:
        raise UsageError("--from-file says itself which topics")
    cluster = Cluster(options)
    names = wanted_groups(cluster, options)
    if options.execute:
        cluster.await_coordinator(names[0] if names else "")
    problems: dict[str, str] = {}
    plan: Plan = {}
    wishes = None if options.from_file is None else read_plan(options.from_file, names)
    reads = cluster.ever_had_groups or options.execute
    for name in _inactive(cluster, names, problems) if reads else names:
        committed = read_offsets(cluster, name) if reads else {}
        try:
            if wishes is not None:
                plan[name] = bounded(cluster, wishes.get(name, {}))
            elif topics is not None:
                tps = partitions_of(cluster, topics, committed, name)
                plan[name] = new_offsets(cluster, options, tps, committed)
        except Failed as error:
            problems[name] = str(error)
    if options.execute:
        plan = {name: _carry_out(cluster, name, offsets, problems) for name, offsets in plan.items() if offsets}
    for problem in problems.values():
        print(f"kohort: {problem}", file=sys.stderr)
    _print(plan, options)
    return FAILED if problems else DONE


def _inactive(cluster: Cluster, names: list[str], problems: dict[str, str]) -> list[str]:
    """The groups that have no members; the others are problems."""
    groups, errors = read_groups(cluster, names)
    for name, error in errors.items():
        if error.code() != ErrorCode.GROUP_ID_NOT_FOUND:  # offsets may be set for a group to come
            problems[name] = f"group {name!r}: {said(error)}"
    for group in groups:
        if group.state not in ("Empty", "Dead"):
            problems[group.group_id] = (
                f"offsets can only be reset if the group {group.group_id!r} is inactive, "
                f"but the current state is {group.state}"
            )
    return [name for name in names if name not in problems]


def _carry_out(cluster: Cluster, name: str, offsets: dict[Tp, int], problems: dict[str, str]) -> dict[Tp, int]:
    """Commit the offsets; those that were taken."""
    wanted = [TopicPartition(*tp, offset) for tp, offset in offsets.items()]
    request = [ConsumerGroupTopicPartitions(name, wanted)]
    futures = cluster.admin.alter_consumer_group_offsets(request, request_timeout=cluster.timeout_s)
    done, errors = cluster.results(futures)
    if name in errors:
        problems[name] = f"group {name!r}: {said(errors[name])}"
        return {}
    refused = {(one.topic, one.partition): one.error for one in done[name].topic_partitions or () if one.error}
    for (topic, number), error in refused.items():
        problems[f"{name}/{topic}-{number}"] = f"group {name!r}, {topic}-{number}: {said(error)}"
    return {tp: offset for tp, offset in offsets.items() if tp not in refused}


def _print(plan: Plan, options: argparse.Namespace) -> None:
    rows = [
        (group, topic, number, offset) for group, offsets in plan.items() for (topic, number), offset in offsets.items()
    ]
    if options.json:
        keys = ("group", "topic", "partition", "new_offset")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    elif options.export:
        print(csv_of(plan), end="")
    elif rows:
        print()
        print_table(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], rows)
