"""A whole broker in this process, in virtual time, on a directory; asked through its group leaders and partitions."""

from __future__ import annotations

import gc
import io
from pathlib import Path
from typing import Any

from broker.catalogue.requests import Result
from broker.catalogue.topic_changes import NewTopic
from broker.composition import Composition
from broker.config.settings import Settings
from broker.loop import logs
from coordinator.offsets.inputs import CommitOffsets, FetchOffsets
from coordinator.routing import partition_for
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequestTopics
from tests.storage.logs import pairs
from tests.support.data_plane import batch
from tests.support.heard import Heard
from tests.support.virtual_runtime import VirtualRuntime

SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "kohort.ledger.enable": "false",
    "log.cleaner.backoff.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}


class Whole:
    """One life of a broker. Its log lines are in `log`."""

    def __init__(self, directory: Path, *, now_ms: int = 1_700_000_000_000, **settings: str) -> None:
        self.directory = directory
        self.log = io.StringIO()
        logs.configure(level="info", stream=self.log)
        self.runtime = VirtualRuntime(now_ms)
        own = {key.replace("__", "."): value for key, value in settings.items()}
        given = {**SETTINGS, "log.dirs": str(directory), **own}
        self.composition = Composition.open(Settings(given), self.runtime, [("PLAINTEXT", "localhost", 9092)])
        self.broker = self.composition.broker
        self.composition.start()
        self.runtime.turn()

    def create(self, name: str, partitions: int = 1, **configs: str) -> ErrorCode:
        """Create a topic; underscores of a config's name stand for its dots."""
        results: list[Result] = []
        given = {key.replace("_", "."): value for key, value in configs.items()}
        self.broker.catalogue.create_topic(NewTopic(name, partitions, configs=given), results.append)
        self.runtime.turn()
        return results[0].error

    def delete(self, name: str) -> ErrorCode:
        results: list[Result] = []
        self.broker.catalogue.delete_topic(results.append, name=name)
        self.runtime.turn()
        return results[0].error

    def produce(self, topic: str, value: bytes, key: bytes = b"k", **facts: Any) -> int:
        """Append one record; its offset once it is committed. Raises: KafkaError."""
        partition = self.broker.partitions.get(topic, 0)
        assert partition is not None
        info = partition.produce(
            batch(value, key=key, timestamp=self.runtime.now_ms(), **facts), self.runtime.now_ms(), 9
        )
        assert info is not None
        errors: list[Any] = []
        partition.when_committed(info.last_offset, errors.append)
        self.runtime.turn()
        if errors != [None]:
            raise errors[0] if errors else AssertionError("neither committed nor refused")
        return info.base_offset

    def values(self, topic: str) -> list[bytes | None]:
        """Every value in the topic's first partition. Raises: KafkaError."""
        partition = self.broker.partitions.get(topic, 0)
        assert partition is not None
        return [value for _, _, value in pairs(partition.log)]

    def groups_of(self, partition: int, count: int = 1) -> list[str]:
        """Names of groups whose offsets lie in this partition of two."""
        return [name for name in (f"g{at}" for at in range(100)) if partition_for(name, 2) == partition][:count]

    def send_commit(self, group: str, offset: int, topic: str = "t") -> Heard:
        """An OffsetCommit by nobody in particular."""
        if self.broker.groups.coordinator_of(group) is None:
            self.runtime.turn()
        stored = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[stored])]
        answer = Heard()
        self.broker.groups.leader_of(group).submit(CommitOffsets(group, "", None, -1, topics, 8, -1, answer))
        return answer

    def commit(self, group: str, offset: int, topic: str = "t") -> ErrorCode | None:
        """The error code of an OffsetCommit by nobody in particular; None while there is no answer."""
        answer = self.send_commit(group, offset, topic)
        self.runtime.turn()
        return ErrorCode(answer.response.topics[0].partitions[0].error_code) if answer.done else None

    def committed(self, group: str, topic: str = "t") -> int | ErrorCode:
        """The group's offset (-1: none), or why it is not told."""
        answer = Heard()
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        self.broker.groups.leader_of(group).submit(FetchOffsets(group, topics, False, False, answer))
        self.runtime.turn()
        if answer.response.error_code:
            return ErrorCode(answer.response.error_code)
        found = answer.response.topics[0].partitions[0]
        return ErrorCode(found.error_code) if found.error_code else int(found.committed_offset)

    def stop(self) -> bool:
        """A clean stop; whether the directory was marked clean."""
        ended: list[bool] = []
        self.composition.stop(ended.append)
        for _ in range(5):
            self.runtime.turn()
        self.forget()
        return ended[0]

    def forget(self) -> None:
        """Let go of what was frozen at the load. Without `stop` before it, this is a SIGKILL."""
        gc.unfreeze()
