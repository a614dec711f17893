"""The data plane without sockets: real logs in a folder, handlers called as the connection would, virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from secrets import token_bytes
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from broker.catalogue.producer_ids import ProducerIds
from broker.catalogue.topics_image import Topic, TopicsImage
from broker.config.settings import Settings
from broker.config.topic_configs import effective
from broker.groups.ledger.unread import Unread
from broker.handlers.context import Deferred, RequestContext
from broker.handlers.delete_records import delete_records
from broker.handlers.fetch import fetch
from broker.handlers.list_offsets import list_offsets, offset_for_leader_epoch
from broker.handlers.produce import produce
from broker.partitions import Markers, Partition, Partitions, Verifier
from protocol.messages import delete_records as delete_records_api
from protocol.messages import fetch as fetch_api
from protocol.messages import list_offsets as list_offsets_api
from protocol.messages import offset_for_leader_epoch as epoch_api
from protocol.messages import produce as produce_api
from protocol.records.batch import Record, encode_batch, iterate_headers, iterate_records
from storage.directory.log_directory import LogDirectory
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 1_700_000_000_000


def batch(*values: bytes | None, key: bytes | None = b"k", timestamp: int = NOW_MS, **facts: Any) -> bytes:
    """One batch as a producer sends it: a record per value."""
    records = [Record(at, timestamp, key, value) for at, value in enumerate(values)]
    return bytes(encode_batch(records, **facts))


def in_a_frame(records: bytes | None) -> memoryview | None:
    """As a connection gives it: a part of what came."""
    return None if records is None else memoryview(bytes(100) + records)[100:]


def marker(producer_id: int, epoch: int = 0, *, commit: bool, coordinator_epoch: int = 0) -> bytearray:
    """A transaction marker, as a coordinator would have it written."""
    key = b"\0\0\0\1" if commit else b"\0\0\0\0"
    value = b"\0\0" + coordinator_epoch.to_bytes(4, "big")
    return encode_batch(
        [Record(0, NOW_MS, key, value)],
        producer_id=producer_id,
        producer_epoch=epoch,
        transactional=True,
        control=True,
    )


def answered(deferred: Any) -> tuple[int, int] | None:
    """Error code and base offset of a produce that was not answered at once; None while it is not."""
    assert isinstance(deferred, Deferred)
    if not deferred.done:
        return None
    result = deferred.response.responses[0].partition_responses[0]
    return result.error_code, result.base_offset


@dataclass
class Got:
    """What one partition of a fetch brought."""

    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]] | None
    data: bytes

    @property
    def values(self) -> list[bytes | None]:
        found = []
        for position, header in iterate_headers(self.data):
            if not header.is_control:
                found += [record.value for record in iterate_records(self.data, position)]
        return found

    @property
    def base_offsets(self) -> list[int]:
        return [header.base_offset for _, header in iterate_headers(self.data)]


class FakeCatalogue:
    """Topics without a metadata log."""

    def __init__(self) -> None:
        self.image = TopicsImage()
        self.next_id = 0
        self.fail_ids = False

    def allocate_producer_ids(self, answer: Any) -> None:
        if self.fail_ids:
            answer(SimpleNamespace(error=56, value=None))
            return
        block = range(self.next_id, self.next_id + 1_000)
        self.next_id = block.stop
        answer(SimpleNamespace(error=0, value=block))


class DataPlane:
    """A broker's partitions and handlers over the logs in `directory`."""

    def __init__(
        self,
        directory: Path,
        broker_configs: dict[str, str] | None = None,
        *,
        eager_workers: bool = True,
        runtime: VirtualRuntime | None = None,
        **facts: Any,
    ) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.runtime = runtime or VirtualRuntime(NOW_MS, eager_workers=eager_workers)
        self.broker_configs = broker_configs or {}
        self.catalogue = FakeCatalogue()
        self.settings = Settings({"log.dirs": str(directory)})
        self.partitions = Partitions(
            self.runtime, directory, lambda topic: effective(topic.configs, self.broker_configs), **facts
        )
        self.broker: Any = SimpleNamespace(
            runtime=self.runtime,
            partitions=self.partitions,
            catalogue=self.catalogue,
            settings=self.settings,
            producer_ids=ProducerIds(self.catalogue.allocate_producer_ids),
            verifier=Verifier(self.runtime, self.partitions, self.settings),
            markers=Markers(self.runtime, self.partitions),
            ledger=SimpleNamespace(unread=Unread(self.runtime, lambda event: None)),
        )

    # -- topics --------------------------------------------------------------------------------------------

    def create(self, name: str, partitions: int = 1, **configs: str) -> Topic:
        """A new topic; config names have `_` for `.`."""
        topic_id = (len(name).to_bytes(2, "big") + name.encode()).ljust(16, b"\1")[:16]
        named = {key.replace("_", "."): value for key, value in configs.items()}
        topic = Topic(name, topic_id, (0,) * partitions, named)
        self.publish(topic, name)
        return topic

    def publish(self, topic: Topic | None, name: str) -> None:
        """What `broker.partitions.folders` does with a change."""
        folders = LogDirectory(self.directory, -1)
        if topic is not None:
            folders.create_folders({(name, index): topic.topic_id for index in range(topic.partition_count)})
        gone = self.catalogue.image.topic(name) if topic is None else None
        self.catalogue.image = self.catalogue.image.with_changes({name: topic})
        self.partitions.topics_changed([name], self.catalogue.image)
        indexes = range(gone.partition_count if gone is not None else 0)
        self.partitions.checkpoints.forget([(name, index) for index in indexes])
        for index in indexes:
            folders.retire(name, index, unique=token_bytes(16))

    def configure(self, name: str, **configs: str) -> None:
        before = self.catalogue.image.topic(name)
        assert before is not None
        named = {key.replace("_", "."): value for key, value in configs.items()}
        after = Topic(name, before.topic_id, before.leader_epochs, named)
        self.publish(after, name)

    def delete(self, name: str) -> None:
        self.publish(None, name)

    def partition(self, name: str, index: int = 0) -> Partition:
        found = self.partitions.get(name, index)
        assert found is not None
        return found

    # -- requests ------------------------------------------------------------------------------------------

    def produce_request(
        self, name: str, *batches: bytes | None, acks: int = -1, version: int = 9, timeout_ms: int = 1_000, **facts: Any
    ) -> Any:
        """The handler's return for one batch per partition, 0 and on."""
        request = produce_api.ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                produce_api.TopicProduceData(
                    name=name,
                    topic_id=facts.pop("topic_id", bytes(16)),
                    partition_data=[
                        produce_api.PartitionProduceData(index=at, records=in_a_frame(records))
                        for at, records in enumerate(batches)
                    ],
                )
            ],
            **facts,
        )
        return produce(self.broker, RequestContext(version=version), request)

    def produce(self, name: str, records: bytes | None, **facts: Any) -> Any:
        """The answer for one batch to partition 0."""
        response = self.answer(self.produce_request(name, records, **facts))
        return response.responses[0].partition_responses[0]

    def fetch_request(
        self,
        name: str,
        *offsets: int,
        version: int = 11,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 52_428_800,
        isolation_level: int = 0,
        topic_id: bytes = bytes(16),
        session_id: int = 0,
        session_epoch: int = -1,
        forgotten: list[int] | None = None,
        **facts: Any,
    ) -> Any:
        """The handler's return for a fetch of partitions 0 and on."""
        facts.setdefault("partition_max_bytes", 1_048_576)
        topics = [
            fetch_api.FetchTopic(
                topic=name,
                topic_id=topic_id,
                partitions=[
                    fetch_api.FetchPartition(partition=at, fetch_offset=offset, **facts)
                    for at, offset in enumerate(offsets)
                ],
            )
        ]
        request = fetch_api.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=topics if offsets else [],
            forgotten_topics_data=[fetch_api.ForgottenTopic(topic=name, topic_id=topic_id, partitions=forgotten)]
            if forgotten
            else [],
        )
        return fetch(self.broker, RequestContext(version=version), request)

    def fetch(self, name: str, *offsets: int, **facts: Any) -> list[Got]:
        """What the partitions brought."""
        return got(self.answer(self.fetch_request(name, *offsets, **facts)))

    def list_offset(
        self, name: str, timestamp: int, *, version: int = 10, isolation_level: int = 0, **facts: Any
    ) -> Any:
        request = list_offsets_api.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                list_offsets_api.ListOffsetsTopic(
                    name=name,
                    partitions=[list_offsets_api.ListOffsetsPartition(partition_index=0, timestamp=timestamp, **facts)],
                )
            ],
        )
        answer = self.answer(list_offsets(self.broker, RequestContext(version=version), request))
        return answer.topics[0].partitions[0]

    def delete_records(self, name: str, offset: int, index: int = 0) -> tuple[int, int]:
        """(error, low watermark)."""
        request = delete_records_api.DeleteRecordsRequest(
            timeout_ms=0,
            topics=[
                delete_records_api.DeleteRecordsTopic(
                    name=name,
                    partitions=[delete_records_api.DeleteRecordsPartition(partition_index=index, offset=offset)],
                )
            ],
        )
        result = delete_records(self.broker, RequestContext(version=2), request).topics[0].partitions[0]
        return result.error_code, result.low_watermark

    def epoch_end(self, name: str, epoch: int, current: int = -1) -> Any:
        request = epoch_api.OffsetForLeaderEpochRequest(
            topics=[
                epoch_api.OffsetForLeaderTopic(
                    topic=name,
                    partitions=[
                        epoch_api.OffsetForLeaderPartition(
                            partition=0, leader_epoch=epoch, current_leader_epoch=current
                        )
                    ],
                )
            ]
        )
        return offset_for_leader_epoch(self.broker, RequestContext(version=4), request).topics[0].partitions[0]

    def answer(self, returned: Any) -> Any:
        """The response, once the turn has ended."""
        if isinstance(returned, Deferred):
            self.runtime.turn()
            assert returned.done, "the request is still waiting"
            return returned.response
        return returned


def got(response: Any) -> list[Got]:
    """The partitions of a fetch response."""
    assert response.error_code == 0
    return [
        Got(
            data.error_code,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            None
            if data.aborted_transactions is None
            else [(aborted.producer_id, aborted.first_offset) for aborted in data.aborted_transactions],
            b"".join(bytes(part) for part in data.records) if isinstance(data.records, list) else bytes(data.records),
        )
        for topic in response.responses
        for data in topic.partitions
    ]
