"""The pipeline asks and creates nothing: every verb, on a broker that records what it is sent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline.command import STREAMED, VERBS
from protocol.api_keys import ApiKey
from tests.pipeline.test_cli import run
from tests.support.broker_process import QUICK_GROUPS, Kohort
from tests.support.recording_proxy import Recorder, creates

__all__ = ["run"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Recorder, Path]]:
    """(a recording broker without a ledger and with a group `g`, its data)."""
    with Recorder() as recorder:
        settings = {
            **QUICK_GROUPS,
            "advertised.listeners": f"PLAINTEXT://{recorder.address}",
            "num.partitions": 1,
            "kohort.ledger.enable": "false",
        }
        with Kohort(tmp_path_factory.mktemp("asked"), settings) as broker:
            recorder.upstream = ("127.0.0.1", broker.port)
            client = {"bootstrap.servers": broker.address}
            admin = AdminClient(client)  # kept: without anybody who holds it, so is its answer lost
            admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(60)
            producer = Producer(client)
            for number in range(30):
                producer.produce("orders", b"v", partition=number % 3)
            assert producer.flush(60) == 0
            member = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
            member.subscribe(["orders"])
            read = 0
            while read < 30:
                read += len(member.consume(30 - read, timeout=1))
            member.commit(asynchronous=False)
            member.close()
            yield recorder, broker.data


@pytest.mark.parametrize(
    "verb",
    [
        *VERBS,
        *(pytest.param(f"{verb} --stream --once", marks=pytest.mark.long) for verb in STREAMED[1:]),
        f"{STREAMED[0]} --stream --once",
        "lag --now",
        "lag --exact",
    ],
)
def test_who_asks_creates_nothing(verb: str, run: Any, command: tuple[Recorder, Path], tmp_path: Path) -> None:
    """No topic, no member, no offset: neither by what is sent nor on disk."""
    recorder, data = command
    words = verb.split()
    if words[0] in ("state", "restore"):
        words += ["--at", "-0s", "--group", "g"]
    if words[0] == "report" or "--stream" in words:
        words += ["--to", str(tmp_path / "to")]
    if "--stream" in words:
        words += ["--checkpoint", str(tmp_path / "checkpoint")]
    before = sorted(place.name for place in data.iterdir() if place.is_dir())
    recorder.requests.clear()
    code, _, err = run(*words, "--from", recorder.address)
    assert code == 0, err
    assert recorder.requests
    assert creates(recorder, has_groups=False) == []
    if verb == "lag":
        read = {topic.topic for _, request in recorder.named(ApiKey.FETCH) for topic in request.topics}
        assert read == {"__consumer_offsets"}
    assert sorted(place.name for place in data.iterdir() if place.is_dir()) == before
