"""Offsets inside of transactions through a whole broker: verification, the log, markers, restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.coordinators.batches import LeaderState
from broker.handlers.context import Deferred, RequestContext
from broker.handlers.offsets import offset_fetch
from broker.handlers.txn_offsets import txn_offset_commit
from broker.loop import logs
from broker.partitions import Marker
from coordinator.routing import partition_for
from protocol.errors import ErrorCode
from protocol.messages import offset_fetch as fetch_api
from protocol.messages import txn_offset_commit as api
from protocol.records.batch import read_header
from tests.storage.logs import all_bytes
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.heard import Heard
from tests.support.whole_broker import Whole

E = ErrorCode
TID, PID, GROUP = "tx", 7, "g"
OFFSETS = "__consumer_offsets"


class Transactional(Whole):
    """A whole broker with a topic `t` and a coordinator that knows what it was told."""

    def __init__(self, directory: Path, **settings: str) -> None:
        super().__init__(directory, **settings)
        self.coordinator = self.broker.verifier.coordinator = FakeCoordinator()
        if self.broker.catalogue.image.topic("t") is None:
            self.create("t", 2)
        self.broker.groups.coordinator_of(GROUP)
        self.runtime.turn()

    def key(self, group: str = GROUP) -> tuple[str, int]:
        return OFFSETS, partition_for(group, 2)

    def begin(self, epoch: int = 0, *, joined: bool = True, pid: int = PID, tid: str = TID) -> None:
        self.coordinator.begin(tid, pid, epoch, *([self.key()] if joined else []))

    def send(
        self,
        offset: int,
        *,
        group: str = GROUP,
        version: int = 5,
        epoch: int = 0,
        partition: int = 0,
        pid: int = PID,
        tid: str = TID,
        topic_id: bytes = bytes(16),
        topic: str = "t",
        **member: Any,
    ) -> Any:
        stored = api.TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata="m"
        )
        request = api.TxnOffsetCommitRequest(
            transactional_id=tid,
            group_id=group,
            producer_id=pid,
            producer_epoch=epoch,
            topics=[api.TxnOffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[stored])],
            **{"member_id": "", **member},
        )
        decoded = type(request).decode(version, request.encode(version))
        return txn_offset_commit(self.broker, RequestContext(version=version), decoded)

    def answer(self, sent: Any) -> ErrorCode | None:
        self.runtime.turn()
        if isinstance(sent, Deferred):
            if not sent.done:
                return None
            sent = sent.response
        return ErrorCode(sent.topics[0].partitions[0].error_code)

    def commit_in_transaction(self, offset: int, **facts: Any) -> ErrorCode | None:
        return self.answer(self.send(offset, **facts))

    def end(self, *, commit: bool = True, epoch: int = 0, group: str = GROUP, pid: int = PID, version: int = 0) -> Any:
        codes: list[ErrorCode] = []
        marker = Marker(pid, epoch, commit, 0, version)
        self.broker.markers.write(OFFSETS, partition_for(group, 2), marker, codes.append)
        self.runtime.turn()
        return codes[0] if codes else None

    def stable(self, group: str = GROUP) -> int | ErrorCode:
        """What a fetch with require_stable says."""
        asked = fetch_api.OffsetFetchRequestGroup(
            group_id=group, topics=[fetch_api.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        )
        request = fetch_api.OffsetFetchRequest(groups=[asked], require_stable=True)
        deferred = offset_fetch(self.broker, RequestContext(version=8), request)
        self.runtime.turn()
        found = deferred.response.groups[0].topics[0].partitions[0]
        return ErrorCode(found.error_code) if found.error_code else int(found.committed_offset)

    def log_of(self, group: str = GROUP) -> Any:
        return self.broker.partitions.get(*self.key(group)).log

    def killed(self, **settings: str) -> Transactional:
        """SIGKILL, and the next life."""
        self.forget()
        self.composition._directories.close()  # only the lock: what is in the files stays as it is
        return Transactional(self.directory, **settings)


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    logs.configure()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Transactional]:
    made = Transactional(tmp_path / "data")
    yield made
    made.forget()


def test_t10_tx70_the_offsets_partition_must_belong_to_the_transaction(broker: Transactional) -> None:
    """Each version with the code that its clients know; from version 5 on the commit adds it."""
    broker.begin(joined=False)
    assert broker.commit_in_transaction(1, version=3) == E.INVALID_TXN_STATE
    assert broker.commit_in_transaction(1, version=4) == E.TRANSACTION_ABORTABLE
    assert broker.stable() == -1
    assert broker.commit_in_transaction(1, version=5) == E.NONE
    assert broker.coordinator.open[TID][2] == {broker.key()}
    assert broker.stable() == E.UNSTABLE_OFFSET_COMMIT


@pytest.mark.parametrize("commit", [True, False])
def test_t01_tx71_offsets_count_with_the_marker(broker: Transactional, commit: bool) -> None:
    assert broker.commit(GROUP, 1) == E.NONE
    broker.begin()
    assert broker.commit_in_transaction(2) == E.NONE
    assert (broker.committed(GROUP), broker.stable()) == (1, E.UNSTABLE_OFFSET_COMMIT)
    assert broker.end(commit=commit) == E.NONE
    assert (broker.committed(GROUP), broker.stable()) == ((2, 2) if commit else (1, 1))


def test_its_batch_is_the_producer_s(broker: Transactional) -> None:
    """Flagged, with id and epoch and always sequence 0; every producer has its own, and the log keeps their state."""
    broker.begin(epoch=3)
    broker.begin(pid=8, tid="other")
    sent = [broker.send(1, epoch=3), broker.send(2, partition=1, epoch=3), broker.send(3, pid=8, tid="other")]
    assert [broker.answer(one) for one in sent] == [E.NONE] * 3
    data, position, headers = all_bytes(broker.log_of()), 0, []
    while position < len(data):
        headers.append(read_header(data, position))
        position += headers[-1].size_bytes
    assert [(one.producer_id, one.producer_epoch, one.base_sequence, one.attributes) for one in headers] == [
        (7, 3, 0, 0x10),
        (7, 3, 0, 0x10),
        (8, 0, 0, 0x10),
    ]
    entries = broker.log_of().producers.entries
    assert [(one.epoch, one.transaction_first_offset) for one in entries.values()] == [(3, 0), (0, 2)]


def test_a_zombie_of_the_producer_is_refused(broker: Transactional) -> None:
    """Its transaction was ended with a higher epoch; and a marker of that ends nothing of the next one."""
    broker.begin()
    assert broker.commit_in_transaction(1) == E.NONE
    assert broker.end(commit=False, epoch=1, version=2) == E.NONE
    assert broker.commit_in_transaction(2) == E.INVALID_PRODUCER_EPOCH
    assert broker.end(epoch=0) == E.INVALID_PRODUCER_EPOCH
    broker.begin(epoch=1)
    assert broker.commit_in_transaction(3, epoch=1) == E.NONE
    assert broker.end(epoch=1, version=2) == E.INVALID_PRODUCER_EPOCH  # T11: late, of the transaction before
    assert broker.stable() == E.UNSTABLE_OFFSET_COMMIT
    assert broker.end(epoch=2, version=2) == E.NONE
    assert broker.end(epoch=2, version=2) == E.NONE  # the answer to the first was lost
    assert broker.stable() == 3


def test_an_answer_from_before_a_marker_lets_nothing_in(broker: Transactional) -> None:
    broker.begin()
    broker.coordinator.silent = True
    sent = broker.send(1, version=4)
    assert broker.end(commit=False) == E.NONE
    broker.coordinator.answer_next()
    assert broker.answer(sent) == E.INVALID_TXN_STATE
    assert broker.stable() == -1


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (E.COORDINATOR_LOAD_IN_PROGRESS, 1, E.COORDINATOR_NOT_AVAILABLE),
        (E.COORDINATOR_LOAD_IN_PROGRESS, 2, E.COORDINATOR_LOAD_IN_PROGRESS),
        (E.NOT_COORDINATOR, 3, E.NOT_COORDINATOR),
        (E.NETWORK_EXCEPTION, 5, E.COORDINATOR_LOAD_IN_PROGRESS),
        (E.CONCURRENT_TRANSACTIONS, 5, E.CONCURRENT_TRANSACTIONS),
        (E.INVALID_PRODUCER_ID_MAPPING, 5, E.INVALID_PRODUCER_ID_MAPPING),
        (E.PRODUCER_FENCED, 5, E.INVALID_PRODUCER_EPOCH),
    ],
)
def test_what_the_coordinator_refuses_is_told(
    broker: Transactional, code: ErrorCode, version: int, told: ErrorCode
) -> None:
    broker.coordinator.refusal = code
    assert broker.commit_in_transaction(1, version=version) == told


@pytest.mark.parametrize(("version", "told"), [(1, E.COORDINATOR_NOT_AVAILABLE), (2, E.COORDINATOR_LOAD_IN_PROGRESS)])
def test_t09_a_partition_that_is_loading_takes_nothing(broker: Transactional, version: int, told: ErrorCode) -> None:
    """And its markers are to be sent again."""
    leader = broker.broker.groups.leader_of(GROUP)
    leader.state = LeaderState.LOADING
    assert broker.commit_in_transaction(1, version=version) == told
    assert broker.end() == E.NOT_LEADER_OR_FOLLOWER
    leader.state = LeaderState.ACTIVE
    assert broker.coordinator.asked == []


def test_topics_that_are_not_there_do_not_reach_the_group(broker: Transactional) -> None:
    """Nothing is asked then; version 6 names topics by their ids."""
    assert broker.commit_in_transaction(1, topic="gone") == E.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.commit_in_transaction(1, partition=9) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.commit_in_transaction(1, version=6, topic_id=b"\1" * 16) == E.UNKNOWN_TOPIC_ID
    assert broker.coordinator.asked == []
    topic_id = broker.broker.catalogue.image.topic("t").topic_id
    broker.begin()
    assert broker.commit_in_transaction(4, version=6, topic_id=topic_id) == E.NONE
    assert broker.end() == E.NONE
    assert broker.stable() == 4
    assert broker.commit_in_transaction(1, group="") == E.INVALID_GROUP_ID
    assert broker.commit_in_transaction(1, pid=-1) == E.INVALID_PRODUCER_ID_MAPPING


def test_everything_behind_a_marker_waits_for_its_commit(tmp_path: Path) -> None:
    """`always`: whoever asks after the marker was appended is answered once it is on the disk."""
    broker = Transactional(tmp_path / "data", kohort__durability="always")
    broker.begin()
    assert broker.commit_in_transaction(2) == E.NONE
    broker.runtime._eager_workers = False
    assert broker.end() is None
    asked = Heard()
    from coordinator.offsets.inputs import FetchOffsets
    from protocol.messages.offset_fetch import OffsetFetchRequestTopics

    wanted = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    broker.broker.groups.leader_of(GROUP).submit(FetchOffsets(GROUP, wanted, True, False, asked))
    broker.runtime.turn()
    assert not asked.done
    broker.runtime.run_works()
    assert asked.response.topics[0].partitions[0].committed_offset == 2
    broker.forget()


def test_a_marker_that_the_disk_refuses_is_answered_and_may_come_again(tmp_path: Path) -> None:
    """A failed fsync: the shard is loaded anew, the offset is pending still, and the next marker ends it."""
    broker = Transactional(tmp_path / "data", kohort__durability="always")
    broker.begin()
    assert broker.commit_in_transaction(2) == E.NONE
    broker.runtime._eager_workers = False
    codes: list[ErrorCode] = []
    broker.broker.markers.write(*broker.key(), Marker(PID, 0, True, 0), codes.append)
    broker.broker.partitions.get(*broker.key()).fail("no")
    assert codes == [E.KAFKA_STORAGE_ERROR]
    assert broker.end() == E.NOT_LEADER_OR_FOLLOWER
    broker.runtime._eager_workers = True
    broker.runtime.advance(5_000)
    assert broker.stable() == E.UNSTABLE_OFFSET_COMMIT
    assert broker.end() == E.NONE
    assert broker.stable() == 2
    broker.forget()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("ended", [None, True, False])
def test_p06_tx80_pending_offsets_outlive_the_broker(tmp_path: Path, clean: bool, ended: bool | None) -> None:
    """Undecided they are pending still, and the marker that the coordinator writes when it loads resolves them."""
    broker = Transactional(tmp_path / "data")
    assert broker.commit(GROUP, 1) == E.NONE
    broker.begin()
    assert broker.commit_in_transaction(2) == E.NONE
    if ended is not None:
        assert broker.end(commit=ended) == E.NONE
    if clean:
        assert broker.stop()
        broker = Transactional(tmp_path / "data")
    else:
        broker = broker.killed()
    if ended is None:
        assert (broker.committed(GROUP), broker.stable()) == (1, E.UNSTABLE_OFFSET_COMMIT)
        broker.begin()
        assert broker.commit_in_transaction(3, partition=1, version=4) == E.NONE
        assert broker.coordinator.asked == []  # the log knows that its transaction is open
        assert broker.end() == E.NONE
    assert broker.stable() == (1 if ended is False else 2)
    broker.forget()


def test_a_deleted_topic_takes_its_pending_offsets(broker: Transactional) -> None:
    broker.begin()
    assert broker.commit_in_transaction(2) == E.NONE
    assert broker.delete("t") == E.NONE
    assert broker.end() == E.NONE
    assert broker.committed(GROUP) == -1
