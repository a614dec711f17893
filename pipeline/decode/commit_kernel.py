"""Offset commits of every version, many at a time: one kernel, without a Python object per record.

Nearly every commit is of version 3 or 4, without metadata, and with no tagged field but the topic's id: a copy of its
first bytes next to those of the others makes plain columns of its fields. The rest are grouped by version with masks,
and read through a view of the bytes that steps one byte at a time. Strings stay positions until a column is made of
them. What fits neither way is left to `group_rows`, which goes row by row.
"""

from __future__ import annotations

import numpy as np

from pipeline.decode.batches import Flags, Ints, windows
from pipeline.decode.fields import Field, Numbers

NONE: int = -1

_KEY = np.dtype([("type", ">i2"), ("group_size", ">i2")])
_KEY_FIXED_BYTES = 10  # type, two lengths, partition

_SHORT = np.dtype(
    {
        "names": ["version", "offset", "epoch", "length", "compact_length", "time", "compact_time", "tags"],
        "formats": [">i2", ">i8", ">i4", ">i2", "u1", ">i8", ">i8", "<u4"],
        "offsets": [0, 2, 10, 14, 14, 16, 15, 23],
        "itemsize": 42,
    }
)
"""A value of version 3 or 4 without metadata, at its longest: the compact names are version 4's."""
_UNTAGGED_BYTES = 24  # of both versions
_COMPACT_EMPTY = 1
_TOPIC_ID_TAG = 0x100001  # one tagged field, of number 0, 16 bytes long
_TOPIC_ID_AT = 26


class Rows:
    """The columns while they are being filled; everything is absent at first.

    Numbers of a value mean something where `decoded` says so.
    """

    def __init__(self, count: int, commit_word: int) -> None:
        def absent() -> Ints:
            return np.full(count, NONE, np.int64)

        self.word = np.full(count, commit_word, np.int64)
        self.has_type = np.ones(count, np.bool_)
        self.member_at, self.member_size = np.zeros(count, np.int64), absent()
        # Of an offset commit's value.
        self.expires = absent()
        self.problems: dict[int, str] = {}
        # Assigned as a whole by `read_commits`.
        self.key_type: Ints
        self.version: Ints
        self.has_version: Flags
        self.group_at: Ints
        self.group_size: Ints
        self.topic_at: Ints
        self.topic_size: Ints
        self.partition: Ints
        self.has_partition: Flags
        self.offset: Ints
        self.epoch: Ints
        self.committed: Ints
        self.metadata_at: Ints
        self.metadata_size: Ints
        self.topic_id_at: Ints
        self.decoded: Flags


def read_commits(rows: Rows, keys: Field, values: Field, tombstone: Flags) -> Flags:
    """Fill all rows that are offset commits, or their tombstones, of a usual shape; say which they are."""
    at, size = keys.at, keys.size
    numbers = Numbers(keys.data)
    head = windows(keys.data, at, _KEY)
    rows.key_type, group_size = head["type"].astype(np.int64), head["group_size"].astype(np.int64)
    left = size - _KEY_FIXED_BYTES - group_size
    possible = ((rows.key_type == 1) | (rows.key_type == 0)) & (group_size >= 0) & (left >= 0)
    topic_at = np.where(possible, at + 4 + group_size, at)
    topic_size = numbers.int16(topic_at)
    possible &= topic_size == left
    partition = numbers.int32(np.where(possible, at + size - 4, at))

    usual: Flags = possible & tombstone
    has_value = values.size >= 2
    candidates = possible & has_value
    short = _short_values(rows, values, candidates)
    usual |= short
    rows.has_version = has_value
    others = candidates & ~short
    if others.any():
        _values(rows, values, others, usual)

    every = bool(usual.all())
    rows.group_at, rows.topic_at = at + 4, topic_at + 2
    rows.group_size = group_size if every else np.where(usual, group_size, NONE)
    rows.topic_size = topic_size if every else np.where(usual, topic_size, NONE)
    rows.partition, rows.has_partition = partition, usual.copy()
    return usual


def _short_values(rows: Rows, values: Field, candidates: Flags) -> Flags:
    """Read the candidates whose values are short ones, and say which they are. Others get numbers that mean nothing."""
    fields, size = windows(values.data, values.at, _SHORT), values.size
    version = fields["version"].astype(np.int64)
    untagged = size == _UNTAGGED_BYTES
    with_id = (size == _SHORT.itemsize) & ((fields["tags"] & 0xFFFFFF) == _TOPIC_ID_TAG)
    compact = (version == 4) & (fields["compact_length"] == _COMPACT_EMPTY)
    with_id &= compact
    short: Flags = (version == 3) & untagged & (fields["length"] == 0)
    short |= with_id | (compact & untagged & ((fields["tags"] & 0xFF) == 0))
    short &= candidates & (rows.key_type == 1)
    rows.version = version
    rows.offset, rows.epoch = fields["offset"].astype(np.int64), fields["epoch"].astype(np.int64)
    rows.committed = np.where(compact, fields["compact_time"], fields["time"]).astype(np.int64)
    # Where "" lies does not matter, but that positions rise does.
    rows.metadata_at, rows.metadata_size = values.at.copy(), np.where(short, 0, NONE)
    rows.topic_id_at = np.where(short & with_id, values.at + _TOPIC_ID_AT, NONE)
    rows.decoded = short.copy()
    return short


def _values(rows: Rows, values: Field, candidates: Flags, usual: Flags) -> None:
    """Read the values of the candidates, by version, and add to `usual` those that are right."""
    numbers = Numbers(values.data)
    for version, fixed in ((4, 24), (3, 24), (2, 20), (1, 28), (0, 20)):
        chosen = candidates & (rows.version == version) & (values.size >= fixed)
        if version:
            chosen &= rows.key_type == 1
        which = np.flatnonzero(chosen)
        if not len(which):
            continue
        at, size = values.at[which], values.size[which]
        epoch = numbers.int32(at + 10) if version >= 3 else np.full(len(which), NONE, np.int64)
        length_at = at + (14 if version >= 3 else 10)
        if version == 4:
            text_size, text_at, right = _compact_length(numbers, length_at)
        else:
            text_size, text_at = numbers.int16(length_at), length_at + 2
            right = text_size >= 0
        right &= (text_size >= 0) & (text_size <= size - (text_at - at) - 8 - (version == 4) - 8 * (version == 1))
        time_at = np.where(right, text_at + text_size, at)
        end = time_at + 8
        topic_id_at = np.full(len(which), NONE, np.int64)
        if version == 4:
            end, topic_id_at = _tags(numbers, end, at + size)
        elif version == 1:
            rows.expires[which] = numbers.int64(end)
            end = end + 8
        right &= end == at + size
        if not right.all():
            # The others go their slow way, which decides what to make of them.
            rows.expires[which[~right]] = NONE
            which, at, epoch, time_at = which[right], at[right], epoch[right], time_at[right]
            text_at, text_size, topic_id_at = text_at[right], text_size[right], topic_id_at[right]
        rows.offset[which] = numbers.int64(at + 2)
        rows.epoch[which] = epoch
        rows.metadata_at[which], rows.metadata_size[which] = text_at, text_size
        rows.committed[which] = numbers.int64(time_at)
        rows.topic_id_at[which] = topic_id_at
        rows.decoded[which] = True
        usual[which] = True


def _compact_length(numbers: Numbers, at: Ints) -> tuple[Ints, Ints, Flags]:
    """A compact string's size, where it begins, and whether its length took one or two bytes, as all usual ones do."""
    low, high = numbers.octets[at].astype(np.int64), numbers.octets[at + 1].astype(np.int64)
    long = low >= 0x80
    size = np.where(long, (low & 0x7F) | (high << 7), low) - 1
    return size, at + 1 + long, ~(long & (high >= 0x80))


def _tags(numbers: Numbers, at: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Behind the tagged fields, if they are none or a topic id; and where that is. Anything else ends nowhere right."""
    count = numbers.octets[at]
    with_id = (count == 1) & (numbers.octets[at + 1] == 0) & (numbers.octets[at + 2] == 16) & (at + 19 == end)
    return np.where(with_id, at + 19, np.where(count == 0, at + 1, NONE)), np.where(with_id, at + 3, NONE)
