"""Playing a scenario: its steps over plain sockets, and a transcript of every answer, made comparable.

A scenario is a function of a `Script`. It talks through clients of its own and never looks at which broker answers.
What differs between two runs by nature (ids, ports, times) is named by the order in which it was first seen, so that
equal behaviour gives equal transcripts.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.records import batch
from protocol.registry import APIS
from protocol.schema import Array, Message, Records, Struct, Uuid
from protocol.types import ZERO_UUID
from tests.reference.judge.versions import NEWEST, OLDEST, UNORDERED, is_known
from tests.support.broker_process import PATIENCE
from tests.support.wire import Wire, is_ready

ANSWER_WITHIN_S = 15.0 * PATIENCE
PARKED_S = 0.15

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

# Fields that name the run, not the behaviour.
_RUN_FIELDS = {
    "port": "<port>",
    "cluster_id": "<cluster>",
    "log_dir": "<directory>",
    "total_bytes": "<bytes>",
    "usable_bytes": "<bytes>",
    "finalized_features_epoch": "<epoch>",
    "transaction_start_time_ms": "<time>",
    "last_timestamp": "<time>",
    "last_fetch_timestamp": "<time>",
    "last_caught_up_timestamp": "<time>",
}
# Lists whose order is that of a hash map in Kafka.
_UNORDERED = {
    "JoinGroupResponse.members",
    "DescribeGroupsResponse.groups",
    "DescribedGroup.members",
    "ListGroupsResponse.groups",
    "DeleteGroupsResponse.results",
    "DescribeLogDirsResult.topics",
    "DescribeLogDirsTopic.partitions",
    "GroupMetadataValue.members",
    "OffsetFetchResponse.topics",
    "OffsetFetchResponseGroup.topics",
    "OffsetFetchResponseTopic.partitions",
    "OffsetFetchResponseTopics.partitions",
    "MetadataResponse.topics",
    "ProduceResponse.responses",
    "TopicProduceResponse.partition_responses",
    "ListOffsetsTopicResponse.partitions",
    "ListOffsetsResponse.topics",
    "DeleteRecordsResponse.topics",
    "OffsetForLeaderEpochResponse.topics",
    "CreateTopicsResponse.topics",
    "DeleteTopicsResponse.responses",
    "CreatePartitionsResponse.results",
    "AlterConfigsResponse.responses",
    "IncrementalAlterConfigsResponse.responses",
    "DescribeConfigsResponse.results",
    "ElectLeadersResponse.replica_election_results",
    "AddPartitionsToTxnResponse.results_by_transaction",
    "AddPartitionsToTxnResponse.results_by_topic_v3_and_below",
    "AddPartitionsToTxnResult.topic_results",
    "AddPartitionsToTxnTopicResult.results_by_partition",
    "TxnOffsetCommitResponse.topics",
    "WritableTxnMarkerResult.topics",
    "WritableTxnMarkerTopicResult.partitions",
    "DescribeTransactionsResponse.transaction_states",
    "DescribedTransaction.topics",
    "DescribeTransactionsTopicData.partitions",
    "DescribeProducersPartitionResponse.active_producers",
    "ListTransactionsResponse.transaction_states",
    "ListTransactionsResponse.unknown_state_filters",
    "DescribedConsumerGroup.members",
    "DescribedConsumerMember.subscribed_topic_names",
    "ConsumerGroupMemberMetadataValue.subscribed_topic_names",
    "DescribedAssignment.topic_partitions",
    "DescribedTopicPartitions.partitions",
    "Assignment.topic_partitions",
    "ConsumerGroupCurrentMemberAssignmentValue.assigned_partitions",
    "ConsumerGroupCurrentMemberAssignmentValue.partitions_pending_revocation",
    "ConsumerGroupTargetAssignmentMemberValue.topic_partitions",
    "TopicPartitions.partitions",
    "DescribeClientQuotasResponse.entries",
    "EntryData.entity",
    "EntryData.values",
    "AlterClientQuotasResponse.entries",
    "AlteredEntity.entity",
}
# Lists that are maps: compared by name, so that one more or one less does not shift the others.
_MAPS = {"api_keys": "api_key", "supported_features": "name", "finalized_features": "name", "configs": "name"}
# Whole-cluster answers hold what other scenarios made; only this scenario's own is looked at.
_OWN = {
    "ListGroupsResponse.groups": "group_id",
    "DescribeLogDirsResult.topics": "name",
    "MetadataResponse.topics": "name",
    "ListTransactionsResponse.transaction_states": "transactional_id",
    "ListConfigResourcesResponse.config_resources": "resource_name",
}

# Times, and what follows from topic ids; 0 stays.
_MADE_UP = {
    "ConsumerGroupMetadataValue.metadata_hash",
    "ConsumerGroupTargetAssignmentMetadataValue.assignment_timestamp",
    "ConsumerGroupRegularExpressionValue.version",
    "ConsumerGroupRegularExpressionValue.timestamp",
}
_SHORT_UUID = re.compile(r"[A-Za-z0-9_-]{22}")

SILENCE = "no answer"
CLOSED = "connection closed"


class StopScenario(Exception):
    """The scenario cannot go on; its transcript says why."""


@dataclass(slots=True)
class Step:
    """One line of a transcript. `api` is empty for a note."""

    actor: str
    api: str
    version: int
    outcome: Any


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is played: `acts` by the life of the broker that they belong to. `first`: before all others, alone.

    `since`: an older Kafka has nothing that could be compared.
    """

    id: str
    acts: dict[str, Callable[[Script], None]]
    first: bool = False
    since: str = OLDEST


@dataclass(slots=True)
class Transcript:
    """What one scenario saw on one broker, and the names it gave to what was new."""

    steps: list[Step] = field(default_factory=list)
    names: Names | None = None
    broke: str = ""


class Names:
    """Stable names for what each run makes up anew: uuids, topic ids, producer ids, session ids."""

    def __init__(self, own: str, plain: str, by: str = NEWEST) -> None:
        self.own, self.plain_own = own, plain
        self._unordered = _UNORDERED | UNORDERED.get(by, frozenset())
        self.restarted = False  # Kafka's epochs rise with each restart, by one or two; ours when a crash asks for it
        self._seen: dict[tuple[str, object], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, kind: str, value: object) -> str:
        """The name of `value`, a new one the first time."""
        name = self._seen.get((kind, value))
        if name is None:
            count = self._counts[kind] = self._counts.get(kind, 0) + 1
            name = self._seen[kind, value] = f"<{kind} {count}>"
        return name

    def epoch(self, kind: str, value: int) -> int | str:
        """An epoch that counts the broker's lives."""
        return self.of(kind, value) if self.restarted else value

    def text(self, value: str) -> str:
        """A text with the run's own parts named."""
        if _SHORT_UUID.fullmatch(value):
            return self.of("short uuid", value)
        return _UUID.sub(lambda match: self.of("uuid", match[0]), value.replace(self.own, self.plain_own))

    def plain(self, value: Any, version: int | None = None, where: str = "") -> Any:
        """A message as dictionaries, lists and plain values; fields that the version lacks are left out."""
        if isinstance(value, Struct):
            result = {}
            for declared in value.FIELDS:
                tag_has = declared.tag is None or version is None or version >= declared.tag_since
                if (version is not None and not declared.has(version)) or not tag_has:
                    continue
                name = declared.name
                got = getattr(value, name)
                place = f"{type(value).__name__}.{name}"
                if declared.wire_type is Uuid:
                    result[name] = "" if got == ZERO_UUID else self.of("topic id", bytes(got))
                elif declared.wire_type is Records:
                    result[name] = None if got is None else self._records(bytes(got))
                elif isinstance(declared.wire_type, Array) and got is not None:
                    result[name] = self._array(got, version, place, name)
                elif name in _RUN_FIELDS and got not in (-1, "", None):
                    result[name] = _RUN_FIELDS[name]
                elif name == "coordinator_epoch" and got >= 0:
                    result[name] = self.epoch(name, got)
                elif name in ("producer_id", "session_id") and got > 0:
                    result[name] = self.of(name, got)
                elif place in _MADE_UP and got:
                    result[name] = "<made up>"
                elif name == "log_append_time_ms" and got > 0:
                    result[name] = "<time>"
                else:
                    result[name] = self.plain(got, version, place)
            return result
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).hex()
        return value

    def _array(self, values: list[Any], version: int | None, place: str, name: str) -> Any:
        if place in _OWN:
            values = [v for v in values if self.own in (getattr(v, _OWN[place]) or "") or getattr(v, "error_code", 0)]
        plain = [self.plain(value, version) for value in values]
        if name in _MAPS and plain and isinstance(plain[0], dict):
            return {str(entry.pop(_MAPS[name])): entry for entry in plain}
        return sorted(plain, key=repr) if place in self._unordered else plain

    def _records(self, data: bytes) -> list[dict[str, Any]]:
        return [
            {
                "base_offset": header.base_offset,
                "last_offset": header.last_offset,
                "attributes": header.attributes,
                "leader_epoch": self.epoch("leader_epoch", header.leader_epoch),
                "producer": (header.producer_id >= 0, header.producer_epoch, header.base_sequence),
                "records": [
                    (
                        r.offset,
                        r.timestamp if r.timestamp < 10**12 else "<time>",
                        r.key,
                        self._marker(r.value) if header.is_control else r.value,
                        r.headers,
                    )
                    for r in batch.iterate_records(data, position)
                ],
            }
            for position, header in batch.iterate_headers(data)
        ]

    def _marker(self, value: bytes | None) -> object:
        """Its version, and the coordinator's epoch."""
        if value is None or len(value) != 6:
            return value
        return value[:2], self.epoch("coordinator_epoch", int.from_bytes(value[2:], "big"))


class KnownWire(Wire):
    """A connection that sends what the Kafka that judges knows. Raises: StopScenario for the first other request."""

    def __init__(self, script: Script, client_id: str) -> None:
        super().__init__(script.address, client_id=client_id, timeout_s=ANSWER_WITHIN_S)
        self._script = script

    def send(self, request: Message, version: int) -> None:
        assert request.API_KEY is not None
        api = APIS[request.API_KEY].name
        if not is_known(api, version, self._script.by):
            self._script.cut_at = f"{api} v{version}"
            raise StopScenario
        super().send(request, version)


class Client:
    """One connection of a scenario. Everything it hears goes into the transcript."""

    def __init__(self, script: Script, name: str) -> None:
        self.script, self.name = script, name
        self._wire: Wire | None = None
        self._awaited: list[tuple[str, int]] = []

    @property
    def wire(self) -> Wire:
        if self._wire is None:
            self._wire = KnownWire(self.script, self.name)
        return self._wire

    def close(self) -> None:
        """Close the connection, as a client that goes away."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
            self._awaited.clear()

    def send(self, request: Any, version: int) -> None:
        """Send, and go on without the answer."""
        self._awaited.append((APIS[request.API_KEY].name, version))
        self.wire.send(request, version)

    def answer(self) -> Any:
        """The answer to the oldest request without one, recorded. None when the connection closed."""
        api, version = self._awaited.pop(0)
        try:
            response = self.wire.receive()
        except TimeoutError:
            self._record(api, version, SILENCE)
            raise StopScenario from None
        except OSError:
            self._record(api, version, CLOSED)
            self.close()
            return None
        self._record(api, version, self.script.names.plain(response, version))
        return response

    def call(self, request: Any, version: int) -> Any:
        """Send and wait for the answer."""
        self.send(request, version)
        return self.answer()

    def parked(self, seconds: float = PARKED_S) -> bool:
        """Whether no answer comes for a moment, recorded; one that does come is recorded as well."""
        if is_ready(self.wire.socket, seconds):
            self._record(self._awaited[0][0], self._awaited[0][1], "answered")
            self.answer()
            return False
        api, version = self._awaited[0]
        self._record(api, version, "parked")
        return True

    def raw(self, api_key: int, version: int, body: bytes = b"", *, api: str = "") -> None:
        """Send bytes that no declared message makes, with a header of version 1; record whether it is answered."""
        head = struct.pack(">hhih", api_key, version, 77, -1) + body
        try:
            self.wire.socket.sendall(struct.pack(">i", len(head)) + head)
            frame = self.wire.receive_frame()
            outcome: Any = {"answered": frame[4:].hex()}
        except TimeoutError:
            outcome = SILENCE
        except OSError:
            outcome = CLOSED
        self.close()
        self._record(api, version, outcome)

    def _record(self, api: str, version: int, outcome: Any) -> None:
        self.script.transcript.steps.append(Step(self.name, api, version, outcome))


class Script:
    """One play of one scenario against one broker: names, clients, transcript."""

    def __init__(self, scenario: Scenario, address: str, attempt: int, by: str = NEWEST) -> None:
        self.scenario, self.address, self.by = scenario, address, by
        self.own = f"{scenario.id}.{attempt}."
        self.names = Names(self.own, f"{scenario.id}.", by)
        self.transcript = Transcript(names=self.names)
        self.cut_at = ""  # the request that the Kafka that judges does not know
        self.kept: Any = None  # what the first act leaves for the second
        self.data = Path()  # the broker's log directory, for the act that is played while it is dead
        self._clients: dict[str, Client] = {}
        self._observer: Wire | None = None

    def play(self, stage: str) -> Transcript:
        """Play its act of this stage, if no earlier one was cut off."""
        if self.cut_at:
            return self.transcript
        try:
            self.scenario.acts[stage](self)
        except StopScenario:
            pass
        except Exception as error:  # whatever it is, it is this scenario's result
            import traceback

            self.transcript.broke = "".join(traceback.format_exception(error)[-3:])
        finally:
            for client in self._clients.values():
                client.close()
            if self._observer is not None:
                self._observer.close()
                self._observer = None
        return self.transcript

    def name(self, suffix: str = "g") -> str:
        """A group or topic of this scenario's own."""
        return self.own + suffix

    def client(self, name: str = "c") -> Client:
        """The client of that name, which is also its client id."""
        if name not in self._clients:
            self._clients[name] = Client(self, name)
        return self._clients[name]

    def note(self, what: str, value: Any) -> None:
        """Something the scenario saw that no answer holds."""
        self.transcript.steps.append(Step(what, "", 0, value))

    def observer(self) -> Wire:
        """A connection whose answers are not recorded."""
        if self._observer is None:
            self._observer = KnownWire(self, "observer")
        return self._observer

    def described(self, group: str) -> Any:
        """The group as DescribeGroups shows it now, not recorded."""
        return self.observer().call(DescribeGroupsRequest(groups=[group]), 5).groups[0]

    def until(self, state: str, members: int | None = None, group: str | None = None, within_s: float = 60.0) -> None:
        """Wait until the group is in `state` (with that many members); record it when that never comes."""
        end = time.monotonic() + within_s * PATIENCE
        while True:
            now = self.described(group or self.name())
            if now.group_state == state and members in (None, len(now.members)):
                return
            if time.monotonic() > end:
                self.note(f"never {state} {members}", (now.group_state, len(now.members)))
                raise StopScenario
            time.sleep(0.02)

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic, named in the transcript by the topic's name from here on."""
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        found: bytes = self.observer().call(asked, 12).topics[0].topic_id
        self.names._seen["topic id", bytes(found)] = f"<id of {topic.removeprefix(self.own)}>"
        return found
