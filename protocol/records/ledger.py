"""The rebalance ledger's records: why a group rebalanced, how long it took, who was waited for, what moved.

They lie in the topic `__kohort_rebalances`: the key is the group id, the value one UTF-8 JSON object, the header `kind`
says which of the classes below it is. Readers ignore fields they do not know; a field is never used again with another
meaning. Times are ms since 1970 (`_at_ms`) or spans in ms; partitions are texts such as `0-3,7` by topic.

Source: the page docs/rebalance-ledger.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NotRequired, TypedDict

from protocol.records.errors import UnparsableRecord

LEDGER_TOPIC = "__kohort_rebalances"
KIND_HEADER = b"kind"
VERSION = 1
RECORD_MAX_BYTES = 256 * 1024
MOVES_MAX = 200
_TEXT_MAX_CHARS = 1_000  # of any one text, in a record that is too large without its lists

Partitions = dict[str, str]
"""Partitions by topic, as ranges: `{"orders": "0-3,7"}`."""
Move = tuple[str, int, str | None, str | None]
"""(topic, partition, from which member, to which member)."""


class Cause(TypedDict):
    """Why a rebalance began or went on: who did what."""

    at_ms: int
    trigger: str
    member_id: str | None
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    reason: str | None  # the client's own text
    detail: Mapping[str, Any]


class WaitedFor(TypedDict):
    """The member that was waited for longest."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    after_ms: int
    told_after_ms: NotRequired[int | None]  # to join: when a heartbeat's answer asked for it; null: none did


class LedgerMember(TypedDict):
    """One member's part in a rebalance; `joined_after_ms` and `synced_after_ms` count from its beginning."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int | None  # null: a consumer group's, of a rebalance that was interrupted
    rebalance_timeout_ms: int
    change: str  # joined, stayed, replaced, left, expired, removed
    joined_after_ms: int | None
    synced_after_ms: int | None
    partitions: Partitions | None  # null: no consumer group
    gained: Partitions | None  # null: what it owned before is not known
    lost: Partitions | None


class LedgerRecord(TypedDict):
    """What every record has."""

    version: int
    kind: str
    at_ms: int
    group_id: str
    group_type: str  # classic, consumer
    generation: int
    coordinator_partition: int
    broker_epoch: int
    cluster_id: str


class RebalanceBegan(LedgerRecord):
    """The group leaves Stable or Empty."""

    rebalance_id: str  # <from_generation>@<began_at_ms>
    from_generation: int
    state_before: str
    cause: Cause | None
    members_before: int


class RebalanceEnded(LedgerRecord):
    """The last member has its assignment, or the group became empty, was superseded, removed, or interrupted."""

    rebalance_id: str
    from_generation: int
    to_generation: int
    outcome: str  # stable, empty, superseded, removed, interrupted
    by: str | None  # superseded: the next rebalance's id
    first_cause: Cause | None
    further_causes: list[Cause]
    further_causes_truncated: int
    began_at_ms: int
    joined_at_ms: int | None
    assigned_at_ms: int | None
    ended_at_ms: int | None
    duration_ms: int | None
    join_ms: int | None
    assign_ms: int | None
    sync_ms: int | None
    initial_delay_ms: int | None
    slowest_to_join: WaitedFor | None
    slowest_to_revoke: WaitedFor | None  # consumer groups: from when it was told to give partitions up
    slowest_to_sync: WaitedFor | None
    stopped_ms: int | None
    protocol_type: str | None
    protocol: str | None
    mode: str  # eager, cooperative, unknown
    leader: str | None
    leader_changed: bool | None
    members: list[LedgerMember]
    members_truncated: int
    partitions_total: int | None
    partitions_moved: int | None
    partitions_unassigned: int | None
    moves: list[Move]
    moves_truncated: int
    imbalance: int | None


class MemberReplaced(LedgerRecord):
    """A static member came back under a new id without a rebalance, or before one."""

    instance_id: str
    old_member_id: str
    new_member_id: str
    old_client_id: str
    old_client_host: str
    client_id: str
    client_host: str
    reason: str | None
    away_ms: int | None


class MemberFenced(LedgerRecord):
    """A request was refused because another holds the instance id."""

    instance_id: str
    refused_member_id: str
    client_id: str
    client_host: str
    holder_member_id: str | None
    holder_client_id: str | None
    holder_client_host: str | None
    api: str


class DepartureTraced(LedgerRecord):
    """What was seen of a member after it had gone: its connection was closed, stayed open, or it came back."""

    member_id: str | None
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    trigger: str  # of its going
    departed_at_ms: int
    saw: str  # closed, open (after 3 s), returned (it joined again)
    after_ms: int  # since it had gone
    how: str | None  # closed: `end of file`, `reset` or `broker`
    same_connection: bool | None  # returned: over the one that it had, or its others were open all the while


class PartitionsRead(LedgerRecord):
    """How long the partitions that a rebalance moved were read by nobody."""

    rebalance_id: str
    partitions: int
    still_unread: int
    unread_ms: int
    topic: str
    partition: int
    spans: list[tuple[str, int, int]]  # topic, partition, ms; at most 200, the longest first


class CommitsRefused(LedgerRecord):
    """Commits of one member refused with one error, within a second."""

    member_id: str
    client_id: str
    client_host: str
    error: str
    count: int
    request_generation: int
    topics: list[str]


class JoinsRefused(LedgerRecord):
    """JoinGroups of one client refused with one error, within a second."""

    member_id: str
    client_id: str
    client_host: str
    error: str
    count: int
    protocols: list[str]  # that it offers, at most 20
    group_protocols: list[str]  # that all members support


ChangedOffset = TypedDict("ChangedOffset", {"topic": str, "partition": int, "from": int | None, "to": int | None})
"""One partition's committed offset before and after; null: none. (`from` is a keyword, so this is no class.)"""


class OffsetsChanged(LedgerRecord):
    """Offsets of a group that has had members, set or removed by somebody who is no member."""

    by: str  # client, expiry, topic_deleted, group_deleted
    client_id: str | None
    client_host: str | None
    offsets: list[ChangedOffset]
    truncated: int


class CoordinatorLoaded(LedgerRecord):
    """Replay at the start has rebuilt a group that has members."""

    members: int
    load_ms: int | None
    unclean: bool


class GroupRemoved(LedgerRecord):
    """The group was deleted, or expired with its last offset."""

    by: str  # deleted, expired
    client_id: str | None
    client_host: str | None
    members_at_last_generation: int | None


KINDS: Mapping[str, type] = {
    "rebalance_began": RebalanceBegan,
    "rebalance_ended": RebalanceEnded,
    "member_replaced": MemberReplaced,
    "member_fenced": MemberFenced,
    "departure_traced": DepartureTraced,
    "partitions_read": PartitionsRead,
    "commits_refused": CommitsRefused,
    "joins_refused": JoinsRefused,
    "offsets_changed": OffsetsChanged,
    "coordinator_loaded": CoordinatorLoaded,
    "group_removed": GroupRemoved,
}
"""The kinds of records and their declarations."""

# What is cut when a record is too large, in this order, and where it says how many are missing.
_CUT = (("moves", "moves_truncated"), ("further_causes", "further_causes_truncated"), ("members", "members_truncated"))
_SURELY_SHORT = 100  # items: hardly ever is so little too large


def encode_value(record: Mapping[str, Any]) -> bytes:
    """The bytes of a record, at most `RECORD_MAX_BYTES`: lists are cut, members last, and their counts kept."""
    long = [name for name, _ in _CUT if isinstance(record.get(name), list)]  # `members` may be a number
    if sum(len(record[name]) for name in long) < _SURELY_SHORT:
        data = _dump(record)
        if len(data) <= RECORD_MAX_BYTES:
            return data
    # Each item is encoded once, however many have to go.
    head = {name: value for name, value in record.items() if name not in long}
    lists = {name: [_dump(item) for item in record[name]] for name in long}
    data = _joined(head, lists)
    for name, counter in _CUT:
        items = lists.get(name)
        if len(data) <= RECORD_MAX_BYTES or not items:
            continue
        room = RECORD_MAX_BYTES - (len(data) - sum(map(len, items)) - len(items)) - 10  # the counter may get digits
        kept = 0
        for item in items:
            room -= len(item) + 1
            if room < 0:
                break
            kept += 1
        head[counter] = head.get(counter, 0) + len(items) - kept
        lists[name] = items[:kept]
        data = _joined(head, lists)
    if len(data) <= RECORD_MAX_BYTES:
        return data
    # A client may give itself names of 32 KiB.
    return _joined(_shortened(head), lists)


class NewerRecord(UnparsableRecord):
    """A newer Kohort wrote it: its fields may mean what this one does not know."""


class ForeignRecord(UnparsableRecord):
    """Another cluster's ledger tells of a group of its own: the topic was mirrored from there."""


_MAYBE_OBJECT = (dict, type(None))
_NEEDED: Mapping[str, tuple[tuple[str, type | tuple[type, ...]], ...]] = {
    "any": (("at_ms", int),),
    "rebalance_began": (("rebalance_id", str), ("from_generation", int), ("cause", _MAYBE_OBJECT)),
    "rebalance_ended": (
        ("rebalance_id", str),
        ("from_generation", int),
        ("to_generation", int),
        ("outcome", str),
        ("first_cause", _MAYBE_OBJECT),
        ("further_causes", list),
        ("members", list),
    ),
    "member_replaced": (("old_member_id", str), ("new_member_id", str)),
    "partitions_read": (("rebalance_id", str), ("unread_ms", int)),
}


def decode_value(data: bytes | None) -> dict[str, Any]:
    """The record, whatever its version.

    Raises: UnparsableRecord when it is no JSON object, or lacks its kind or group.
    """
    import json  # noqa: PLC0415  a start does not pay for it

    if data is None:
        raise UnparsableRecord("a ledger record without a value")
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnparsableRecord(f"a ledger record that is no JSON: {error}") from error
    if (
        not isinstance(record, dict)
        or not isinstance(record.get("kind"), str)
        or not isinstance(record.get("group_id"), str)
    ):
        raise UnparsableRecord("a ledger record without kind and group_id")
    return record


def decode_whole(data: bytes | None, cluster_id: str | None = None) -> dict[str, Any]:
    """The record, with every field there by which readers put records together: a client may write into the topic too.

    Raises: UnparsableRecord, also when such a field is missing, or any is of another type than declared; NewerRecord;
    ForeignRecord when it is not of this cluster, if one is given.
    """
    record = decode_value(data)
    if cluster_id and record.get("cluster_id", cluster_id) != cluster_id:
        raise ForeignRecord(f"a ledger record of cluster {record['cluster_id']}")
    for name, kinds in _NEEDED["any"] + _NEEDED.get(record["kind"], ()):
        if name not in record or not isinstance(record[name], kinds):
            raise UnparsableRecord(f"a ledger record of {record['kind']} without {name}")
    version = record.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise NewerRecord(f"a ledger record of version {str(version)[:20]}")
    from protocol.records.ledger_shapes import fault  # noqa: PLC0415  a start does not pay for it

    wrong = fault(record, KINDS.get(record["kind"], LedgerRecord))
    if wrong is not None:
        raise UnparsableRecord(f"a ledger record of {record['kind']} whose {wrong} is of another type")
    return record


def _joined(head: Mapping[str, Any], lists: Mapping[str, list[bytes]]) -> bytes:
    parts = [_dump(head)[:-1]]
    parts += [b',"' + name.encode() + b'":[' + b",".join(items) + b"]" for name, items in lists.items()]
    return b"".join((*parts, b"}"))


def _dump(content: object) -> bytes:
    global _encode  # noqa: PLW0603  made once: a start does not pay for it, and making it anew costs more than using it
    if _encode is None:
        from json import JSONEncoder  # noqa: PLC0415

        _encode = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    # Names are what clients send: a lone surrogate cannot come from UTF-8, and must not end the ledger if it does.
    return _encode(content).encode("utf-8", "replace")


_encode: Callable[[object], str] | None = None


def _shortened(content: Any) -> Any:
    if isinstance(content, str):
        return content[:_TEXT_MAX_CHARS]
    if isinstance(content, Mapping):
        return {key: _shortened(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_shortened(item) for item in content]
    return content


def spans(partitions: list[int]) -> str:
    """Partition numbers as people write them: `0-3,7`. The numbers come in rising order."""
    parts: list[str] = []
    first = last = None
    for number in partitions:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None:
            parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = number
    if first is not None:
        parts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(parts)


def numbers(text: str) -> list[int]:
    """What `spans` wrote. Raises: ValueError."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found
