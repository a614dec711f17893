"""Produce: what is taken, what is refused and with which code, and when the answer leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.handlers.context import CloseConnection, Deferred
from protocol.errors import ErrorCode
from protocol.records.batch import read_header, verify
from protocol.records.batch_header import write_crc
from tests.support.data_plane import NOW_MS, DataPlane, batch

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    made = DataPlane(tmp_path / "data")
    made.create("t")
    return made


def changed(records: bytes, at: int, value: bytes) -> bytes:
    """A batch with some header bytes changed and its CRC right again."""
    out = bytearray(records)
    out[at : at + len(value)] = value
    write_crc(out)
    return bytes(out)


def test_a_batch_is_stored_and_answered_with_its_offset(plane: DataPlane) -> None:
    """The answer has the base offset, no time of ours, and the log start."""
    plane.produce("t", batch(b"a", b"b"))
    result = plane.produce("t", batch(b"c"))
    assert (result.error_code, result.base_offset, result.log_append_time_ms, result.log_start_offset) == (0, 2, -1, 0)
    assert plane.fetch("t", 0)[0].values == [b"a", b"b", b"c"]


def test_the_broker_writes_base_offset_and_leader_epoch_only(plane: DataPlane) -> None:
    """Both lie outside the CRC: the producer's stays right."""
    sent = batch(b"a")
    plane.produce("t", batch(b"x"))
    plane.produce("t", sent)
    stored = plane.fetch("t", 1)[0].data
    assert read_header(stored)._replace(base_offset=0, leader_epoch=-1) == read_header(sent)
    assert read_header(stored).leader_epoch == 0
    assert stored[16:] == sent[16:]


@pytest.mark.parametrize("acks", [1, -1])
def test_acks_1_and_all_mean_the_same_on_one_node(plane: DataPlane, acks: int) -> None:
    assert plane.produce("t", batch(b"a"), acks=acks).base_offset == 0


def test_acks_0_gets_no_answer(plane: DataPlane) -> None:
    """Trap 14."""
    assert plane.produce_request("t", batch(b"a"), acks=0) is None
    assert plane.fetch("t", 0)[0].values == [b"a"]


def test_acks_0_with_an_error_closes_the_connection(plane: DataPlane) -> None:
    with pytest.raises(CloseConnection):
        plane.produce_request("unknown", batch(b"a"), acks=0)


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_other_acks_are_refused(plane: DataPlane, acks: int) -> None:
    result = plane.produce("t", batch(b"a"), acks=acks)
    assert (result.error_code, result.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert plane.partition("t").log_end_offset == 0


def _other_magic() -> bytes:
    return changed(batch(b"a"), 16, b"\1")


def _cut_off() -> bytes:
    return batch(b"a" * 50)[:-1]


REFUSED: dict[str, tuple[bytes | None, int]] = {
    "no records": (None, ErrorCode.INVALID_RECORD),
    "empty": (b"", ErrorCode.INVALID_RECORD),
    "half a header": (batch(b"a")[:40], ErrorCode.INVALID_RECORD),
    "cut off": (_cut_off(), ErrorCode.INVALID_RECORD),
    "magic 1": (_other_magic(), ErrorCode.INVALID_RECORD),
    "magic 3": (changed(batch(b"a"), 16, b"\3"), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
    "a base offset": (
        batch(b"a", b"b")[:0] + changed(batch(b"a"), 0, (7).to_bytes(8, "big")),
        ErrorCode.INVALID_RECORD,
    ),
    "a bad CRC": (batch(b"abc")[:-3] + b"axc", ErrorCode.CORRUPT_MESSAGE),
    "a size below a header": (changed(batch(b"a"), 8, (20).to_bytes(4, "big")), ErrorCode.CORRUPT_MESSAGE),
    "a count that is not there": (changed(batch(b"a"), 57, (2).to_bytes(4, "big")), ErrorCode.INVALID_RECORD),
    "no record in it": (changed(batch(b"a"), 57, (0).to_bytes(4, "big")), ErrorCode.INVALID_RECORD),
    "a control batch": (batch(b"a", control=True), ErrorCode.INVALID_RECORD),
    "codec 5": (changed(batch(b"a"), 22, b"\5"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "too large": (batch(b"a" * 2_000), ErrorCode.MESSAGE_TOO_LARGE),
    "time type of the broker's, and no time": (batch(b"a", log_append_time_ms=-1), ErrorCode.INVALID_TIMESTAMP),
    "the broker's time ahead": (batch(b"a", log_append_time_ms=NOW_MS + 7_200_000), ErrorCode.INVALID_TIMESTAMP),
    "two hours ahead": (batch(b"a", timestamp=NOW_MS + 7_200_000), ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_bad_batch_is_refused_and_nothing_appended(tmp_path: Path, what: str) -> None:
    """BI07."""
    plane = DataPlane(tmp_path / "data")
    plane.create("t", max_message_bytes="1000")
    records, code = REFUSED[what]
    result = plane.produce("t", records)
    assert (ErrorCode(result.error_code), result.base_offset) == (code, -1)
    assert result.error_message
    assert plane.partition("t").log_end_offset == 0


def test_one_bad_partition_leaves_its_neighbours_alone(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path / "data")
    plane.create("t", partitions=2)
    response = plane.produce_request("t", batch(b"a"), batch(b"b")[:-1], batch(b"c"))
    codes = [result.error_code for result in response.responses[0].partition_responses]
    assert codes == [0, ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_records_whose_offsets_are_not_in_order_are_refused(plane: DataPlane) -> None:
    """The records of an uncompressed batch are walked: offset deltas must be 0, 1, ..."""
    from protocol.records.batch import Record, encode_batch

    records = encode_batch([Record(0, NOW_MS, None, b"a"), Record(2, NOW_MS, None, b"b")], last_offset=1)
    assert plane.produce("t", bytes(records)).error_code == ErrorCode.INVALID_RECORD


def test_zstd_needs_version_7(plane: DataPlane) -> None:
    """Older clients could not read it back."""
    records = batch(b"a" * 100, compression=4)
    assert plane.produce("t", records, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert plane.produce("t", records, version=7).error_code == 0


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_batch_is_kept_as_it_was_compressed(plane: DataPlane, codec: int) -> None:
    sent = batch(b"a" * 100, b"b" * 100, compression=codec)
    assert plane.produce("t", sent).error_code == 0
    assert plane.fetch("t", 0)[0].data[16:] == sent[16:]


@pytest.mark.parametrize(("name", "codec"), [("uncompressed", 0), ("gzip", 1), ("lz4", 3), ("zstd", 4)])
def test_a_topic_with_a_codec_of_its_own_compresses_anew(tmp_path: Path, name: str, codec: int) -> None:
    plane = DataPlane(tmp_path / "data")
    plane.create("t", compression_type=name)
    plane.produce("t", batch(b"a" * 100, b"b", compression=2, producer_id=5, producer_epoch=0, base_sequence=0))
    found = plane.fetch("t", 0)[0]
    header = read_header(found.data)
    assert (header.compression, header.producer_id, header.base_sequence) == (codec, 5, 0)
    assert found.values == [b"a" * 100, b"b"]


def test_log_append_time_gives_every_record_the_brokers_time(tmp_path: Path) -> None:
    """The answer has the time too, and the CRC is right again."""
    plane = DataPlane(tmp_path / "data")
    plane.create("t", message_timestamp_type="LogAppendTime")
    assert plane.produce("t", batch(b"a", timestamp=1)).log_append_time_ms == NOW_MS
    header = read_header(plane.fetch("t", 0)[0].data)
    assert (header.is_log_append_time, header.max_timestamp) == (True, NOW_MS)


def test_a_producer_that_calls_its_time_the_brokers_is_taken_at_its_word(tmp_path: Path) -> None:
    """Where producers' times count: the record has the batch's time, and the log calls it the producer's, as Kafka."""
    plane = DataPlane(tmp_path / "data")
    plane.create("t")
    plane.create("gzip", compression_type="gzip")
    plane.create("stamped", message_timestamp_type="LogAppendTime")
    stamped = batch(b"a", timestamp=NOW_MS - 9_000, log_append_time_ms=NOW_MS - 500)
    for topic in ("t", "gzip"):
        result = plane.produce(topic, stamped)
        assert (result.error_code, result.log_append_time_ms) == (0, -1)
        data = plane.fetch(topic, 0)[0].data
        header = read_header(data)
        verify(data)
        assert (header.is_log_append_time, header.max_timestamp) == (False, NOW_MS - 500)
    assert plane.produce("stamped", stamped).error_code == ErrorCode.INVALID_TIMESTAMP


def test_old_timestamps_are_taken_unless_the_topic_limits_them(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path / "data")
    plane.create("t")
    plane.create("limited", message_timestamp_before_max_ms="1000")
    old = batch(b"a", timestamp=9_999_999)
    assert plane.produce("t", old).error_code == 0
    result = plane.produce("limited", old)
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in result.record_errors] == [0]
    assert plane.produce("limited", batch(b"a", timestamp=-1)).error_code == 0


def test_a_timestamp_beyond_64_bits_is_refused(tmp_path: Path) -> None:
    """Base timestamp and delta may add up to more than a header can hold, whatever the topic allows."""
    from protocol.records.batch import Record, encode_batch

    plane = DataPlane(tmp_path / "data")
    plane.create("t", message_timestamp_after_max_ms=str(2**63 - 1))
    records = [Record(0, 0, None, b"a"), Record(1, 50, None, b"b")]
    shifted = changed(bytes(encode_batch(records)), 27, (2**63 - 10).to_bytes(8, "big"))
    assert plane.produce("t", shifted).error_code == ErrorCode.INVALID_TIMESTAMP


def test_a_compacted_topic_names_the_records_without_a_key(tmp_path: Path) -> None:
    """Trap 12: INVALID_RECORD, and which records; the whole batch is refused, compressed or not."""
    from protocol.records.batch import Record, encode_batch

    plane = DataPlane(tmp_path / "data")
    plane.create("t", cleanup_policy="compact")
    records = [Record(0, NOW_MS, b"k", b"a"), Record(1, NOW_MS, None, b"b"), Record(2, NOW_MS, None, b"c")]
    for codec in (0, 2):
        result = plane.produce("t", bytes(encode_batch(records, compression=codec)))
        assert result.error_code == ErrorCode.INVALID_RECORD
        assert [error.batch_index for error in result.record_errors] == [1, 2]
        assert all(error.batch_index_error_message for error in result.record_errors)
    assert plane.produce("t", batch(b"a")).error_code == 0


def test_a_record_that_is_long_when_it_is_decompressed_is_refused(tmp_path: Path) -> None:
    """Of a compressed batch, as in Kafka; whoever trusts the topic's producers is believed in nothing else."""
    from protocol.records.batch import Record, encode_batch

    plane = DataPlane(tmp_path / "data")
    plane.create("t", max_decompressed_message_bytes="107")
    for codec, length, code in ((0, 200, 0), (2, 100, 0), (2, 101, ErrorCode.INVALID_RECORD)):
        records = [Record(0, NOW_MS, None, b"a"), Record(1, NOW_MS, None, b"b" * length)]
        assert plane.produce("t", bytes(encode_batch(records, compression=codec))).error_code == code


def test_a_max_timestamp_that_lies_is_mended(plane: DataPlane) -> None:
    """Time look-ups believe the header."""
    lying = changed(batch(b"a", timestamp=NOW_MS), 35, (NOW_MS + 50).to_bytes(8, "big"))
    plane.produce("t", lying)
    assert read_header(plane.fetch("t", 0)[0].data).max_timestamp == NOW_MS
    assert plane.list_offset("t", NOW_MS + 1).offset == -1


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_clients_cannot_write_internal_topics(tmp_path: Path, name: str) -> None:
    plane = DataPlane(tmp_path / "data")
    plane.create(name)
    assert plane.produce(name, batch(b"a")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_topics_go_by_id_from_version_13(plane: DataPlane) -> None:
    topic = plane.catalogue.image.topic("t")
    assert topic is not None
    assert plane.produce("", batch(b"a"), version=13, topic_id=topic.topic_id).error_code == 0
    assert plane.produce("", batch(b"a"), version=13, topic_id=b"?" * 16).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_transactional_batches_are_refused_in_words(plane: DataPlane) -> None:
    """Without a transaction coordinator a batch that nobody could end must not get into the log."""
    records = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    result = plane.produce("t", records)
    assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    result = plane.produce("t", records, transactional_id="tx")
    assert result.error_code == ErrorCode.INVALID_TXN_STATE
    assert "coordinates no transactions" in result.error_message
    assert plane.partition("t").log_end_offset == 0


# -- idempotent producers: scenarios of docs/scenarios/transactions.md -------------------------------------------------


def sent(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> bytes:
    return batch(*[b"v"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def outcome(plane: DataPlane, records: bytes) -> tuple[int, int]:
    result = plane.produce("t", records)
    return result.error_code, result.base_offset


def test_a_repeated_batch_is_answered_with_its_first_offset(plane: DataPlane) -> None:
    """TX02."""
    assert outcome(plane, sent(0, 3)) == (0, 0)
    assert outcome(plane, sent(0, 3)) == (0, 0)
    assert plane.partition("t").log_end_offset == 3


def test_five_batches_are_remembered(plane: DataPlane) -> None:
    """TX03, trap 13."""
    for sequence in range(6):
        assert outcome(plane, sent(sequence)) == (0, sequence)
    assert outcome(plane, sent(1)) == (0, 1)
    assert outcome(plane, sent(0)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def test_a_part_of_a_batch_is_no_duplicate(plane: DataPlane) -> None:
    """TX04."""
    plane.produce("t", sent(0, 3))
    assert outcome(plane, sent(0, 2)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def test_a_gap_is_refused_and_changes_nothing(plane: DataPlane) -> None:
    """TX05."""
    plane.produce("t", sent(0, 3))
    refused = plane.produce("t", sent(5))
    assert (refused.error_code, refused.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert refused.log_start_offset == 0  # the log was asked, so it says where it begins
    assert plane.produce("t", batch(b"a" * 2_000_000)).log_start_offset == -1
    assert outcome(plane, sent(3)) == (0, 3)


def test_a_new_epoch_starts_at_zero_and_fences_the_old(plane: DataPlane) -> None:
    """TX06."""
    plane.produce("t", sent(0))
    assert outcome(plane, sent(5, epoch=1)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert outcome(plane, sent(0, epoch=1)) == (0, 1)
    assert outcome(plane, sent(1)) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


def test_an_unknown_producer_may_start_anywhere(plane: DataPlane) -> None:
    """TX07."""
    assert outcome(plane, sent(7)) == (0, 0)


def test_sequences_wrap(plane: DataPlane) -> None:
    """TX08."""
    assert outcome(plane, sent(2**31 - 2, 3)) == (0, 0)
    assert outcome(plane, sent(1)) == (0, 3)


def test_a_producer_id_without_a_sequence_is_refused(plane: DataPlane) -> None:
    """TX09."""
    assert outcome(plane, sent(-1)) == (ErrorCode.INVALID_RECORD, -1)


def test_batches_after_a_refused_one_are_refused_until_the_client_resends(plane: DataPlane) -> None:
    """TX10."""
    refused = [outcome(plane, sent(sequence))[0] for sequence in (0,)]
    plane.configure("t", max_message_bytes="100")
    big = batch(b"v" * 200, producer_id=7, producer_epoch=0, base_sequence=1)
    refused += [outcome(plane, big)[0], outcome(plane, sent(2))[0], outcome(plane, sent(3))[0]]
    assert refused == [0, ErrorCode.MESSAGE_TOO_LARGE, 45, 45]
    assert [outcome(plane, sent(sequence)) for sequence in (1, 2, 3)] == [(0, 1), (0, 2), (0, 3)]


def test_the_last_batch_is_known_after_a_crash(plane: DataPlane) -> None:
    """TX11."""
    plane.produce("t", sent(0, 3))
    again = DataPlane(plane.directory, clean=False)
    topic = plane.catalogue.image.topic("t")
    assert topic is not None
    again.create("t")
    assert outcome(again, sent(0, 3)) == (0, 0)
    assert outcome(again, sent(3)) == (0, 3)


def test_records_deleted_do_not_make_a_producer_unknown(plane: DataPlane) -> None:
    """TX15."""
    plane.produce("t", sent(0, 3))
    assert plane.delete_records("t", -1) == (0, 3)
    assert outcome(plane, sent(5)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert outcome(plane, sent(3)) == (0, 3)


# -- durability --------------------------------------------------------------------------------------------------------


def durable(tmp_path: Path, **configs: Any) -> DataPlane:
    plane = DataPlane(tmp_path / "data", eager_workers=False)
    plane.create("t", flush_messages="1", **configs)
    plane.create("u", flush_messages="1")
    return plane


def test_with_durability_always_the_answer_waits_for_the_fsync(tmp_path: Path) -> None:
    """Neither producer nor consumer sees the record before."""
    plane = durable(tmp_path)
    returned = plane.produce_request("t", batch(b"a"))
    assert isinstance(returned, Deferred)
    plane.runtime.turn()
    assert not returned.done
    assert (plane.fetch("t", 0)[0].high_watermark, plane.fetch("t", 0)[0].values) == (0, [])
    plane.runtime.run_work()
    assert returned.done
    assert returned.response.responses[0].partition_responses[0].base_offset == 0
    assert plane.fetch("t", 0)[0].values == [b"a"]


def test_one_fsync_serves_all_that_came_before_it(tmp_path: Path) -> None:
    """Group commit: while one fsync runs, the next one collects."""
    plane = durable(tmp_path)
    first = [plane.produce_request("t", batch(b"a")) for _ in range(3)]
    plane.runtime.turn()
    second = [plane.produce_request("t", batch(b"b")) for _ in range(3)]
    plane.runtime.turn()
    assert len(plane.runtime.works) == 1
    plane.runtime.run_work()
    assert [returned.done for returned in first + second] == [True] * 3 + [False] * 3
    assert len(plane.runtime.works) == 1
    plane.runtime.run_work()
    assert all(returned.done for returned in second)
    assert not plane.runtime.works


def test_partitions_share_a_worker(tmp_path: Path) -> None:
    plane = durable(tmp_path)
    returned = [plane.produce_request(name, batch(b"a")) for name in ("t", "u")]
    plane.runtime.turn()
    assert len(plane.runtime.works) == 1
    plane.runtime.run_work()
    assert all(one.done for one in returned)


def test_a_duplicate_waits_for_the_fsync_of_the_first(tmp_path: Path) -> None:
    """Answered earlier it would promise what is not durable."""
    plane = durable(tmp_path)
    returned = [plane.produce_request("t", sent(0)) for _ in range(2)]
    plane.runtime.turn()
    assert [one.done for one in returned] == [False, False]
    plane.runtime.run_work()
    assert [one.response.responses[0].partition_responses[0].base_offset for one in returned] == [0, 0]


def test_an_answer_that_takes_too_long_says_so(tmp_path: Path) -> None:
    plane = durable(tmp_path)
    returned = plane.produce_request("t", batch(b"a"), timeout_ms=50)
    plane.runtime.advance(49)
    assert not returned.done
    plane.runtime.advance(1)
    result = returned.response.responses[0].partition_responses[0]
    assert (result.error_code, result.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    plane.runtime.run_work()
    assert plane.partition("t").high_watermark == 1


def test_flush_messages_2_holds_back_every_second_record(tmp_path: Path) -> None:
    """At most `flush.messages` - 1 records are ever committed without an fsync."""
    plane = DataPlane(tmp_path / "data", eager_workers=False)
    plane.create("t", flush_messages="2")
    assert not isinstance(plane.produce_request("t", batch(b"a")), Deferred)
    second = plane.produce_request("t", batch(b"b"))
    assert isinstance(second, Deferred)
    plane.runtime.turn()
    plane.runtime.run_work()
    assert second.done
    assert plane.partition("t").high_watermark == 2


def test_a_config_change_to_os_commits_what_waits(tmp_path: Path) -> None:
    plane = durable(tmp_path)
    returned = plane.produce_request("t", batch(b"a"))
    plane.configure("t", flush_messages=str(2**63 - 1))
    assert returned.done


def test_a_failed_fsync_is_a_storage_error_and_the_log_is_loaded_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was refused is gone, the broker lives on, and says meanwhile that it is not ready."""
    plane = durable(tmp_path)
    good = plane.produce_request("t", batch(b"good"))
    plane.runtime.turn()
    plane.runtime.run_work()
    assert good.done
    partition = plane.partition("t")
    bad = plane.produce_request("t", batch(b"bad"))
    with monkeypatch.context() as patch:
        patch.setattr(partition.log.state.disk, "fdatasync", _refuse)
        plane.runtime.turn()
        plane.runtime.run_work()
    assert bad.response.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.produce("t", batch(b"c")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.fetch("t", 0)[0].error == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.partitions.not_ready
    recovered: list[Any] = []
    plane.partitions.on_recovered.append(recovered.append)
    plane.runtime.advance(1_000)
    plane.runtime.run_works()
    assert recovered == [partition]
    assert plane.partitions.not_ready is None
    assert plane.fetch("t", 0)[0].values == [b"good"]
    later = plane.produce_request("t", batch(b"later"))
    plane.runtime.turn()
    plane.runtime.run_work()
    assert later.response.responses[0].partition_responses[0].base_offset == 1


def test_after_a_failed_fsync_what_was_acknowledged_is_written_again(
    plane: DataPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache may call pages clean that never reached the disk: only a new write makes a new fsync mean anything."""
    plane.produce("t", batch(b"acknowledged"))
    partition = plane.partition("t")
    disk = partition.log.state.disk
    with monkeypatch.context() as patch:
        patch.setattr(disk, "fdatasync", _refuse)
        plane.partitions.flush(partition)
        plane.runtime.turn()
    assert plane.produce("t", batch(b"refused")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    written: list[int] = []
    real = disk.pwrite
    monkeypatch.setattr(disk, "pwrite", lambda fd, data, at: written.append(len(data)) or real(fd, data, at))
    plane.runtime.advance(1_000)
    assert sum(written) >= len(batch(b"acknowledged"))
    assert plane.fetch("t", 0)[0].values == [b"acknowledged"]
    plane.partitions.flush(partition)
    plane.runtime.turn()
    assert partition.log.recovery_point == 1


def _refuse(_: int) -> None:
    raise OSError(5, "Input/output error")


def test_a_full_disk_refuses_the_batch_and_the_log_goes_on(plane: DataPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """BI08: the log is as before; the next batch is taken when there is room again."""
    plane.produce("t", batch(b"a"))

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(plane.partition("t").log.state.disk, "pwrite", full)
        assert plane.produce("t", batch(b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "No space left" in str(plane.partitions.not_ready)
    assert plane.produce("t", batch(b"c")).base_offset == 1
    assert plane.fetch("t", 0)[0].values == [b"a", b"c"]
    plane.runtime.advance(10_000)
    assert plane.partitions.not_ready is None
