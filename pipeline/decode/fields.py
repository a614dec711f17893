"""A bytes field of many records, and big-endian numbers at any position of its data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.decode.batches import PAD_BYTES, Ints

NULL_SIZE = -1


class Field(NamedTuple):
    """A bytes field of many records: the data (padded), and where each lies. A size of -1 is a null."""

    data: bytearray
    at: Ints
    size: Ints

    @classmethod
    def of(cls, column: Any) -> Field:
        """The field that a binary Arrow array holds, with its data copied once for the padding."""
        column = column.cast(pa.binary())
        count = len(column)
        _, offsets_buffer, data = column.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32)[column.offset : column.offset + count + 1].astype(np.int64)
        size = np.diff(offsets)
        if column.null_count:
            size[np.asarray(column.is_null())] = NULL_SIZE
        first, last = (int(offsets[0]), int(offsets[-1])) if count else (0, 0)
        padded = bytearray(memoryview(data)[first:last]) if data is not None else bytearray()
        padded += bytes(PAD_BYTES)
        return cls(padded, offsets[:-1] - first, size)


class Numbers:
    """Big-endian numbers at any position of some padded bytes."""

    def __init__(self, data: bytearray) -> None:
        size = len(data)
        self.octets: npt.NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self._int16 = np.ndarray((size - 1,), ">i2", data, strides=(1,))
        self._int32 = np.ndarray((size - 3,), ">i4", data, strides=(1,))
        self._int64 = np.ndarray((size - 7,), ">i8", data, strides=(1,))

    def int16(self, at: Ints) -> Ints:
        """Two bytes each."""
        return self._int16[at].astype(np.int64)

    def int32(self, at: Ints) -> Ints:
        """Four bytes each."""
        return self._int32[at].astype(np.int64)

    def int64(self, at: Ints) -> Ints:
        """Eight bytes each."""
        return self._int64[at].astype(np.int64)
