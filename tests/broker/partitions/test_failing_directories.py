"""A disk that fails takes its own partitions offline and no others, and they come back when it is mended."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.handlers import groups
from broker.handlers.context import Deferred, RequestContext
from broker.handlers.log_dirs import describe_log_dirs
from broker.handlers.metadata import metadata
from broker.http.health import what_is_missing
from broker.http.metrics import broker_figures
from broker.http.metrics.exposition import Scrape
from broker.partitions import log_manager
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from storage.directory import meta_properties
from storage.directory.log_directory import CLEAN_MARKER, LOCK, LogDirectory
from storage.errors import DirectoryRefused, StorageError
from storage.files import DISK
from storage.reading.checkpoints import LOG_START, write_offsets
from tests.broker.partitions.test_several_directories import ends, folders, kill, start, write
from tests.support.whole_broker import Whole

_CALLS = ("open", "pread", "pwrite", "ftruncate", "fsync", "fdatasync", "rename", "unlink", "mkdir")


@pytest.fixture
def fail() -> Iterator[Callable[[Path | None], None]]:
    """fail(directory): every call there is EIO; fail(None): mended."""
    broken: list[Path] = []

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(place: Any, *more: Any) -> Any:
            path = str(Path(f"/proc/self/fd/{place}").readlink()) if isinstance(place, int) else str(place)
            if any(path.startswith(f"{one}/") for one in broken):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(place, *more)

        return call

    for name in _CALLS:
        setattr(DISK, name, guarded(getattr(DISK, name)))

    def set_broken(directory: Path | None) -> None:
        broken[:] = [] if directory is None else [directory]

    yield set_broken
    for name in _CALLS:
        DISK.__dict__.pop(name)


def answer(whole: Whole, response: Any) -> Any:
    if isinstance(response, Deferred):
        whole.runtime.turn()
        return response.response
    return response


def told(whole: Whole, topic: str) -> list[tuple[int, int, list[int]]]:
    """(error, leader, offline replicas) of each partition in Metadata."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    found = answer(whole, metadata(whole.broker, RequestContext(version=12, listener="PLAINTEXT"), request)).topics[0]
    return [(one.error_code, one.leader_id, one.offline_replicas) for one in found.partitions]


def described(whole: Whole) -> dict[str, int]:
    request = DescribeLogDirsRequest(topics=None)
    response = answer(whole, describe_log_dirs(whole.broker, RequestContext(version=4), request))
    return {Path(one.log_dir).name: one.error_code for one in response.results}


def heartbeat(whole: Whole, group: str) -> ErrorCode:
    """What a member that the group does not have is told."""
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
    return ErrorCode(answer(whole, groups.heartbeat(whole.broker, RequestContext(version=3), request)).error_code)


def missing(whole: Whole) -> str:
    app: Any = SimpleNamespace(stopping=False, broker=whole.broker)
    return "\n".join(what_is_missing(app))


def marked(whole: Whole) -> dict[str, str]:
    """What the metric says of each directory."""
    app: Any = SimpleNamespace(broker=whole.broker)
    text = "".join(broker_figures._partitions(Scrape(app)))
    lines = re.findall(r'^kohort_log_directory_offline\{directory="(.*)"\} (\d)$', text, re.MULTILINE)
    return {Path(directory).name: value for directory, value in lines}


def test_a_disk_that_fails_takes_only_its_partitions_and_gives_them_back(tmp_path: Path, fail: Any) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    lost, kept = whole.groups_of(1)[0], whole.groups_of(0)[0]
    for group in (lost, kept):
        while whole.commit(group, 3) is not ErrorCode.NONE:
            whole.runtime.advance(100)
    places = {name: folders(tmp_path / name, "__consumer_offsets") for name in "ab"}
    assert places == {"a": ["__consumer_offsets-0"], "b": ["__consumer_offsets-1"]}
    for partition in range(2):
        write(whole, "t", partition, b"v")
    assert missing(whole) == ""
    assert marked(whole) == {"a": "0", "b": "0"}

    fail(tmp_path / "b")
    with pytest.raises(KafkaError) as refused:
        write(whole, "t", 1, b"refused")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    whole.runtime.turn()

    assert list(whole.broker.partitions.disks.offline) == [tmp_path / "b"]
    assert f"log directory {tmp_path / 'b'} is offline" in missing(whole)
    assert marked(whole) == {"a": "0", "b": "1"}
    assert "log_directory_offline" in whole.log.getvalue()
    assert told(whole, "t") == [(0, 1, []), (5, -1, [1])]
    assert described(whole) == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR}
    write(whole, "t", 0, b"taken")
    assert whole.create("u", 2) is ErrorCode.NONE
    assert folders(tmp_path / "a", "u") == ["u-0", "u-1"]
    assert [heartbeat(whole, group) for group in (lost, kept)] == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert whole.commit(kept, 4) is ErrorCode.NONE
    assert whole.commit(lost, 4) is ErrorCode.NOT_COORDINATOR
    assert whole.committed(lost) is ErrorCode.NOT_COORDINATOR
    assert whole.broker.groups.coordinator_of(lost) is None
    assert whole.broker.groups.coordinator_of(kept) == 1
    whole.runtime.advance(5_000)
    assert whole.log.getvalue().count("log_directory_offline") == 1

    fail(None)
    whole.runtime.advance(5_000)

    assert not whole.broker.partitions.disks.offline
    assert marked(whole) == {"a": "0", "b": "0"}
    assert told(whole, "t") == [(0, 1, []), (0, 1, [])]
    assert described(whole) == {"a": 0, "b": 0}
    assert ends(whole, "t", 2) == [2, 1]
    write(whole, "t", 1, b"after")
    assert whole.committed(lost) == 3
    assert heartbeat(whole, lost) is ErrorCode.UNKNOWN_MEMBER_ID
    assert whole.commit(lost, 5) is ErrorCode.NONE
    assert missing(whole) == ""
    assert whole.stop()
    whole = start(tmp_path)
    assert ends(whole, "t", 2) == [2, 2]
    assert whole.stop()


def test_a_read_that_fails_has_the_directory_looked_at(tmp_path: Path, fail: Any) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    write(whole, "t", 1, b"v")
    partition = whole.broker.partitions.get("t", 1)
    assert partition is not None
    partition.read_failed(StorageError("cannot read", tmp_path / "b"))
    whole.runtime.turn()
    assert not whole.broker.partitions.disks.offline  # one bad file is no bad disk

    fail(tmp_path / "b")
    partition.read_failed(StorageError("cannot read", tmp_path / "b"))
    whole.runtime.turn()
    assert list(whole.broker.partitions.disks.offline) == [tmp_path / "b"]
    with pytest.raises(KafkaError, match="is offline"):
        write(whole, "t", 1, b"refused")
    fail(None)
    whole.runtime.advance(5_000)
    assert ends(whole, "t", 2) == [0, 1]
    assert whole.stop()


def test_a_disk_that_is_back_says_nothing_of_a_topic_that_was_deleted_meanwhile(tmp_path: Path, fail: Any) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    assert whole.stop()
    for name in "ab":
        write_offsets(tmp_path / name / LOG_START, {("t", 0 if name == "a" else 1): 500})
    whole = start(tmp_path)
    fail(tmp_path / "b")
    with pytest.raises(KafkaError):
        write(whole, "t", 1, b"refused")
    whole.runtime.turn()
    whole.delete("t")
    fail(None)
    whole.runtime.advance(5_000)
    whole.create("t", 2)
    for partition in range(2):
        write(whole, "t", partition, b"new")
    assert "t-1" in folders(tmp_path / "b")
    kill(whole)

    whole = start(tmp_path)
    assert ends(whole, "t", 2) == [1, 1]
    assert whole.stop()


def test_a_stop_marks_only_the_folders_that_work(tmp_path: Path, fail: Any) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    write(whole, "t", 1, b"v")
    fail(tmp_path / "b")
    with pytest.raises(KafkaError):
        write(whole, "t", 1, b"refused")
    whole.runtime.turn()
    assert not whole.stop()
    assert (tmp_path / "a" / CLEAN_MARKER).exists()
    assert not (tmp_path / "b" / CLEAN_MARKER).exists()

    fail(None)
    whole = start(tmp_path)
    assert whole.broker.partitions.unclean == {tmp_path / "b"}
    assert ends(whole, "t", 2) == [0, 1]
    assert whole.stop()


def test_a_stop_makes_durable_what_lies_on_a_disk_that_another_has_replaced(
    tmp_path: Path, fail: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The descriptor that the start has taken of the directory is the old disk's, and `syncfs` would tell of that."""
    monkeypatch.setattr(log_manager, "MANY", 0)
    synced: list[str] = []

    def noting(call: Callable[[int], None]) -> Callable[[int], None]:
        def noted(descriptor: int) -> None:
            synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
            call(descriptor)

        return noted

    whole = start(tmp_path)
    whole.create("t", 2)
    fail(tmp_path / "b")
    with pytest.raises(KafkaError):
        write(whole, "t", 1, b"refused")
    whole.runtime.turn()
    (tmp_path / "b").rename(tmp_path / "unplugged")
    shutil.copytree(tmp_path / "unplugged", tmp_path / "b")
    fail(None)
    whole.runtime.advance(5_000)
    write(whole, "t", 1, b"v")

    monkeypatch.setattr(DISK, "syncfs", noting(lambda _: None), raising=False)
    monkeypatch.setattr(DISK, "fdatasync", noting(DISK.fdatasync))
    assert whole.stop()
    assert str(tmp_path / "a") in synced
    assert str(tmp_path / "unplugged") not in synced
    assert str(tmp_path / "b" / "t-1" / f"{0:020d}.log") in synced


def test_a_stop_ends_where_a_folder_is_none_any_more(tmp_path: Path) -> None:
    """Its lock file cannot be removed either; the other's is."""
    whole = start(tmp_path)
    whole.create("t", 2)
    (tmp_path / "b").rename(tmp_path / "unplugged")
    (tmp_path / "b").touch()
    assert not whole.stop()
    assert not (tmp_path / "a" / LOCK).exists()
    (tmp_path / "b").unlink()
    (tmp_path / "unplugged").rename(tmp_path / "b")
    whole = start(tmp_path)
    assert whole.stop()


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "killed"])
def test_a_start_goes_on_without_a_folder_that_cannot_be_used(tmp_path: Path, stopped: bool) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    whole.create("gone", 2)
    for partition in range(2):
        write(whole, "t", partition, b"v")
    if stopped:
        assert whole.stop()
    else:
        kill(whole)
    (tmp_path / "b").rename(tmp_path / "unplugged")
    (tmp_path / "b").touch()  # no directory

    whole = start(tmp_path)
    assert "log_directory_offline" in whole.log.getvalue()
    assert f"log directory {tmp_path / 'b'} is offline" in missing(whole)
    assert described(whole) == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR}
    assert told(whole, "t") == [(0, 1, []), (5, -1, [1])]
    write(whole, "t", 0, b"taken")
    with pytest.raises(KafkaError) as refused:
        whole.broker.partitions.get("t", 1)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert whole.delete("gone") is ErrorCode.NONE
    assert whole.create("gone", 2) is ErrorCode.NONE
    assert {"gone-0", "gone-1"} <= set(folders(tmp_path / "a", "gone"))
    assert not folders(tmp_path / "a").count("t-1")
    assert not whole.stop()

    (tmp_path / "b").unlink()
    (tmp_path / "unplugged").rename(tmp_path / "b")
    whole = start(tmp_path)
    assert ends(whole, "t", 2) == [2, 1]
    assert "gone-1" not in folders(tmp_path / "b", "gone")
    assert missing(whole) == ""
    assert whole.stop()


def test_a_disk_that_fails_at_its_marker_is_left_out_of_the_start(tmp_path: Path, fail: Any) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    for partition in range(2):
        write(whole, "t", partition, b"v")
    assert whole.stop()

    fail(tmp_path / "b")
    whole = start(tmp_path)
    assert list(whole.broker.partitions.disks.offline) == [tmp_path / "b"]
    assert told(whole, "t") == [(0, 1, []), (5, -1, [1])]
    write(whole, "t", 0, b"taken")
    assert whole.create("u", 2) is ErrorCode.NONE
    assert folders(tmp_path / "a", "u") == ["u-0", "u-1"]
    assert not whole.stop()
    assert (tmp_path / "b" / CLEAN_MARKER).exists()
    fail(tmp_path / "a")
    with pytest.raises(StorageError):  # the metadata log's
        start(tmp_path)

    fail(None)
    whole = start(tmp_path)
    assert ends(whole, "t", 2) == [2, 1]
    assert whole.stop()


def test_a_disk_that_fails_while_a_start_makes_folders_takes_only_its_partitions(
    tmp_path: Path, fail: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    write(whole, "t", 0, b"v")
    assert whole.stop()
    shutil.rmtree(tmp_path / "b" / "t-1")
    real = LogDirectory.create_folders

    def create_folders(directory: LogDirectory, topics: Any) -> None:
        if directory.path.name == "b":
            fail(directory.path)
        real(directory, topics)

    monkeypatch.setattr(LogDirectory, "create_folders", create_folders)
    whole = start(tmp_path)
    whole.runtime.turn()
    assert list(whole.broker.partitions.disks.offline) == [tmp_path / "b"]
    assert told(whole, "t") == [(0, 1, []), (5, -1, [1])]
    write(whole, "t", 0, b"taken")

    monkeypatch.undo()
    fail(None)
    whole.runtime.advance(5_000)
    write(whole, "t", 1, b"taken")
    assert ends(whole, "t", 2) == [2, 1]
    assert whole.stop()
    assert folders(tmp_path / "b") == ["t-1"]


def test_a_folder_that_a_start_cannot_set_aside_costs_its_partition_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    assert whole.stop()
    (tmp_path / "b" / "t-1" / "partition.metadata").write_text(f"version: 0\ntopic_id: {'B' * 21}A\n")

    def refuse(directory: LogDirectory, *_: Any, **__: Any) -> None:
        raise StorageError("cannot rename", directory.path, OSError(errno.EIO, "no"))

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(LogDirectory, "retire", refuse)
        whole = start(tmp_path)
        write(whole, "t", 0, b"v")
        with pytest.raises(KafkaError) as refused:
            write(whole, "t", 1, b"v")
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    write(whole, "t", 1, b"v")
    assert ends(whole, "t", 2) == [1, 1]
    assert whole.stop()


def test_a_new_disk_that_refuses_its_identity_is_left_out_of_the_start(
    tmp_path: Path, fail: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    assert whole.stop()
    real = meta_properties.write

    def write_identity(path: Path, *more: Any) -> None:
        fail(path)
        real(path, *more)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(meta_properties, "write", write_identity)
        whole = start(tmp_path, ("a", "b", "c"))
    assert list(whole.broker.partitions.disks.offline) == [tmp_path / "c"]
    assert told(whole, "t") == [(0, 1, []), (0, 1, [])]
    assert whole.create("u", 3) is ErrorCode.NONE
    assert not folders(tmp_path / "c", "u")
    whole.stop()

    fail(None)
    whole = start(tmp_path, ("a", "b", "c"))
    assert not whole.broker.partitions.disks.offline
    assert whole.create("w", 3) is ErrorCode.NONE
    assert folders(tmp_path / "c", "w")
    assert whole.stop()


def test_a_start_without_any_folder_or_the_metadata_log_is_refused(tmp_path: Path) -> None:
    assert start(tmp_path).stop()
    (tmp_path / "a").rename(tmp_path / "unplugged")
    (tmp_path / "a").touch()
    with pytest.raises(DirectoryRefused, match="not a directory"):
        start(tmp_path)
