"""Segment files for tests of the sources, written batch by batch."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.sources import plan
from pipeline.sources.options import parse
from pipeline.sources.read import read_splits
from protocol.records import batch
from protocol.records.batch_header import HEADER_BYTES, read_header
from protocol.records.control_records import end_transaction

T0 = 1_700_000_000_000
Pair = tuple[bytes | None, bytes | None]


def commit(group: str, topic: str, partition: int, offset: int, version: int = 3, metadata: str = "") -> Pair:
    """An offset commit's key and value, in any version."""
    names = b"".join(struct.pack(">h", len(text.encode())) + text.encode() for text in (group, topic))
    key = struct.pack(">h", 1 if version else 0) + names + struct.pack(">i", partition)
    text = metadata.encode()
    value = struct.pack(">hq", version, offset)
    if version >= 3:
        value += struct.pack(">i", 5)
    if version == 4:
        assert len(text) < 127
        value += bytes([len(text) + 1]) + text + struct.pack(">q", T0) + b"\x01\x00\x10" + bytes(range(16))
    else:
        value += struct.pack(">h", len(text)) + text + struct.pack(">q", T0)
        if version == 1:
            value += struct.pack(">q", T0 + 86_400_000)
    return key, value


class Log:
    """One partition's folder under `root`; `append` writes a batch, `roll` begins the next segment."""

    def __init__(self, root: Path, topic: str, partition: int, base_offset: int = 0) -> None:
        self.folder = root / f"{topic}-{partition}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.next_offset = self.base_offset = base_offset
        self.pairs: list[Pair] = []
        self.path = self._segment(".log")
        self.path.touch()
        self.index: list[tuple[int, int]] = []
        self.positions: list[int] = []

    def _segment(self, suffix: str) -> Path:
        return self.folder / f"{self.base_offset:020d}{suffix}"

    def append(
        self,
        pairs: Sequence[Pair],
        *,
        compression: int = 0,
        timestamps: Sequence[int] | None = None,
        offsets: Sequence[int] | None = None,
        producer_id: int = -1,
        transactional: bool = False,
        delete_horizon_ms: int | None = None,
        last_offset: int | None = None,
        headers: Sequence[tuple[tuple[bytes, bytes | None], ...]] = (),
    ) -> bytes:
        """Append a batch; its bytes."""
        first = self.next_offset
        records = [
            batch.Record(
                first + index if offsets is None else offsets[index],
                T0 + 1000 * (first + index) if timestamps is None else timestamps[index],
                key,
                value,
                headers[index] if headers else (),
            )
            for index, (key, value) in enumerate(pairs)
        ]
        data = batch.encode_batch(
            records,
            base_offset=first,
            leader_epoch=0,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            transactional=transactional,
            delete_horizon_ms=delete_horizon_ms,
            last_offset=last_offset,
        )
        self.pairs += pairs
        self.write(bytes(data))
        return bytes(data)

    def write(self, data: bytes) -> None:
        """Append bytes as they are; whole batches move the log's end and get an index entry."""
        position = self.path.stat().st_size
        with self.path.open("ab") as file:
            file.write(data)
        at = 0
        while at + HEADER_BYTES <= len(data):
            header = read_header(data, at)
            if header.length < HEADER_BYTES - 12 or at + header.size_bytes > len(data):
                break
            self.index.append((header.last_offset - self.base_offset, position + at))
            self.positions.append(position + at)
            self.next_offset = header.next_offset
            at += header.size_bytes

    def marker(self, producer_id: int, *, aborted: bool) -> None:
        """Append the end of a transaction."""
        key, value = end_transaction(commit=not aborted, coordinator_epoch=0)
        record = batch.Record(self.next_offset, T0, key, value)
        data = batch.encode_batch(
            [record], base_offset=self.next_offset, producer_id=producer_id, producer_epoch=0, transactional=True,
            control=True,
        )  # fmt: skip
        self.write(bytes(data))

    def write_index(self) -> None:
        """The offset index of the current segment, an entry a batch."""
        self._segment(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in self.index))

    def write_time_index(self, latest_ms: int) -> None:
        """A time index of one entry."""
        entry = struct.pack(">qi", latest_ms, self.next_offset - 1 - self.base_offset)
        self._segment(".timeindex").write_bytes(entry)

    def roll(self, base_offset: int | None = None, *, index: bool = True) -> None:
        """Close the segment and begin the next."""
        if index:
            self.write_index()
        self.base_offset = self.next_offset = self.next_offset if base_offset is None else base_offset
        self.path = self._segment(".log")
        self.path.touch()
        self.index, self.positions = [], []


def rows(path: Path, **options: str) -> list[dict[str, Any]]:
    """What a read with these options gives, without Spark: one dict a row, in the order of tasks."""
    command = parse({"path": str(path), **options})
    return [row for task in plan.plan(command) for batch in read_splits(task, command) for row in batch.to_pylist()]


def batches(path: Path, **options: str) -> list[Any]:
    """As `rows`, as the Arrow record batches that Spark gets."""
    command = parse({"path": str(path), **options})
    return [batch for task in plan.plan(command) for batch in read_splits(task, command)]
