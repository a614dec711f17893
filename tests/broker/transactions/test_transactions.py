"""Transactions through the whole broker, in virtual time: handlers, coordinator, verification, markers, readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.records.batch_header import read_header
from protocol.records.compression import Compression
from tests.storage.logs import all_bytes
from tests.support.transactions_fixture import TransactionalWhole

if TYPE_CHECKING:
    from collections.abc import Iterator

NONE = ErrorCode.NONE
FENCED, BUSY = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TransactionalWhole]:
    whole = TransactionalWhole(tmp_path)
    whole.create("t", 2)
    yield whole
    whole.stop()


def test_the_topic_is_made_when_somebody_looks_for_a_coordinator(broker: TransactionalWhole):
    """TX16: 15 until it is there; compacted, uncompressed, as many partitions as the setting says."""
    assert broker.find("tx") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.settle()

    assert broker.find("tx") is NONE
    topic = broker.broker.catalogue.image.topic("__transaction_state")
    assert topic.partition_count == 3
    configs = broker.broker.catalogue.configs[2, "__transaction_state"]
    assert (configs["cleanup.policy"], configs["compression.type"]) == ("compact", "uncompressed")


def test_what_is_kept_of_transactions_is_uncompressed(tmp_path: Path):
    """Whatever is said of offsets, as in Kafka."""
    broker = TransactionalWhole(tmp_path, offsets__topic__compression__codec="1")
    broker.create("t")
    broker.add("tx", broker.pair("tx"), "t", 0)
    logs = [broker.broker.partitions.get("__transaction_state", index).log for index in range(3)]
    [header] = [read_header(data) for data in map(all_bytes, logs) if data]
    assert header.compression == Compression.NONE
    broker.stop()


def test_a_committed_transaction_is_read_and_an_aborted_one_is_not(broker: TransactionalWhole):
    """TX72's plain half: read_committed sees nothing before the end, and then all or nothing."""
    pair = broker.pair("tx")
    assert broker.add("tx", pair, "t", 0, 1) == [NONE, NONE]
    assert broker.write("tx", pair, "t", b"a") is NONE
    assert broker.write("tx", pair, "t", b"b", index=1) is NONE
    assert broker.committed_values("t") == []

    assert broker.end("tx", pair, commit=True).error_code == NONE

    assert (broker.committed_values("t"), broker.committed_values("t", 1)) == ([b"a"], [b"b"])
    assert broker.state("tx") == "CompleteCommit"
    broker.add("tx", pair, "t", 0)
    broker.write("tx", pair, "t", b"gone", sequence=1)
    broker.end("tx", pair, commit=False)
    broker.produce("t", b"plain")
    assert broker.committed_values("t") == [b"a", b"plain"]


def test_data_that_the_coordinator_does_not_know_of_is_refused(broker: TransactionalWhole):
    """TX33: 120 for Produce 11, 48 below, 49 and 47 for strangers; TX34: no transactional id."""
    pair = broker.pair("tx")

    assert broker.write("tx", pair, "t", b"x") is ErrorCode.TRANSACTION_ABORTABLE
    assert broker.write("tx", pair, "t", b"x", version=9) is ErrorCode.INVALID_TXN_STATE
    assert broker.write("tx", (pair[0] + 9, 0), "t", b"x") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.write("nobody", pair, "t", b"x") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.write("tx", (pair[0], 5), "t", b"x") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.values("t") == []


def test_a_second_instance_fences_the_first(broker: TransactionalWhole):
    """TX22, TX23: its transaction is aborted, its commit refused, and nothing of it is ever read."""
    zombie = broker.pair("tx")
    broker.add("tx", zombie, "t", 0)
    broker.write("tx", zombie, "t", b"zombie")

    assert broker.init("tx").error_code == BUSY
    broker.settle()
    answer = broker.init("tx")
    assert answer.error_code == NONE

    assert broker.write("tx", zombie, "t", b"again", sequence=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.end("tx", zombie, commit=True).error_code == FENCED
    assert broker.end("tx", zombie, commit=True, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.add("tx", zombie, "t", 0) == [FENCED]
    assert broker.add("tx", zombie, "t", 0, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert broker.committed_values("t") == []
    assert (answer.producer_id, answer.producer_epoch) == (zombie[0], 2)


def test_a_producer_that_goes_away_holds_readers_up_no_longer_than_its_timeout(broker: TransactionalWhole):
    """TX36."""
    pair = broker.pair("tx")
    broker.add("tx", pair, "t", 0)
    broker.write("tx", pair, "t", b"lost")
    broker.produce("t", b"plain")
    assert broker.committed_values("t") == []

    broker.runtime.advance(60_001)
    broker.settle()

    assert broker.state("tx") == "CompleteAbort"
    assert broker.committed_values("t") == [b"plain"]


def test_half_of_a_request_is_none_of_it(broker: TransactionalWhole):
    """TX26: 3 for the unknown one, 55 for the others; TX28: internal topics 29."""
    pair = broker.pair("tx")

    assert broker.add("tx", pair, "t", 0, 7) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert broker.add("tx", pair, "t", -1) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert broker.add("tx", pair, "__transaction_state", 0) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert broker.state("tx") == "Empty"


def test_brokers_ask_for_several_transactions_at_once(broker: TransactionalWhole):
    """4.3: version 5 adds in the name of clients of KIP-890."""
    pair = broker.pair("tx")

    assert broker.add("tx", pair, "t", 1, version=5) == [NONE]
    assert broker.add("nobody", pair, "t", 1, version=5) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_the_offsets_of_a_group_join_by_its_partition(broker: TransactionalWhole):
    """4.4: the group need not exist."""
    pair = broker.pair("tx")
    request = AddOffsetsToTxnRequest(transactional_id="tx", producer_id=pair[0], producer_epoch=pair[1], group_id="g")

    assert broker.ask(request, 3).error_code == NONE

    (topic,) = broker.describe("tx").topics
    assert (topic.topic, topic.partitions) == ("__consumer_offsets", [1])
    assert broker.end("tx", pair, commit=True).error_code == NONE
    assert broker.state("tx") == "CompleteCommit"


def test_a_deleted_topic_does_not_keep_a_transaction_from_its_end(broker: TransactionalWhole):
    """TX39."""
    broker.create("short", 1)
    pair = broker.pair("tx")
    broker.add("tx", pair, "short", 0)
    broker.add("tx", pair, "t", 0)
    broker.write("tx", pair, "t", b"kept")
    broker.delete("short")

    broker.end("tx", pair, commit=True)
    broker.settle()

    assert broker.state("tx") == "CompleteCommit"
    assert broker.committed_values("t") == [b"kept"]


def test_ids_are_listed_and_described(broker: TransactionalWhole):
    """8: filters, patterns of the whole id, and one that is none."""
    pair = broker.pair("tx")
    broker.pair("other")
    broker.add("tx", pair, "t", 0)

    def listed(**filters: object) -> list[str]:
        answer = broker.ask(ListTransactionsRequest(**filters), 2)
        return sorted(one.transactional_id for one in answer.transaction_states)

    assert listed() == ["other", "tx"]
    assert listed(state_filters=["Ongoing"]) == ["tx"]
    assert listed(transactional_id_pattern="t.") == ["tx"]
    assert listed(transactional_id_pattern="t") == []
    answer = broker.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    described = broker.describe("tx")
    assert (described.producer_id, described.producer_epoch, described.transaction_state) == (*pair, "Ongoing")
    assert broker.state("nobody") == "TRANSACTIONAL_ID_NOT_FOUND"


def test_who_may_not_see_an_id_is_not_told_of_it(broker: TransactionalWhole, monkeypatch: pytest.MonkeyPatch):
    """8: listed are ids with DESCRIBE; describing one without is 53."""
    broker.pair("tx")
    monkeypatch.setattr("broker.handlers.transactions.authorize", lambda *_: False)
    monkeypatch.setattr("broker.handlers.transactions.probe", lambda *_: False)

    answer = broker.ask(ListTransactionsRequest(), 2)

    assert (answer.error_code, answer.transaction_states) == (NONE, [])
    assert broker.state("tx") == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


def test_an_id_too_long_for_a_record_is_refused_and_leaves_nothing(broker: TransactionalWhole):
    """Flexible requests can carry it."""
    assert broker.init("x" * 40_000).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert broker.state("x" * 40_000) == "TRANSACTIONAL_ID_NOT_FOUND"


# Clients of KIP-890


def test_the_first_transactional_id_brings_the_cluster_to_version_2_and_clients_are_told(tmp_path: Path):
    """5.1: they choose by the finalized level; those before ApiVersions 4 cannot read a lowest level of 0.

    A directory without transactions stays one that Kafka 3.9 takes over. The level survives, and rises once.
    """
    broker = TransactionalWhole(tmp_path)
    hello = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    before = broker.ask(hello, 3)
    assert [one.name for one in before.finalized_features] == ["metadata.version"]
    broker.pair("tx")
    epoch = broker.ask(hello, 3).finalized_features_epoch
    broker.stop()
    broker = TransactionalWhole(tmp_path)
    assert broker.ask(hello, 3).finalized_features_epoch >= epoch >= 0
    for version in (3, 4):
        answer = broker.ask(hello, version)
        (finalized,) = [one for one in answer.finalized_features if one.name != "metadata.version"]
        assert (finalized.name, finalized.max_version_level, finalized.min_version_level) == (
            "transaction.version",
            2,
            2,
        )
        assert answer.finalized_features_epoch >= 0
        assert [one.name for one in answer.supported_features] == (
            ["group.version", "metadata.version", "transaction.version"] if version >= 4 else ["metadata.version"]
        )


def test_partitions_join_with_the_first_batch_and_the_epoch_rises_with_the_end(broker: TransactionalWhole):
    """TX41, TX43: Produce 12, EndTxn 5; the next transaction begins at sequence 0 under the next epoch."""
    pair = broker.pair("tx")
    for round_number in range(3):
        value = b"%d" % round_number
        assert broker.write("tx", pair, "t", value, version=12) is NONE
        assert broker.write("tx", pair, "t", value, version=12, sequence=1) is NONE
        answer = broker.end("tx", pair, commit=round_number != 1, version=5)
        assert (answer.producer_id, answer.producer_epoch) == (pair[0], pair[1] + 1)
        pair = (answer.producer_id, answer.producer_epoch)

    assert broker.committed_values("t") == [b"0", b"0", b"2", b"2"]
    assert broker.write("tx", (pair[0], pair[1] - 1), "t", b"zombie", version=12) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_gap_is_refused_and_the_partition_is_in_all_the_same(broker: TransactionalWhole):
    """TX42: 45; sequence 0 then works. TX52: an unknown partition is refused alone."""
    pair = broker.pair("tx")

    assert broker.write("tx", pair, "t", b"x", version=12, sequence=5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [topic.partitions for topic in broker.describe("tx").topics] == [[0]]
    assert broker.write("tx", pair, "t", b"x", version=12, index=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.write("tx", pair, "t", b"x", version=12) is NONE


def test_an_abort_of_nothing_is_one(broker: TransactionalWhole):
    """TX46, TX47."""
    pair = broker.pair("tx")

    answer = broker.end("tx", pair, commit=False, version=5)

    assert (answer.error_code, answer.producer_epoch) == (NONE, pair[1] + 1)
    assert broker.state("tx") == "CompleteAbort"


def test_who_writes_while_markers_are_on_their_way_waits_for_them(broker: TransactionalWhole):
    """TX48: for up to 100 ms; then it is told to come again."""
    pair = broker.pair("tx")
    broker.write("tx", pair, "t", b"a", version=12)
    held: list[Any] = []
    write = broker.broker.markers.write
    broker.broker.markers.write = lambda *args: held.append(args)
    answer = broker.end("tx", pair, commit=True, version=5)
    pair = (answer.producer_id, answer.producer_epoch)

    soon = broker.send(broker.produce_request("tx", pair, "t", b"b"), 12)
    broker.runtime.advance(30)
    assert not soon.done
    for args in held:
        write(*args)
    broker.settle()
    broker.runtime.advance(30)
    broker.settle()
    assert soon.response.responses[0].partition_responses[0].error_code == NONE

    held.clear()
    answer = broker.end("tx", pair, commit=True, version=5)
    late = broker.send(broker.produce_request("tx", (pair[0], pair[1] + 1), "t", b"c"), 12)
    broker.runtime.advance(150)
    broker.settle()
    assert late.response.responses[0].partition_responses[0].error_code == BUSY
    for args in held:
        write(*args)
    broker.settle()


def test_both_kinds_of_clients_take_turns(broker: TransactionalWhole):
    """TX53: what Produce 12 opened, EndTxn 3 ends in the same epoch, and the sequence goes on."""
    pair = broker.pair("tx")
    assert broker.write("tx", pair, "t", b"a", version=12) is NONE

    assert broker.end("tx", pair, commit=True, version=3).error_code == NONE

    assert broker.write("tx", pair, "t", b"b", version=12, sequence=1) is NONE
    answer = broker.end("tx", pair, commit=True, version=5)
    assert answer.producer_epoch == pair[1] + 1
    assert broker.committed_values("t") == [b"a", b"b"]


# Restarts


def again(broker: TransactionalWhole) -> TransactionalWhole:
    """SIGKILL, and the next life."""
    broker.forget()
    return TransactionalWhole(broker.directory)


def test_an_open_transaction_survives_a_crash(tmp_path: Path):
    """TX81: Ongoing; the next sequence and the commit succeed."""
    broker = TransactionalWhole(tmp_path)
    broker.create("t", 1)
    pair = broker.pair("tx")
    broker.add("tx", pair, "t", 0)
    broker.write("tx", pair, "t", b"before")

    broker = again(broker)

    assert broker.state("tx") == "Ongoing"
    assert broker.write("tx", pair, "t", b"after", sequence=1) is NONE
    assert broker.end("tx", pair, commit=True).error_code == NONE
    assert broker.committed_values("t") == [b"before", b"after"]
    broker.stop()


def test_a_decision_survives_a_crash_and_is_carried_out(tmp_path: Path):
    """TX82: all markers, Complete, data visible, without any client call."""
    broker = TransactionalWhole(tmp_path)
    broker.create("t", 2)
    pair = broker.pair("tx")
    broker.add("tx", pair, "t", 0, 1)
    broker.write("tx", pair, "t", b"a")
    broker.write("tx", pair, "t", b"b", index=1)
    broker.broker.markers.write = lambda *_: None  # the process dies before any marker
    broker.end("tx", pair, commit=True)
    assert broker.state("tx") == "PrepareCommit"

    broker = again(broker)
    broker.runtime.advance(1_000)  # partitions are recovered behind the start
    broker.settle()

    assert broker.state("tx") == "CompleteCommit"
    assert (broker.committed_values("t"), broker.committed_values("t", 1)) == ([b"a"], [b"b"])
    broker.stop()


def test_a_decision_waits_for_a_partition_that_cannot_be_written(tmp_path: Path):
    """TX40: the marker is written once the partition is back."""
    broker = TransactionalWhole(tmp_path)
    broker.create("t", 1)
    pair = broker.pair("tx")
    broker.add("tx", pair, "t", 0)
    broker.write("tx", pair, "t", b"a")
    write = broker.broker.markers.write
    broker.broker.markers.write = lambda topic, index, marker, done: done(ErrorCode.KAFKA_STORAGE_ERROR)
    broker.end("tx", pair, commit=True)
    assert broker.init("tx").error_code == BUSY

    broker.broker.markers.write = write
    broker.runtime.advance(10_000)
    broker.settle()

    assert broker.state("tx") == "CompleteCommit"
    assert broker.committed_values("t") == [b"a"]
    broker.stop()


def test_a_clean_stop_keeps_everything(tmp_path: Path):
    """TX85: and the retry after it is known."""
    broker = TransactionalWhole(tmp_path)
    broker.create("t", 1)
    pair = broker.pair("tx")
    broker.add("tx", pair, "t", 0)
    broker.end("tx", pair, commit=True)
    assert broker.stop()

    broker = TransactionalWhole(tmp_path)

    assert broker.end("tx", pair, commit=True).error_code == NONE
    assert broker.stop()
