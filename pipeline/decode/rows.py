"""Raw records and batch headers as Arrow record batches of `schemas.RAW` and `schemas.BATCHES`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.decode.batches import CODECS, Headers
from pipeline.decode.columns import booleans, choose, constant, headers_column, integers, moments, spans, texts
from pipeline.decode.records import Records, header_spans
from pipeline.decode.schemas import BATCHES, HEADERS, RAW
from storage.reading.batches import read_marker


def raw_rows(records: Records, topic: str, partition: int, *, headers: bool) -> list[Any]:
    """The columns of `RAW` (and record headers)."""
    count, data = len(records), records.chunk.data
    append_time = records.chunk.headers.is_log_append_time[records.batch].astype(np.int64)
    columns = [
        spans(data, records.key_at, records.key_size),
        spans(data, records.value_at, records.value_size),
        constant(topic, count, pa.string()),
        constant(partition, count, pa.int32()),
        integers(records.offset, None, RAW.field("offset").type),
        moments(records.timestamp),
        integers(append_time, None, pa.int32()),
    ]
    if headers:
        if records.header_count.any():
            columns.append(headers_column(data, count, *header_spans(records)[1:]))
        else:
            columns.append(pa.nulls(count, HEADERS))
    return columns


def source_columns(records: Records, file: str, *, leader_epoch: bool) -> list[Any]:
    """The columns of `SOURCE`, or without the leader epoch of `GROUP_SOURCE`: the batch in which each record lies."""
    headers, batch = records.chunk.headers, records.batch
    producer = headers.column("producer_id")[batch]
    epochs = [integers(headers.column("leader_epoch")[batch], None, pa.int32())] if leader_epoch else []
    return [
        constant(file, len(records), pa.string()),
        integers(headers.position[batch], None, pa.int64()),
        *epochs,
        integers(producer, producer < 0, pa.int64()),
        booleans(headers.is_transactional[batch]),
    ]


def batch_rows(headers: Headers, data: bytearray, origin: int, place: tuple[str, int, str]) -> pa.RecordBatch:
    """One row a batch header. `data` begins at `origin` of the file; `place` is topic, partition and file."""
    topic, partition, file = place
    count = len(headers)
    producer = headers.column("producer_id")
    columns = [
        constant(topic, count, pa.string()),
        constant(partition, count, pa.int32()),
        integers(headers.base_offset, None, pa.int64()),
        integers(headers.last_offset, None, pa.int64()),
        integers(headers.column("record_count"), None, pa.int32()),
        moments(headers.column("base_timestamp")),
        moments(headers.column("max_timestamp")),
        integers(headers.size_bytes, None, pa.int32()),
        choose(list(CODECS), headers.compression),
        integers(producer, producer < 0, pa.int64()),
        booleans(headers.is_transactional),
        booleans(headers.is_control),
        constant(file, count, pa.string()),
        integers(headers.position, None, pa.int64()),
        _markers(headers, data, origin),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=BATCHES)


def _markers(headers: Headers, data: bytearray, origin: int) -> pa.Array:
    """The word of each control batch that ends a transaction."""
    control = np.flatnonzero(headers.is_control).tolist()
    if not control:
        return pa.nulls(len(headers), pa.string())
    words: list[str | None] = [None] * len(headers)
    for index in control:
        at = int(headers.position[index]) - origin
        marker = read_marker(data[at : at + int(headers.size_bytes[index])])
        if marker is not None:
            words[index] = "abort" if marker[0] else "commit"
    return texts(words)
