"""`kohort groups describe`: the columns of kafka-consumer-groups.sh, in its order.

Source: Kafka's ConsumerGroupCommand.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

from cli.cluster import Cluster
from cli.errors import Failed
from cli.groups.epochs import read_epochs
from cli.groups.lags import first_unread_ms
from cli.groups.lags import seconds as seconds_of
from cli.groups.reading import end_offsets, existing_groups, read_offsets, wanted_groups
from cli.options import print_json
from cli.tables import plain, print_table

if TYPE_CHECKING:
    import argparse

    from cli.groups.reading import Group, Member, Tp

_OFFSETS = {
    "GROUP": "group",
    "TOPIC": "topic",
    "PARTITION": "partition",
    "LEADER-EPOCH": "leader_epoch",
    "CURRENT-OFFSET": "current_offset",
    "LOG-END-OFFSET": "log_end_offset",
    "LAG": "lag",
    "CONSUMER-ID": "consumer_id",
    "HOST": "host",
    "CLIENT-ID": "client_id",
    "LAG-SECONDS": "lag_seconds",
}


def describe(options: argparse.Namespace) -> int:
    """Print groups. Raises: Failed for one that does not exist; UsageError."""
    cluster = Cluster(options)
    groups = existing_groups(cluster, wanted_groups(cluster, options))
    read_epochs(groups, cluster)
    if not (options.members or options.state):
        for group in groups:
            try:
                group.offsets = read_offsets(cluster, group.group_id)
            except Failed as error:
                if group.group_id or not options.all_groups:
                    raise
                print(f"kohort: {error}", file=sys.stderr)  # the others are told all the same
    ends = end_offsets(cluster, {tp for group in groups for tp in _all_partitions(group)})
    seconds: dict[str, dict[Tp, float]] = {}
    if not (options.members or options.state or options.kafka_columns):
        seconds = {group.group_id: lag_seconds(cluster, group, ends) for group in groups}
    if options.json:
        print_json([_as_json(group, ends, options, seconds.get(group.group_id, {})) for group in groups])
        return 0
    for group in groups:
        _warn(group)
        print()
        if options.state:
            _print_state(group, options.verbose)
        elif options.members:
            _print_members(group, options.verbose)
        else:
            left_out = [] if options.verbose else ["LEADER-EPOCH"]
            left_out += ["LAG-SECONDS"] if options.kafka_columns else []
            columns = [name for name in _OFFSETS if name not in left_out]
            rows = offset_rows(group, ends, seconds.get(group.group_id, {}))
            print_table(columns, [[row[_OFFSETS[name]] for name in columns] for row in rows])
    return 0


def lag_seconds(cluster: Cluster, group: Group, ends: dict[Tp, int]) -> dict[Tp, float]:
    """How old the first unread record of each partition is, as far as that can be told."""
    committed = {tp: offset for tp, (offset, _) in group.offsets.items()}
    return seconds_of(first_unread_ms(cluster, committed, ends), committed, ends)


def offset_rows(group: Group, ends: dict[Tp, int], seconds: dict[Tp, float]) -> list[dict[str, Any]]:
    """A row for each partition that somebody reads or that has an offset; those that nobody reads come last."""
    rows = []
    owned: set[Tp] = set()
    for member in sorted(group.members, key=lambda one: (-len(one.partitions), one.consumer_id)):
        for tp in member.partitions:
            owned.add(tp)
            rows.append(_row(group, tp, member, ends, seconds))
    rows += [_row(group, tp, None, ends, seconds) for tp in group.offsets if tp not in owned]
    return rows


def _row(group: Group, tp: Tp, member: Member | None, ends: dict[Tp, int], seconds: dict[Tp, float]) -> dict[str, Any]:
    current, epoch = group.offsets.get(tp, (None, None))
    end, behind_s = ends.get(tp), seconds.get(tp)
    return {
        "group": group.group_id,
        "topic": tp[0],
        "partition": tp[1],
        "leader_epoch": epoch,
        "current_offset": current,
        "log_end_offset": end,
        "lag": None if current is None or end is None else end - current,
        "consumer_id": member.consumer_id if member else None,
        "host": member.host if member else None,
        "client_id": member.client_id if member else None,
        "lag_seconds": None if behind_s is None else round(behind_s, 1),
    }


def _all_partitions(group: Group) -> set[Tp]:
    return {*group.offsets, *(tp for member in group.members for tp in member.partitions)}


def _warn(group: Group) -> None:
    """What Kafka's tool says above a table; to standard error, so that a table is all of standard output."""
    if group.state in ("Empty", "Dead"):
        print(f"Consumer group '{plain(group.group_id)}' has no active members.", file=sys.stderr)
    elif group.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        print(f"Warning: Consumer group '{plain(group.group_id)}' is rebalancing.", file=sys.stderr)


def _print_members(group: Group, verbose: bool) -> None:
    with_instances = any(member.instance_id for member in group.members)
    head = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    head += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"] if verbose else []
    mixed = verbose and {member.upgraded for member in group.members} >= {True, False}
    head += ["UPGRADED"] if mixed else []
    rows = []
    for member in sorted(group.members, key=lambda one: (-len(one.partitions), one.consumer_id)):
        row: list[Any] = [group.group_id, member.consumer_id, member.instance_id, member.host, member.client_id]
        row.append(len(member.partitions))
        if verbose:
            target = _compact(member.target) if member.target is not None and group.type == "Consumer" else None
            row += [member.epoch, _compact(member.partitions), group.target_epoch, target]
            row += [str(member.upgraded).lower()] if mixed else []
        rows.append(row)
    if not with_instances:
        del head[2]
        for row in rows:
            del row[2]
    print_table(head, rows)


def _print_state(group: Group, verbose: bool) -> None:
    head = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    coordinator = f"{group.coordinator}  ({group.coordinator_id})"
    row: list[Any] = [group.group_id, coordinator, group.assignor, group.state]
    if verbose:
        head += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [group.epoch, group.target_epoch]
    print_table([*head, "#MEMBERS"], [[*row, len(group.members)]])


def _compact(tps: list[Tp]) -> str:
    """`orders:0,1;refunds:0`, as Kafka's tool prints an assignment."""
    topics = itertools.groupby(sorted(tps), key=lambda tp: tp[0])
    return ";".join(f"{topic}:{','.join(str(number) for _, number in found)}" for topic, found in topics)


def _as_json(
    group: Group, ends: dict[Tp, int], options: argparse.Namespace, seconds: dict[Tp, float]
) -> dict[str, Any]:
    everything = not (options.offsets or options.members or options.state)
    value: dict[str, Any] = {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "assignment_strategy": group.assignor or None,
        "coordinator": {"id": group.coordinator_id, "address": group.coordinator},
        "member_count": len(group.members),
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
    }
    if everything or options.members:
        value["members"] = [
            {
                "consumer_id": member.consumer_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "epoch": member.epoch,
                "partitions": [{"topic": topic, "partition": number} for topic, number in member.partitions],
            }
            for member in group.members
        ]
    if everything or options.offsets:
        rows = offset_rows(group, ends, seconds)
        for row in rows:
            del row["group"]
        value["offsets"] = rows
    return value
