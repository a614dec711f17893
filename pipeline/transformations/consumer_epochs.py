"""KIP-848 groups: what their records say one after the other, folded into rebalances and ownership.

Members reach a new assignment each in their own time, so a rebalance is no single record: it is over when every
member stands still at the group's epoch. That is a fold over the group's records, done here in plain Python, group by
group, by Arrow batches; these groups write a few records for each change of theirs.

What a coordinator does in one step it appends as one, all records with one time. Between them the group is in no state
that it ever was in (a member's records are gone, and the epoch is still to rise), so it is looked at behind each append
only. Of records of the same millisecond, those are one step's that come in the order in which a step writes: who goes,
who comes, the group's epoch, the targets, their epoch, where members are.

Source: KIP-848; Kafka's ConsumerGroup.ConsumerGroupState, CoordinatorRuntime.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.decode.schemas import TIMESTAMP, ddl, list_of
from pipeline.transformations.keys import with_era

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from pyspark.sql import DataFrame

_MOMENT, _INT, _LONG, _TEXT, _TEXTS = TIMESTAMP, pa.int32(), pa.int64(), pa.string(), list_of(pa.string())
_REBALANCES = pa.schema(
    [
        *[("group_id", _TEXT), ("source", _TEXT), ("from_generation", _INT), ("to_generation", _INT)],
        *[("missing_generations", _INT), ("started_at", _MOMENT), ("finished_at", _MOMENT), ("duration_ms", _LONG)],
        *[("sync_ms", _LONG), ("trigger", _TEXT), ("reason", _TEXT), ("members_before", _INT)],
        *[("members_after", _INT), ("joined", _TEXTS), ("left", _TEXTS), ("leader_changed", pa.bool_())],
        *[("protocol", _TEXT), ("partitions_total", _INT), ("partitions_moved", _INT), ("stopped_ms", _LONG)],
        *[("slowest_member", _TEXT), ("log_offset", _LONG)],
    ]
)
_INTERVALS = pa.schema(
    [
        *[("group_id", _TEXT), ("topic", _TEXT), ("partition", _INT), ("member_id", _TEXT)],
        *[("group_instance_id", _TEXT), ("client_id", _TEXT), ("client_host", _TEXT), ("from_generation", _INT)],
        *[("to_generation", _INT), ("owned_from", _MOMENT), ("owned_to", _MOMENT), ("ended_by", _TEXT)],
        ("source", _TEXT),
    ]
)

Partition = tuple[str, int]
FRESH_EPOCH = 1
"""Group and target epoch of a group of which no record says them: a new one, whose members subscribe to nothing yet."""


def epochs(consumer_records: DataFrame) -> DataFrame:
    """One row per completed change of a group epoch, in the columns of `rebalances`, source `epoch`."""
    return _folded(consumer_records, "rebalances", _REBALANCES)


def ownership(consumer_records: DataFrame) -> DataFrame:
    """One row per interval of ownership, in the columns of `membership`, source `epoch`."""
    return _folded(consumer_records, "intervals", _INTERVALS)


def _folded(consumer_records: DataFrame, what: str, schema: pa.Schema) -> DataFrame:
    def fold_group(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        rows.sort(key=lambda row: (row["era"], row["log_partition"], row["log_offset"]))
        found = getattr(fold(rows), what)
        return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in found], schema=schema)

    needed = ["group_id", "log_partition", "log_offset", "logged_at", "record_type", "member_id", "tombstone", "era"]
    needed += ["group_epoch", "target_epoch", "member_epoch", "member_state", "instance_id", "client_id", "client_host"]
    needed += ["partitions", "pending_revocation"]
    return with_era(consumer_records).select(*needed).groupBy("group_id").applyInArrow(fold_group, ddl(schema))


@dataclass(slots=True)
class _Member:
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    epoch: int = 0
    is_stable: bool = True
    owned: set[Partition] = field(default_factory=set)


@dataclass(slots=True)
class GroupHistory:
    """What is known of one group after the records so far."""

    group_id: str = ""
    epoch: int | None = None
    target_epoch: int | None = None
    finished: int | None = None
    reborn: bool = False
    started_at: datetime | None = None
    members: dict[str, _Member] = field(default_factory=dict)
    targets: dict[str, set[Partition]] = field(default_factory=dict)
    # As the last completed rebalance left them: member -> instance id, partition -> owner.
    settled: dict[str, str | None] = field(default_factory=dict)
    settled_owners: dict[Partition, str] = field(default_factory=dict)
    open: dict[tuple[str, Partition], dict[str, Any]] = field(default_factory=dict)
    # Ended by a member's own tombstone: what follows tells whether the group is empty or gone.
    orphaned: list[dict[str, Any]] = field(default_factory=list)
    rebalances: list[dict[str, Any]] = field(default_factory=list)
    intervals: list[dict[str, Any]] = field(default_factory=list)


def fold(rows: Iterable[dict[str, Any]]) -> GroupHistory:
    """The history of one group, from its records in order."""
    history = GroupHistory()
    known = (row for row in rows if row["record_type"] in _RULES)
    for together in _steps(known):
        for row in together:
            history.group_id = row["group_id"]
            _RULES[row["record_type"]](history, row)
        _settle(history, together[-1])
    history.intervals += history.open.values()
    return history


def _steps(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows of each step together. Source: GroupMetadataManager, which writes them in this order."""
    for _, at_once in groupby(rows, lambda row: (row["log_partition"], row["logged_at"])):
        step: list[dict[str, Any]] = []
        place = 0
        for row in at_once:
            before, place = place, 0 if row["tombstone"] else _ORDER.index(row["record_type"])
            if step and place < before:
                yield step
                step = []
            step.append(row)
        yield step


def _group(history: GroupHistory, row: dict[str, Any]) -> None:
    if row["tombstone"]:
        for interval in history.orphaned:
            # Removed with its members in one go; a group that was empty for a while ended as such.
            if interval["owned_to"] == row["logged_at"]:
                interval["ended_by"] = "group_removed"
        for key in list(history.open):
            _close(history, key, row, "group_removed")
        history.members.clear()
        history.targets.clear()
        history.settled.clear()
        history.settled_owners.clear()
        history.epoch = history.target_epoch = history.finished = history.started_at = None
        history.reborn = True
        return
    if row["group_epoch"] != history.epoch and history.started_at is None:
        history.started_at = row["logged_at"]
    history.epoch = row["group_epoch"]


def _member(history: GroupHistory, row: dict[str, Any]) -> None:
    if row["tombstone"]:
        history.members.pop(row["member_id"], None)
        if not history.members:
            for interval in history.orphaned:
                interval["ended_by"] = "group_empty"
        return
    member = history.members.setdefault(row["member_id"], _Member())
    member.instance_id = row["instance_id"]
    member.client_id, member.client_host = row["client_id"] or "", row["client_host"] or ""


def _target_epoch(history: GroupHistory, row: dict[str, Any]) -> None:
    history.target_epoch = row["target_epoch"]


def _target(history: GroupHistory, row: dict[str, Any]) -> None:
    if row["tombstone"]:
        history.targets.pop(row["member_id"], None)
    else:
        history.targets[row["member_id"]] = _partitions(row["partitions"])


def _current(history: GroupHistory, row: dict[str, Any]) -> None:
    member_id = row["member_id"]
    if row["tombstone"]:
        owned: set[Partition] = set()
        if member_id in history.members:
            history.members[member_id].owned = owned
        for key in [key for key in history.open if key[0] == member_id]:
            history.orphaned.append(_close(history, key, row, "reassigned"))
        return
    history.orphaned.clear()
    member = history.members.setdefault(member_id, _Member())
    member.epoch, member.is_stable = row["member_epoch"], row["member_state"] == "Stable"
    # What is being revoked is still worked on, until the member says that it has let go.
    member.owned = _partitions(row["partitions"]) | _partitions(row["pending_revocation"])
    for key in [key for key in history.open if key[0] == member_id and key[1] not in member.owned]:
        _close(history, key, row, "reassigned")
    for partition in member.owned:
        interval = history.open.get((member_id, partition))
        if interval is None:
            interval = history.open[member_id, partition] = {
                "group_id": history.group_id,
                "topic": partition[0],
                "partition": partition[1],
                "member_id": member_id,
                "from_generation": member.epoch,
                "owned_from": row["logged_at"],
                "to_generation": None,
                "owned_to": None,
                "ended_by": None,
                "source": "epoch",
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
            }
        interval["last"] = member.epoch


def _close(history: GroupHistory, key: tuple[str, Partition], row: dict[str, Any], ended_by: str) -> dict[str, Any]:
    interval = history.open.pop(key)
    interval.update(to_generation=interval["last"], owned_to=row["logged_at"], ended_by=ended_by)
    history.intervals.append(interval)
    return interval


def _settle(history: GroupHistory, row: dict[str, Any]) -> None:
    """Notes that a rebalance is over, if this append, whose last record is `row`, was the last that it waited for."""
    members = history.members
    epoch, target_epoch = history.epoch, history.target_epoch
    if epoch is None and members and all(member.epoch == FRESH_EPOCH for member in members.values()):
        epoch = FRESH_EPOCH  # where it starts, without a record
    if epoch is None or epoch == history.finished:
        return
    if (target_epoch or FRESH_EPOCH) < epoch and members:
        return
    if any(member.epoch < epoch or not member.is_stable for member in members.values()):
        return
    owners = {partition: member for member, partitions in history.targets.items() for partition in partitions}
    if history.finished is not None or history.reborn:
        history.rebalances.append(_rebalance(history, row, epoch, owners))
    history.finished, history.reborn, history.started_at = epoch, False, None
    history.settled = {name: member.instance_id for name, member in members.items()}
    history.settled_owners = {partition: _identity(history, owner) for partition, owner in owners.items()}


def _rebalance(history: GroupHistory, row: dict[str, Any], epoch: int, owners: dict[Partition, str]) -> dict[str, Any]:
    now = {name: member.instance_id for name, member in history.members.items()}
    started, finished = history.started_at, row["logged_at"]
    by_identity = {partition: _identity(history, owner) for partition, owner in owners.items()}
    either = by_identity.keys() | history.settled_owners.keys()
    duration = None if started is None else round((finished - started).total_seconds() * 1000)
    return {
        "group_id": history.group_id,
        "source": "epoch",
        "from_generation": history.finished,
        "to_generation": epoch,
        "missing_generations": 0 if history.finished is None else max(epoch - history.finished - 1, 0),
        "started_at": started,
        "finished_at": finished,
        "duration_ms": duration,
        "members_before": None if history.finished is None else len(history.settled),
        "members_after": len(now),
        "joined": _only(now, history.settled),
        "left": _only(history.settled, now),
        "leader_changed": False,  # these groups have no leader
        "partitions_total": len(owners),
        "partitions_moved": sum(by_identity.get(p) != history.settled_owners.get(p) for p in either),
        "log_offset": row["log_offset"],
    }


def _identity(history: GroupHistory, member_id: str) -> str:
    member = history.members.get(member_id)
    return (member.instance_id if member else None) or member_id


def _only(these: dict[str, str | None], those: dict[str, str | None]) -> list[str]:
    """The members of `these` that `those` do not know, neither by id nor as the same static member."""
    instances = set(those.values()) - {None}
    return sorted(name for name, instance in these.items() if name not in those and instance not in instances)


def _partitions(entries: list[dict[str, Any]] | None) -> set[Partition]:
    return {(entry["topic"] or entry["topic_id"], entry["partition"]) for entry in entries or ()}


_RULES = {
    "consumer_group_metadata": _group,
    "consumer_group_member_metadata": _member,
    "consumer_group_target_assignment_metadata": _target_epoch,
    "consumer_group_target_assignment_member": _target,
    "consumer_group_current_member_assignment": _current,
}
_ORDER = (
    "",  # tombstones, of whatever type
    "consumer_group_member_metadata",
    "consumer_group_metadata",
    "consumer_group_target_assignment_member",
    "consumer_group_target_assignment_metadata",
    "consumer_group_current_member_assignment",
)
