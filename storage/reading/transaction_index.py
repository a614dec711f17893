"""The transaction index of a segment: the aborted transactions whose marker lies in it.

A read_committed reader drops the records of these producers from `first_offset` on until it meets the marker at
`last_offset`. Entries stand in the order of their markers. The file exists only when there is an entry.

Source: Kafka's TransactionIndex, AbortedTxn.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """One entry. Offsets are inclusive; everything below `last_stable_offset` was decided when it was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse_transaction_index(data: bytes) -> list[AbortedTransaction]:
    """The entries in the bytes of a `.txnindex` file; a torn last entry is left out."""
    whole = len(data) - len(data) % ENTRY_BYTES
    return [AbortedTransaction(*entry[1:]) for entry in _ENTRY.iter_unpack(memoryview(data)[:whole])]


def sound_transaction_index(data: bytes, base_offset: int, next_offset: int) -> list[AbortedTransaction] | None:
    """The entries of the `.txnindex` of the segment of these offsets; None when the bytes cannot be all of it.

    Markers rise, and lie in their segment.
    """
    if len(data) % ENTRY_BYTES:
        return None
    found, above = [], base_offset - 1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        if version or entry.producer_id < 0 or not 0 <= entry.first_offset < entry.last_offset:
            return None
        if not above < entry.last_offset < next_offset:
            return None
        above = entry.last_offset
        found.append(entry)
    return found


def pack_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of the entries, version 0."""
    return b"".join([_ENTRY.pack(0, *entry) for entry in entries])


def overlapping(
    entries: Iterable[AbortedTransaction], first_offset: int, upper_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """The aborted transactions that touch [`first_offset`, `upper_offset`), and whether no later segment has more."""
    found = []
    for entry in entries:
        if entry.last_offset >= first_offset and entry.first_offset < upper_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_offset:
            return found, True
    return found, False
