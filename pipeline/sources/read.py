"""What a task does: the batches of its splits become Arrow record batches, by the options. No Spark in here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from pipeline.decode import schemas
from pipeline.decode.batches import Flags, Headers, chunks
from pipeline.decode.columns import moments
from pipeline.decode.fields import Field
from pipeline.decode.group_rows import RecordLocation, group_batch
from pipeline.decode.records import Records, read_records
from pipeline.decode.rows import batch_rows, raw_rows, source_columns
from pipeline.errors import UsageError
from pipeline.sources.latest import LatestOnly
from pipeline.sources.options import Options
from pipeline.sources.plan import Split
from pipeline.sources.segment_reader import Lost, Problems, Window, windows
from pipeline.sources.transactions import Aborted


def schema_of(options: Options) -> pa.Schema:
    """The columns that a read with these options has. Raises: UsageError for one that is not there."""
    whole = _whole_schema(options)
    for name in options.columns:
        if name not in whole.names:
            raise UsageError(f"columns names {name!r}; there are {', '.join(whole.names)}")
    return pa.schema([whole.field(name) for name in options.columns]) if options.columns else whole


def _whole_schema(options: Options) -> pa.Schema:
    if options.records == "batch":
        return schemas.BATCHES
    if options.records == "problems":
        return schemas.PROBLEMS
    if options.records == "group":
        schema = schemas.GROUP_RECORDS
    else:
        schema = schemas.RAW_WITH_HEADERS if options.include_headers else schemas.RAW
    source = schemas.GROUP_SOURCE if options.records == "group" else schemas.SOURCE
    return pa.schema([*schema, *source]) if options.include_source else schema


def read_splits(splits: Iterable[Split], options: Options) -> Iterator[pa.RecordBatch]:
    """The rows of some splits. Raises: CorruptBatch, DataError."""
    rows: Iterator[pa.RecordBatch]
    if options.records == "problems":
        rows = (batch for split in splits for batch in problem_rows(split, options))
    else:
        rows = _rows_of(splits, options)
    yield from finished(rows, options)


def finished(rows: Iterator[pa.RecordBatch], options: Options) -> Iterator[pa.RecordBatch]:
    """Without superseded rows and unwanted columns, where that was asked for."""
    if options.latest_only and options.records == "group":
        rows = LatestOnly().fold(rows)
    if not options.columns:
        return rows
    names = list(options.columns)
    return (batch.select(names) for batch in rows)


def _rows_of(splits: Iterable[Split], options: Options) -> Iterator[pa.RecordBatch]:
    for split in splits:
        problems = Problems(skip=options.skip_corrupt)
        decoder = Decoder(split.topic, split.partition, options, problems)
        for window in windows(split, problems, check_crc=options.check_crc):
            yield from decoder.decode(window, split.start_offset, split.end_offset, split.aborted)


def problem_rows(split: Split, options: Options) -> Iterator[pa.RecordBatch]:
    """What a reader that skips would leave out of a split; everything is decoded, and thrown away."""
    problems = Problems(skip=True)
    decoder = Decoder(split.topic, split.partition, options, problems)
    for window in windows(split, problems, check_crc=options.check_crc):
        for _ in decoder.records(window, split.start_offset, split.end_offset, split.aborted):
            pass
    if problems.found:
        yield problem_batch(split.topic, split.partition, problems.found)


def problem_batch(topic: str, partition: int, found: list[Lost]) -> pa.RecordBatch:
    """Rows of `schemas.PROBLEMS`."""
    columns = [[topic] * len(found), [partition] * len(found), *map(list, zip(*found, strict=True))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schemas.PROBLEMS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schemas.PROBLEMS)


class Decoder:
    """Batches of one partition into rows; the same for files and for what a broker sends."""

    def __init__(self, topic: str, partition: int, options: Options, problems: Problems) -> None:
        self.topic, self.partition, self.options, self.problems = topic, partition, options, problems
        self.schema = _whole_schema(options)
        if options.records == "group" and not (options.latest_only or options.include_source):
            self.schema = schema_of(options)
        self._make: Callable[[Records, str], pa.RecordBatch] = self._group if options.records == "group" else self._raw

    def decode(
        self, window: Window, start_offset: int, end_offset: int, aborted: tuple[Aborted, ...]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a window between two offsets."""
        if self.options.records == "batch":
            headers = window.headers[self._wanted(window.headers, start_offset, end_offset, aborted, control=True)]
            if len(headers):
                place = self.topic, self.partition, window.file
                yield batch_rows(headers, window.data, window.origin, place)
            return
        for records in self.records(window, start_offset, end_offset, aborted):
            yield self._make(records, window.file)

    def records(
        self, window: Window, start_offset: int, end_offset: int, aborted: tuple[Aborted, ...]
    ) -> Iterator[Records]:
        """As `decode`, before columns are made."""
        options = self.options

        def bad(headers: Headers, index: int, reason: str) -> None:
            self.problems.bad_records(window.file, headers, index, reason)

        wanted = self._wanted(window.headers, start_offset, end_offset, aborted, control=False)
        headers = window.headers if wanted.all() else window.headers[wanted]
        for chunk in chunks(window.data, headers, window.origin, bad, options.batch_records):
            records = read_records(chunk, bad)
            if records is None:
                continue
            first, last = int(chunk.headers.base_offset[0]), int(chunk.headers.last_offset[-1])
            if first < start_offset or last >= end_offset:
                records = records.only((records.offset >= start_offset) & (records.offset < end_offset))
            if options.starting_timestamp is not None:
                records = records.only(records.timestamp >= options.starting_timestamp)
            if options.ending_timestamp is not None:
                records = records.only(records.timestamp < options.ending_timestamp)
            if len(records):
                yield records

    def _wanted(
        self, headers: Headers, start_offset: int, end_offset: int, aborted: tuple[Aborted, ...], *, control: bool
    ) -> Flags:
        """Which batches can have rows."""
        base, last = headers.base_offset, headers.last_offset
        wanted: Flags = (last >= start_offset) & (base < end_offset)
        if not control:
            wanted &= ~headers.is_control
        since, until = self.options.starting_timestamp, self.options.ending_timestamp
        if since is not None:
            wanted &= headers.column("max_timestamp") >= since
        if until is not None and control:
            wanted &= headers.column("base_timestamp") < until
        if self.options.read_committed and aborted:
            transactional = headers.is_transactional & ~headers.is_control
            if transactional.any():
                producer = headers.column("producer_id")
                for one in aborted:
                    hit = (producer == one.producer_id) & (base >= one.first_offset) & (base <= one.last_offset)
                    wanted &= ~(hit & transactional)
        return wanted

    def _raw(self, records: Records, file: str) -> pa.RecordBatch:
        columns = raw_rows(records, self.topic, self.partition, headers=self.options.include_headers)
        return self._finish(columns, records, file)

    def _group(self, records: Records, file: str) -> pa.RecordBatch:
        data = records.chunk.data
        keys, values = Field(data, records.key_at, records.key_size), Field(data, records.value_at, records.value_size)
        location = RecordLocation(self.partition, records.offset, moments(records.timestamp))
        if self.options.include_source:
            return self._finish(list(group_batch(keys, values, location).columns), records, file)
        return group_batch(keys, values, location, self.schema)

    def _finish(self, columns: list[pa.Array], records: Records, file: str) -> pa.RecordBatch:
        if self.options.include_source:
            columns += source_columns(records, file, leader_epoch=self.options.records != "group")
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
