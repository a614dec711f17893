"""The log of the partition: records in their order, and their bytes, made once and only when somebody loads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from protocol.records.batch import Record, encode_batch, stamp
from protocol.records.group_records import encode_key, encode_value

Pair = tuple[Any, Any]


class Log:
    """What was appended, and left by the cleaner."""

    def __init__(self) -> None:
        self.records: list[Pair] = []
        self._kept = 0
        self._chunks: list[bytes] = []
        self._encoded = 0  # so many of the records are in the chunks

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return len(self.records)

    @property
    def version(self) -> tuple[int, int]:
        """Another one whenever the log says something else."""
        return self._kept, len(self.records)

    def append(self, key: Any, value: Any) -> None:
        """One record."""
        self.records.append((key, value))

    def keep(self, records: Iterable[Pair]) -> None:
        """These, and no others."""
        self.records = list(records)
        self._kept += 1
        self._chunks, self._encoded = [], 0

    def chunks(self) -> list[bytes]:
        """All of it as bytes: a batch of what came since the last time, behind those of before."""
        first = self._encoded
        if first < len(self.records):
            batch = encode_batch(
                [
                    Record(at, 1_000_000, encode_key(key), None if value is None else encode_value(value))
                    for at, (key, value) in enumerate(self.records[first:])
                ]
            )
            stamp(batch, base_offset=first, leader_epoch=0)
            self._chunks.append(bytes(batch))
            self._encoded = len(self.records)
        return self._chunks
