"""Several folders in `log.dirs`: who lies where, how each is left and found again, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.context import Deferred, RequestContext
from broker.handlers.log_dirs import describe_log_dirs
from broker.partitions.log_manager import LogManager
from cli import main
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.records import metadata_records as m
from protocol.types import uuid_from_text
from storage.directory.log_directory import CLEAN_MARKER, read_topic_id
from storage.directory.meta_properties import FILE, parse_properties
from storage.errors import CorruptFile, DirectoryRefused
from storage.reading.checkpoints import HIGH_WATERMARK, LOG_START, RECOVERY_POINT, read_offsets, write_offsets
from tests.broker.partitions.test_startup_epochs import read_log
from tests.support.data_plane import batch
from tests.support.whole_broker import Whole


def start(tmp_path: Path, names: Sequence[str] = ("a", "b"), **settings: str) -> Whole:
    log_dirs = ",".join(str(tmp_path / name) for name in names)
    whole = Whole(tmp_path, log__dirs=log_dirs, **settings)
    whole.broker.partitions.writer.at_once_bytes = 1 << 30  # no thread writes what a test only has there
    return whole


def kill(whole: Whole) -> None:
    whole.composition.let_go()
    whole.forget()


def folders(path: Path, topic: str = "t") -> list[str]:
    return sorted(one.name for one in path.iterdir() if one.is_dir() and one.name.startswith(f"{topic}-"))


def identity(path: Path) -> dict[str, str]:
    return parse_properties((path / FILE).read_text())


def registrations(path: Path) -> list[Any]:
    return [record for _, record in read_log(path) if isinstance(record, m.RegisterBrokerRecord)]


def write(whole: Whole, topic: str, partition: int, value: bytes) -> None:
    found = whole.broker.partitions.get(topic, partition)
    assert found is not None
    found.append(bytearray(batch(value, timestamp=whole.runtime.now_ms())), now_ms=whole.runtime.now_ms())
    whole.runtime.turn()


def ends(whole: Whole, topic: str, count: int) -> list[int]:
    every = [whole.broker.partitions.get(topic, partition) for partition in range(count)]
    return [one.log_end_offset for one in every if one is not None]


def test_a_partition_goes_where_the_fewest_lie_and_is_found_there_again(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 3)
    whole.create("u", 2)
    assert (folders(tmp_path / "a"), folders(tmp_path / "b")) == (["t-0", "t-2"], ["t-1"])
    assert (folders(tmp_path / "a", "u"), folders(tmp_path / "b", "u")) == (["u-1"], ["u-0"])
    for partition in range(3):
        write(whole, "t", partition, b"v%d" % partition)
    assert whole.stop()

    ids = [uuid_from_text(identity(tmp_path / name)["directory.id"]) for name in "ab"]
    assert ids[0] != ids[1]
    assert identity(tmp_path / "a")["cluster.id"] == identity(tmp_path / "b")["cluster.id"]
    assert registrations(tmp_path / "a")[-1].log_dirs == ids
    made = [record for _, record in read_log(tmp_path / "a") if isinstance(record, m.PartitionRecord)]
    assert [record.directories for record in made[:3]] == [[ids[0]], [ids[1]], [ids[0]]]
    assert not (tmp_path / "b" / "__cluster_metadata-0").exists()
    for name, keys in (("a", {("t", 0), ("t", 2)}), ("b", {("t", 1)})):
        assert (tmp_path / name / CLEAN_MARKER).exists()
        assert keys <= read_offsets(tmp_path / name / HIGH_WATERMARK).keys()
        assert not {("t", 0), ("t", 1), ("t", 2)} - keys & read_offsets(tmp_path / name / RECOVERY_POINT).keys()

    whole = start(tmp_path)
    assert ends(whole, "t", 3) == [1, 1, 1]
    whole.delete("t")
    whole.runtime.turn()
    assert not any(name in ("t-0", "t-1", "t-2") for path in (tmp_path / "a", tmp_path / "b") for name in folders(path))
    assert whole.stop()


def test_each_folder_tells_of_its_own_crash(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    for partition in range(2):
        write(whole, "t", partition, b"v")
    assert whole.stop()
    (tmp_path / "b" / CLEAN_MARKER).unlink()
    with (tmp_path / "b" / "t-1" / f"{0:020d}.log").open("ab") as file:
        file.write(b"torn")

    whole = start(tmp_path)

    assert whole.broker.partitions.unclean == {tmp_path / "b"}
    assert ends(whole, "t", 2) == [1, 1]
    assert "log_truncated" in whole.log.getvalue()
    kill(whole)
    whole = start(tmp_path)
    assert whole.broker.partitions.unclean == {tmp_path / "a", tmp_path / "b"}
    assert ends(whole, "t", 2) == [1, 1]
    assert whole.stop()


def test_a_partition_that_is_moved_to_a_new_folder_after_a_crash_is_recovered(tmp_path: Path) -> None:
    whole = start(tmp_path, "a")
    whole.create("t", 1)
    write(whole, "t", 0, b"whole")
    kill(whole)
    (log,) = (tmp_path / "a" / "t-0").glob("*.log")
    with log.open("ab") as file:
        file.write(log.read_bytes()[:40])  # torn
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "t-0").rename(tmp_path / "b" / "t-0")

    whole = start(tmp_path)
    assert whole.broker.partitions.unclean == {tmp_path / "a", tmp_path / "b"}
    assert ends(whole, "t", 1) == [1]
    write(whole, "t", 0, b"more")
    assert whole.stop()
    whole = start(tmp_path)
    assert not whole.broker.partitions.unclean
    assert ends(whole, "t", 1) == [2]
    assert whole.stop()


def test_a_folder_that_was_not_recovered_when_the_broker_stopped_is_not_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    write(whole, "t", 1, b"v")
    kill(whole)
    with (tmp_path / "b" / "t-1" / f"{0:020d}.log").open("ab") as file:
        file.write(b"torn")
    with monkeypatch.context() as patch:
        patch.setattr(LogManager, "_recover_next", lambda _: None)  # it is slow
        whole = start(tmp_path)
    assert ends(whole, "t", 1) == [0]
    assert not whole.stop()
    assert [(tmp_path / name / CLEAN_MARKER).exists() for name in "ab"] == [True, False]

    whole = start(tmp_path)
    assert whole.broker.partitions.unclean == {tmp_path / "b"}
    assert ends(whole, "t", 2) == [0, 1]
    assert whole.stop()


def test_what_a_folder_that_was_away_says_of_a_deleted_topic_is_not_said_of_its_successor(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    assert whole.stop()
    write_offsets(tmp_path / "b" / LOG_START, {("t", 1): 500})
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").touch()
    whole = start(tmp_path)
    whole.delete("t")
    whole.create("t", 2)
    write(whole, "t", 1, b"new")
    whole.stop()
    (tmp_path / "b").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "b")

    whole = start(tmp_path)

    found = whole.broker.partitions.get("t", 1)
    assert found is not None
    assert (found.log.log_start_offset, found.log.log_end_offset) == (0, 1)
    assert whole.stop()


def test_log_dirs_are_described_one_by_one(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    answer: Any = describe_log_dirs(whole.broker, RequestContext(version=4), DescribeLogDirsRequest(topics=None))
    if isinstance(answer, Deferred):
        whole.runtime.turn()
        answer = answer.response
    found = {
        result.log_dir: [p.partition_index for t in result.topics if t.name == "t" for p in t.partitions]
        for result in answer.results
    }
    assert found == {str(tmp_path / "a"): [0], str(tmp_path / "b"): [1]}
    assert all(result.total_bytes > 0 for result in answer.results)
    whole.stop()


def test_a_directory_that_gets_nothing_new_is_described_as_cordoned(tmp_path: Path) -> None:
    """KIP-1066."""
    whole = start(tmp_path, cordoned__log__dirs=str(tmp_path / "b"))
    answer: Any = describe_log_dirs(whole.broker, RequestContext(version=5), DescribeLogDirsRequest(topics=None))
    if isinstance(answer, Deferred):
        whole.runtime.turn()
        answer = answer.response
    assert {Path(one.log_dir).name: one.is_cordoned for one in answer.results} == {"a": False, "b": True}
    whole.stop()


def test_a_folder_may_be_added_and_an_empty_one_taken_away(tmp_path: Path) -> None:
    whole = start(tmp_path, ["a"])
    whole.create("t", 2)
    write(whole, "t", 0, b"v")
    assert whole.stop()

    whole = start(tmp_path)
    assert ends(whole, "t", 2) == [1, 0]
    whole.create("u")
    assert folders(tmp_path / "b", "u") == ["u-0"]
    whole.delete("u")
    assert whole.stop()

    whole = start(tmp_path, ["a"])
    assert ends(whole, "t", 2) == [1, 0]
    assert whole.stop()


def test_a_folder_with_partitions_in_it_is_not_forgotten(tmp_path: Path) -> None:
    """Kafka would leave them without a leader; and a disk that is not mounted must not be taken for an empty one."""
    whole = start(tmp_path)
    whole.create("t", 2)
    write(whole, "t", 1, b"v")
    assert whole.stop()

    with pytest.raises(DirectoryRefused, match="t-1 lies in the directory with the id"):
        start(tmp_path, ["a"])
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").mkdir(mode=0o700)
    before = (tmp_path / "a" / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()
    with pytest.raises(DirectoryRefused, match="t-1 lies in the directory with the id"):
        start(tmp_path)
    assert not (tmp_path / "b" / FILE).exists()
    assert (tmp_path / "a" / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes() == before
    assert (tmp_path / "a" / CLEAN_MARKER).exists()

    whole = start(tmp_path, ["a", "elsewhere"])
    assert ends(whole, "t", 2) == [0, 1]
    assert whole.stop()


def test_a_partition_is_where_its_folder_is(tmp_path: Path) -> None:
    """As in Kafka: the metadata follows what somebody has moved by hand."""
    whole = start(tmp_path)
    whole.create("t", 2)
    write(whole, "t", 1, b"v")
    assert whole.stop()
    (tmp_path / "b" / "t-1").rename(tmp_path / "a" / "t-1")

    whole = start(tmp_path)

    assert ends(whole, "t", 2) == [0, 1]
    changed = [record for _, record in read_log(tmp_path / "a") if isinstance(record, m.PartitionChangeRecord)]
    assert [record.directories for record in changed if record.partition_id == 1][-1] == [
        uuid_from_text(identity(tmp_path / "a")["directory.id"])
    ]
    assert whole.stop()


def test_one_partition_in_two_folders_is_refused(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    assert whole.stop()
    shutil.copytree(tmp_path / "b" / "t-1", tmp_path / "a" / "t-1")

    with pytest.raises(DirectoryRefused, match=r"t-1 lies in .*/a and .*/b"):
        start(tmp_path)

    (tmp_path / "a" / "t-1" / "partition.metadata").unlink()  # then nothing says that it is of this topic
    (tmp_path / "a" / "t-1" / "kept").touch()
    whole = start(tmp_path)
    assert read_topic_id(tmp_path / "b" / "t-1") is not None
    assert [name for name in folders(tmp_path / "a") if name.endswith("-stray")]
    assert whole.stop()


def test_folders_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        assert start(tmp_path, [name]).stop()
    with pytest.raises(DirectoryRefused, match=r"b/__cluster_metadata-0: a metadata log lies here"):
        start(tmp_path)
    shutil.rmtree(tmp_path / "b" / "__cluster_metadata-0")
    with pytest.raises(CorruptFile, match="belongs to cluster"):
        start(tmp_path)
    shutil.copy(tmp_path / "a" / FILE, tmp_path / "b" / FILE)
    with pytest.raises(CorruptFile, match=r"directory.id .* is that of .*/a too"):
        start(tmp_path)
    with pytest.raises(DirectoryRefused, match=r"it has no meta\.properties"):
        start(tmp_path, ["c", "a"])
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(DirectoryRefused, match="are the same directory"):
        start(tmp_path, ["a", "link"])
    with pytest.raises(DirectoryRefused, match="lies in"):
        start(tmp_path, ["a", "a/inside"])
    assert start(tmp_path, ["a"]).stop()


def test_the_metadata_log_may_lie_in_a_folder_of_its_own(tmp_path: Path) -> None:
    whole = start(tmp_path, metadata__log__dir=str(tmp_path / "m"))
    whole.create("t", 2)
    assert whole.stop()
    assert (tmp_path / "m" / "__cluster_metadata-0").is_dir()
    assert not (tmp_path / "m" / CLEAN_MARKER).exists()
    ids = [uuid_from_text(identity(tmp_path / name)["directory.id"]) for name in "ab"]
    assert registrations(tmp_path / "m")[-1].log_dirs == ids
    assert (folders(tmp_path / "a"), folders(tmp_path / "b")) == (["t-0"], ["t-1"])

    whole = start(tmp_path, metadata__log__dir=str(tmp_path / "m"))
    assert ends(whole, "t", 2) == [0, 0]
    kill(whole)
    with pytest.raises(CorruptFile, match="it is not there, and there are folders of partitions"):
        start(tmp_path)
    whole = start(tmp_path, metadata__log__dir=str(tmp_path / "m"))
    assert ends(whole, "t", 2) == [0, 0]
    assert whole.stop()


def test_graduate_looks_at_every_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = start(tmp_path)
    whole.create("t", 2)
    assert whole.stop()
    log_dirs = f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"

    assert main(["graduate", "--override", log_dirs]) == 0
    assert log_dirs in capsys.readouterr().out.splitlines()
    assert main(["graduate", "--check", "--override", f"log.dirs={tmp_path / 'a'}"]) == 1
    assert "t-1 lies in the directory with the id" in capsys.readouterr().err
    (tmp_path / "b" / CLEAN_MARKER).unlink()
    (tmp_path / "a" / "t-0").rename(tmp_path / "b" / "t-0")
    assert main(["graduate", "--check", "--override", log_dirs]) == 1
    err = capsys.readouterr().err
    assert f"{tmp_path / 'b' / CLEAN_MARKER}: it is not there" in err
    assert f"{tmp_path / 'b' / 't-0'}: the metadata says that it lies in {tmp_path / 'a'}" in err
