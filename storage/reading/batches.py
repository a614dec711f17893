"""What the log needs to see of a batch without decoding it, as precompiled views of the header.

`protocol.records.batch` owns the layout and does all checking. Appending and walking happen millions of times, so
they unpack plain tuples; `HEADER` yields the fields in the order of `BatchHeader`.
"""

from __future__ import annotations

import struct

from protocol.errors import KafkaError
from protocol.records.batch import LENGTH_BYTES, iterate_records
from storage.files import Buffer

HEADER = struct.Struct(">qiibIhiqqqhii")
STEP = struct.Struct(">qi11xi")  # base_offset, length, last_offset_delta
STAMP = struct.Struct(">qii")  # base_offset, length, leader_epoch
OVERHEAD = LENGTH_BYTES  # what the length field does not count

_MARKER_KEY = struct.Struct(">hh")  # version, type
_MARKER_VALUE = struct.Struct(">hi")  # version, coordinator epoch
ABORT = 0
COMMIT = 1


def read_marker(batch: Buffer) -> tuple[bool, int] | None:
    """(aborted, coordinator epoch) of a control batch that ends a transaction; None for another or an emptied one.

    An emptied one is what compaction leaves of a marker whose transaction is gone.
    """
    try:
        for record in iterate_records(batch):
            if record.key is None or len(record.key) < 4:
                return None
            kind = _MARKER_KEY.unpack_from(record.key)[1]
            if kind not in {ABORT, COMMIT} or record.value is None or len(record.value) < 6:
                return None
            return kind == ABORT, _MARKER_VALUE.unpack_from(record.value)[1]
    except KafkaError:
        return None
    return None
