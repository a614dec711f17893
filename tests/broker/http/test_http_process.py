"""The HTTP listener of a real process: where it listens, what it says of health and groups, what it costs a start."""

import platform
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from broker.config.listeners import Address
from broker.config.setting_types import SettingsError
from broker.config.settings import Settings
from broker.http.listener import HttpRefused, address_of, bound
from tests.broker.http.metrics.http_client import Metrics, get, get_json
from tests.support.broker_process import QUICK_GROUPS, BrokerDiedError, Kohort, eventually

KEY = "kohort.http.listener"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9644", Address("HTTP", "127.0.0.1", 9644)),
        (":0", Address("HTTP", "", 0)),
        ("[::1]:1", Address("HTTP", "::1", 1)),
        ("localhost:65535", Address("HTTP", "localhost", 65535)),
        ("", None),
        (" ", None),
    ],
)
def test_the_listener_is_host_and_port_or_nothing(text: str, address: Address | None):
    assert address_of(Settings({KEY: text})) == address


@pytest.mark.parametrize("text", ["9644", "here", "host:x", "host:65536", "http://host:1", "host:-1"])
def test_anything_else_is_refused_with_what_it_takes(text: str):
    with pytest.raises(SettingsError, match="it takes host:port, or nothing"):
        address_of(Settings({KEY: text}))


def test_a_port_in_use_is_refused_when_it_was_asked_for_and_passed_over_when_it_is_the_default(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(HttpRefused, match=f"cannot listen on {place}: address already in use; name another"):
            bound(Settings({KEY: place}))

        settings = Settings()
        monkeypatch.setattr(settings, "kohort_http_listener", place)
        assert bound(settings) == []
        assert "http_not_listening" in capfd.readouterr().err


def test_a_port_in_use_that_was_asked_for_ends_the_start_before_a_file_is_touched(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = Kohort(tmp_path, {KEY: f"127.0.0.1:{taken.getsockname()[1]}"})
        with pytest.raises(BrokerDiedError, match="exit code 1") as died:
            broker.start()

    assert "cannot listen on 127.0.0.1" in str(died.value)
    assert "Traceback" not in str(died.value)
    assert not broker.data.exists()


def test_an_empty_listener_is_none(tmp_path: Path):
    with Kohort(tmp_path, {KEY: ""}) as broker:
        assert "metrics on" not in broker.log()


def test_health_readiness_and_what_is_not_there(tmp_path: Path):
    with Kohort(tmp_path) as broker:
        assert get_json(f"{broker.http}/healthz") == (200, {"alive": True})
        status, answer = get_json(f"{broker.http}/readyz")
        assert (status, answer["ready"], answer["missing"]) == (200, True, [])
        assert answer["tree"] in ("pure", "compiled")
        assert answer["interpreter"].startswith(platform.python_implementation())
        assert get(f"{broker.http}/nowhere")[0] == 404
        assert get(f"{broker.http}/readyz/")[0] == 200


def test_a_group_is_described_with_its_members_owners_and_lag(tmp_path: Path):
    with Kohort(tmp_path, {**QUICK_GROUPS, "num.partitions": 2}) as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        for number in range(10):
            producer.produce("orders", str(number), partition=number % 2)
        assert producer.flush(20) == 0
        consumer = Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": "a/b c",
                "client.id": "worker-1",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["orders"])
        eventually(lambda: len(consumer.consume(10, 0.5)) and consumer.assignment(), what="an assignment")
        url = f"{broker.http}/groups/a%2Fb%20c"

        status, group = get_json(url)

        assert status == 200
        assert (group["group_id"], group["state"], group["protocol_type"]) == ("a/b c", "Stable", "consumer")
        (member,) = group["members"]
        assert member["client_id"] == "worker-1"
        assert member["partitions"] == {"orders": "0-1"}
        assert group["leader"] == member["member_id"]
        assert group["rebalance_in_progress"] is None
        assert [entry["owner"] for entry in group["partitions"]] == [member["member_id"]] * 2
        assert get_json(f"{broker.http}/groups") == (
            200,
            {"groups": [{"group_id": "a/b c", "state": "Stable", "protocol_type": "consumer", "members": 1}]},
        )
        status, refusal = get_json(f"{broker.http}/groups/a%2Fbc")
        assert status == 404
        assert refusal["nearest"] == ["a/b c"]
        consumer.close()


def test_a_rebalance_that_goes_on_says_who_is_missing_and_for_how_long(tmp_path: Path):
    with Kohort(tmp_path, {**QUICK_GROUPS, "group.initial.rebalance.delay.ms": 30_000}) as broker:
        Producer({"bootstrap.servers": broker.address}).list_topics("orders", 10)
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "client.id": "first"})
        consumer.subscribe(["orders"])
        consumer.poll(0.1)
        group = eventually(
            lambda: consumer.poll(0.05) is None and get_json(f"{broker.http}/groups/g")[1].get("rebalance_in_progress")
        )

        assert group["first_cause"]["trigger"] == "member_joined"
        assert group["phase"] == "join"
        assert group["missing"] == []
        assert group["first_cause"]["client_id"] == "first"
        assert 0 <= group["for_ms"] < 30_000
        consumer.close()


def test_a_log_that_cannot_be_opened_turns_readiness_off(tmp_path: Path):
    """A disk error flips `/readyz` and says which log; `/healthz` stays, since a new start would not help."""
    with Kohort(tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("orders", "x")
        assert producer.flush(20) == 0
        broker.stop()
        segment = next((broker.data / "orders-0").glob("*.log"))
        content = segment.read_bytes()
        segment.unlink()
        segment.mkdir()
        broker.start()
        get(f"{broker.http}/metrics")  # asks for every log

        status, answer = get_json(f"{broker.http}/readyz")

        assert status == 503
        assert "orders-0" in answer["missing"][0]
        assert get(f"{broker.http}/healthz")[0] == 200
        assert Metrics(broker.http).value("kohort_ready") == 0
        assert Metrics(broker.http).value("kohort_partitions", state="failed") == 1
        segment.rmdir()
        segment.write_bytes(content)
        broker.restart()
        assert get(f"{broker.http}/readyz")[0] == 200


def test_a_stop_waits_for_nobody_who_is_connected(tmp_path: Path):
    """Idle, amid a request, amid an answer that is not read: the end is clean and takes no longer."""
    with Kohort(tmp_path) as broker:
        host, port = broker.http.removeprefix("http://").split(":")
        with ExitStack() as stack:
            for sent in (b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: b\r\n\r\n" * 50):
                peer = stack.enter_context(socket.create_connection((host, int(port)), 10))
                peer.sendall(sent)
            assert get(f"{broker.http}/healthz")[0] == 200
            broker.stop()
        assert broker.exit_code == 0
        assert "clean=True" in broker.log()


@pytest.mark.parametrize(
    "sent", [b"\x00\x00\x00\x0f\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04abcd\r\n\r\n", b"\x16\x03\x01\r\n\r\n"]
)
def test_a_client_of_another_protocol_is_told_400_and_hung_up_on(tmp_path: Path, sent: bytes):
    with Kohort(tmp_path) as broker:
        host, port = broker.http.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 10) as peer:
            peer.sendall(sent)
            answer = b""
            while part := peer.recv(4096):
                answer += part
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert get(f"{broker.http}/healthz")[0] == 200
