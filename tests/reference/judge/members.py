"""Members of classic groups, as scenarios write them: one line per request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
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
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.reference.judge.play import Script
from tests.support.consumer_protocol import subscription

Protocols = Sequence[tuple[str, bytes]]
# (partition, offset) or (partition, offset, leader epoch) or (partition, offset, leader epoch, metadata)
Offsets = Mapping[str, Sequence[tuple[Any, ...]]]


T1, T2 = "judge-t1", "judge-t2"
RANGE: Protocols = (("range", subscription(T1)),)
BOTH: Protocols = (("range", subscription(T1)), ("roundrobin", subscription(T1)))


# Longer than a run: which of the groups that scenarios leave behind have expired must not depend on how long it took.
LONG_MS = 300_000
# A session or a phase that a scenario lets pass. What must be done before it has passed is done in milliseconds on a
# quiet machine; on one that does other work too the same steps have taken a second.
SHORT_MS = 4_000
# The initial rebalance delay of the second life, for the same reason many times what a request takes.
DELAY_MS = 5_000


class Member:
    """A client in a group. It keeps what it is told: its id and its generation."""

    def __init__(
        self,
        script: Script,
        name: str,
        *,
        group: str | None = None,
        instance: str | None = None,
        version: int = 9,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session: int = LONG_MS,
        rebalance: int = LONG_MS,
    ) -> None:
        self.script, self.name = script, name
        self.client = script.client(name)
        self.group = script.name() if group is None else group
        self.instance, self.version = instance, version
        self.protocols, self.protocol_type = protocols, protocol_type
        self.session, self.rebalance = session, rebalance
        self.id, self.generation, self.protocol = "", -1, ""

    def send_join(self, version: int | None = None, **changes: Any) -> None:
        """Join, the answer to be heard later. `changes` are fields of the request."""
        fields: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": self.session,
            "rebalance_timeout_ms": self.rebalance,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocols": [JoinGroupRequestProtocol(name=n, metadata=m) for n, m in self.protocols],
        }
        self.client.send(JoinGroupRequest(**fields | changes), self.version if version is None else version)

    def joined(self) -> Any:
        """The answer to the join, heeded."""
        answer = self.client.answer()
        if answer is not None and answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.id = answer.member_id
            if not answer.error_code:
                self.generation, self.protocol = answer.generation_id, answer.protocol_name
        return answer

    def join(self, version: int | None = None, **changes: Any) -> Any:
        """Join and hear the answer."""
        self.send_join(version, **changes)
        return self.joined()

    def send_enter(self) -> None:
        """Join a group one is not in: ask for an id first where the version has that."""
        if not self.id and self.instance is None and self.version >= 4:
            self.join()
        self.send_join()

    def enter(self) -> Any:
        """`send_enter`, and the answer."""
        self.send_enter()
        return self.joined()

    def send_sync(
        self, assignments: Mapping[str, bytes] | None = None, version: int | None = None, **changes: Any
    ) -> None:
        """Sync; `assignments` by member id."""
        version = min(self.version, 5) if version is None else version
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "assignments": [
                SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (assignments or {}).items()
            ],
        }
        self.client.send(SyncGroupRequest(**fields | changes), version)

    def sync(self, assignments: Mapping[str, bytes] | None = None, version: int | None = None, **changes: Any) -> Any:
        """Sync and hear the answer."""
        self.send_sync(assignments, version, **changes)
        return self.client.answer()

    def heartbeat(self, version: int = 4, **changes: Any) -> Any:
        """A heartbeat."""
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        return self.client.call(HeartbeatRequest(**fields | changes), version)

    def leave(self, version: int = 5, *, by: str | None = None) -> Any:
        """Leave, over the connection of `by` if given."""
        request = LeaveGroupRequest(
            group_id=self.group,
            member_id=self.id,
            members=[MemberIdentity(member_id=self.id, group_instance_id=self.instance)],
        )
        return (self.client if by is None else self.script.client(by)).call(request, version)

    def commit(self, offsets: Offsets | None = None, version: int = 9, **changes: Any) -> Any:
        """Commit, by default offset 7 of the first partition."""
        fields: dict[str, Any] = {
            "generation": self.generation,
            "member": self.id,
            "instance": self.instance,
        }
        return commit(self.script, self.group, offsets, version, client=self.name, **fields | changes)


def stable(script: Script, *names: str, joins: bool = True, **options: Any) -> list[Member]:
    """A stable group of these members, the first its leader; each got its own name as assignment."""
    members: list[Member] = []
    for name in names:
        newcomer = Member(script, name, **options)
        if members:
            newcomer.send_enter()
            script.until("PreparingRebalance", len(members) + 1, newcomer.group)
            for member in members:
                member.send_join()
            for member in members:
                member.joined()
            newcomer.joined()
        else:
            newcomer.enter()
        members.append(newcomer)
    synced(*members)
    return members


def synced(leader: Member, *followers: Member) -> None:
    """Everybody syncs, the leader first."""
    leader.sync({m.id: m.name.encode() for m in (leader, *followers)})
    for follower in followers:
        follower.sync()


def together(script: Script, *members: Member) -> None:
    """Members of a group that rebalances already join again, all of them; nobody is answered before the last."""
    for member in members:
        member.send_join()
    for member in members:
        member.joined()


def leave(script: Script, group: str, *identities: tuple[str, str | None], version: int = 5, by: str = "admin") -> Any:
    """LeaveGroup of several (member id, instance id)."""
    gone = [MemberIdentity(member_id=m, group_instance_id=i) for m, i in identities]
    request = LeaveGroupRequest(group_id=group, member_id=identities[0][0], members=gone)
    return script.client(by).call(request, version)


def commit(
    script: Script,
    group: str,
    offsets: Offsets | None = None,
    version: int = 9,
    *,
    client: str = "c",
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
    retention_ms: int = -1,
) -> Any:
    """OffsetCommit."""
    topics = []
    for topic, partitions in (offsets or {T1: [(0, 7)]}).items():
        rows = [(*row, *(None, -1, "")[len(row) - 1 :]) for row in partitions]
        topics.append(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=p, committed_offset=o, committed_leader_epoch=e, committed_metadata=m
                    )
                    for p, o, e, m in rows
                ],
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        retention_time_ms=retention_ms,
        topics=topics,
    )
    return script.client(client).call(request, version)


def fetch_offsets(
    script: Script,
    group: str,
    topics: Mapping[str, Sequence[int]] | None,
    version: int = 9,
    *,
    stable_only: bool = False,
    client: str = "c",
    member: str | None = None,
    epoch: int = -1,
) -> Any:
    """OffsetFetch of one group; `topics` None asks for all."""
    old = new = None
    if topics is not None:
        old = [OffsetFetchRequestTopic(name=t, partition_indexes=list(p)) for t, p in topics.items()]
        new = [OffsetFetchRequestTopics(name=t, partition_indexes=list(p)) for t, p in topics.items()]
    request = OffsetFetchRequest(
        group_id=group,
        topics=old,
        groups=[OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=epoch, topics=new)],
        require_stable=stable_only,
    )
    return script.client(client).call(request, version)


def delete_offsets(script: Script, group: str, topics: Mapping[str, Sequence[int]], *, client: str = "c") -> Any:
    """OffsetDelete."""
    asked = [
        OffsetDeleteRequestTopic(name=t, partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in p])
        for t, p in topics.items()
    ]
    return script.client(client).call(OffsetDeleteRequest(group_id=group, topics=asked), 0)
