"""An administrator of groups: commits for groups without members, and deletes groups and single offsets.

What a deletion was answered is held to by the auditors: the offsets of a group that was deleted never come back.
"""

from __future__ import annotations

from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.simulation.clients import Asking, Client
from tests.simulation.world import Connect, Lost, Process, Sleep

TEMPORARY = ("temporary", "temporary.b", "temporary.c")
PLACES = {"orders": [0, 1, 2], "refunds": [0]}
# The shard is loaded, or its log has failed and heals.
PASSING = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class Deleter(Client):
    """Groups come and go, under names that come back; those with members are tried too."""

    def __init__(self, name: str, seed: int, others: tuple[str, ...]) -> None:
        super().__init__(name, seed)
        self.others = others  # groups with members
        self.stopping = False
        self.deleted = 0
        self._offset = 0
        self.newest = {"OffsetCommit": 9, "OffsetFetch": 9}  # the next ones name topics by id

    def life(self) -> Process:
        """Until stopped."""
        while not self.stopping:
            try:
                self.channel = yield Connect()
                while not self.stopping:
                    group = self.random.choice(TEMPORARY)
                    steps = [self.commit, self.commit, self.look, self.delete, self.delete_offsets, self.delete_other]
                    yield from self.random.choice(steps)(group)
                    yield Sleep(self.random.choice([1, 50, 500]))
            except Lost:
                yield Sleep(self.random.randrange(50, 500))

    def commit(self, group: str) -> Asking:
        """Offsets by nobody in particular."""
        self._offset += 1
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=number, committed_offset=self._offset)
                    for number in numbers
                ],
            )
            for name, numbers in PLACES.items()
        ]
        yield from self.ask(OffsetCommitRequest(group_id=group, topics=topics))

    def look(self, group: str) -> Asking:
        """The auditor looks at the answer."""
        older = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in PLACES.items()]
        names = [OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in PLACES.items()]
        groups = [OffsetFetchRequestGroup(group_id=group, topics=names)]
        yield from self.ask(OffsetFetchRequest(group_id=group, topics=older, groups=groups))

    def delete(self, group: str) -> Asking:
        """The whole group; what is asked ahead on the same connection comes after it."""
        answer = yield from self.ask(DeleteGroupsRequest(groups_names=[group]))
        code = answer.results[0].error_code
        assert code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, *PASSING), ErrorCode(code).name
        self.deleted += code == ErrorCode.NONE
        yield from self.look(group)

    def delete_offsets(self, group: str) -> Asking:
        """One offset of a group."""
        name = self.random.choice(list(PLACES))
        partition = OffsetDeleteRequestPartition(partition_index=self.random.choice(PLACES[name]))
        topic = OffsetDeleteRequestTopic(name=name, partitions=[partition])
        answer: Any = yield from self.ask(OffsetDeleteRequest(group_id=group, topics=[topic]))
        code = answer.error_code
        assert code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, *PASSING), ErrorCode(code).name
        yield from self.look(group)

    def delete_other(self, group: str) -> Asking:
        """A group that has members, at most times: it is refused, or had none just then."""
        del group
        if self.random.random() < 0.3:
            answer = yield from self.ask(DeleteGroupsRequest(groups_names=[self.random.choice(self.others)]))
            code = answer.results[0].error_code
            allowed = (ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND, *PASSING)
            assert code in allowed, ErrorCode(code).name
