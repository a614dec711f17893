"""A partition of `__consumer_offsets` whose log cannot be opened or read at a start is served once it can."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from broker.groups import tenant as group_tenant
from broker.loop import logs
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.files import DISK
from tests.support.garbage import collected_by_nobody
from tests.support.virtual_runtime import VirtualRuntime
from tests.support.whole_broker import Whole


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    logs.configure()


def test_a_log_that_cannot_be_opened_at_a_start_is_opened_later(tmp_path: Path) -> None:
    """Its groups get NOT_COORDINATOR until then, the others are served; a start that is needed is no remedy."""
    first = Whole(tmp_path)
    there, elsewhere = first.groups_of(0)[0], first.groups_of(1)[0]
    assert first.commit(there, 7) == first.commit(elsewhere, 8) == ErrorCode.NONE
    assert first.stop()
    epochs = tmp_path / "__consumer_offsets-0" / "leader-epoch-checkpoint"
    whole = epochs.read_bytes()
    epochs.write_text("what is this\n")

    second = Whole(tmp_path)
    assert second.committed(there) is ErrorCode.NOT_COORDINATOR
    assert second.committed(elsewhere) == 8
    assert "leader-epoch-checkpoint" in (second.broker.partitions.not_ready or "")
    assert "__consumer_offsets-0" in (second.broker.groups.not_ready or "")
    second.runtime.advance(5_000)
    assert second.committed(there) is ErrorCode.NOT_COORDINATOR
    epochs.write_bytes(whole)
    second.runtime.advance(10_000)
    assert second.committed(there) == 7
    assert second.broker.partitions.not_ready is None
    assert second.broker.groups.not_ready is None
    assert second.commit(there, 9) == ErrorCode.NONE
    assert second.stop()


def test_a_bug_in_a_load_that_is_tried_again_is_told_with_its_partition(tmp_path: Path) -> None:
    """And ends there."""
    first = Whole(tmp_path)
    group = first.groups_of(0)[0]
    assert first.commit(group, 7) == ErrorCode.NONE
    assert first.stop()
    epochs = tmp_path / "__consumer_offsets-0" / "leader-epoch-checkpoint"
    whole = epochs.read_bytes()
    epochs.write_text("what is this\n")
    second = Whole(tmp_path)
    epochs.write_bytes(whole)

    def stumble(_: Any) -> None:
        raise RuntimeError("a bug")

    second.broker.groups.load_listeners.append(stumble)
    before = len(second.log.getvalue())
    second.runtime.advance(10_000)
    told = second.log.getvalue()[before:]
    [said] = [line for line in told.splitlines() if "group_load_failed" in line]
    assert "ERROR group_load_failed partition=0" in said
    assert "RuntimeError: a bug" in told
    assert second.committed(group) == 7
    assert second.stop()


def test_a_read_error_while_loading_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Whole(tmp_path)
    group = first.groups_of(0)[0]
    assert first.commit(group, 7) == ErrorCode.NONE
    assert first.stop()
    broken = True

    def pread(descriptor: int, count: int, position: int) -> bytes:
        if broken:
            raise OSError(5, "Input/output error")
        return real(descriptor, count, position)

    first.forget()
    from storage.files import DISK

    real = type(DISK).pread
    monkeypatch.setattr(DISK, "pread", pread, raising=False)
    second = Whole(tmp_path)
    assert second.committed(group) is ErrorCode.NOT_COORDINATOR
    broken = False
    second.runtime.advance(10_000)
    assert second.committed(group) == 7
    assert second.stop()


def refused_loads(monkeypatch: pytest.MonkeyPatch, count: int) -> list[tuple[Any, ...]]:
    """The disk refuses to have groups read so many times. Returns: a list that grows with each try."""
    real, tries = group_tenant.load, list[tuple[Any, ...]]()

    def load(*arguments: Any) -> Any:
        tries.append(arguments)
        if len(tries) <= count:
            raise StorageError("cannot read", Path("a.log"), OSError(5, "Input/output error"))
        return real(*arguments)

    monkeypatch.setattr(group_tenant, "load", load)
    return tries


def test_a_read_error_when_a_failed_log_is_read_again_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log fails, is opened anew, and the disk refuses once more while its groups are read from it."""
    broker = Whole(tmp_path, kohort__durability="always")
    group = broker.groups_of(0)[0]
    assert broker.commit(group, 7) == ErrorCode.NONE
    tries = refused_loads(monkeypatch, 2)
    with monkeypatch.context() as trouble:
        trouble.setattr(DISK, "fdatasync", refuse)
        assert broker.commit(group, 8) is not ErrorCode.NONE
    broker.runtime.advance(1_500)
    assert tries
    assert broker.committed(group) is ErrorCode.NOT_COORDINATOR
    broker.runtime.advance(30_000)
    assert len(tries) == 3
    assert broker.committed(group) in (7, 8)  # 8 was refused, and may have come into the log
    assert broker.commit(group, 9) == ErrorCode.NONE
    assert broker.stop()


def test_nothing_is_served_from_a_log_that_has_failed_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its groups could not be read, it fails again before that is tried again: they are read when it is repaired."""
    broker = Whole(tmp_path, kohort__durability="always")
    group = broker.groups_of(0)[0]
    assert broker.commit(group, 7) == ErrorCode.NONE
    tries = refused_loads(monkeypatch, 1)
    with monkeypatch.context() as trouble:
        trouble.setattr(DISK, "fdatasync", refuse)
        assert broker.commit(group, 8) is not ErrorCode.NONE
    while not tries:
        broker.runtime.advance(10)
    broker.runtime.advance(500)
    partition = broker.broker.partitions.opened("__consumer_offsets", 0)
    assert partition is not None
    partition.fail(StorageError("cannot flush", tmp_path, OSError(5, "Input/output error")))
    broker.runtime.advance(900)
    assert len(tries) == 1
    assert broker.committed(group) is ErrorCode.NOT_COORDINATOR
    broker.runtime.advance(200)
    assert len(tries) == 2
    assert broker.committed(group) in (7, 8)
    broker.runtime.advance(60_000)
    assert len(tries) == 2
    assert broker.stop()


def test_a_load_that_fails_again_and_again_is_tried_after_twice_as_long_until_it_is_half_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And after one that went well from the beginning."""
    broker = Whole(tmp_path, kohort__durability="always")
    group = broker.groups_of(0)[0]
    assert broker.commit(group, 7) == ErrorCode.NONE
    real, tries = group_tenant.load, []

    def load(*arguments: Any) -> Any:
        tries.append(broker.runtime.now_ms())
        raise StorageError("cannot read", tmp_path, OSError(5, "Input/output error"))

    def fail_and_load(fail_for_ms: int) -> list[int]:
        tries.clear()
        with monkeypatch.context() as trouble:
            trouble.setattr(group_tenant, "load", load)
            with monkeypatch.context() as refusing:
                refusing.setattr(DISK, "fdatasync", refuse)
                assert broker.commit(group, 8) is not ErrorCode.NONE
            broker.runtime.advance(fail_for_ms)
        assert group_tenant.load is real
        broker.runtime.advance(31_000)
        assert broker.commit(group, 9) == ErrorCode.NONE
        return [after - before for before, after in pairwise(tries)]

    assert fail_and_load(110_000) == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
    assert fail_and_load(8_500) == [1_000, 2_000, 4_000]
    assert broker.stop()


@pytest.mark.parametrize(("buffer_bytes", "pieces"), [(1, 3), (1_000_000, 1)])
def test_a_log_is_loaded_in_pieces_of_the_size_that_is_set_whenever_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffer_bytes: int, pieces: int
) -> None:
    """At a start, when the log was opened anew, and when that is tried again. One batch at a time at least."""
    settings = {"kohort__durability": "always", "offsets__load__buffer__size": str(buffer_bytes)}
    first = Whole(tmp_path, **settings)
    group = first.groups_of(0)[0]
    for offset in (1, 2, 3):
        assert first.commit(group, offset) == ErrorCode.NONE
    assert first.stop()
    real, read = group_tenant.load, []

    def load(shard: Any, chunks: Any) -> Any:
        read.append(len(list(chunks())))
        if len(read) == 3:
            raise StorageError("cannot read", tmp_path, OSError(5, "Input/output error"))
        return real(shard, chunks)

    monkeypatch.setattr(group_tenant, "load", load)
    broker = Whole(tmp_path, **settings)
    assert read == [pieces, 0]  # of both partitions
    with monkeypatch.context() as trouble:
        trouble.setattr(DISK, "fdatasync", refuse)
        assert broker.commit(group, 4) is not ErrorCode.NONE
    broker.runtime.advance(31_000)
    assert read == [pieces, 0, pieces, pieces]
    assert broker.committed(group) == 3
    assert broker.stop()


def test_the_files_of_a_log_that_was_opened_again_are_closed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when the collector comes, which may be never: a soak on a bad disk had hundreds of them left."""
    broker = Whole(tmp_path, kohort__durability="always")
    group = broker.groups_of(0)[0]
    assert broker.commit(group, 7) == ErrorCode.NONE
    partition = next(one for one in broker.broker.partitions if (one.topic, one.index) == ("__consumer_offsets", 0))
    before = id(partition.log)
    files = [weakref.ref(segment.file) for segment in partition.log.segments]
    with collected_by_nobody():
        with monkeypatch.context() as trouble:
            trouble.setattr(DISK, "fdatasync", refuse)
            assert broker.commit(group, 8) is not ErrorCode.NONE
        broker.runtime.advance(31_500)
        assert broker.commit(group, 9) == ErrorCode.NONE
        assert id(partition.log) != before
        assert not [file for file in files if file() is not None]
    assert broker.stop()


def refuse(descriptor: int) -> None:
    raise OSError(5, "Input/output error")


def test_a_flipped_bit_in_a_group_log_is_not_taken_for_an_offset(tmp_path: Path) -> None:
    """After a clean stop nobody has looked at the batches; that partition's groups are not served, and why is said."""
    first = Whole(tmp_path)
    there, elsewhere = first.groups_of(0)[0], first.groups_of(1)[0]
    assert first.commit(there, 7) == first.commit(elsewhere, 8) == ErrorCode.NONE
    assert first.stop()
    log = tmp_path / "__consumer_offsets-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    at = data.rindex((7).to_bytes(8))
    data[at + 7] ^= 1
    log.write_bytes(data)

    second = Whole(tmp_path)
    assert second.committed(there) is ErrorCode.NOT_COORDINATOR
    assert second.committed(elsewhere) == 8
    assert "CRC" in (second.broker.groups.not_ready or "")
    assert second.stop()


def test_groups_that_were_never_loaded_took_no_time(tmp_path: Path) -> None:
    """There is no `__consumer_offsets` before anybody asks for a coordinator."""
    broker = Whole(tmp_path)
    assert broker.broker.groups.load_ms == 0
    assert broker.stop()


def test_a_topic_of_groups_that_is_refused_is_told_and_asked_for_again(tmp_path: Path) -> None:
    """Here a topic is in its way whose name differs by a dot alone."""
    broker = Whole(tmp_path)
    assert broker.create("__consumer.offsets") is ErrorCode.NONE
    assert broker.broker.groups.coordinator_of("g") is None
    broker.runtime.turn()
    [said] = [line for line in broker.log.getvalue().splitlines() if "group_topic_refused" in line]
    assert "ERROR" in said
    assert "error=INVALID_TOPIC_EXCEPTION reason=" in said

    assert broker.delete("__consumer.offsets") is ErrorCode.NONE
    assert broker.broker.groups.coordinator_of("g") is None
    broker.runtime.turn()
    assert broker.broker.groups.coordinator_of("g") is not None
    assert broker.stop()


def test_how_long_all_groups_took_to_load_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that goes on by a millisecond whenever it is looked at."""
    first = Whole(tmp_path)
    assert first.commit(first.groups_of(0)[0], 7) == ErrorCode.NONE
    assert first.stop()
    moments = count(1_700_000_000_000)
    monkeypatch.setattr(VirtualRuntime, "now_ms", lambda _: next(moments))

    broker = Whole(tmp_path)
    assert 0 < broker.broker.groups.load_ms < 1_000
    [said] = [line for line in broker.log.getvalue().splitlines() if "groups_loaded" in line]
    assert f"took_ms={broker.broker.groups.load_ms}" in said
    assert broker.stop()
