"""The records of `__consumer_offsets` as rows of `schemas.GROUP_RECORDS`: one for each record, none dropped.

One kernel for offset commits of every version: rows are grouped by value version with masks, numbers are read through
a view of the bytes that steps one byte at a time, and strings stay positions until a column is made of them. Whatever
does not fit takes the road of `group_keys`, row by row.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.decode import group_keys
from pipeline.decode.batches import PAD_BYTES, Flags, Ints
from pipeline.decode.columns import choose, constant, integers, invalid_text, moments, spans
from pipeline.decode.group_keys import OFFSET_COMMIT, RECORD_TYPES, UNKNOWN, Undecodable
from pipeline.decode.schemas import GROUP_RECORDS

_WORDS = [OFFSET_COMMIT, *[name for kind, name in RECORD_TYPES.items() if kind > 1], UNKNOWN]
_WORD_OF = {name: index for index, name in enumerate(_WORDS)}
_COMMIT_WORD = _WORD_OF[OFFSET_COMMIT]
_NONE: int = -1


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
            size[np.asarray(column.is_null())] = _NONE
        first, last = (int(offsets[0]), int(offsets[-1])) if count else (0, 0)
        padded = bytearray(memoryview(data)[first:last]) if data is not None else bytearray()
        padded += bytes(PAD_BYTES)
        return cls(padded, offsets[:-1] - first, size)


class _Numbers:
    """Big-endian numbers at any position."""

    def __init__(self, data: bytearray) -> None:
        size = len(data)
        self.octets: npt.NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self._int16 = np.ndarray((size - 1,), ">i2", data, strides=(1,))
        self._int32 = np.ndarray((size - 3,), ">i4", data, strides=(1,))
        self._int64 = np.ndarray((size - 7,), ">i8", data, strides=(1,))

    def int16(self, at: Ints) -> Ints:
        return self._int16[at].astype(np.int64)

    def int32(self, at: Ints) -> Ints:
        return self._int32[at].astype(np.int64)

    def int64(self, at: Ints) -> Ints:
        return self._int64[at].astype(np.int64)


class _Rows:
    """The columns while they are being filled; everything is absent at first."""

    def __init__(self, count: int) -> None:
        def absent() -> Ints:
            return np.full(count, _NONE, np.int64)

        self.word = np.full(count, _COMMIT_WORD, np.int64)
        self.key_type, self.version = absent(), absent()
        self.has_type = np.ones(count, np.bool_)
        self.has_version = np.ones(count, np.bool_)
        self.group_at, self.group_size = np.zeros(count, np.int64), absent()
        self.topic_at, self.topic_size = np.zeros(count, np.int64), absent()
        self.member_at, self.member_size = np.zeros(count, np.int64), absent()
        self.partition = np.zeros(count, np.int64)
        self.has_partition = np.zeros(count, np.bool_)
        # Of an offset commit's value.
        self.decoded = np.zeros(count, np.bool_)
        self.offset, self.epoch = absent(), absent()
        self.metadata_at, self.metadata_size = np.zeros(count, np.int64), absent()
        self.committed, self.expires = absent(), absent()
        self.topic_id_at = absent()
        self.problems: dict[int, str] = {}


def group_batch(keys: Field, values: Field, log_partition: int | Any, offset: Ints, logged_at: Any) -> pa.RecordBatch:
    """Decode records, given as two fields and where they lie in the log; `logged_at` is the finished column."""
    count = len(offset)
    if not count:
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in GROUP_RECORDS], schema=GROUP_RECORDS)
    rows = _Rows(count)
    tombstone = values.size < 0
    usual = _commits(rows, keys, values, tombstone)
    for index in np.flatnonzero(~usual).tolist():
        _one(rows, index, keys, values)
    texts = _texts(rows, keys, values)
    if texts is None:
        _name_bad_text(rows, keys, values, usual)
        texts = _texts(rows, keys, values)
        assert texts is not None
    return _assemble(rows, texts, keys, values, tombstone, log_partition, offset, logged_at)


def _commits(rows: _Rows, keys: Field, values: Field, tombstone: Flags) -> Flags:
    """Fill all rows that are offset commits, or their tombstones, of a usual shape; say which they are."""
    numbers = _Numbers(keys.data)
    at, size = keys.at, keys.size
    rows.key_type = numbers.int16(at)
    group_size = numbers.int16(at + 2)
    possible = (size >= 10) & ((rows.key_type == 1) | (rows.key_type == 0)) & (group_size >= 0)
    possible &= group_size <= size - 10
    topic_at = np.where(possible, at + 4 + group_size, at)
    topic_size = numbers.int16(topic_at)
    possible &= (topic_size >= 0) & (group_size + topic_size == size - 10)
    partition = numbers.int32(np.where(possible, topic_at + 2 + topic_size, at))
    usual = possible & tombstone
    _values(rows, values, possible & ~tombstone & (values.size >= 2), usual)
    every = bool(usual.all())
    rows.group_at = at + 4
    rows.topic_at = topic_at + 2
    rows.group_size = group_size if every else np.where(usual, group_size, _NONE)
    rows.topic_size = topic_size if every else np.where(usual, topic_size, _NONE)
    rows.partition, rows.has_partition = partition, usual.copy()
    result: Flags = usual
    return result


def _values(rows: _Rows, values: Field, candidates: Flags, usual: Flags) -> None:
    """Read the values of the candidates, by version, and add to `usual` those that are right."""
    numbers = _Numbers(values.data)
    safe = np.where(values.size >= 2, values.at, 0)
    rows.version = np.where(values.size >= 2, numbers.int16(safe), _NONE)
    rows.has_version = values.size >= 2
    for version, fixed in ((4, 24), (3, 24), (2, 20), (1, 28), (0, 20)):
        chosen = candidates & (rows.version == version) & (values.size >= fixed)
        if version:
            chosen &= rows.key_type == 1
        which = np.flatnonzero(chosen)
        if not len(which):
            continue
        at, size = values.at[which], values.size[which]
        epoch = numbers.int32(at + 10) if version >= 3 else np.full(len(which), _NONE, np.int64)
        length_at = at + (14 if version >= 3 else 10)
        if version == 4:
            text_size, text_at, right = _compact_length(numbers, length_at)
        else:
            text_size, text_at = numbers.int16(length_at), length_at + 2
            right = text_size >= 0
        right &= (text_size >= 0) & (text_size <= size - (text_at - at) - 8 - (version == 4) - 8 * (version == 1))
        time_at = np.where(right, text_at + text_size, at)
        end = time_at + 8
        topic_id_at = np.full(len(which), _NONE, np.int64)
        if version == 4:
            end, topic_id_at = _tags(numbers, end, at + size)
        elif version == 1:
            rows.expires[which] = numbers.int64(end)
            end = end + 8
        right &= end == at + size
        if not right.all():
            # The others go their slow way, which decides what to make of them.
            rows.expires[which[~right]] = _NONE
            which, at, epoch, time_at = which[right], at[right], epoch[right], time_at[right]
            text_at, text_size, topic_id_at = text_at[right], text_size[right], topic_id_at[right]
        rows.offset[which] = numbers.int64(at + 2)
        rows.epoch[which] = epoch
        rows.metadata_at[which], rows.metadata_size[which] = text_at, text_size
        rows.committed[which] = numbers.int64(time_at)
        rows.topic_id_at[which] = topic_id_at
        rows.decoded[which] = True
        usual[which] = True


def _compact_length(numbers: _Numbers, at: Ints) -> tuple[Ints, Ints, Flags]:
    """A compact string's size, where it begins, and whether its length took one or two bytes, as all usual ones do."""
    low, high = numbers.octets[at].astype(np.int64), numbers.octets[at + 1].astype(np.int64)
    long = low >= 0x80
    size = np.where(long, (low & 0x7F) | (high << 7), low) - 1
    return size, at + 1 + long, ~(long & (high >= 0x80))


def _tags(numbers: _Numbers, at: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Behind the tagged fields, if they are none or a topic id; and where that is. Anything else ends nowhere right."""
    count = numbers.octets[at]
    with_id = (count == 1) & (numbers.octets[at + 1] == 0) & (numbers.octets[at + 2] == 16) & (at + 19 == end)
    return np.where(with_id, at + 19, np.where(count == 0, at + 1, _NONE)), np.where(with_id, at + 3, _NONE)


def _one(rows: _Rows, index: int, keys: Field, values: Field) -> None:
    """The slow way, for one row of any kind."""
    key_at, key_size = int(keys.at[index]), int(keys.size[index])
    value_at, value_size = int(values.at[index]), int(values.size[index])
    rows.has_partition[index] = False
    if key_size < 2:
        rows.word[index] = _WORD_OF[UNKNOWN]
        rows.has_type[index] = rows.has_version[index] = False
        rows.problems[index] = "key too short"
        return
    key_type = int(rows.key_type[index])
    if key_type not in RECORD_TYPES:
        rows.word[index] = _WORD_OF[UNKNOWN]
        rows.problems[index] = f"unknown type {key_type}"
        return
    strings, problem = group_keys.read_key(key_type, bytes(keys.data[key_at : key_at + key_size]))
    if strings.group is not None:
        rows.group_at[index], rows.group_size[index] = key_at + strings.group[0], strings.group[1]
    if problem is not None:
        rows.word[index] = _WORD_OF[UNKNOWN]
        rows.problems[index] = problem
        return
    rows.word[index] = _WORD_OF[RECORD_TYPES[key_type]]
    if strings.second is not None and key_type <= 1:
        rows.topic_at[index], rows.topic_size[index] = key_at + strings.second[0], strings.second[1]
        rows.partition[index], rows.has_partition[index] = strings.partition, True
    elif strings.second is not None and group_keys.member_of(key_type):
        rows.member_at[index], rows.member_size[index] = key_at + strings.second[0], strings.second[1]
    if value_size < 0:
        return
    value = bytes(values.data[value_at : value_at + value_size])
    try:
        if key_type <= 1:
            _one_commit(rows, index, key_type, value_at, value)
        elif key_type in group_keys.VALUES:
            group_keys.read_value(key_type, value)
    except Undecodable as error:
        rows.problems[index] = str(error)


def _one_commit(rows: _Rows, index: int, key_type: int, value_at: int, value: bytes) -> None:
    if len(value) < 2:
        raise Undecodable(f"truncated at byte {len(value)}")
    version = int(rows.version[index])
    group_keys.check_version(key_type, version)
    commit = group_keys.read_commit(version, value)
    rows.offset[index], rows.epoch[index] = commit.offset, commit.leader_epoch
    rows.metadata_at[index], rows.metadata_size[index] = value_at + commit.metadata_at, commit.metadata_size
    rows.committed[index], rows.expires[index] = commit.commit_timestamp, commit.expire_timestamp
    if commit.topic_id_at is not None:
        rows.topic_id_at[index] = value_at + commit.topic_id_at
    rows.decoded[index] = True


def _texts(rows: _Rows, keys: Field, values: Field) -> list[Any] | None:
    """The columns of group, topic, metadata and member; None when one of them is no UTF-8."""
    try:
        return [
            spans(field.data, *_rising(at, size), pa.string())
            for field, at, size in (
                (keys, rows.group_at, rows.group_size),
                (keys, rows.topic_at, rows.topic_size),
                (values, rows.metadata_at, rows.metadata_size),
                (keys, rows.member_at, rows.member_size),
            )
        ]
    except pa.ArrowInvalid:
        return None


def _name_bad_text(rows: _Rows, keys: Field, values: Field, usual: Flags) -> None:
    """Send usual rows whose text is no UTF-8 the slow way, too: it names the field."""
    for field, at, size in (
        (keys, rows.group_at, rows.group_size),
        (keys, rows.topic_at, rows.topic_size),
        (values, rows.metadata_at, rows.metadata_size),
    ):
        for index in invalid_text(field.data, *_rising(at, size)):
            if not usual[index]:
                continue
            usual[index] = False
            rows.decoded[index] = False
            for sizes in (rows.group_size, rows.topic_size, rows.metadata_size, rows.topic_id_at, rows.expires):
                sizes[index] = _NONE
            _one(rows, index, keys, values)


def _rising(at: Ints, size: Ints) -> tuple[Ints, Ints]:
    """Positions that rise although absent fields have none: theirs become the end of the one before."""
    null = size < 0
    if null.all() or not null.any():
        return at, size
    return np.maximum.accumulate(np.where(size < 0, 0, at + size)) - np.maximum(size, 0), size


def _assemble(
    rows: _Rows,
    texts: list[Any],
    keys: Field,
    values: Field,
    tombstone: Flags,
    log_partition: int | Any,
    offset: Ints,
    logged_at: Any,
) -> pa.RecordBatch:
    count = len(offset)
    absent = ~rows.decoded
    plain = (rows.word == _COMMIT_WORD) & (rows.decoded | tombstone)
    if rows.problems:
        plain[list(rows.problems)] = False
    kept_key, kept_value = np.where(plain, _NONE, keys.size), np.where(plain, _NONE, values.size)
    no_partition = ~rows.has_partition

    if isinstance(log_partition, int):
        log_partition = constant(log_partition, count, pa.int32())
    problems = pa.nulls(count, pa.string())
    if rows.problems:
        problems = pa.array([rows.problems.get(index) for index in range(count)], pa.string())
    one_word = (rows.word == _COMMIT_WORD).all()
    columns = [
        log_partition,
        integers(offset, None, pa.int64()),
        logged_at,
        constant(OFFSET_COMMIT, count, pa.string()) if one_word else choose(_WORDS, rows.word),
        integers(rows.key_type, ~rows.has_type, pa.int16()),
        integers(rows.version, ~(rows.has_version & ~tombstone), pa.int16()),
        pa.array(tombstone),
        texts[0],
        texts[1],
        integers(rows.partition, no_partition, pa.int32()),
        integers(rows.offset, absent, pa.int64()),
        integers(rows.epoch, absent | (rows.epoch == _NONE), pa.int32()),
        texts[2],
        moments(rows.committed, absent),
        moments(rows.expires, absent | (rows.expires == _NONE)),
        _topic_ids(values.data, rows.topic_id_at),
        texts[3],
        spans(keys.data, *_rising(keys.at, kept_key)),
        spans(values.data, *_rising(values.at, kept_value)),
        integers(np.maximum(keys.size, 0), None, pa.int32()),
        integers(np.maximum(values.size, 0), None, pa.int32()),
        problems,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=GROUP_RECORDS)


def _topic_ids(data: bytearray, at: Ints) -> Any:
    """The ids as Kafka prints them. There are few different ones, so each is printed once."""
    present = at >= 0
    if not present.any():
        return pa.nulls(len(at), pa.string())
    # A view that steps one byte at a time copies sixteen at once.
    octets = np.ndarray((len(data) - 15,), "V16", data, strides=(1,))[at[present]]
    ids = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(octets), [None, pa.py_buffer(octets)])
    encoded = ids.dictionary_encode()
    words = [uuid_text(word) for word in encoded.dictionary.to_pylist()]
    which = np.zeros(len(at), np.int32)
    which[present] = np.asarray(encoded.indices)
    return pa.array(words, pa.string()).take(pa.array(which) if present.all() else pa.array(which, mask=~present))


def uuid_text(uuid: bytes) -> str | None:
    """22 characters of URL-safe base64; None for the zero id, which means that there is none."""
    return base64.urlsafe_b64encode(uuid)[:22].decode() if any(uuid) else None
