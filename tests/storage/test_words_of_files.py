"""What is said of a file that breaks its format, whole: nothing but the line helps its reader."""

from __future__ import annotations

import os
import struct
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from protocol.records.crc import crc32c
from storage.clean.cleaner import MOST_SOURCES, group_sources
from storage.clean.cleaning import CleanPlan, Source
from storage.directory import meta_properties
from storage.directory.log_directory import LogDirectory, parse_topic_id
from storage.errors import CorruptFile
from storage.files import DISK, LogFile
from storage.log.handover import next_piece
from storage.reading.checkpoints import parse_checkpoint, parse_offsets
from storage.state.leader_epochs import LeaderEpochs
from storage.state.producer_snapshot import parse_snapshot
from tests.storage.logs import batch, opened
from tests.storage.test_errors import Refusing, refuses

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = Path("/d/f")
ID = bytes(range(16))


def _snapshot(version: int = 1, count: int = 0, body: bytes = b"", crc: int | None = None) -> bytes:
    rest = struct.pack(">i", count) + body
    return struct.pack(">hI", version, crc32c(rest) if crc is None else crc) + rest


@pytest.mark.parametrize(
    ("read", "data", "said"),
    [
        (parse_checkpoint, b"1\n0\n", "has version '1', only 0 is known"),
        (parse_checkpoint, b"0\n", "has no number of entries in its second line"),
        (parse_checkpoint, b"0\nx\n", "has no number of entries in its second line"),
        (parse_checkpoint, b"0\n2\na 0 1\n", "announces 2 entries and has 1"),
        (parse_offsets, b"0\n2\na 0 1\na 0\n", "line 4 is not `topic partition offset`"),
        (parse_offsets, b"0\n1\na 0 x\n", "line 3 is not `topic partition offset`"),
        (parse_snapshot, b"123456789", "has 9 bytes, less than its head"),
        (parse_snapshot, _snapshot(2), "has version 2, only 1 is known"),
        (parse_snapshot, _snapshot(crc=5), "has a wrong CRC"),
        (parse_snapshot, _snapshot(count=1), "announces 1 producers and has 10 bytes"),
        (parse_topic_id, b"version: -1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "version -1 is not known"),
        (parse_topic_id, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "the topic id is zero"),
        (parse_topic_id, b"version: 0\n", "it is not what Kafka writes ('topic_id')"),
        (meta_properties.read, b"version=2\n", "version 2 is not known; it must be 0 or 1"),
        (meta_properties.read, b"version=1\nnode.id=1", "it has no cluster.id"),
        (meta_properties.read, b"cluster.id=c", "it has no broker.id"),
        (meta_properties.read, b"cluster.id=c\nbroker.id=x", "broker.id 'x' is no number"),
        (meta_properties.read, b"cluster.id=c\nbroker.id=1\ndirectory.id=d", "directory.id 'd' is no uuid"),
        (
            meta_properties.read,
            b"cluster.id=c\nbroker.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ",
            "directory.id 'AAAAAAAAAAAAAAAAAAAAAQ' is reserved",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_whole(read: Callable[[Path, bytes], Any], data: bytes, said: str) -> None:
    with pytest.raises(CorruptFile) as refused:
        read(FILE, data)
    assert str(refused.value) == f"{FILE}: {said}"


def test_a_line_of_leader_epochs_that_is_none_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n2\n1 0\n2 x\n")
    with pytest.raises(CorruptFile) as refused:
        LeaderEpochs(tmp_path, DISK).load()
    assert str(refused.value) == f"{path}: '2 x' is not `epoch startOffset`"


def test_every_escape_of_a_properties_file_is_one_character() -> None:
    text = "a=\\t\\n\\r\\f\\u0041\\:\\\\"
    assert meta_properties.parse_properties(text) == {"a": "\t\n\r\fA:\\"}


def test_a_file_that_is_made_may_be_written_by_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        LogFile(tmp_path / "f", os.O_RDWR | os.O_CREAT, DISK)
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda log: next_piece(log, 1, 1, log.log_end_offset), "cannot read {}"),
        (lambda log: log.truncate_to(5), "cannot truncate the log in {}"),
        (lambda log: log.roll(), "cannot start segment {}/00000000000000000008.log"),
        (lambda log: log.append(batch(30), leader_epoch=0), "cannot start segment {}/00000000000000000008.log"),
    ],
)
def test_what_a_disk_refuses_to_do_with_a_log_is_said(tmp_path: Path, act: Callable[[Any], Any], said: str) -> None:
    disk = Refusing()
    log = opened(tmp_path / "t-0", disk=disk)
    for _ in range(8):
        log.append(batch(1), leader_epoch=0)
    refuses(disk, lambda: act(log), said.format(tmp_path / "t-0"))


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda one: one.create_folders({("n", 0): ID}), "cannot create {}/n-0"),
        (lambda one: one.create_future("t", 0, ID, unique=ID), f"cannot create {{}}/t-0.{ID.hex()}-future"),
        (lambda one: one.retire_future(one.path / "t-0", "t", 0, unique=ID), "cannot rename {}/t-0"),
        (lambda one: one.retire("t", 0, unique=ID), "cannot rename {}/t-0"),
        (lambda one: one.sync(), "cannot flush {}"),
        (lambda one: one.take_clean_marker(), "cannot remove {}/.kafka_cleanshutdown"),
    ],
)
def test_what_a_disk_refuses_to_do_with_a_directory_is_said(
    tmp_path: Path, act: Callable[[LogDirectory], Any], said: str
) -> None:
    disk = Refusing()
    directory = LogDirectory.open(tmp_path, disk)
    directory.create_folders({("t", 0): ID})
    directory.write_clean_marker(3)
    refuses(disk, lambda: act(directory), said.format(tmp_path))
    directory.close()


# -- which segments become one -------------------------------------------------------------------------------


def plan(folder: Path, **more: Any) -> CleanPlan:
    given: dict[str, Any] = {
        "directory": folder, "sources": (), "first_dirty": 0, "first_uncleanable": 0, "now_ms": 0,
        "delete_retention_ms": 0, "segment_bytes": 1_000, "segment_index_bytes": 100, "index_interval_bytes": 4_096,
        "max_keys": 10, "producers": {}, "aborted": (),
    }  # fmt: skip
    return CleanPlan(**{**given, **more})


def sizes(groups: list[list[Source]]) -> list[int]:
    return [len(group) for group in groups]


def test_neighbours_become_one_segment_up_to_each_limit(tmp_path: Path) -> None:
    group = partial(group_sources, plan(tmp_path))
    assert group([]) == []
    assert sizes(group([Source(0, 400, 10), Source(10, 600, 20), Source(20, 1, 30)])) == [2, 1]
    assert sizes(group([Source(0, 401, 10), Source(10, 600, 20), Source(20, 400, 30)])) == [1, 2]
    assert sizes(group([Source(at, 0, at + 1) for at in range(MOST_SOURCES + 1)])) == [MOST_SOURCES, 1]
    far = 2**31 + 5
    assert sizes(group([Source(5, 1, 9), Source(9, 1, far)])) == [2]  # the last offset lies 2**31 - 1 behind the first
    assert sizes(group([Source(5, 1, 9), Source(9, 1, far + 1)])) == [1, 1]
    assert sizes(group([Source(5, 1, 9), Source(9, 0, far + 1)])) == [2]  # of nothing no offset is far


def test_neighbours_become_one_segment_up_to_the_size_of_an_index(tmp_path: Path) -> None:
    for base, suffix, size in ((0, ".index", 60), (10, ".timeindex", 40), (20, ".index", 1)):
        (tmp_path / f"{base:020}{suffix}").write_bytes(bytes(size))
    assert sizes(group_sources(plan(tmp_path), [Source(at, 1, at + 10) for at in (0, 10, 20)])) == [2, 1]
