"""The records of `__consumer_offsets` as rows of `schemas.GROUP_RECORDS`: one for each record, none dropped.

Offset commits of the usual shapes are read by `commit_kernel`, all at once. Whatever does not fit takes the road of
`group_keys`, row by row.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.decode import group_keys
from pipeline.decode.batches import Flags, Ints, windows
from pipeline.decode.columns import (
    as_array,
    booleans,
    choose,
    constant,
    integers,
    invalid_text,
    moments,
    nulled,
    spans,
    texts,
)
from pipeline.decode.commit_kernel import NONE, Rows, read_commits
from pipeline.decode.fields import Field
from pipeline.decode.group_keys import OFFSET_COMMIT, RECORD_TYPES, UNKNOWN, Undecodable
from pipeline.decode.schemas import GROUP_RECORDS

_WORDS = [OFFSET_COMMIT, *[name for kind, name in RECORD_TYPES.items() if kind > 1], UNKNOWN]
_WORD_OF = {name: index for index, name in enumerate(_WORDS)}
_COMMIT_WORD = _WORD_OF[OFFSET_COMMIT]
_UUID = np.dtype("V16")


class RecordLocation(NamedTuple):
    """Where records lie in the log: partition (one, or a column), offsets, and the finished column of their moments."""

    log_partition: int | Any
    offset: Ints
    logged_at: Any


def group_batch(
    keys: Field, values: Field, location: RecordLocation, schema: pa.Schema = GROUP_RECORDS
) -> pa.RecordBatch:
    """Decode records, given as two fields and where they lie. `schema`: some columns of `GROUP_RECORDS`."""
    count = len(location.offset)
    if not count:
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    rows = Rows(count, _COMMIT_WORD)
    tombstone = values.size < 0
    usual = read_commits(rows, keys, values, tombstone)
    for index in np.flatnonzero(~usual).tolist():
        _one(rows, index, keys, values)
    # Of all texts, also those that nobody wants: one that is no UTF-8 is a problem of its row.
    found = _texts(rows, keys, values)
    if found is None:
        _name_bad_text(rows, keys, values, usual)
        found = _texts(rows, keys, values)
        assert found is not None
    makers = _makers(rows, keys, values, tombstone, location)
    arrays = [found[name] if name in found else makers[name]() for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _one(rows: Rows, index: int, keys: Field, values: Field) -> None:
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


def _one_commit(rows: Rows, index: int, key_type: int, value_at: int, value: bytes) -> None:
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


def _texts(rows: Rows, keys: Field, values: Field) -> dict[str, Any] | None:
    """The columns of text that stands in the records; None when one of them is no UTF-8."""
    try:
        return {
            name: spans(field.data, *_rising(at, size), pa.string())
            for name, field, at, size in (
                ("group_id", keys, rows.group_at, rows.group_size),
                ("topic", keys, rows.topic_at, rows.topic_size),
                ("metadata", values, rows.metadata_at, rows.metadata_size),
                ("member_id", keys, rows.member_at, rows.member_size),
            )
        }
    except pa.ArrowInvalid:
        return None


def _name_bad_text(rows: Rows, keys: Field, values: Field, usual: Flags) -> None:
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
                sizes[index] = NONE
            _one(rows, index, keys, values)


def _rising(at: Ints, size: Ints) -> tuple[Ints, Ints]:
    """Positions that rise although absent fields have none: theirs become the end of the one before."""
    null = size < 0
    if null.all() or not null.any():
        return at, size
    return np.maximum.accumulate(np.where(size < 0, 0, at + size)) - np.maximum(size, 0), size


def _makers(
    rows: Rows, keys: Field, values: Field, tombstone: Flags, location: RecordLocation
) -> dict[str, Callable[[], Any]]:
    """What makes each column but the texts."""
    count = len(location.offset)
    absent = ~rows.decoded

    def log_partition() -> Any:
        known = location.log_partition
        return constant(known, count, pa.int32()) if isinstance(known, int) else known

    def record_type() -> Any:
        is_one = (rows.word == _COMMIT_WORD).all()
        return constant(OFFSET_COMMIT, count, pa.string()) if is_one else choose(_WORDS, rows.word)

    def problem() -> Any:
        if not rows.problems:
            return pa.nulls(count, pa.string())
        return texts([rows.problems.get(index) for index in range(count)])

    def odd(field: Field) -> Any:
        """The bytes themselves, of all but well-formed offset commits."""
        plain = (rows.word == _COMMIT_WORD) & (rows.decoded | tombstone)
        plain[list(rows.problems)] = False
        return spans(field.data, *_rising(field.at, np.where(plain, NONE, field.size)))

    return {
        "log_partition": log_partition,
        "log_offset": lambda: integers(location.offset, None, pa.int64()),
        "logged_at": lambda: location.logged_at,
        "record_type": record_type,
        "key_type": lambda: integers(rows.key_type, ~rows.has_type, pa.int16()),
        "value_version": lambda: integers(rows.version, ~(rows.has_version & ~tombstone), pa.int16()),
        "tombstone": lambda: booleans(tombstone),
        "partition": lambda: integers(rows.partition, ~rows.has_partition, pa.int32()),
        "committed_offset": lambda: integers(rows.offset, absent, pa.int64()),
        "leader_epoch": lambda: integers(rows.epoch, absent | (rows.epoch == NONE), pa.int32()),
        "committed_at": lambda: moments(rows.committed, absent),
        "expires_at": lambda: moments(rows.expires, absent | (rows.expires == NONE)),
        "topic_id": lambda: _topic_ids(values.data, rows.topic_id_at),
        "key": lambda: odd(keys),
        "value": lambda: odd(values),
        "key_bytes": lambda: integers(np.maximum(keys.size, 0), None, pa.int32()),
        "value_bytes": lambda: integers(np.maximum(values.size, 0), None, pa.int32()),
        "problem": problem,
    }


def _topic_ids(data: bytearray, at: Ints) -> Any:
    """The ids as Kafka prints them. There are few different ones, so each is printed once."""
    present = at >= 0
    known = np.flatnonzero(present)
    if not len(known):
        return pa.nulls(len(at), pa.string())
    octets = windows(data, at[known], _UUID)
    ids = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(octets), [None, pa.py_buffer(octets)])
    encoded = ids.dictionary_encode()
    words = [uuid_text(word) for word in encoded.dictionary.to_pylist()]
    which = np.zeros(len(at), np.int64)
    which[known] = as_array(encoded.indices, np.int32)
    if None in words:
        present[known] = np.array([word is not None for word in words])[which[known]]
    return nulled(choose([word or "" for word in words], which), present)


def uuid_text(uuid: bytes) -> str | None:
    """22 characters of URL-safe base64; None for the zero id, which means that there is none."""
    return base64.urlsafe_b64encode(uuid)[:22].decode() if any(uuid) else None
