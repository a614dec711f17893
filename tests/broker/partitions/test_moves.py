"""Partitions move from one log directory to another while they are served. Source: KIP-113."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.catalogue.requests import Result
from broker.handlers.context import Deferred, RequestContext
from broker.handlers.log_dirs import alter_replica_log_dirs, describe_log_dirs
from broker.partitions import Unchecked
from broker.partitions.move import Step
from broker.partitions.move_folders import FLUSHED, flushed_offset
from cli import main
from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from storage.directory.log_directory import LogDirectory, read_topic_id
from storage.errors import StorageError
from tests.broker.partitions.test_failing_directories import fail  # noqa: F401  a fixture
from tests.broker.partitions.test_several_directories import folders, kill, start, write
from tests.support.data_plane import batch
from tests.support.whole_broker import Whole


def alter(whole: Whole, path: Path | str, topic: str = "t", *partitions: int, **who: Any) -> list[ErrorCode]:
    its = [AlterReplicaLogDirTopic(name=topic, partitions=list(partitions or (0,)))]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=its)])
    answer: Any = alter_replica_log_dirs(whole.broker, RequestContext(version=2, **who), request)
    if isinstance(answer, Deferred):
        if not answer.done:
            whole.runtime.turn()
        answer = answer.response
    return [ErrorCode(one.error_code) for topic_ in answer.results for one in topic_.partitions]


def begin(whole: Whole, path: Path, topic: str = "t") -> None:
    """Have the move of the first partition begun, and nothing copied yet."""
    answers: list[ErrorCode] = []
    whole.broker.moves.ask((topic, 0), path, answers.append)
    while not answers:
        whole.runtime.run_work()
    assert answers == [ErrorCode.NONE]


def described(whole: Whole, topic: str = "t") -> dict[str, list[tuple[int, bool]]]:
    """By directory: (partition, whether it is a copy)."""
    answer: Any = describe_log_dirs(whole.broker, RequestContext(version=4), DescribeLogDirsRequest(topics=None))
    if isinstance(answer, Deferred):
        answer = answer.response
    return {
        Path(result.log_dir).name: [
            (one.partition_index, one.is_future_key)
            for its in result.topics
            if its.name == topic
            for one in its.partitions
        ]
        for result in answer.results
    }


def values(whole: Whole, topic: str = "t") -> list[bytes | None]:
    return whole.values(topic)


def test_a_partition_moves_and_is_found_there_again(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 1)
    for number in range(5):
        write(whole, "t", 0, b"v%d" % number)
    assert alter(whole, tmp_path / "b") == [ErrorCode.NONE]
    whole.runtime.advance(1_000)
    assert "partition_moved" in whole.log.getvalue()
    assert whole.broker.moves.ended == {"moved": 1, "failed": 0, "cancelled": 0}
    assert folders(tmp_path / "b") == ["t-0"]
    assert "t-0" not in folders(tmp_path / "a")
    assert described(whole) == {"a": [], "b": [(0, False)]}
    write(whole, "t", 0, b"v5")
    assert values(whole) == [b"v%d" % number for number in range(6)]
    assert whole.stop()
    whole = start(tmp_path)
    assert values(whole) == [b"v%d" % number for number in range(6)]
    assert whole.stop()


def test_a_wish_that_cannot_be_met_has_kafkas_errors(tmp_path: Path) -> None:
    """Kafka's ReplicaManager.alterReplicaLogDirs, in its order."""
    whole = start(tmp_path)
    whole.create("t", 1)
    long = "x" * 214
    whole.create(long, 1)
    assert alter(whole, tmp_path / "b", long) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert alter(whole, tmp_path / "c") == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert alter(whole, tmp_path / "b", "nobody") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert alter(whole, tmp_path / "b", "t", 7) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert alter(whole, tmp_path / "a") == [ErrorCode.NONE]
    whole.runtime.advance(1_000)
    assert folders(tmp_path / "a") == ["t-0"]
    assert not [one for one in (tmp_path / "b").iterdir() if "t-0" in one.name]
    whole.stop()


def test_a_directory_is_remembered_for_a_partition_that_is_not_there_yet(tmp_path: Path) -> None:
    """Kafka's LogManager.maybeUpdatePreferredLogDir: the last wish counts, once."""
    whole = start(tmp_path)
    for key in (("new", 0), ("new", 2), ("new", 3)):
        assert alter(whole, tmp_path / "b", key[0], key[1]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert alter(whole, tmp_path / "a", "new", 3) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    whole.create("new", 3)
    assert folders(tmp_path / "a", "new") == ["new-1"]
    assert folders(tmp_path / "b", "new") == ["new-0", "new-2"]
    whole.broker.catalogue.create_partitions("new", 4, None, lambda _: None)
    whole.runtime.turn()
    assert folders(tmp_path / "a", "new") == ["new-1", "new-3"]
    whole.create("other", 2)
    whole.delete("new")
    whole.create("new", 1)
    assert "new-0" in folders(tmp_path / "a", "new")  # the wish was met once and is forgotten
    whole.stop()


def test_wishes_that_nobody_meets_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.partitions.moves.MOST_PREFERRED", 2)
    whole = start(tmp_path)
    for name in ("x", "y", "x", "z"):
        alter(whole, tmp_path / "b", name)
    assert whole.broker.moves._preferred.keys() == {("x", 0), ("z", 0)}
    whole.stop()


def test_only_who_may_alter_the_cluster_moves_partitions(tmp_path: Path) -> None:
    whole = start(tmp_path, authorizer__class__name="org.apache.kafka.metadata.authorizer.StandardAuthorizer")
    whole.create("t", 1)
    assert whole.broker.authorizer is not None
    rights = whole.broker.authorizer.rights("User:nobody", "127.0.0.1")
    assert alter(whole, tmp_path / "b", rights=rights) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    assert not whole.broker.partitions.moving
    whole.stop()


def test_a_copy_is_shown_with_what_it_lacks_and_goes_when_the_partition_is_to_stay(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 1)
    write(whole, "t", 0, b"v")
    begin(whole, tmp_path / "b")
    assert described(whole) == {"a": [(0, False)], "b": [(0, True)]}
    assert alter(whole, tmp_path / "a") == [ErrorCode.NONE]
    whole.runtime.advance(1_000)
    assert described(whole) == {"a": [(0, False)], "b": []}
    assert "partition_move_cancelled" in whole.log.getvalue()
    whole.runtime.advance(70_000)
    assert not [one for one in (tmp_path / "b").iterdir() if "t-0" in one.name]
    assert values(whole) == [b"v"]
    whole.stop()


def test_each_wish_is_answered_by_its_own_move_however_often_one_is_taken_back(tmp_path: Path) -> None:
    """The folder of the first is still being made when the third is asked for, in the same directory."""
    whole = start(tmp_path)
    whole.create("t", 1)
    write(whole, "t", 0, b"v")
    answers: list[tuple[int, ErrorCode]] = []
    for number, name in enumerate(("b", "a", "b", "b")):
        whole.broker.moves.ask(("t", 0), tmp_path / name, lambda error, number=number: answers.append((number, error)))
    assert answers == [(1, ErrorCode.NONE)]
    whole.runtime.run_work()
    assert answers == [(1, ErrorCode.NONE), (0, ErrorCode.NONE)]
    whole.runtime.run_work()
    assert answers[2:] == [(2, ErrorCode.NONE), (3, ErrorCode.NONE)]
    whole.runtime.advance(1_000)
    assert whole.broker.moves.ended == {"moved": 1, "failed": 0, "cancelled": 1}
    assert [one for one in folders(tmp_path / "b") if not one.endswith("-delete")] == ["t-0"]
    assert values(whole) == [b"v"]
    assert whole.stop()


def test_a_topic_that_is_deleted_takes_its_copy_with_it(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 1)
    write(whole, "t", 0, b"v")
    begin(whole, tmp_path / "b")
    assert whole.delete("t") is ErrorCode.NONE
    whole.runtime.advance(70_000)
    assert not [one for name in "ab" for one in (tmp_path / name).iterdir() if "t-0" in one.name]
    assert not whole.broker.partitions.moving
    whole.stop()


def test_what_is_not_in_batches_moves_too(tmp_path: Path) -> None:
    """An open transaction, the producer's sequence, epochs, a log start inside a batch."""
    whole = start(tmp_path)
    whole.create("t", 1)
    for number in range(3):
        whole.produce("t", b"v%d" % number, producer_id=7, producer_epoch=0, base_sequence=number)
    partition = whole.broker.partitions.get("t", 0)
    assert partition is not None
    now_ms = whole.runtime.now_ms()
    opened = batch(b"open", timestamp=now_ms, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    partition.produce(opened, now_ms, 9, verify=False)
    partition.delete_records_before(2)
    before = partition.log
    assert alter(whole, tmp_path / "b") == [ErrorCode.NONE]
    whole.runtime.advance(1_000)
    now = partition.log
    assert now is not before
    assert now.directory == tmp_path / "b" / "t-0"
    assert (now.log_start_offset, now.log_end_offset, now.epochs.epochs) == (2, 4, before.epochs.epochs)
    assert partition.last_stable_offset == 3
    again = whole.produce("t", b"v2", producer_id=7, producer_epoch=0, base_sequence=2)
    assert again == 2, "a repetition is known as one"
    assert whole.stop()
    whole = start(tmp_path)
    assert values(whole) == [b"v2", b"open"]
    partition = whole.broker.partitions.get("t", 0)
    assert partition is not None
    assert partition.last_stable_offset == 3
    whole.stop()


def test_a_large_log_is_copied_in_pieces_while_it_is_written(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 1, segment_bytes="1048576")
    for number in range(60):
        write(whole, "t", 0, b"%04d" % number + bytes(100_000))
    begin(whole, tmp_path / "b")
    wrote = 60
    while whole.broker.partitions.moving:
        whole.runtime.run_work()
        if wrote < 80:
            write(whole, "t", 0, b"%04d" % wrote)
            wrote += 1
    assert len(list((tmp_path / "b" / "t-0").glob("*.log"))) > 5
    assert [one[:4] for one in values(whole) if one] == [b"%04d" % number for number in range(wrote)]
    assert whole.stop()
    whole = start(tmp_path)
    assert len(values(whole)) == wrote
    whole.stop()


def test_what_a_thread_is_writing_is_handed_over_with_the_rest(tmp_path: Path) -> None:
    """And while a log is handed over nothing is written but on the loop: the copy may be thrown away."""
    whole = start(tmp_path)
    whole.create("t", 1)
    write(whole, "t", 0, b"v0")
    whole.broker.partitions.writer.at_once_bytes = 1_000
    partition = whole.broker.partitions.get("t", 0)
    assert partition is not None
    begin(whole, tmp_path / "b")
    move, told = whole.broker.moves._moves["t", 0], list[Any]()

    def produce(name: bytes) -> None:
        now_ms = whole.runtime.now_ms()
        sent = batch(name + bytes(1_000), timestamp=now_ms)
        partition.produce_later(Unchecked(sent, now_ms, 9, None, True, told.append))

    produce(b"v1")
    assert partition.is_being_written
    while move.step is not Step.HANDING_OVER:
        whole.runtime.run_work()
    assert len(told) == 1
    produce(b"v2")
    assert not partition.is_being_written
    assert [one.base_offset for one in told] == [1, 2]
    whole.runtime.advance(5_000)
    assert partition.log.directory == tmp_path / "b" / "t-0"
    assert [value and value[:2] for value in values(whole)] == [b"v0", b"v1", b"v2"]
    whole.stop()


def test_a_compacted_topic_is_not_cleaned_while_it_moves(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    partition = whole.broker.partitions.get("t", 0)
    assert partition is not None
    for number in range(4):
        whole.produce("t", b"v%d" % number)
        partition.log.roll(now_ms=whole.runtime.now_ms())
    begin(whole, tmp_path / "b")
    whole.broker.partitions.flush(partition)
    cleaning = whole.composition.log_manager.cleaning
    cleaning.look()
    assert not cleaning.is_on(partition)
    whole.runtime.advance(20_000)
    assert partition.log.directory == tmp_path / "b" / "t-0"
    partition.log.roll(now_ms=whole.runtime.now_ms())
    whole.runtime.advance(20_000)
    assert "log_cleaned" in whole.log.getvalue()
    assert values(whole)[-1] == b"v3"
    assert len(values(whole)) < 4
    whole.stop()


@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_disk_that_fails_in_the_middle_loses_nothing(tmp_path: Path, fail: Any, lost: str) -> None:  # noqa: F811
    whole = start(tmp_path)
    whole.create("t", 1)
    for number in range(4):
        write(whole, "t", 0, b"v%d" % number + bytes(200_000))
    begin(whole, tmp_path / "b")
    fail(tmp_path / lost)
    whole.runtime.advance(5_000)
    assert "partition_move_failed" in whole.log.getvalue()
    assert list(whole.broker.partitions.disks.offline) == [tmp_path / lost]
    if lost == "b":
        write(whole, "t", 0, b"taken")
    assert alter(whole, tmp_path / "b") == [ErrorCode.KAFKA_STORAGE_ERROR]
    fail(None)
    whole.runtime.advance(5_000)
    assert len(values(whole)) == (5 if lost == "b" else 4)
    assert alter(whole, tmp_path / "b") == [ErrorCode.NONE]
    whole.runtime.advance(5_000)
    assert "t-0" in folders(tmp_path / "b")
    assert "t-0" not in folders(tmp_path / "a")
    assert len(values(whole)) == (5 if lost == "b" else 4)
    whole.stop()


def cut_off(whole: Whole, tmp_path: Path, pieces: int) -> Path:
    """A copy of forty records of 300 KB in segments of 1 MiB, which a kill cut off after so many pieces."""
    whole.create("t", 1, segment_bytes="1048576")
    for number in range(40):
        write(whole, "t", 0, b"%04d" % number + bytes(300_000))
    begin(whole, tmp_path / "b")
    for _ in range(pieces):
        whole.runtime.run_work()
    kill(whole)
    (copy,) = (tmp_path / "b").glob("t-0.*-future")
    assert len(list(copy.glob("*.log"))) > 3
    return copy


def ends_well(whole: Whole, tmp_path: Path) -> None:
    whole.runtime.advance(5_000)
    assert "t-0" in folders(tmp_path / "b")
    assert not [one for one in folders(tmp_path / "b") if one.endswith("-future")]
    assert not (tmp_path / "b" / "t-0" / FLUSHED).exists()
    assert [value and value[:4] for value in values(whole)] == [b"%04d" % number for number in range(40)]
    whole.stop()


@pytest.mark.parametrize("lost", [False, True])
def test_a_move_that_a_stop_has_cut_off_goes_on_with_what_was_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, lost: bool
) -> None:
    """A power loss takes the one segment and leaves the next one: what lies above what was flushed is copied again."""
    monkeypatch.setattr("broker.partitions.move.FLUSHED_EVERY", 4_000_000)
    copy = cut_off(start(tmp_path), tmp_path, 9)
    flushed = flushed_offset(copy)
    assert flushed is not None
    above = [one for one in sorted(copy.glob("*.log")) if int(one.stem) >= flushed]
    assert flushed >= 10
    assert len(above) > 1
    if lost:
        above[0].write_bytes(b"")
    below = {one: one.stat().st_ino for one in copy.glob("*.log") if one not in above}
    whole = start(tmp_path)
    assert "partition_move_resumed" in whole.log.getvalue()
    assert "partition_move_begun_anew" not in whole.log.getvalue()
    ends_well(whole, tmp_path)
    assert all((tmp_path / "b" / "t-0" / one.name).stat().st_ino == inode for one, inode in below.items())


@pytest.mark.parametrize("lost", [False, True])
def test_a_copy_of_which_nothing_was_flushed_is_begun_anew(tmp_path: Path, *, lost: bool) -> None:
    copy = cut_off(start(tmp_path), tmp_path, 9)
    assert flushed_offset(copy) is None
    if lost:
        sorted(copy.glob("*.log"))[1].write_bytes(b"")
    whole = start(tmp_path)
    assert "partition_move_resumed" in whole.log.getvalue()
    ends_well(whole, tmp_path)
    assert "partition_move_begun_anew" in whole.log.getvalue()


def test_a_mark_that_is_none_fails_the_move_and_loses_nothing(tmp_path: Path) -> None:
    copy = cut_off(start(tmp_path), tmp_path, 9)
    (copy / FLUSHED).write_text("0\n1\nseven\n")
    whole = start(tmp_path)
    whole.runtime.advance(5_000)
    assert "is not one offset" in whole.log.getvalue()
    assert folders(tmp_path / "a") == ["t-0"]
    assert len(values(whole)) == 40
    whole.stop()


def test_graduate_lets_a_move_pass_that_a_stop_has_cut_off(tmp_path: Path) -> None:
    """Kafka goes on with it too: the folder with the plain name counts."""
    whole = start(tmp_path)
    whole.create("t", 1)
    write(whole, "t", 0, b"v")
    begin(whole, tmp_path / "b")
    assert whole.stop()
    copies = [one.name for one in (tmp_path / "b").iterdir() if one.name.endswith("-future")]
    assert len(copies) == 1
    assert main(["graduate", "--check", "--override", f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"]) == 0
    assert [one.name for one in (tmp_path / "b").iterdir() if one.name.endswith("-future")] == copies
    whole = start(tmp_path)
    whole.runtime.advance(1_000)
    assert folders(tmp_path / "b") == ["t-0"]
    assert values(whole) == [b"v"]
    assert whole.stop()


def test_an_older_topics_folder_is_not_taken_for_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk refused to rename it when its topic was deleted; another topic of this name moves there."""
    whole = start(tmp_path)
    whole.create("t", 1)
    write(whole, "t", 0, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(LogDirectory, "retire", refuse)
        whole.delete("t")
    whole.create("other", 1)
    whole.create("t", 1)
    assert (folders(tmp_path / "a"), folders(tmp_path / "b")) == (["t-0"], ["t-0"])
    write(whole, "t", 0, b"new")
    assert alter(whole, tmp_path / "a") == [ErrorCode.NONE]
    whole.runtime.advance(1_000)
    partition = whole.broker.partitions.get("t", 0)
    assert partition is not None
    assert partition.log.directory == tmp_path / "a" / "t-0"
    assert read_topic_id(partition.log.directory) == partition.topic_id
    assert values(whole) == [b"new"]
    whole.stop()


def test_a_partition_that_could_not_be_moved_is_found_where_it_stayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata log names the new directory, the old folder keeps its name, and the disk refuses to say so at first.

    Found by the simulation (seed 51701): the partition was looked for where it had never been until the next start.
    """
    whole = start(tmp_path)
    whole.create("t", 1)
    write(whole, "t", 0, b"v")
    moves, refused = whole.broker.moves, []
    record, stayed = moves._record, moves._by_path[tmp_path / "a"].directory_id

    def refusing(topic_id: bytes, partition: int, directory_id: bytes, answer: Any) -> None:
        if directory_id == stayed and len(refused) < 3:
            refused.append(directory_id)
            answer(Result(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"))
        else:
            record(topic_id, partition, directory_id, answer)

    monkeypatch.setattr(moves, "_record", refusing)
    with monkeypatch.context() as patch:
        patch.setattr(LogDirectory, "retire", refuse)
        alter(whole, tmp_path / "b")
        whole.runtime.advance(50)
    assert "partition_move_failed" in whole.log.getvalue()
    whole.runtime.advance(5_000)
    assert len(refused) == 3
    assert values(whole) == [b"v"]
    assert described(whole) == {"a": [(0, False)], "b": []}
    write(whole, "t", 0, b"w")
    assert whole.stop()
    whole = start(tmp_path)
    assert values(whole) == [b"v", b"w"]
    assert whole.stop()


def refuse(self: LogDirectory, *_: Any, **__: Any) -> None:
    raise StorageError("cannot rename", self.path)
