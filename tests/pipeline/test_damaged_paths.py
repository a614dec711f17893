"""Files beside the segments that are torn, of other bytes, forbidden or no files: named, or not believed. No Spark."""

import errno
import json
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import DataError, UsageError
from pipeline.jobs.streaming import claim
from pipeline.sources import hdfs, log_dir
from storage.reading.transaction_index import AbortedTransaction, pack_transaction_index
from storage.state.producer_snapshot import pack_snapshot
from tests.pipeline.logs import T0, Log, rows


def offsets(path: Path, **options: str) -> list[int]:
    return [row["offset"] for row in rows(path, **options)]


def pairs(count: int) -> list[tuple[bytes, bytes]]:
    return [(b"k%d" % number, b"v%d" % number) for number in range(count)]


def _damaged(times: bytes) -> dict[str, bytes]:
    """Of a time index of two entries."""
    return {
        "cut inside an entry": times[:-5],
        "of other bytes": bytes.fromhex("00000100000000000000") + times[:14],
        "an entry that falls": times + bytes.fromhex("000000000000000100000003"),
        "beyond its segment": times[:-1] + b"\x63",
    }


@pytest.mark.parametrize("how", _damaged(bytes(24)))
def test_a_segment_is_never_left_out_by_the_word_of_a_damaged_time_index(how: str, tmp_path: Path):
    """Its last entry would say that the segment ends too early: rows would be missing without a word."""
    log, hour = Log(tmp_path, "orders", 0), 3_600_000
    log.append(pairs(4), timestamps=[T0 + n * hour for n in range(4)])
    times = struct.pack(">qiqi", T0, 0, T0 + hour, 1)
    log.path.with_suffix(".timeindex").write_bytes(_damaged(times)[how])
    log.roll()
    log.append(pairs(1), timestamps=[T0 + 4 * hour])

    assert offsets(tmp_path, startingTimestamp=str(T0 + 2 * hour)) == [2, 3, 4]


def aborted_in_the_middle(root: Path) -> tuple[Log, dict[str, bytes]]:
    """Two closed segments and an open one; an aborted transaction begins in the first and ends in the second.

    Returns: the log, and what lies beside the segments.
    """
    log = Log(root, "orders", 0)
    log.append(pairs(2))
    log.append(pairs(2), producer_id=7, transactional=True)
    log.roll()
    log.append(pairs(1))
    log.marker(7, aborted=True)
    log.append(pairs(2), producer_id=8, transactional=True)
    log.marker(8, aborted=True)
    log.roll()
    log.append(pairs(3))
    aborted = [AbortedTransaction(7, 2, 5, 6), AbortedTransaction(8, 6, 8, 9)]
    beside = {
        "00000000000000000004.txnindex": pack_transaction_index(aborted),
        "00000000000000000009.snapshot": pack_snapshot([]),
    }
    for name, data in beside.items():
        (log.folder / name).write_bytes(data)
    return log, beside


def cut(data: bytes) -> bytes:
    return data[:-3]


def without_its_end(data: bytes) -> bytes:
    return data[: len(data) // 2 - 1]


def of_other_bytes(data: bytes) -> bytes:
    return bytes(range(1, 7)) + data[6:]


def of_zeros(data: bytes) -> bytes:
    return bytes(len(data))


def of_another_segment(data: bytes) -> bytes:
    return data.replace(struct.pack(">q", 8), struct.pack(">q", 80))


@pytest.mark.parametrize("damaged", [cut, without_its_end, of_other_bytes, of_zeros, of_another_segment])
@pytest.mark.parametrize("suffix", [".txnindex", ".snapshot", ".index"])
def test_aborted_records_stay_unread_whatever_was_damaged_beside_them(
    suffix: str, damaged: Callable[[bytes], bytes], tmp_path: Path
):
    log, _ = aborted_in_the_middle(tmp_path)
    committed = [0, 1, 4, 9, 10, 11]
    for options in ({}, {"splitBytes": "1k"}, {"upTo": "highWatermark"}):
        assert offsets(tmp_path, isolationLevel="read_committed", **options) == committed
    for place in log.folder.glob(f"*{suffix}"):
        place.write_bytes(damaged(place.read_bytes()))
    for options in ({}, {"splitBytes": "1k"}, {"upTo": "highWatermark"}):
        assert offsets(tmp_path, isolationLevel="read_committed", **options) == committed
    assert offsets(tmp_path, isolationLevel="read_committed", startingOffsets='{"orders": {"0": 4}}') == committed[2:]


def unreadable(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens or lists it is told that it must not, as who is not root is."""

    def denied(before: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *more: Any) -> Any:
            if str(path) == place:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)
            return before(path, *more)

        return call

    monkeypatch.setattr(os, "open", denied(os.open))
    monkeypatch.setattr(os, "scandir", denied(os.scandir))


@pytest.mark.parametrize(
    "name",
    [
        *("", "/orders-0", "/orders-0/00000000000000000000.log", "/orders-0/00000000000000000003.log"),
        *("/replication-offset-checkpoint", "/cleaner-offset-checkpoint", "/log-start-offset-checkpoint"),
    ],
)
def test_a_forbidden_place_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = Log(tmp_path, "orders", 0)
    log.append(pairs(3))
    log.roll()
    log.append(pairs(3))
    for checkpoint in ("replication", "cleaner", "log-start"):
        (tmp_path / f"{checkpoint}-offset-checkpoint").write_bytes(b"0\n0\n")
    unreadable(f"{tmp_path}{name}", monkeypatch)

    with pytest.raises(DataError, match=f"^{re.escape(str(tmp_path) + name)} cannot be read: Permission denied$"):
        offsets(tmp_path)


@pytest.mark.parametrize("checkpoint", ["replication", "cleaner", "log-start"])
@pytest.mark.parametrize(
    ("data", "says"), [(b"0\n2\norders", "announces 2"), (b"\xff", "is no text"), (None, "cannot")]
)
def test_a_damaged_checkpoint_is_named(checkpoint: str, data: bytes | None, says: str, tmp_path: Path):
    """Torn, other bytes, a folder: what it says bounds what is read, so nothing is made up in its place."""
    Log(tmp_path, "orders", 0).append(pairs(3))
    place = tmp_path / f"{checkpoint}-offset-checkpoint"
    place.mkdir() if data is None else place.write_bytes(data)

    with pytest.raises(DataError, match=f"^{re.escape(str(place))}.*{says}"):
        offsets(tmp_path)


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        (
            'DataTransferError("All DataNodes failed: [DatanodeInfoProto { id: DatanodeIdProto { '
            'ip_addr: \\"10.0.0.7\\", host_name: \\"dn-7\\", datanode_uuid: \\"0f72\\", xfer_port: 9866, '
            "info_secure_port: Some(0) }, capacity: Some(541106348032), admin_state: Some(Normal) }, "
            "DatanodeInfoProto { id: DatanodeIdProto { "
            'ip_addr: \\"10.0.0.8\\", host_name: \\"\\", xfer_port: 9866, ipc_port: 1 } }]")',
            "All DataNodes failed: dn-7:9866, 10.0.0.8:9866",
        ),
        ("Connection refused (os error 111)", "Connection refused (os error 111)"),
        ('RPCError("Server IPC version 9 cannot")', "Server IPC version 9 cannot"),
    ],
)
def test_what_the_client_of_hdfs_says_is_a_sentence(said: str, plain: str):
    """Rust prints whole structures: of a lost data node the place counts, not its capacity."""
    assert hdfs.plain(said) == plain


def test_meta_properties_that_cannot_be_read_are_named(tmp_path: Path):
    Log(tmp_path, "orders", 0).append(pairs(3))
    (tmp_path / "meta.properties").mkdir()

    with pytest.raises(DataError, match=r"/meta\.properties cannot be read: Is a directory$"):
        log_dir.clusters_of(log_dir.scan(str(tmp_path)))


def test_a_damaged_note_of_a_checkpoint_is_named(tmp_path: Path):
    """A stream does not begin anew in the middle of what is there already."""
    claim(tmp_path, "commits", "an id")
    assert json.loads((tmp_path / "kohort.json").read_text())["verb"] == "commits"
    with pytest.raises(UsageError, match="was begun with --format parquet"):
        claim(tmp_path, "commits", "an id", format_="delta")
    for data in (b'{"verb": "comm', b"\xff\xfe", b"[]"):
        (tmp_path / "kohort.json").write_bytes(data)
        with pytest.raises(UsageError, match=f"^{re.escape(str(tmp_path))}/kohort.json is damaged: "):
            claim(tmp_path, "commits", "an id")
