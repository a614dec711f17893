"""The ledger replayed: who was in a group, and who owned what, at each generation.

What it gives is what the records of `__consumer_offsets` give: a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from protocol.records.ledger import numbers

_PRESENT = frozenset({"joined", "stayed", "replaced"})

Owned = frozenset[tuple[str, int]]


class Generation(NamedTuple):
    """A group after one record. `members`: what each owns, by member id; None: not to be read."""

    number: int
    at_ms: int
    members: Mapping[str, Owned | None]
    complete: bool  # no member was cut from the record


def replay(records: Iterable[Mapping[str, Any]]) -> Iterator[Generation]:
    """Every generation that the records of one group tell of, the oldest first.

    One comes twice when a static member was replaced in it. During a rebalance such a member only gets another name.
    """
    now = Generation(0, 0, {}, complete=True)
    rebalancing = False
    replaced: Generation | None = None  # to be told, unless a rebalance begins with the replacement
    for record in records:
        kind = record.get("kind")
        if replaced is not None:
            if kind != "rebalance_began" or (record.get("cause") or {}).get("trigger") != "static_replaced":
                yield replaced
            replaced = None
        if kind == "rebalance_began":
            rebalancing = True
        elif kind == "rebalance_ended":
            rebalancing = record.get("outcome") == "superseded"
            if _tells_members(record):
                now = _told(record)
                yield now
        elif kind == "member_replaced" and record["old_member_id"] in now.members:
            old_id, new_id = record["old_member_id"], record["new_member_id"]
            members = {(new_id if key == old_id else key): owned for key, owned in now.members.items()}
            now = Generation(now.number, record["at_ms"], members, now.complete)
            replaced = None if rebalancing else now
        elif kind == "group_removed":
            now = Generation(0, record["at_ms"], {}, complete=True)
    if replaced is not None:
        yield replaced


def _told(record: Mapping[str, Any]) -> Generation:
    members = {
        member["member_id"]: _owned(member.get("partitions"))
        for member in record["members"]
        if member["change"] in _PRESENT
    }
    return Generation(record["to_generation"], record["at_ms"], members, complete=not record.get("members_truncated"))


def _tells_members(record: Mapping[str, Any]) -> bool:
    outcome = record.get("outcome")
    if outcome == "interrupted":
        return bool(record["to_generation"] > record["from_generation"])
    return outcome in ("stable", "empty")


def _owned(partitions: Mapping[str, str] | None) -> Owned | None:
    if partitions is None:
        return None
    return frozenset((topic, number) for topic, text in partitions.items() for number in numbers(text))
