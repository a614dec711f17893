"""Looking for a time in a log: compressed batches are read in a thread, and nobody waits for another's look-ups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.handlers.context import Deferred, RequestContext
from broker.handlers.list_offsets import MAX_TIMESTAMP, list_offsets
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.records.batch import Record, encode_batch
from storage.log import log_lookup
from tests.support.data_plane import NOW_MS, DataPlane, batch

if TYPE_CHECKING:
    from pathlib import Path

LZ4 = 3


def asked(partitions: int, timestamp: int, topic: str = "t") -> ListOffsetsRequest:
    """The same time in so many partitions."""
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in range(partitions)]
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=topic, partitions=wanted)]
    )


def ask(plane: DataPlane, request: ListOffsetsRequest) -> Any:
    """One client's request."""
    return list_offsets(plane.broker, RequestContext(version=7), request)


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    """A topic of four partitions with a compressed batch in each; works run when they are told to."""
    plane = DataPlane(tmp_path, eager_workers=False)
    plane.create("t", partitions=4)
    for index in range(4):
        plane.partition("t", index).produce(batch(b"a", b"b", compression=LZ4), NOW_MS, 9)
    return plane


@pytest.mark.parametrize("timestamp", [NOW_MS, MAX_TIMESTAMP])
def test_a_compressed_batch_is_looked_into_in_a_thread(plane: DataPlane, timestamp: int) -> None:
    answer = ask(plane, asked(4, timestamp))
    for _ in range(4):
        assert isinstance(answer, Deferred)
        assert not answer.done
        assert len(plane.runtime.works) == 1
        plane.runtime.run_work()
        plane.runtime.turn()
    assert not plane.runtime.works
    found = answer.response.topics[0].partitions
    assert [(one.partition_index, one.error_code, one.offset, one.timestamp) for one in found] == [
        (index, 0, 0, NOW_MS) for index in range(4)
    ]


def test_two_clients_that_look_into_batches_take_turns(plane: DataPlane) -> None:
    greedy = ask(plane, asked(4, NOW_MS))
    modest = ask(plane, asked(1, NOW_MS))
    for _ in range(2):
        plane.runtime.run_work()
        plane.runtime.turn()
    assert modest.done
    assert not greedy.done


def test_a_short_batch_that_is_not_compressed_is_looked_into_at_once(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path, eager_workers=False)
    plane.create("t")
    plane.partition("t").produce(batch(b"a"), NOW_MS, 9)
    plane.runtime.turn()
    assert ask(plane, asked(1, NOW_MS)).topics[0].partitions[0].offset == 0
    assert not plane.runtime.works


def test_a_batch_of_many_records_is_gone_through_a_few_at_a_time(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others' look-ups wait for five thousand records at most, and not for all that somebody has put into a batch."""
    monkeypatch.setattr(log_lookup, "RECORDS_AT_ONCE", 10)
    plane.create("many")
    values = [b"x"] * 95
    plane.partition("many").produce(batch(*values, compression=LZ4), NOW_MS, 9)
    answer = ask(plane, asked(1, NOW_MS + 1, "many"))
    assert answer.topics[0].partitions[0].offset == -1  # its header says that none is as late

    plane.partition("many").delete_records_before(95 - 1)
    answer = ask(plane, asked(1, MAX_TIMESTAMP, "many"))
    runs = 0
    while plane.runtime.works:
        runs += 1
        plane.runtime.run_work()
        plane.runtime.turn()
    assert runs == 10
    assert answer.response.topics[0].partitions[0].offset == 94


def work_all(plane: DataPlane) -> int:
    """Do all that waits for a thread; the most bytes that looks held at a time."""
    most, room = 0, plane.broker.partitions.look_room
    while plane.runtime.works:
        plane.runtime.run_work()
        most = max(most, room.limit_bytes - room.left_bytes())
        plane.runtime.turn()
    assert not room.holders
    return most


def rising(plane: DataPlane, topic: str, records: int, value_bytes: int, first: int = 0) -> None:
    """A compressed batch of records, each a millisecond later than the one before; the log starts at `first`."""
    plane.create(topic)
    its = [Record(at, NOW_MS + at, b"k", bytes(value_bytes)) for at in range(records)]
    plane.partition(topic).produce(encode_batch(its, compression=LZ4), NOW_MS, 9)
    if first:
        plane.partition(topic).delete_records_before(first)


def test_looks_of_many_clients_hold_no_more_than_their_room(plane: DataPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has read a part of its batch when the next one's turn comes: the others wait until there is room."""
    monkeypatch.setattr(log_lookup, "RECORDS_AT_ONCE", 10)
    rising(plane, "long", 95, 1_000)
    plane.broker.partitions.look_room.limit_bytes = 250_000
    answers = [ask(plane, asked(1, NOW_MS + 94, "long")) for _ in range(20)]
    assert 190_000 < work_all(plane) < 250_000
    assert [one.response.topics[0].partitions[0].offset for one in answers] == [94] * 20


def test_a_client_that_goes_makes_room(plane: DataPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lookup, "RECORDS_AT_ONCE", 10)
    rising(plane, "long", 95, 1_000)
    plane.broker.partitions.look_room.limit_bytes = 100_000
    gone, waits = (ask(plane, asked(1, NOW_MS + 94, "long")) for _ in range(2))
    for _ in range(3):
        plane.runtime.run_work()
        plane.runtime.turn()
    assert len(plane.broker.partitions.look_room.holders) == 1
    gone.abandon()
    work_all(plane)
    assert not gone.done
    assert waits.response.topics[0].partitions[0].offset == 94


@pytest.mark.parametrize("first", [0, 40])
def test_of_a_batch_that_is_larger_than_all_room_the_header_is_believed(plane: DataPlane, first: int) -> None:
    """Its beginning is told, so that a reader that goes there misses nothing."""
    rising(plane, "large", 95, 1_000, first)
    plane.broker.partitions.look_room.limit_bytes = 50_000
    answers = [ask(plane, asked(1, time, "large")) for time in (NOW_MS + 90, MAX_TIMESTAMP)]
    assert work_all(plane) == 0
    found = [answer.response.topics[0].partitions[0] for answer in answers]
    assert [(one.offset, one.timestamp, one.error_code) for one in found] == [(first, NOW_MS + 94, 0)] * 2


def test_a_log_that_goes_while_it_is_looked_into_is_answered(plane: DataPlane) -> None:
    answer = ask(plane, asked(2, NOW_MS))
    plane.delete("t")
    while plane.runtime.works:
        plane.runtime.run_work()
        plane.runtime.turn()
    codes = [one.error_code for one in answer.response.topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_the_latest_of_many_ever_later_records_is_found_in_one_look(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the latest record of all is deleted, the next latest is looked for: each batch is read once."""
    plane.create("rising")
    partition = plane.partition("rising")
    partition.produce(batch(*[b"x"] * 50, compression=LZ4), NOW_MS, 9)
    rising = [Record(at, NOW_MS - 100 + at, b"k", b"x") for at in range(50)]
    partition.produce(encode_batch(rising, compression=LZ4), NOW_MS, 9)
    partition.delete_records_before(50)
    reads = 0
    read = log_lookup.open_records

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal reads
        reads += 1
        return read(*arguments, **options)

    monkeypatch.setattr(log_lookup, "open_records", counted)
    found = partition.log.offset_of_max_timestamp()
    assert found is not None
    assert (found.offset, found.timestamp) == (99, NOW_MS - 51)
    assert reads == 1


@pytest.mark.parametrize("damage", ["a value", "a key's length", "a record's length"])
def test_a_damaged_record_hides_only_what_comes_after_it(tmp_path: Path, damage: str) -> None:
    """As in Apache Kafka, asked the same with the same bytes on its disk: a flipped value is not looked at."""
    plane = DataPlane(tmp_path)
    plane.create("t")
    log = plane.partition("t").log
    plane.partition("t").produce(
        bytes(encode_batch([Record(at, NOW_MS + at, b"k%d" % at, b"v" * 40) for at in range(5)])), NOW_MS, 9
    )
    path = log.segments[-1].path(".log")
    data = bytearray(path.read_bytes())
    third = data.index(b"k3")
    at, byte = {
        "a value": (third + 10, 0),
        "a key's length": (third - 1, 0x7E),
        "a record's length": (third - 5, 0x7F),
    }[damage]
    data[at] = byte
    with path.open("r+b") as file:
        file.write(data)
    answers = {}
    for wanted in (NOW_MS, NOW_MS + 2, NOW_MS + 3, NOW_MS + 4, MAX_TIMESTAMP):
        (found,) = ask(plane, asked(1, wanted)).topics[0].partitions
        answers[wanted] = ErrorCode(found.error_code), found.offset
    behind = [(ErrorCode.INVALID_RECORD, -1)] * 3
    if damage == "a value":
        behind = [(ErrorCode.NONE, at) for at in (3, 4, 4)]
    assert list(answers.values()) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 2), *behind]
