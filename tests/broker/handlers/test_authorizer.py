"""Who asks before they answer (D13): rights that come later must find every handler asking for them already."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from broker.catalogue.topic_changes import NewTopic
from broker.composition import Composition
from broker.config.settings import Settings
from broker.handlers.authorizer import Operation, ResourceType
from broker.handlers.context import CloseConnection, Deferred, RequestContext
from broker.handlers.dispatch import HANDLERS
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.registry import APIS
from protocol.schema import Struct
from protocol.schema.layout import Layout, message_layout
from protocol.schema.wire_types import Array, Fixed, Sized
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from pathlib import Path

# What everybody may ask, whoever they are: which versions there are, how to say who one is, where the cluster is.
_OPEN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.DESCRIBE_CLUSTER}
_FORBIDDEN = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_KINDS = {"resource_type": 2, "key_type": 0, "endpoint_type": 1, "session_epoch": -1, "acks": -1, "num_partitions": 1}


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
        return own_id if wire_type.name == "Uuid" else _KINDS.get(name, 0)
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
    """A broker whose authorizer says no, and remembers what it was asked."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.questions: list[tuple[int, int]] = []
        self.runtime = VirtualRuntime()
        self.composition = Composition.open(
            Settings({"log.dirs": str(directory)}), self.runtime, [("PLAINTEXT", "127.0.0.1", 9092)]
        )
        self.composition.start()
        made: list[Any] = []
        self.composition.broker.catalogue.create_topic(NewTopic("t", 1), made.append)
        self.runtime.turn()
        self.topic_id: bytes = made[0].value.topic_id

        def refuse(_: RequestContext, operation: int, resource: int, name: str = "") -> bool:
            self.questions.append((operation, resource))
            return False

        for module in [module for name, module in sys.modules.items() if name.startswith("broker.handlers.")]:
            if hasattr(module, "authorize"):
                monkeypatch.setattr(module, "authorize", refuse)

    def ask(self, key: int, version: int, request: Any) -> Any:
        answer = HANDLERS[key](self.composition.broker, RequestContext(version=version), request)
        self.runtime.turn()
        if isinstance(answer, Deferred):
            assert answer.done
            return answer.response
        return answer


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Asked(tmp_path / "data", monkeypatch)
    yield made
    made.composition.stop(lambda _: None)
    made.runtime.turn()


@pytest.mark.parametrize("key", sorted(set(HANDLERS) - _OPEN), ids=lambda key: ApiKey(key).name)
def test_who_may_nothing_is_told_so_by_every_api(asked: Asked, key: int) -> None:
    """In its oldest and its newest version: some question is asked, and no answer but a refusal, or nothing, comes."""
    for version in {APIS[key].served[0], APIS[key].served[1]}:
        asked.questions.clear()
        request = one_of_everything(message_layout(APIS[key].request, version), asked.topic_id)
        try:
            answer = asked.ask(key, version, request)
        except CloseConnection as verdict:  # acks=0 has no other way to hear it
            assert "AUTHORIZATION_FAILED" in str(verdict)
        else:
            assert errors(answer) <= _FORBIDDEN, answer
            assert errors(answer) or key in (ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS), answer
        # Of transactional ids each one that is there is asked about, and here is none.
        assert asked.questions or key == ApiKey.LIST_TRANSACTIONS, "nobody was asked"


def test_metadata_hides_what_may_not_be_seen(asked: Asked) -> None:
    """By name no id is told and nothing is made; among all topics it is left out."""
    from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    (topic,) = asked.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name="new")])).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "new", bytes(16))
    assert asked.composition.broker.catalogue.image.topic("new") is None
    assert asked.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None)).topics == []
    assert (Operation.DESCRIBE, ResourceType.TOPIC) in asked.questions
