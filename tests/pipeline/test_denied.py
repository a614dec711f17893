"""A broker that lets its user not read or see a topic, or that dies: said in a sentence, and never a smaller answer."""

import html
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from pipeline.errors import DataError
from pipeline.group_commit import offsets_of
from pipeline.sources.access import access, read_settings
from pipeline.sources.fetch_client import LATEST, OffsetLookup, list_offsets
from pipeline.sources.fetch_read import wanted
from pipeline.sources.options import KNOWN_TO_KAFKA, parse
from tests.pipeline.test_cli import run  # noqa: F401  a fixture
from tests.pipeline.told import told
from tests.support.broker_process import QUICK_GROUPS, Kafka, Kohort, eventually, free_port, need
from tests.support.java import NEWEST

pytestmark = pytest.mark.slow

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LEDGER = "__kohort_rebalances"
OFFSETS = "__consumer_offsets"


class Guarded:
    """A broker with ACLs. An administrator comes in as ANONYMOUS; bob, with a password, may all that is not denied."""

    def __init__(self, folder: Path, *, kafka: bool = False) -> None:
        """`kafka`: Apache Kafka instead of Kohort."""
        ports = {"PLAINTEXT": free_port(), "SASL_PLAINTEXT": free_port()}
        self.bobs = f"127.0.0.1:{ports['SASL_PLAINTEXT']}"
        self.config = folder / "bob.properties"
        login = f'{MODULE} username="bob" password="secret";'
        self.config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        settings = {
            **QUICK_GROUPS,
            "listeners": listeners,
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} user_bob="secret";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        self.broker: Kohort | Kafka
        if kafka:
            settings |= {
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:{ports['PLAINTEXT'] + 1}",
                "advertised.listeners": listeners,
                "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in ports)
                + ",CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
            }
            environment = {"KAFKA_VERSION": NEWEST, "KAFKA_HEAP": "320m"}
            self.broker = Kafka(folder / "broker", settings, port=ports["PLAINTEXT"], environment=environment)
        else:
            self.broker = Kohort(folder / "broker", settings, port=ports["PLAINTEXT"])

    @property
    def words(self) -> tuple[str, ...]:
        """How bob asks."""
        return ("--from", self.bobs, "--command-config", str(self.config))

    def start(self) -> None:
        """The broker, and what bob may."""
        self.broker.start()
        self.admin = AdminClient({"bootstrap.servers": self.broker.address})
        for kind in (ResourceType.TOPIC, ResourceType.GROUP):
            self._put(acl(AclOperation.ALL, "*", AclPermissionType.ALLOW, kind))
        self._put(acl(AclOperation.ALL, "kafka-cluster", AclPermissionType.ALLOW, ResourceType.BROKER))

    def _put(self, binding: AclBinding) -> None:
        for future in self.admin.create_acls([binding]).values():
            future.result(20)

    def deny(self, *wanted: str) -> None:
        """To bob each `OPERATION topic`, and nothing else."""
        anything: Any = None
        everything = AclBindingFilter(
            *(ResourceType.ANY, anything, ResourcePatternType.ANY, anything, anything),
            *(AclOperation.ANY, AclPermissionType.DENY),
        )
        for future in self.admin.delete_acls([everything]).values():
            future.result(20)
        for operation, topic in (one.split() for one in wanted):
            self._put(acl(AclOperation[operation], topic, AclPermissionType.DENY))


def acl(
    operation: AclOperation, name: str, permission: AclPermissionType, kind: ResourceType = ResourceType.TOPIC
) -> AclBinding:
    """Of bob, from wherever."""
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:bob", "*", operation, permission)


def fill(address: str) -> None:
    """Of two topics some records, and a group that read them and is gone."""
    producer = Producer({"bootstrap.servers": address})
    for topic in ("orders", "payments"):
        for number in range(30):
            producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": "shop", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders", "payments"])
    seen: list[Any] = []

    def read() -> bool:
        seen.extend(one for one in consumer.consume(10, 0.1) if one.error() is None)
        return len(seen) == 60

    eventually(read, what="all records")
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    one = Guarded(tmp_path_factory.mktemp("guarded"))
    one.start()
    try:
        fill(one.broker.address)
        yield one
    finally:
        one.broker.close()


def sentence(guarded: Guarded, denied: str) -> str:
    """What is said of it."""
    operation, topic = denied.split()
    return f"{guarded.bobs} denies {operation} on topic '{topic}' (TOPIC_AUTHORIZATION_FAILED)"


@pytest.mark.parametrize(
    ("denied", "verb"),
    [
        (f"READ {OFFSETS}", "commits"),
        (f"DESCRIBE {OFFSETS}", "groups"),
        pytest.param(f"READ {LEDGER}", "rebalances", marks=pytest.mark.long),
        ("READ orders", "lag --now --exact"),
    ],
)
def test_a_topic_that_must_not_be_read_is_named_and_nothing_is_written(
    guarded: Guarded,
    denied: str,
    verb: str,
    run: Any,  # noqa: F811
    tmp_path: Path,
) -> None:
    guarded.deny(denied)
    code, out, err = run(*verb.split(), *guarded.words, "--to", tmp_path / "out")

    assert (code, out, told(err)) == (1, "", [f"kohort pipeline: {sentence(guarded, denied)}"])
    assert not [one for one in (tmp_path / "out").rglob("*") if one.suffix == ".parquet"]


def test_what_must_not_be_seen_is_said_to_be_left_out(guarded: Guarded, run: Any, tmp_path: Path) -> None:  # noqa: F811
    """The lag of one topic of two, at rest, as a stream and in a report, which has no word of the ledger either."""
    orders, ledger = "DESCRIBE orders", f"DESCRIBE {LEDGER}"
    guarded.deny(orders, ledger)
    missing = f"left out: the log ends and the lag of orders: {sentence(guarded, orders)}"
    unseen = f"notice: what a rebalance ledger would tell is left out: {sentence(guarded, ledger)}, if there is one"

    code, out, err = run("lag", "--now", *guarded.words, "--format", "json")
    lags = {row["topic"]: row["lag_messages"] for row in map(json.loads, out.splitlines())}
    assert (code, lags, told(err)[:-1]) == (1, {"orders": None, "payments": 0}, [missing])

    stream = ("--stream", "--once", "--watermark", "1s", "--checkpoint", tmp_path / "checkpoint")
    code, out, err = run("lag", *stream, *guarded.words, "--to", tmp_path / "out")
    assert (code, told(err)[:-1]) == (1, [missing])

    code, out, err = run("report", *guarded.words, "--to", tmp_path / "page.html")
    assert (code, told(err)[:-1]) == (1, [unseen, missing])
    page = html.unescape((tmp_path / "page.html").read_text())
    assert missing in page
    assert unseen in page
    assert "there is no rebalance ledger here" not in page
    assert "topics whose logs are not here" not in page


def test_a_right_that_is_taken_away_after_the_topics_were_listed_is_named(guarded: Guarded) -> None:
    """In between, the leaders were known."""
    guarded.deny()
    options = parse({"bootstrap": guarded.broker.address, "topic": "orders"}, KNOWN_TO_KAFKA)
    partitions = wanted(options)
    theirs = access(guarded.bobs, read_settings(str(guarded.config)))
    of_bobs = [replace(one, address=guarded.bobs) for one in partitions]
    guarded.deny("DESCRIBE orders")

    with pytest.raises(DataError) as refused:
        list_offsets(of_bobs, LATEST, theirs, read_committed=False)
    assert str(refused.value) == sentence(guarded, "DESCRIBE orders")


def test_a_groups_offsets_are_told_to_who_may_not_see_their_log(guarded: Guarded) -> None:
    """Not that there were none: a stream that begins there would read everything again."""
    guarded.deny(f"DESCRIBE {OFFSETS}")
    found = offsets_of(guarded.bobs, "shop", settings=read_settings(str(guarded.config)))
    assert json.loads(found) == {"orders": {"0": 30}, "payments": {"0": 30}}


@pytest.mark.long
def test_apache_kafka_denies_topics_in_the_same_words(run: Any, tmp_path: Path) -> None:  # noqa: F811
    """A topic that must not be read, one that must not be seen, and a ledger of which nobody can know."""
    need("java", "mvn")
    guarded, out = Guarded(tmp_path, kafka=True), tmp_path / "out"
    guarded.start()
    try:
        fill(guarded.broker.address)
        for denied, verb in ((f"READ {OFFSETS}", "commits"), ("READ orders", "lag --now --exact")):
            guarded.deny(denied)
            code, printed, err = run(*verb.split(), *guarded.words, "--to", out)
            assert (code, printed, told(err)) == (1, "", [f"kohort pipeline: {sentence(guarded, denied)}"])
            assert not [one for one in out.rglob("*") if one.suffix == ".parquet"]

        orders, ledger = "DESCRIBE orders", f"DESCRIBE {LEDGER}"
        guarded.deny(orders, ledger)
        missing = f"left out: the log ends and the lag of orders: {sentence(guarded, orders)}"
        unseen = f"notice: what a rebalance ledger would tell is left out: {sentence(guarded, ledger)}, if there is one"
        code, printed, err = run("groups", *guarded.words, "--format", "json")
        assert (code, [json.loads(line)["group_id"] for line in printed.splitlines()]) == (1, ["shop"])
        assert sorted(told(err)[:-1]) == sorted([missing, unseen])
    finally:
        guarded.broker.close()


@pytest.mark.parametrize("verb", ["lag", "report"])
def test_a_broker_that_dies_while_it_is_asked_is_named_and_nothing_is_written(
    verb: str,
    run: Any,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Group records were read by then, and some of the ends of logs were told."""
    with Kohort(tmp_path / "broker", QUICK_GROUPS) as broker:
        fill(broker.address)
        asked: list[Any] = []
        ask = OffsetLookup.ask

        def dying(lookup: OffsetLookup, times: Any) -> Any:
            asked.append(times)
            if len(asked) == 7:
                broker.kill()
            return ask(lookup, times)

        # Tasks ask in processes of their own: these are the questions of the driver, four about how much there is, and
        # then about the grid.
        monkeypatch.setattr(OffsetLookup, "ask", dying)
        code, out, err = run(verb, "--from", broker.address, "--to", tmp_path / "out")

    [said] = told(err)
    assert (code, out, len(asked)) == (1, "", 7)
    assert said.startswith(f"kohort pipeline: {broker.address} broke off when asked for offsets: ")
    assert not (tmp_path / "out").exists()
