"""ACLs as clients meet them: a library's own requests, and a consumer whose right is taken away while it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from kohort.testing import Broker
from tests.support.broker_process import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": 0,
}

EVERYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(AUTHORIZED) as running:
        yield running


def binding(permission: AclPermissionType, operation: AclOperation, name: str = "orders") -> AclBinding:
    who = ("User:ANONYMOUS", "127.0.0.1")
    return AclBinding(ResourceType.TOPIC, name, ResourcePatternType.LITERAL, *who, operation, permission)


ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


def meant_by(acl: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type
    )


def test_rights_are_taken_from_who_is_reading(broker: Broker) -> None:
    """SE45: the fetch that waits ends with a refusal, the next produce is refused; given back, both go on."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    read: list[bytes | None] = []
    refused: list[int] = []

    def poll() -> None:
        message = consumer.poll(0.1)
        if message is not None:
            error = message.error()
            if error is None:
                read.append(message.value())
            else:
                refused.append(error.code())

    def produce(value: bytes) -> KafkaError | None:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers}
        )  # an old one remembers the refusal for a while
        errors: list[KafkaError | None] = []
        producer.produce("orders", value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(60) == 0
        return errors[0]

    assert produce(b"before") is None
    eventually(lambda: poll() or read, what="the first record", every_s=0)

    denials = [binding(DENY, AclOperation.READ), binding(DENY, AclOperation.WRITE)]
    for future in admin.create_acls([binding(ALLOW, AclOperation.ALL), *denials]).values():
        future.result(60)
    eventually(lambda: poll() or refused, what="a refusal", every_s=0)
    assert set(refused) == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    error = produce(b"denied")
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    found = admin.describe_acls(EVERYTHING).result(60)
    assert {acl.operation for acl in found} == {AclOperation.ALL, AclOperation.READ, AclOperation.WRITE}

    (deleted,) = admin.delete_acls([meant_by(denials[0])]).values()
    assert [acl.operation for acl in deleted.result(60)] == [AclOperation.READ]
    (deleted,) = admin.delete_acls([meant_by(denials[1])]).values()
    deleted.result(60)
    assert produce(b"after") is None
    eventually(lambda: poll() or b"after" in read, what="the last record", every_s=0)
    consumer.close()
    assert "authorization_denied principal=User:ANONYMOUS" in broker.log()


def test_acls_hold_after_a_restart(broker: Broker) -> None:
    """Also when the broker was killed."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_acls([binding(DENY, AclOperation.ALL, "secret")]).values():
        future.result(60)
    broker.kill()
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert (
        admin.list_topics("secret", timeout=300).topics["secret"].error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    )
