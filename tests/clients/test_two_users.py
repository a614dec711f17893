"""Two users behind SASL, with rights of their own: what each may, and what is left when a right is taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, NewTopic
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Kind

from tests.cli.conftest import kohort
from tests.support.broker_process import Kohort, eventually, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="a" user_alice="al" user_bob="bo";'
PASSWORDS = {"admin": "a", "alice": "al", "bob": "bo"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Kohort]:
    """One SASL_PLAINTEXT listener with PLAIN and SCRAM, and an authorizer whose super user is admin."""
    settings = secured(port := free_port())
    with Kohort(tmp_path, settings) as running:
        running.sasl = f"127.0.0.1:{port}"  # type: ignore[attr-defined]
        yield running


def secured(port: int) -> dict[str, object]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},SASL_PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": "",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": 0,
    }


def login(broker: Kohort, user: str, mechanism: str = "PLAIN", password: str | None = None) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.sasl,  # type: ignore[attr-defined]
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password or PASSWORDS[user],
        "log_level": 0,
    }


def allow(user: str, operation: AclOperation, name: str, kind: Kind = Kind.TOPIC) -> AclBinding:
    return AclBinding(kind, name, Pattern.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def produced(broker: Kohort, user: str, **more: str) -> int:
    """The error code of one record of this user's, 0 for none."""
    producer = Producer({**login(broker, user, **more), "enable.idempotence": user == "alice"})
    errors: list[KafkaError | None] = []
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    return 0 if errors[0] is None else errors[0].code()


def test_each_user_may_what_was_given_to_them_until_it_is_taken(broker: Kohort) -> None:
    """SE28, SE41, SE45: alice writes with an idempotent producer, bob reads; then bob may no longer."""
    admin = AdminClient(login(broker, "admin"))
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
    group = allow("bob", AclOperation.READ, "billing", Kind.GROUP)
    given = [allow("alice", AclOperation.WRITE, "orders"), allow("bob", AclOperation.READ, "orders"), group]
    for future in admin.create_acls(given).values():
        future.result(60)

    assert produced(broker, "alice") == 0
    assert produced(broker, "bob") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer = Consumer({**login(broker, "bob"), "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    read: list[bytes | None] = []
    refused: set[int] = set()

    def poll() -> None:
        message = consumer.poll(0.1)
        if message is not None:
            error = message.error()
            if error is None:
                read.append(message.value())
            else:
                refused.add(error.code())

    eventually(lambda: poll() or read, what="the record that alice wrote", every_s=0)
    done = kohort(
        "acls", "remove", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "orders", "--force",
        "-b", broker.address,
    )  # fmt: skip
    assert done.code == 0, done
    assert produced(broker, "alice") == 0
    eventually(lambda: poll() or refused, what="a refusal", every_s=0)
    assert refused == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    assert read == [b"x"]
    consumer.close()

    other = Consumer({**login(broker, "alice"), "group.id": "billing"})
    other.subscribe(["orders"])
    codes: set[int] = set()

    def ask() -> None:
        message = other.poll(0.1)
        if message is not None and message.error() is not None:
            codes.add(message.error().code())  # type: ignore[union-attr]

    eventually(lambda: ask() or codes, what="a refusal", every_s=0)
    assert codes & {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}
    other.close()
    lines = [line for line in broker.log().splitlines() if "authorization_denied" in line]
    assert any("principal=User:bob" in line and "operation=READ" in line and "name=orders" in line for line in lines)
    for password in PASSWORDS.values():
        assert f"={password} " not in broker.log()


def test_a_user_of_the_metadata_log_has_rights_by_name(broker: Kohort) -> None:
    """A password that `kohort users` set, a right that `kohort acls` gave."""
    at = ("-b", broker.address)
    assert kohort("topics", "create", "orders", *at).code == 0
    assert kohort("users", "add", "carol", *at, stdin="marked-secret\n").code == 0
    carol = {"mechanism": "SCRAM-SHA-256", "password": "marked-secret"}
    assert produced(broker, "carol", **carol) != 0
    assert kohort("acls", "add", "--allow-principal", "User:carol", "--producer", "--topic", "orders", *at).code == 0
    assert produced(broker, "carol", **carol) == 0
    assert "marked-secret" not in broker.log()


def test_the_first_user_comes_with_the_directory(tmp_path: Path) -> None:
    """Formatted with an administrator, who logs in at the first start and may everything."""
    broker = Kohort(tmp_path, secured(port := free_port()))
    broker.sasl = f"127.0.0.1:{port}"  # type: ignore[attr-defined]
    user = "SCRAM-SHA-256=[name=admin,password=marked-secret]"
    done = kohort("storage", "format", "--override", f"log.dirs={broker.data}", "--add-scram", user)
    assert done.code == 0, done
    with broker:
        admin = AdminClient(login(broker, "admin", "SCRAM-SHA-256", "marked-secret"))
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
