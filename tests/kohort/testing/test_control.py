"""`kohort testbed`: brokers for tests in any language, commanded over HTTP."""

import http.client
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from cli import main
from kohort.testing import Broker
from tests.support.broker_process import ROOT, eventually


class Testbed:
    """A client of it."""

    __test__ = False

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "kohort", "testbed", "--http", "127.0.0.1:0", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("kohort testbed on http://127.0.0.1:"), line
        self.connection = http.client.HTTPConnection("127.0.0.1", int(line.rpartition(":")[2]), timeout=300)

    def __call__(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        self.connection.request(method, path, text, {"content-type": kind})
        answer = self.connection.getresponse()
        told = json.loads(answer.read())
        return answer.status, told.get("is", told.get("error"))

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        status, told = self(method, path, body)
        assert status == 200, told
        return told

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0
        self.connection.close()


@pytest.fixture
def testbed() -> Iterator[Testbed]:
    one = Testbed()
    yield one
    one.close()


def test_a_test_in_any_language_commands_its_broker(testbed: Testbed):
    ok = testbed.ok
    opened = ok("POST", "/brokers", {"topics": {"orders": 1}, "settings": {"num.partitions": 2}})
    path = f"/brokers/{opened['broker']}"
    assert ok("GET", "/brokers") == [opened]
    assert ok("POST", f"{path}/produce", {"topic": "orders", "values": ["a", {"b": 1}], "key": "k"}) == [0, 1]
    assert ok("POST", f"{path}/produce", {"topic": "orders", "value": {"base64": "/w=="}}) == [2]
    found = ok("GET", f"{path}/records?topic=orders")
    assert [(one["offset"], one["key"], one["value"]) for one in found] == [
        (0, "k", "a"),
        (1, "k", '{"b": 1}'),
        (2, None, {"base64": "/w=="}),
    ]
    wanted = [{"key": "k", "value": "a"}, {"key": "k", "value": {"b": 1}}, {"key": None, "value": {"base64": "/w=="}}]
    ok("POST", f"{path}/assert_produced", {"topic": "orders", "expected": wanted})
    status, told = testbed("POST", f"{path}/assert_produced", {"topic": "orders", "expected": ["a"], "within": 0})
    assert status == 409
    assert "+ b'\\xff'" in told or "+ '" in told, told

    config = {"bootstrap.servers": opened["bootstrap_servers"], "group.id": "billing"}
    fault = ok(
        "POST", f"{path}/faults", {"on": "OffsetCommit", "group": "billing", "error": "GROUP_AUTHORIZATION_FAILED"}
    )
    assert fault["is"] == "on('OffsetCommit', group='billing').error('GROUP_AUTHORIZATION_FAILED')"
    consumer = Consumer(config)
    offsets = [TopicPartition("orders", 0, 2)]
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        consumer.commit(offsets=offsets, asynchronous=False)
    assert ok("GET", f"{path}/faults/{fault['fault']}/hits") == 1
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    assert ok("GET", f"{path}/groups/billing/committed") == [{"topic": "orders", "partition": 0, "offset": 2}]
    assert ok("GET", f"{path}/groups") == ["billing"]
    assert "billing" in ok("GET", f"{path}/groups/billing/why")
    assert [one["api"] for one in ok("GET", f"{path}/requests?api=OffsetCommit")] == ["OffsetCommit"] * 2

    before = ok("GET", f"{path}/clock/now_ms")
    ok("POST", f"{path}/clock/shift", {"span": "1h"})
    assert ok("GET", f"{path}/clock/now_ms") >= before + 3_600_000
    snapshot = ok("POST", f"{path}/snapshot")["snapshot"]
    ok("POST", f"{path}/power_cut")
    ok("POST", f"{path}/start")
    other = ok("POST", "/brokers", {"snapshot": snapshot})
    assert len(ok("GET", f"/brokers/{other['broker']}/records?topic=orders")) == 3
    fork = ok("POST", f"/brokers/{other['broker']}/fork")
    assert ok("GET", f"/brokers/{fork['broker']}/topics") == {"orders": 1}
    ok("POST", f"/brokers/{fork['broker']}/chaos", {"seed": 1, "kinds": ["errors"]})
    assert "chaos, seed 1" in ok("GET", f"/brokers/{fork['broker']}/chaos")
    ok("DELETE", f"/snapshots/{snapshot}")

    ok("POST", f"{path}/faults", {"on": "Produce", "times": 2, "disconnect": "before"})
    status, told = testbed("DELETE", path)
    assert (status, told.splitlines()[0]) == (409, "never hit: on('Produce', times=2).disconnect('before')")
    assert testbed("GET", path)[0] == 404


def test_what_is_wrong_is_said(testbed: Testbed):
    path = f"/brokers/{testbed.ok('POST', '/brokers')['broker']}"
    for method, where, body, status, said in (
        ("GET", "/", None, 404, "begin with POST /brokers"),
        ("GET", "/brokers/9", None, 404, "there is no broker '9'; there are 1"),
        ("POST", f"{path}/prodcue", {}, 404, "there is no 'prodcue': it takes one of"),
        ("POST", f"{path}/produce", {"topik": "t"}, 400, "missing a required argument: 'topic'"),
        ("POST", f"{path}/create_topic", {"name": "t", "parts": 1}, 400, "it takes name, partitions, configs"),
        ("POST", f"{path}/groups/g/expire", {"member": "m"}, 400, "there is no group 'g'"),
        ("POST", f"{path}/clock/shift", {"span": "soon"}, 400, "it takes a number of seconds, or text like '45s'"),
        ("POST", f"{path}/faults", {"on": "Fetch"}, 400, "one of error, delay, drop, disconnect, hold, throttle"),
        (
            "POST",
            f"{path}/faults",
            {"on": "Fetsh", "hold": True},
            400,
            "there is no API 'Fetsh': it takes one of Fetch",
        ),
        ("POST", "/brokers", {"settings": {"num.partitoins": 1}}, 400, "there is no setting num.partitoins"),
        ("POST", "/brokers", "[1]", 400, "no JSON object"),
        ("POST", "/brokers", "{", 400, "the body is no JSON"),
    ):
        answered, told = testbed(method, where, body)
        assert answered == status, told
        assert said in told, told
    assert testbed("POST", "/brokers", "{}", kind="text/plain") == (
        400,
        "a body is JSON, and says so: content-type: application/json",
    )
    pid = testbed.ok("GET", f"{path}/pid")
    subprocess.run(["kill", "-9", str(pid)], check=True)
    status, told = testbed("GET", f"{path}/topics")
    assert (status, "by SIGKILL" in told) == (410, True), told


def test_a_query_says_what_a_body_would(testbed: Testbed):
    path = f"/brokers/{testbed.ok('POST', '/brokers', {'topics': {'t': 2}})['broker']}"
    testbed.ok("POST", f"{path}/produce", {"topic": "t", "value": "a", "partition": 1})
    for query, count in (("partition=0", 0), ("partition=1", 1), ("partition=1&committed=false", 1)):
        assert len(testbed.ok("GET", f"{path}/records?topic=t&{query}")) == count


def test_pages_in_browsers_command_nothing(testbed: Testbed):
    """Without a body, a page may have anything asked of another server: by an image, or by a form."""
    path = f"/brokers/{testbed.ok('POST', '/brokers', {'topics': {'t': 1}})['broker']}"
    for act in ("produce?topic=t&value=a", "kill", "clock/shift?span=1h", "groups/g/rebalance"):
        assert testbed("GET", f"{path}/{act}")[0] == 400
    inside = f"POST {path}/kill HTTP/1.1\r\n\r\n"
    testbed.connection.request("POST", f"{path}/kill", inside, headers={"origin": "http://example.org"})
    answer = testbed.connection.getresponse()
    assert (answer.status, answer.getheader("connection")) == (400, "close")
    assert b"a page in a browser" in answer.read()
    assert testbed.ok("GET", f"{path}/records?topic=t") == []


def test_it_answers_to_names_that_nobody_else_can_own():
    """A page may have its own name stand for 127.0.0.1, and then ask without an Origin."""
    testbed = Testbed("--host-name", "testbed.example.org")
    for host, status in (
        ("localhost:9645", 200),
        ("127.0.0.1", 200),
        ("[::1]:9645", 200),
        ("kohort:9645", 200),
        ("host.docker.internal:9645", 200),
        ("Testbed.Example.org:9645", 200),
        ("evil.example.org:9645", 400),
        ("127.0.0.1.example.org", 400),
        ("[::1", 400),
        ("", 400),
    ):
        testbed.connection.request("GET", "/brokers", headers={"host": host})
        answer = testbed.connection.getresponse()
        told = json.loads(answer.read())
        assert answer.status == status, host
        assert told == {"is": []} or "a testbed answers to" in told["error"], told
    testbed.connection.putrequest("GET", "/brokers", skip_host=True)
    testbed.connection.endheaders()
    assert testbed.connection.getresponse().status == 400
    testbed.connection.close()
    testbed.close()


def test_brokers_begin_with_what_lies_where_it_may_be_taken_from(tmp_path: Path):
    with Broker(topics={"orders": 1}) as broker, broker.snapshot() as snapshot:
        shutil.copytree(snapshot.path, tmp_path / "free" / "stocked")
    shutil.copytree(tmp_path / "free" / "stocked", tmp_path / "secret")
    (tmp_path / "free" / "way-out").symlink_to(tmp_path / "secret")
    testbed = Testbed("--load-from", str(tmp_path / "free"))
    for load in ("stocked", str(tmp_path / "free" / "stocked")):
        path = f"/brokers/{testbed.ok('POST', '/brokers', {'load': load})['broker']}"
        assert testbed.ok("GET", f"{path}/topics") == {"orders": 1}
    for load in ("../secret", str(tmp_path / "secret"), "way-out", "/"):
        status, told = testbed("POST", "/brokers", {"load": load})
        assert (status, told) == (400, f"load={load!r}: it takes a directory in {tmp_path / 'free'}")
    status, told = testbed("POST", "/brokers", {"load": "nothing"})
    assert (status, "there is no such directory" in told) == (400, True), told
    testbed.close()
    testbed = Testbed()
    status, told = testbed("POST", "/brokers", {"load": str(tmp_path / "free" / "stocked")})
    assert (status, "--load-from DIRECTORY" in told) == (400, True), told
    testbed.close()


def test_a_fault_is_known_to_its_broker_alone(testbed: Testbed):
    one, other = (f"/brokers/{testbed.ok('POST', '/brokers')['broker']}" for _ in range(2))
    fault = testbed.ok("POST", f"{one}/faults", {"on": "Fetch", "hold": True, "optional": True})["fault"]
    assert testbed("GET", f"{other}/faults/{fault}/hits") == (404, f"there is no fault '{fault}'; there is none")
    assert testbed.ok("GET", f"{one}/faults/{fault}/hits") == 0


def test_every_request_is_answered(tmp_path: Path):
    testbed = Testbed("--load-from", str(tmp_path))
    status, told = testbed("POST", "/brokers", {"load": "\0"})
    assert (status, "ValueError" in told) == (500, True)
    path = f"/brokers/{testbed.ok('POST', '/brokers')['broker']}"
    body = iter([b'{"topic": "t",', b' "value": "a"}'])
    headers = {"content-type": "application/json"}
    testbed.connection.request("POST", f"{path}/produce", body, headers, encode_chunked=True)
    answer = testbed.connection.getresponse()
    assert (answer.status, json.loads(answer.read())) == (200, {"is": [0]})
    assert testbed.ok("GET", f"{path}/topics") == {"t": 1}
    testbed.close()


def test_brokers_end_with_it(tmp_path: Path):
    testbed = Testbed("--override", "num.partitions=3")
    opened = testbed.ok("POST", "/brokers")
    pid = testbed.ok("GET", f"/brokers/{opened['broker']}/pid")
    producer = Producer({"bootstrap.servers": opened["bootstrap_servers"]})
    producer.produce("t", "x")
    assert producer.flush(20) == 0
    assert testbed.ok("GET", f"/brokers/{opened['broker']}/topics") == {"t": 3}
    testbed.close()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), what="its end")


def test_where_it_cannot_listen_is_said(capsys: pytest.CaptureFixture[str]):
    assert main(["testbed", "--http", "here"]) == 2
    assert "--http here: it takes HOST:PORT" in capsys.readouterr().err
    assert main(["testbed", "--override", "x"]) == 2
    assert main(["testbed", "--load-from", "/nowhere"]) == 2
    assert "--load-from /nowhere: there is no such directory" in capsys.readouterr().err
    assert main(["testbed", "--http", "192.0.2.1:1"]) == 1
    assert "cannot listen on 192.0.2.1:1" in capsys.readouterr().err
