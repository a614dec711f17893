"""Every handler asks before it answers (D13), and asks what Kafka's does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.authorization.acl_types import Operation, PatternType, Permission
from broker.authorization.acl_types import ResourceType as Kind
from broker.authorization.authorizer import STANDARD
from broker.catalogue.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, new_topic
from broker.catalogue.topic_changes import NewTopic
from broker.composition import Composition
from broker.config.settings import Settings
from broker.handlers.context import CloseConnection, Deferred, RequestContext
from broker.handlers.dispatch import HANDLERS
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.frames import encode_response
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.records.metadata_records import AccessControlEntryRecord
from protocol.registry import APIS
from protocol.schema import Struct
from protocol.schema.layout import Layout, message_layout
from protocol.schema.wire_types import Array, Fixed, Sized
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from pathlib import Path

USER, HOST = "User:alice", "10.0.0.1"

Right = tuple[Operation, Kind]
_T, _G, _C, _X = Kind.TOPIC, Kind.GROUP, Kind.CLUSTER, Kind.TRANSACTIONAL_ID
_READ, _WRITE, _CREATE, _DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
_ALTER, _DESCRIBE, _BROKERS = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS

# What everybody may ask, whoever they are: which versions there are, how to say who one is, where the cluster is. And
# delegation tokens (38-41), which nobody gets.
OPEN = {17, 18, 36, 38, 39, 40, 41, 60, 71, 72}
# What each API checks of a request about topic t, group g and transactional id t. Any right of a check passes it.
CHECKS: dict[int, list[tuple[Right, ...]]] = {
    0: [((_WRITE, _T),)],
    1: [((_READ, _T),)],
    2: [((_DESCRIBE, _T),)],
    3: [((_DESCRIBE, _T),)],
    8: [((_READ, _G),), ((_READ, _T),)],
    9: [((_DESCRIBE, _G),), ((_DESCRIBE, _T),)],
    10: [((_DESCRIBE, _G),)],
    11: [((_READ, _G),)],
    12: [((_READ, _G),)],
    13: [((_READ, _G),)],
    14: [((_READ, _G),)],
    15: [((_DESCRIBE, _G),)],
    16: [((_DESCRIBE, _C), (_DESCRIBE, _G))],
    19: [((_CREATE, _C), (_CREATE, _T))],
    20: [((_DELETE, _C), (_DELETE, _T))],
    21: [((_DELETE, _T),)],
    22: [((_WRITE, _X),)],
    23: [((_BROKERS, _C), (_DESCRIBE, _T))],
    24: [((_WRITE, _X),), ((_WRITE, _T),)],
    25: [((_WRITE, _X),), ((_READ, _G),)],
    26: [((_WRITE, _X),)],
    27: [((_ALTER, _C), (_BROKERS, _C))],
    28: [((_WRITE, _X),), ((_READ, _G),), ((_READ, _T),)],
    29: [((_DESCRIBE, _C),)],
    30: [((_ALTER, _C),)],
    31: [((_ALTER, _C),)],
    32: [((_DESCRIBE_CONFIGS, _T),)],
    33: [((_ALTER_CONFIGS, _T),)],
    34: [((_ALTER, _C),)],
    35: [((_DESCRIBE, _C),)],
    37: [((_ALTER, _T),)],
    42: [((_DELETE, _G),)],
    43: [((_ALTER, _C),)],
    44: [((_ALTER_CONFIGS, _T),)],
    45: [((_ALTER, _C),)],
    46: [((_DESCRIBE, _C),)],
    47: [((_DELETE, _G),), ((_READ, _T),)],
    48: [((_DESCRIBE_CONFIGS, _C),)],
    49: [((_ALTER_CONFIGS, _C),)],
    50: [((_DESCRIBE, _C),)],
    51: [((_ALTER, _C),)],
    55: [((_DESCRIBE, _C),)],
    57: [((_ALTER, _C),)],
    61: [((_READ, _T),)],
    64: [((_ALTER, _C),)],
    65: [((_DESCRIBE, _X),)],
    66: [((_DESCRIBE, _X),)],
    68: [((_READ, _G),), ((_DESCRIBE, _T),)],
    69: [((_DESCRIBE, _G),)],
    74: [((_DESCRIBE_CONFIGS, _C),)],
    75: [((_DESCRIBE, _T),)],
    80: [((_ALTER, _C),)],
    81: [((_ALTER, _C),)],
}
SILENT = {16, 66}  # what may not be seen is left out
BROKERS_SINCE = {24: 4}  # from this version on brokers ask, and need CLUSTER_ACTION alone
_CODES = {
    Kind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Kind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Kind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Kind.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_FORBIDDEN = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_KINDS = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "key_type": 0,
    "endpoint_type": 1,
    "session_epoch": -1,
    "acks": -1,
    "replica_id": -1,
    "num_partitions": 1,
}


def one_of_everything(at: Layout, topic_id: bytes) -> Any:
    """A request whose lists have one entry each, about topic t, by name where it has one, and group g."""
    request = at.cls()
    fields = {field.name: field for field in at.plain + at.tagged}
    for name, field in fields.items():
        own_id = bytes(16) if {"name", "topic"} & fields.keys() else topic_id
        setattr(request, name, _value(at, field.wire_type, name, topic_id, own_id))
    return request


def _value(at: Layout, wire_type: Any, name: str, topic_id: bytes, own_id: bytes) -> Any:
    if isinstance(wire_type, Array):
        return [_value(at, wire_type.element, name, topic_id, own_id)]
    if isinstance(wire_type, Sized):
        text = wire_type.name == "String"
        return ("g" if "group" in name or "key" in name else "t") if text else b""
    if isinstance(wire_type, Fixed):
        return own_id if wire_type.name == "Uuid" else _KINDS.get(name, False if wire_type.name == "Bool" else 0)
    return one_of_everything(at.of(wire_type), topic_id)


def errors(value: Any) -> set[int]:
    """Every error code in an answer."""
    found: set[int] = set()
    if isinstance(value, Struct):
        for field in value.FIELDS:
            inner = getattr(value, field.name)
            found |= {inner} if field.name.endswith("error_code") else errors(inner)
    elif isinstance(value, list):
        for inner in value:
            found |= errors(inner)
    return found - {0}


class Asked:
    """A broker with an authorizer, asked by alice; `questions` are those that it was asked since `grant`."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.questions: list[tuple[int, int]] = []
        self.runtime = VirtualRuntime()
        settings = Settings(
            {
                "log.dirs": str(directory),
                "authorizer.class.name": STANDARD,
                "offsets.topic.num.partitions": "1",
                "transaction.state.log.num.partitions": "1",
            }
        )
        self.composition = Composition.open(settings, self.runtime, [("PLAINTEXT", "127.0.0.1", 9092)])
        self.composition.start()
        made: list[Any] = []
        self.composition.broker.catalogue.create_topic(NewTopic("t", 1), made.append)
        self.runtime.turn()
        self.topic_id: bytes = made[0].value.topic_id
        authorizer = self.composition.broker.authorizer
        assert authorizer is not None
        self.authorizer = authorizer
        self._have_group()
        decide = authorizer.verdict

        def verdict(principal: str, host: str, operation: int, resource: int, name: str) -> tuple[bool, str]:
            self.questions.append((operation, resource))
            return decide(principal, host, operation, resource, name)

        monkeypatch.setattr(authorizer, "verdict", verdict)

    def _have_group(self) -> None:
        """Group g has committed an offset, with nobody in it."""
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
        commit = OffsetCommitRequest(
            group_id="g", member_id="", topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)]
        )
        broker = self.composition.broker
        broker.catalogue.ensure_topic(new_topic(OFFSETS_TOPIC, broker.settings), lambda _: None)
        self.runtime.turn()
        self.grant((Operation.ALL, _G), (Operation.ALL, _T))
        assert not errors(self.ask(ApiKey.OFFSET_COMMIT, 7, commit))

    def grant(self, *rights: Right, on: str = "*") -> None:
        """These, on everything or on one name, and nothing else."""
        for acl in list(self.authorizer.acls):
            self.authorizer.acls.remove(acl.id)
        for number, (operation, kind) in enumerate(rights):
            self.authorizer.acls.add(
                AccessControlEntryRecord(
                    id=number.to_bytes(16),
                    resource_type=kind,
                    resource_name=on,
                    pattern_type=PatternType.LITERAL,
                    principal=USER,
                    host="*",
                    operation=operation,
                    permission_type=Permission.ALLOW,
                )
            )
        self.authorizer.generation += 1
        self.questions.clear()

    def ask(self, key: int, version: int, request: Any) -> Any:
        context = RequestContext(USER, version=version, rights=self.authorizer.rights(USER, HOST))
        answer = HANDLERS[key](self.composition.broker, context, request)
        for _ in range(100):
            if not isinstance(answer, Deferred) or answer.done:
                break
            self.runtime.advance(1_000)
        if isinstance(answer, Deferred):
            assert answer.done
            return answer.response
        return answer

    def codes(self, key: int, version: int) -> set[int]:
        """The error codes of an answer to a request about t and g."""
        request = one_of_everything(message_layout(APIS[key].request, version), self.topic_id)
        try:
            answer = self.ask(key, version, request)
        except CloseConnection as verdict:  # acks=0 has no other way to hear it
            return {code for code in _FORBIDDEN if code.name in str(verdict)}
        if isinstance(answer, CloseConnection):
            return {code for code in _FORBIDDEN if code.name in str(answer)}
        return errors(answer)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Asked(tmp_path / "data", monkeypatch)
    yield made
    made.composition.stop(lambda _: None)
    made.runtime.turn()


every_api = pytest.mark.parametrize("key", sorted(set(HANDLERS) - OPEN), ids=lambda key: ApiKey(key).name)


@every_api
def test_who_may_nothing_is_refused_by_every_api(asked: Asked, key: int) -> None:
    """SE34: in its oldest and its newest version some question is asked, and only a refusal, or nothing, comes."""
    assert key in CHECKS, "what does it check? add it to the table"
    for version in {APIS[key].served[0], APIS[key].served[1]}:
        asked.grant()
        codes = asked.codes(key, version)
        assert codes <= _FORBIDDEN
        assert codes or key in SILENT or (key == ApiKey.DESCRIBE_LOG_DIRS and version < 3)
        # Of transactional ids each one that is there is asked about, and here is none.
        assert asked.questions or key == ApiKey.LIST_TRANSACTIONS, "nobody was asked"


@every_api
def test_each_api_checks_what_kafkas_does(asked: Asked, key: int) -> None:
    """SE34, SE35: all of its rights let a request through, and any one that is missing refuses it with its code."""
    for version in {APIS[key].served[0], APIS[key].served[1]}:
        checks = CHECKS[key]
        if version >= BROKERS_SINCE.get(key, 100):
            checks = [((_BROKERS, _C),)]
        for index, check in enumerate(checks):
            for right in check:
                asked.grant(right, *(other[0] for other in checks if other is not check))
                assert not asked.codes(key, version) & _FORBIDDEN, (version, right)
                assert set(asked.questions) & set(check) or key in SILENT
            if key in SILENT or (key == ApiKey.DESCRIBE_LOG_DIRS and version < 3):
                continue
            asked.grant(*(other[0] for other in checks if other is not check))
            refused = {_CODES[check[-1][1]], *([ErrorCode.OPERATION_NOT_ATTEMPTED] if key == 24 else [])}
            assert refused >= asked.codes(key, version) & {*_FORBIDDEN, *refused} > set(), (version, index)


def test_metadata_hides_what_may_not_be_seen(asked: Asked) -> None:
    """SE43, SE44: by name no id is told and nothing is made, with DESCRIBE too; among all topics it is left out."""
    asked.grant()
    by_name = MetadataRequest(topics=[MetadataRequestTopic(name="new"), MetadataRequestTopic(name="t")])
    absent, present = asked.ask(ApiKey.METADATA, 12, by_name).topics
    for topic, name in ((absent, "new"), (present, "t")):
        assert (topic.error_code, topic.name, topic.topic_id) == (29, name, bytes(16))
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=asked.topic_id)])
    (topic,) = asked.ask(ApiKey.METADATA, 12, by_id).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (29, None, asked.topic_id)
    assert asked.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None)).topics == []

    asked.grant((_DESCRIBE, _T))
    assert asked.ask(ApiKey.METADATA, 12, by_name).topics[0].error_code == 29
    assert asked.composition.broker.catalogue.image.topic("new") is None
    asked.grant((_DESCRIBE, _T), (_CREATE, _C))
    assert asked.ask(ApiKey.METADATA, 12, by_name).topics[0].error_code == 0


def test_lists_of_everything_have_what_may_be_seen(asked: Asked) -> None:
    """SE42: all topics, all groups and all transactions, without an error for those that are left out."""
    seen, unseen = "seen", "unseen"
    broker = asked.composition.broker
    asked.grant((Operation.ALL, _T), (Operation.ALL, _G), (Operation.ALL, _X))
    broker.catalogue.ensure_topic(new_topic(TRANSACTIONS_TOPIC, broker.settings), lambda _: None)
    for name in (seen, unseen):
        broker.catalogue.create_topic(NewTopic(name, 1), lambda _: None)
        asked.runtime.turn()
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
        topics = [OffsetCommitRequestTopic(name=name, partitions=partitions)]
        commit = OffsetCommitRequest(group_id=name, member_id="", topics=topics)
        assert not errors(asked.ask(ApiKey.OFFSET_COMMIT, 7, commit))
        producer = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1_000)
        assert not errors(asked.ask(ApiKey.INIT_PRODUCER_ID, 4, producer))

    asked.grant((_DESCRIBE, _T), (_DESCRIBE, _G), (_DESCRIBE, _X), on=seen)
    topics = asked.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    assert [(one.name, one.error_code) for one in topics.topics] == [(seen, 0)]
    described = asked.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest(topics=[]))
    assert [(one.name, one.error_code) for one in described.topics] == [(seen, 0)]
    groups = asked.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
    assert (groups.error_code, [one.group_id for one in groups.groups]) == (0, [seen])
    found = asked.ask(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest())
    assert (found.error_code, [one.transactional_id for one in found.transaction_states]) == (0, [seen])


def test_an_id_does_not_lead_to_a_name(asked: Asked) -> None:
    """SE43: who may nothing learns no name from a topic's id, and not that the two belong together."""
    made: list[Any] = []
    asked.composition.broker.catalogue.create_topic(NewTopic("unseen", 1), made.append)
    asked.runtime.turn()
    topic_id: bytes = made[0].value.topic_id
    for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.TXN_OFFSET_COMMIT):
        version = APIS[key].served[1]
        request = one_of_everything(message_layout(APIS[key].request, version), topic_id)
        asked.grant((Operation.ALL, _G), (Operation.ALL, _X))
        answer = asked.ask(key, version, request)
        assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in errors(answer)
        assert b"unseen" not in b"".join(encode_response(key, version, 1, answer)), key
    asked.grant()
    both = DeleteTopicsRequest(topics=[DeleteTopicState(name="unseen"), DeleteTopicState(name=None, topic_id=topic_id)])
    answer = asked.ask(ApiKey.DELETE_TOPICS, 6, both)
    assert {(one.name, one.topic_id, one.error_code) for one in answer.responses} == {
        ("unseen", bytes(16), 29),
        (None, topic_id, 29),
    }


def test_operations_fields_tell_what_is_allowed(asked: Asked) -> None:
    """SE46: bits of what ALLOWs give and imply; 0 of a cluster that may not be described; -2**31 if not asked."""
    cluster = MetadataRequest(
        topics=[MetadataRequestTopic(name="t")],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    asked.grant((_WRITE, _T))
    answer = asked.ask(ApiKey.METADATA, 10, cluster)
    assert (answer.topics[0].topic_authorized_operations, answer.cluster_authorized_operations) == (272, 0)
    asked.grant((Operation.ALL, _T), (Operation.ALL, _C))
    answer = asked.ask(ApiKey.METADATA, 10, cluster)
    assert (answer.topics[0].topic_authorized_operations, answer.cluster_authorized_operations) == (3576, 8096)
    answer = asked.ask(ApiKey.METADATA, 10, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
    assert answer.topics[0].topic_authorized_operations == -(2**31)


@pytest.mark.parametrize("right", [(_WRITE, _T), (Operation.IDEMPOTENT_WRITE, _C)])
def test_a_producer_id_is_for_who_may_write_somewhere(asked: Asked, right: Right) -> None:
    """SE41: WRITE on any topic is enough, and so is IDEMPOTENT_WRITE on the cluster."""
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1_000, producer_id=-1, producer_epoch=-1
    )
    asked.grant((_READ, _T))
    assert asked.ask(ApiKey.INIT_PRODUCER_ID, 4, request).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    asked.grant(right)
    assert asked.ask(ApiKey.INIT_PRODUCER_ID, 4, request).error_code == 0
