"""A whole broker but for its sockets, on a directory and in virtual time, and what its ledger tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.catalogue.internal_topics import LEDGER_TOPIC
from broker.composition import Composition
from broker.config.settings import Settings
from broker.groups.ledger import reading
from broker.groups.ledger.group_history import holdings_of
from broker.handlers import consumer_groups as consumer_handlers
from broker.handlers import groups as group_handlers
from broker.handlers import offsets as offset_handlers
from broker.handlers import topics as topic_handlers
from broker.handlers.context import Deferred, RequestContext
from coordinator.classic.ownership import by_topic
from coordinator.consumer.group import ConsumerState
from protocol.messages import create_topics as create_topics_api
from protocol.messages import join_group as join_api
from protocol.messages import leave_group as leave_api
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.records.ledger import decode_value
from tests.support.consumer_protocol import assignment, subscription
from tests.support.virtual_runtime import VirtualRuntime

SESSION_MS, REBALANCE_MS = 10_000, 30_000


class House:
    """The broker in `directory`. `stop` and `crash` end it, `start` begins anew."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.given = {
            "log.dirs": str(directory),
            "offsets.topic.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "3000",
            **{key.replace("_", "."): str(value) for key, value in settings.items()},
        }
        self.runtime = VirtualRuntime()
        self.host = "10.0.0.1"
        self.start()

    def start(self, **settings: Any) -> None:
        self.given |= {key.replace("_", "."): str(value) for key, value in settings.items()}
        now_ms = self.runtime.now_ms()
        self.runtime = VirtualRuntime(now_ms)
        made = Settings(self.given, cluster_id="AAAAAAAAAAAAAAAAAAAAAA")
        self.composition = Composition.open(made, self.runtime, [("PLAINTEXT", "localhost", 9092)])
        self.broker = self.composition.broker
        self.ledger = self.broker.ledger
        self.told: list[Any] = []
        self.ledger.listeners.append(self.told.append)
        self.turn()

    def stop(self) -> None:
        ended: list[bool] = []
        self.composition.stop(ended.append)
        self.turn()
        assert ended == [True]

    def crash(self) -> None:
        """What is in the page cache stays, nothing else: the lock goes with the process."""
        self.turn()
        self.composition._directories.close()

    def turn(self) -> None:
        for _ in range(10):
            self.runtime.turn()

    def advance(self, ms: int) -> None:
        self.runtime.advance(ms)
        self.turn()

    def ask(self, module: Any, name: str, request: Any, version: int, client_id: str = "c") -> Any:
        context = RequestContext(client_id=client_id, host=self.host, listener="PLAINTEXT", version=version)
        decoded = type(request).decode(version, request.encode(version))
        answer = getattr(module, name)(self.broker, context, decoded)
        self.turn()
        return Answer(answer)

    def coordinator(self, group_id: str = "g") -> None:
        """Have `__consumer_offsets` made, and the ledger's topic with it."""
        request = FindCoordinatorRequest(key=group_id)
        self.ask(group_handlers, "find_coordinator", request, 3)
        self.turn()

    def topic(self, name: str, partitions: int) -> None:
        wish = create_topics_api.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        request = create_topics_api.CreateTopicsRequest(topics=[wish])
        self.ask(topic_handlers, "create_topics", request, 7)
        self.turn()

    def join(
        self,
        member_id: str = "",
        *,
        client: str = "c",
        group_id: str = "g",
        topics: tuple[str, ...] = ("t",),
        owned: dict[str, list[int]] | None = None,
        protocol: str = "range",
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        version: int = 8,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        reason: str | None = None,
    ) -> Answer:
        """As the handler takes it; a dynamic member first gets its id, as clients do."""
        request = join_api.JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[join_api.JoinGroupRequestProtocol(name=protocol, metadata=subscription(*topics, owned=owned))],
            reason=reason,
        )
        answer = self.ask(group_handlers, "join_group", request, version, client)
        if not member_id and instance_id is None and version >= 4:
            request.member_id = answer.response.member_id
            answer = self.ask(group_handlers, "join_group", request, version, client)
            answer.member_id = request.member_id
        return answer

    def sync(
        self,
        member_id: str,
        generation: int,
        plan: dict[str, dict[str, list[int]]] | None = None,
        *,
        group_id: str = "g",
        client: str = "c",
        instance_id: str | None = None,
    ) -> Answer:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment(partitions))
                for member, partitions in (plan or {}).items()
            ],
        )
        return self.ask(group_handlers, "sync_group", request, 4, client)

    def heartbeat(self, member_id: str, generation: int, group_id: str = "g", instance_id: str | None = None) -> Answer:
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return self.ask(group_handlers, "heartbeat", request, 4)

    def beat(
        self,
        member_id: str,
        epoch: int | None = None,
        *,
        group_id: str = "g",
        client: str | None = None,
        topics: tuple[str, ...] | None = None,
        owned: dict[str, list[int]] | None = None,
        instance_id: str | None = None,
    ) -> Answer:
        """ConsumerGroupHeartbeat (KIP-848), by default at the epoch that the member has. Its client id is its own."""
        image = self.broker.catalogue.image
        if epoch is None:
            group = self.broker.groups.leader_of(group_id).shard.consumer_groups[group_id]
            epoch = group.members[member_id].epoch
        if epoch == 0:
            owned = {}
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance_id,
            rebalance_timeout_ms=REBALANCE_MS if epoch == 0 else -1,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=image.topic_id(topic) or bytes(16), partitions=held)
                for topic, held in owned.items()
            ],
        )
        return self.ask(consumer_handlers, "consumer_group_heartbeat", request, 1, client or member_id)

    def settle(self, *member_ids: str, group_id: str = "g", instances: dict[str, str] | None = None) -> None:
        """Members of a consumer group heartbeat until everybody has what the target says."""
        for _ in range(6):
            for member_id in member_ids:
                group = self.broker.groups.leader_of(group_id).shard.consumer_groups[group_id]
                held = holdings_of(group, self.broker.catalogue.image)[member_id].partitions
                self.beat(
                    member_id,
                    group_id=group_id,
                    owned=by_topic(held),
                    instance_id=(instances or {}).get(member_id),
                )
        assert group.state is ConsumerState.STABLE

    def leave(self, member_id: str, *, reason: str | None = None, group_id: str = "g", client: str = "c") -> Answer:
        leaver = leave_api.MemberIdentity(member_id=member_id, reason=reason)
        return self.ask(
            group_handlers, "leave_group", leave_api.LeaveGroupRequest(group_id=group_id, members=[leaver]), 5, client
        )

    def commit(
        self,
        offsets: dict[int, int],
        *,
        topic: str = "t",
        member_id: str = "",
        generation: int = -1,
        group_id: str = "g",
        client: str = "c",
        version: int = 8,
    ) -> Answer:
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index, offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
        )
        return self.ask(offset_handlers, "offset_commit", request, version, client)

    def delete_group(self, group_id: str = "g", client: str = "admin") -> Answer:
        return self.ask(group_handlers, "delete_groups", DeleteGroupsRequest(groups_names=[group_id]), 2, client)

    def stable(
        self, *clients: str, plan: list[dict[str, list[int]]] | None = None, group_id: str = "g", **join: Any
    ) -> list[str]:
        """Members with these client ids, in an empty group that becomes Stable; the first leads."""
        self.coordinator(group_id)
        joins = [self.join(client=client, group_id=group_id, **join) for client in clients]
        self.advance(6_000)
        ids = [joined.response.member_id for joined in joins]
        generation = joins[0].response.generation_id
        self.share(ids, generation, plan or [{} for _ in clients], group_id=group_id)
        return ids

    def share(self, ids: list[str], generation: int, plan: list[dict[str, list[int]]], group_id: str = "g") -> None:
        """Everybody syncs; the first of them brings the plan."""
        for member_id in ids:
            self.sync(
                member_id, generation, dict(zip(ids, plan, strict=True)) if member_id == ids[0] else None,
                group_id=group_id,
            )  # fmt: skip

    def log(self, group_id: str = "g") -> list[dict[str, Any]]:
        """Every record of a group that lies in the topic."""
        self.turn()
        found = []
        for index in range(4):
            partition = self.broker.partitions.get(LEDGER_TOPIC, index)
            if partition is None:
                continue
            for record in reading.between(partition, 0, partition.log_end_offset):
                if record.key == group_id.encode():
                    decoded = decode_value(record.value)
                    assert record.headers == ((b"kind", decoded["kind"].encode()),)
                    assert record.timestamp == decoded["at_ms"]
                    found.append(decoded)
        return found

    def ended(self, group_id: str = "g") -> list[dict[str, Any]]:
        """The `rebalance_ended` records."""
        return [record for record in self.log(group_id) if record["kind"] == "rebalance_ended"]


class Answer:
    """An answer, perhaps still on its way. `member_id`: the id that the member was given before."""

    def __init__(self, result: Any) -> None:
        self._result = result
        self.member_id = ""

    @property
    def done(self) -> bool:
        return not isinstance(self._result, Deferred) or self._result.done

    @property
    def response(self) -> Any:
        result = self._result.response if isinstance(self._result, Deferred) else self._result
        assert result is not None, "no answer yet"
        return result
