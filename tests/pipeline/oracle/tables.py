"""The tables of groups: commits, generations, rebalances, membership, offsets as of a moment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from tests.pipeline.oracle.files import PartitionLog
from tests.pipeline.oracle.records import Row, assignment, subscription

COMMIT_COLUMNS = [
    "log_partition",
    "log_offset",
    "logged_at",
    "group_id",
    "topic",
    "partition",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "committed_at",
    "expires_at",
    "topic_id",
    "value_version",
    "tombstone",
]
CONSUMER_TYPES = {3, 4, 5, 6, 7, 8, 16}
CONSUMER_FIELDS = [
    "group_epoch",
    "metadata_hash",
    "target_epoch",
    "assigned_at",
    "member_epoch",
    "previous_member_epoch",
    "member_state",
    "instance_id",
    "rack_id",
    "client_id",
    "client_host",
    "subscribed_topics",
    "subscribed_topic_regex",
    "rebalance_timeout_ms",
    "server_assignor",
    "classic_session_timeout_ms",
    "partitions",
    "pending_revocation",
]


def sound(rows: Iterable[Row]) -> list[Row]:
    """The rows that later tables take: without a problem, in log order."""
    return sorted(
        (row for row in rows if row["problem"] is None), key=lambda row: (row["log_partition"], row["log_offset"])
    )


def framed_bytes(row: Row) -> int:
    """A record's size in a batch whose deltas take a byte each."""
    body = 4 + _varint(row["key_bytes"]) + row["key_bytes"] + _varint(row["value_bytes"]) + row["value_bytes"]
    return _varint(body) + body


def _varint(count: int) -> int:
    return max(1, -(-(count << 1).bit_length() // 7))


def offset_commits(rows: Iterable[Row]) -> list[Row]:
    """7.1."""
    return [
        {name: row[name] for name in COMMIT_COLUMNS} | {"record_bytes": row["key_bytes"] + row["value_bytes"]}
        for row in sound(rows)
        if row["record_type"] == "offset_commit"
    ]


def transactional_commits(rows: Iterable[Row], logs: Iterable[PartitionLog]) -> list[Row]:
    """Commits in transactions: each partition is walked backwards, so that a producer's next marker is known."""
    sources = {
        (log.partition, record.offset): batch for log in logs for batch in log.batches for record in batch.records
    }
    markers: dict[tuple[int, int], tuple[str, int, int]] = {}
    by_place = {(row["log_partition"], row["log_offset"]): row for row in offset_commits(rows)}
    found = []
    for place, batch in sorted(sources.items(), reverse=True):
        producer = (place[0], batch.producer_id)
        if batch.is_control:
            word = {0: "aborted", 1: "committed"}[int.from_bytes((batch.records[0].key or b"")[2:4], "big")]
            markers[producer] = (word, batch.base_timestamp_ms, place[1])
        elif batch.is_transactional and place in by_place and not by_place[place]["tombstone"]:
            dropped = ("expires_at", "topic_id", "value_version", "tombstone", "record_bytes")
            row = {name: value for name, value in by_place[place].items() if name not in dropped}
            outcome, decided_at, marker_offset = markers.get(producer, ("pending", None, None))
            facts = {"outcome": outcome, "decided_at": decided_at, "marker_offset": marker_offset}
            found.append(row | {"producer_id": batch.producer_id} | facts)
    return found


def group_generations(rows: Iterable[Row]) -> list[Row]:
    """7.2."""
    return [_generation(row) for row in sound(rows) if row["record_type"] == "group_metadata"]


def _generation(row: Row) -> Row:
    value = row["fields"] or {}
    members = [_classic_member(member, value["protocol_type"]) for member in value.get("members", ())]
    out = {name: row[name] for name in ("log_partition", "log_offset", "logged_at", "group_id", "tombstone")}
    out |= {name: value.get(name) for name in ("protocol_type", "generation", "protocol", "leader", "state_changed_at")}
    state = "Removed" if row["tombstone"] else "Stable" if members else "Empty"
    return out | {"state": state, "member_count": len(members), "members": members}


def _classic_member(member: Row, protocol_type: str | None) -> Row:
    names = ("member_id", "group_instance_id", "client_id", "client_host", "rebalance_timeout_ms", "session_timeout_ms")
    out = {name: member[name] for name in names}
    out |= dict.fromkeys(("subscribed_topics", "owned", "rack_id", "user_data", "assigned", "undecoded"))
    if protocol_type != "consumer":
        return out | {"undecoded": f"protocol type {protocol_type or ''}".strip()}
    return out | subscription(member["subscription"]) | {"assigned": assignment(member["assignment"])}


def consumer_group_records(rows: Iterable[Row], topic_names: Mapping[str, str]) -> list[Row]:
    """7.3. `topic_names`: by id, from partition.metadata; commits and type 4 add to them."""
    rows = sound(rows)
    names: dict[str, str] = {}
    for row in rows:
        names |= (row["fields"] or {}).get("topic_names", {})
    names |= {row["topic_id"]: row["topic"] for row in rows if row["topic_id"]}
    names |= topic_names
    return [_consumer_record(row, names) for row in rows if row["key_type"] in CONSUMER_TYPES]


def _consumer_record(row: Row, names: Mapping[str, str]) -> Row:
    value = dict(row["fields"] or {})
    if row["regex"] is not None:
        value["subscribed_topic_regex"] = row["regex"]
    for name in ("partitions", "pending_revocation"):
        if name in value:
            value[name] = [part | {"topic": names.get(part["topic_id"])} for part in value[name]]
    head = ("log_partition", "log_offset", "logged_at", "group_id", "record_type", "member_id", "tombstone")
    return {name: row[name] for name in head} | {name: value.get(name) for name in CONSUMER_FIELDS}


def _owners(generation: Row) -> dict[tuple[str, int], str]:
    return {
        (part["topic"], part["partition"]): member["member_id"]
        for member in generation["members"]
        for part in member["assigned"] or ()
    }


def _groups(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["group_id"], []).append(row)
    return groups


def rebalances(generations: Iterable[Row]) -> list[Row]:
    """7.4, the rows whose source is `inferred`: two generations of a group, one after the other.

    After a tombstone, and where the generation fell, a new life of the group begins.
    """
    out = []
    for group_id, history in _groups(generations).items():
        for before, row in pairwise(history):
            if row["tombstone"]:
                continue
            new_life = before["tombstone"] or row["generation"] < before["generation"]
            if new_life or row["generation"] != before["generation"]:
                out.append(_inferred(group_id, None if new_life else before, row))
    return out


def _inferred(group_id: str, before: Row | None, after: Row) -> Row:
    old: list[Row] = before["members"] if before else []
    new: list[Row] = after["members"]
    was, now = (_owners(before) if before else {}), _owners(after)
    # A static member's partitions stay with it under its new id.
    who = {member["member_id"]: member["group_instance_id"] or member["member_id"] for member in [*old, *new]}
    then = {(place, who[owner]) for place, owner in was.items()}
    since = {(place, who[owner]) for place, owner in now.items()}
    # Of an eager or a Connect group nobody can say which partitions, unless all members' assignments are read.
    decoded = after["protocol_type"] == "consumer" and all(member["assigned"] is not None for member in new)
    comparable = decoded and all(member["assigned"] is not None for member in old)
    return {
        "group_id": group_id,
        "source": "inferred",
        "from_generation": before["generation"] if before else None,
        "to_generation": after["generation"],
        # Nobody knows how a new life began.
        "missing_generations": max(after["generation"] - before["generation"] - 1, 0) if before else 0,
        "started_at": None,
        "finished_at": after["logged_at"],
        "duration_ms": None,
        "sync_ms": None if after["state_changed_at"] is None else after["logged_at"] - after["state_changed_at"],
        "trigger": None,
        "reason": None,
        "members_before": before["member_count"] if before else None,
        "members_after": after["member_count"],
        "joined": _strangers(new, old),
        "left": _strangers(old, new),
        "leader_changed": (before["leader"] if before else None) != after["leader"],
        "protocol": after["protocol"],
        "partitions_total": len(now) if decoded else None,
        "partitions_moved": len({place for place, _ in then ^ since}) if comparable else None,
        "stopped_ms": None,
        "slowest_member": None,
        "log_offset": after["log_offset"],
    }


def _strangers(these: list[Row], those: list[Row]) -> list[str]:
    ids = {member["member_id"] for member in those}
    instances = {member["group_instance_id"] for member in those} - {None}
    return sorted(
        member["member_id"]
        for member in these
        if member["member_id"] not in ids and member["group_instance_id"] not in instances
    )


def membership(generations: Iterable[Row]) -> list[Row]:
    """7.5 of classic groups: who owned what, from when to when."""
    out = []
    for group_id, history in _groups(generations).items():
        current: dict[tuple[str, int], Row] = {}
        for row in history:
            people = {member["member_id"]: member for member in row["members"]}
            now = _owners(row)
            why = "group_removed" if row["tombstone"] else "reassigned" if row["members"] else "group_empty"
            for place, span in list(current.items()):
                if now.get(place) != span["member_id"]:
                    out.append(current.pop(place) | {"owned_to": row["logged_at"], "ended_by": why})
                else:
                    span["to_generation"] = row["generation"]
            for place, owner in now.items():
                if place not in current:
                    current[place] = _span(group_id, place, people[owner], row)
        out += [span | {"to_generation": None} for span in current.values()]
    return out


def _span(group_id: str, place: tuple[str, int], member: Row, row: Row) -> Row:
    names = ("member_id", "group_instance_id", "client_id", "client_host")
    return {
        "group_id": group_id,
        "topic": place[0],
        "partition": place[1],
        **{name: member[name] for name in names},
        "from_generation": row["generation"],
        "to_generation": row["generation"],
        "owned_from": row["logged_at"],
        "owned_to": None,
        "ended_by": None,
        "source": "inferred",
    }


def state_at(rows: Iterable[Row], at_ms: int, first_dirty: Mapping[int, int | None]) -> list[Row]:
    """7.9: the offsets of all groups as of a moment. `first_dirty`: by log partition."""
    rows = list(rows)
    cut: dict[int, int] = {}
    for row in rows:
        if row["logged_at"] <= at_ms:
            cut[row["log_partition"]] = max(cut.get(row["log_partition"], -1), row["log_offset"])
    newest: dict[tuple[str, str, int], Row] = {}
    for row in offset_commits(rows):
        if row["log_offset"] <= cut.get(row["log_partition"], -1):
            newest[row["group_id"], row["topic"], row["partition"]] = row
    names = (
        "group_id",
        "topic",
        "partition",
        "committed_offset",
        "leader_epoch",
        "metadata",
        "committed_at",
        "log_offset",
    )
    out = []
    for row in newest.values():
        if not row["tombstone"]:
            dirty = first_dirty.get(row["log_partition"])
            exact: Any = None if dirty is None else dirty <= cut[row["log_partition"]] + 1
            out.append({name: row[name] for name in names} | {"exact": exact})
    return out


def _end(span: Row) -> float:
    return math.inf if span["owned_to"] is None else float(span["owned_to"])


def _left_at(span: Row, spans: Iterable[Row]) -> float:
    """When the group of this span had nobody in it for the first time after it, as far as spans tell."""
    others = sorted((one for one in spans if one["group_id"] == span["group_id"]), key=lambda one: one["owned_from"])
    until, goes_on = _end(span), span["ended_by"] == "reassigned"
    for one in others:
        if one["owned_from"] > until and not goes_on:
            break
        if _end(one) >= until:
            goes_on = one["ended_by"] == "reassigned" or (_end(one) == until and goes_on)
            until = _end(one)
    return until


def offset_resets(commits: Iterable[Row], spans: Iterable[Row]) -> list[Row]:
    """Commits that did not go the way of reading, and who had the partition then."""
    spans = list(spans)
    began: dict[tuple[str, int], int] = {}
    commits = list(commits)
    for row in commits:
        era = row["group_id"], row["log_partition"]
        began[era] = min(began.get(era, row["logged_at"]), row["logged_at"])
    commits.sort(
        key=lambda row: (began[row["group_id"], row["log_partition"]], row["log_partition"], row["log_offset"])
    )
    before: dict[tuple[str, str, int], int | None] = {}
    out = []
    for row in commits:
        pair = row["group_id"], row["topic"], row["partition"]
        was, now = before.get(pair), row["committed_offset"]
        before[pair] = now
        if was is None or was == now:
            continue
        mine = [
            span
            for span in spans
            if (span["group_id"], span["topic"], span["partition"]) == pair and span["owned_from"] <= row["logged_at"]
        ]
        newest = max((span["owned_from"] for span in mine), default=None)
        last = [span for span in mine if span["owned_from"] == newest]
        ends = [_end(span) for span in last] if now is None else [_left_at(span, spans) for span in last]
        set_by = "owner" if any(end >= row["logged_at"] for end in ends) else "outsider" if mine else None
        kind = "removed" if now is None else "back" if now < was else "forth" if set_by == "outsider" else None
        if kind is not None:
            out.append(
                {
                    "group_id": pair[0],
                    "topic": pair[1],
                    "partition": pair[2],
                    "at": row["logged_at"],
                    "kind": kind,
                    "from_offset": was,
                    "to_offset": now,
                    "distance": None if now is None else now - was,
                    "set_by": set_by,
                    "log_partition": row["log_partition"],
                    "log_offset": row["log_offset"],
                }
            )
    return out
