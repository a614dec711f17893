"""Arrays of positions and sizes become Arrow columns; no Python object is made per record.

A binary Arrow array is laid over the whole chunk, its offsets being start, end, start, end, ...: of its elements the
even ones are the wanted spans, the odd ones what lies between, and one `take` copies the even ones out. That needs
spans that rise and do not overlap, which the order of a file gives.

Columns are laid over their bytes, and never made by `pa.array` or `pa.scalar`: those import pandas, to see whether what
they were given is a part of it, and that takes longer than a small log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.decode.batches import Bytes, Flags, Ints
from pipeline.decode.schemas import HEADERS, TIMESTAMP

_LATEST_MS = (1 << 63) // 1000 - 1


def spans(data: Bytes, at: Ints, size: Ints, kind: pa.DataType | None = None) -> Any:
    """The bytes at these positions of `data`, which rise; a negative size is a null."""
    kind = kind or pa.binary()
    count = len(at)
    null = size < 0
    if size.max(initial=-1) <= 0:
        return pa.nulls(count, kind) if null.all() else _empty(null, kind)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = at
    offsets[1::2] = at + np.maximum(size, 0)
    laid = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    even = np.arange(0, 2 * count, 2, dtype=np.int32)
    which = numbers(even, pa.int32())
    taken = laid.take(nulled(which, ~null) if null.any() else which)
    return taken if kind == pa.binary() else _text(taken)


def _empty(null: Flags, kind: pa.DataType) -> Any:
    """Nothing but spans of no bytes, and nulls."""
    offsets = pa.py_buffer(np.zeros(len(null) + 1, np.int32))
    return nulled(pa.Array.from_buffers(kind, len(null), [None, offsets, pa.py_buffer(b"")]), ~null)


def nulled(column: Any, present: Flags) -> Any:
    """A column without nulls, with nulls where nothing is present. Its bytes are not copied."""
    if present.all():
        return column
    return pa.Array.from_buffers(column.type, len(column), [_bits(present), *column.buffers()[1:]])


def _bits(flags: Flags) -> Any:
    """As Arrow keeps booleans, and what is no null."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def booleans(values: Flags) -> Any:
    """A column of them without nulls."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def numbers(values: Any, kind: pa.DataType) -> Any:
    """A column without nulls of an array of the same numbers, which is copied only if it is not in one piece."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def texts(words: Sequence[str | None]) -> Any:
    """A column of text."""
    encoded = [(word or "").encode() for word in words]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    column = pa.Array.from_buffers(pa.string(), len(words), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])
    return nulled(column, np.array([word is not None for word in words], np.bool_))


def as_array(column: Any, kind: type[np.generic]) -> Any:
    """The numbers of a column without nulls, as they lie in it; `kind` is theirs."""
    return np.frombuffer(column.buffers()[1], kind, len(column), column.offset * np.dtype(kind).itemsize)


def _text(taken: Any) -> Any:
    """The same bytes as text. Raises: pa.ArrowInvalid where they are no UTF-8, which those below 128 always are."""
    octets = np.frombuffer(taken.buffers()[2], np.uint8)
    return taken.view(pa.string()) if octets.max(initial=0) < 0x80 else taken.cast(pa.string())


def invalid_text(data: Bytes, at: Ints, size: Ints) -> list[int]:
    """Which of the spans are not UTF-8. Nearly always none, which one check of them all tells."""
    try:
        spans(data, at, size, pa.string())
    except pa.ArrowInvalid:
        wrong = []
        view = memoryview(data)
        for index in np.flatnonzero(size > 0).tolist():
            try:
                str(view[at[index] : at[index] + size[index]], "utf-8")
            except UnicodeDecodeError:
                wrong.append(index)
        return wrong
    return []


def integers(values: Ints, null: Flags | None, kind: pa.DataType) -> Any:
    """A column of whole numbers; null where the mask says so."""
    native = values.astype(kind.to_pandas_dtype(), copy=False)
    if null is None:
        return numbers(native, kind)
    return pa.nulls(len(values), kind) if null.all() else nulled(numbers(native, kind), ~null)


def moments(values_ms: Ints, null: Flags | None = None) -> Any:
    """A column of moments out of milliseconds; what microseconds cannot hold becomes the nearest that they can."""
    clipped = np.clip(values_ms, -_LATEST_MS, _LATEST_MS) * 1000
    return integers(clipped, null, pa.int64()).view(TIMESTAMP)


def constant(value: Any, count: int, kind: pa.DataType) -> Any:
    """A column with the same text or whole number in every row, or with none."""
    if value is None:
        return pa.nulls(count, kind)
    if not isinstance(value, str):
        return numbers(np.full(count, value, kind.to_pandas_dtype()), kind)
    word = value.encode()
    ends = np.arange(count + 1, dtype=np.int32) * len(word)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(ends), pa.py_buffer(word * count)])


def choose(words: list[str], which: Ints) -> Any:
    """A column of text out of few different words, by number."""
    return texts(words).take(numbers(which.astype(np.int32, copy=False), pa.int32()))


def headers_column(
    data: Bytes, count: int, record: Ints, name_at: Ints, name_size: Ints, value_at: Ints, value_size: Ints
) -> Any:
    """Record headers as Spark has them: null for a record without any. Names that are no UTF-8 get U+FFFD."""
    try:
        names = spans(data, name_at, name_size, pa.string())
    except pa.ArrowInvalid:
        view = memoryview(data)
        spans_of = zip(name_at.tolist(), name_size.tolist(), strict=True)
        names = texts([str(view[at : at + size], "utf-8", "replace") for at, size in spans_of])
    values = spans(data, value_at, value_size)
    ends = np.searchsorted(record, np.arange(count), side="right").astype(np.int32)
    offsets = np.concatenate((np.zeros(1, np.int32), ends))
    empty = np.diff(offsets) == 0
    fields = list(HEADERS.value_type)
    pairs = pa.StructArray.from_arrays([names, values], fields=fields)
    lists = pa.ListArray.from_arrays(numbers(offsets, pa.int32()), pairs, type=HEADERS)
    return pa.ListArray.from_buffers(HEADERS, count, [_bits(~empty), lists.buffers()[1]], children=[pairs])
