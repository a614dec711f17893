"""What the verbs say to users who may do little: a refusal is told, and nothing is taken for absent because of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Ended, committed_group, fill, kohort, kohort_process
from tests.support.broker_process import QUICK_GROUPS, Kohort

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = ("nobody", "looker", "member")
REFUSED = "kohort: Cluster authorization failed\n"


class Place:
    """A broker whose PLAINTEXT listener asks nothing, and users of its other one."""

    def __init__(self, broker: Kohort) -> None:
        self.broker = broker
        line = re.search(r"ready on (\S+) and (\S+) in", broker.log())
        assert line is not None
        self._secured, self.open = line[1], line[2]
        for user in USERS:
            config = f'{LOGIN} username="{user}" password="secret";'
            text = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={config}\n"
            self._file(user).write_text(text)

    def words(self, user: str) -> tuple[str, ...]:
        """What has a command ask as this user."""
        return "--bootstrap-server", self._secured, "--command-config", str(self._file(user))

    def ask(self, user: str, *words: str, stdin: str = "") -> Ended:
        """`kohort` as this user."""
        return kohort(*words, *self.words(user), stdin=stdin)

    def _file(self, user: str) -> Path:
        return self.broker.directory / f"{user}.properties"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One who may nothing, one who may describe configs of the cluster, one of the group `billing`."""
    users = " ".join(f'user_{user}="secret"' for user in USERS)
    settings = {
        **QUICK_GROUPS,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{LOGIN} {users};",
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS",
    }
    with Kohort(tmp_path_factory.mktemp("refusals"), settings) as broker:
        made = Place(broker)
        yield made


@pytest.mark.parametrize("words", [("describe",), ("describe", "bob"), ("delete", "bob")])
def test_users_that_may_not_be_seen_are_a_sentence(place: Place, words: tuple[str, ...]) -> None:
    """In a process of its own: the client library ended it by a fault of memory."""
    ended = kohort_process("users", *words, *place.words("nobody"))
    assert (ended.code, ended.out, ended.err) == (1, "", REFUSED)


@pytest.mark.parametrize(
    "words",
    [
        ("add", "bob"),
        ("delete", "bob", "--mechanism", "SCRAM-SHA-256"),
        ("alter", "bob", "--delete-config", "SCRAM-SHA-256"),
    ],
)
def test_users_that_may_not_be_changed_are_a_sentence(place: Place, words: tuple[str, ...]) -> None:
    ended = place.ask("nobody", "users", *words, stdin="pw\n")
    assert (ended.code, ended.out, ended.err) == (1, "", "kohort: user 'bob': Cluster authorization failed\n")


def test_kafka_configs_does_not_take_a_refusal_for_a_user_without_credentials(place: Place) -> None:
    """Quotas are told to who may describe configs, credentials are not."""
    rights = ("--allow-principal", "User:looker", "--operation", "DescribeConfigs", "--cluster")
    assert kohort("acls", "add", *rights, "-b", place.open).code == 0
    words = ("kafka-configs.sh", "--describe", "--entity-type", "users", "--entity-name", "bob")
    told = place.ask("looker", *words)
    assert (told.code, told.err) == (1, REFUSED)
    assert kohort(*words, "--bootstrap-server", place.open).code == 0


@pytest.mark.parametrize("words", [("acls", "list"), ("acls", "list", "--topic", "t"), ("kafka-acls.sh", "--list")])
def test_acls_that_may_not_be_seen_are_a_sentence_and_only_looked_for(place: Place, words: tuple[str, ...]) -> None:
    seen = len(place.broker.log())
    ended = place.ask("nobody", *words)
    assert (ended.code, ended.out, ended.err) == (1, "", REFUSED)
    denied = re.findall(r"authorization_denied .*operation=(\w+)", place.broker.log()[seen:])
    assert set(denied) <= {"DESCRIBE"}


@pytest.fixture(scope="module")
def orders(place: Place) -> str:
    """A topic that nobody but ANONYMOUS may see."""
    fill(place.open, "orders")
    return "orders"


@pytest.mark.parametrize(
    "words",
    [
        ("consume", "orders", "--from-beginning", "--max-messages", "1"),
        ("groups", "reset-offsets", "g", "--topic", "orders", "--to-earliest"),
        ("topics", "alter", "orders", "--partitions", "9", "--if-exists"),
        ("topics", "describe", "orders", "--if-exists"),
        ("topics", "delete", "orders", "--if-exists"),
        ("transactions", "find-hanging", "--topic", "orders"),
        ("transactions", "describe-producers", "--topic", "orders", "--partition", "0"),
    ],
)
def test_a_topic_that_may_not_be_seen_is_not_one_that_is_not_there(
    place: Place, orders: str, words: tuple[str, ...]
) -> None:
    ended = place.ask("nobody", *words)
    assert ended.code == 1, ended
    assert re.fullmatch(
        rf"kohort: topic '?{orders}'?( could not be (altered|deleted))?: Topic authorization failed\n", ended.err
    )


def test_a_group_that_may_not_be_seen_is_not_one_that_is_not_there(place: Place, orders: str) -> None:
    """Its topic, by which it is known that there were groups at all, is hidden from nearly all users."""
    for resource in (("--group", "billing"), ("--topic", orders)):
        words = ("acls", "add", "--allow-principal", "User:member", "--operation", "Read", *resource)
        assert kohort(*words, "-b", place.open).code == 0
    refused = "Group authorization failed"
    for verb in (("groups", "describe"), ("why",)):
        absent = place.ask("member", *verb, "billing")
        assert (absent.code, absent.err) == (1, "kohort: group 'billing' does not exist\n")
        assert refused in place.ask("nobody", *verb, "billing").err
    assert "__consumer_offsets" not in kohort("topics", "list", "-b", place.open).out  # asking makes nothing

    committed_group(place.open, "billing", orders)
    (told,) = place.ask("member", "groups", "describe", "billing", "--json").json
    assert {row["topic"] for row in told["offsets"]} == {orders}
    assert place.ask("member", "groups", "describe", "--all-groups").code == 0
    assert place.ask("member", "why", "billing").code == 0
    for verb in (("groups", "describe"), ("groups", "delete-offsets", "--topic", orders), ("why",)):
        for user, group in (("nobody", "billing"), ("member", "other")):
            ended = place.ask(user, *verb, group)
            assert (ended.code, refused in ended.err) == (1, True), (user, verb, ended)
