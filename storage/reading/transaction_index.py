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


def is_transaction_index(data: bytes, base_offset: int, next_offset: int) -> bool:
    """Whether bytes can be the whole `.txnindex` of the segment of these offsets: markers rise, and lie in it."""
    if len(data) % ENTRY_BYTES:
        return False
    above = base_offset - 1
    for version, producer_id, first_offset, last_offset, _ in _ENTRY.iter_unpack(data):
        if version or producer_id < 0 or not 0 <= first_offset < last_offset or not above < last_offset < next_offset:
            return False
        above = last_offset
    return True


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
