"""Who may ask over HTTP, and over TLS."""

from __future__ import annotations

import json
import socket
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from broker.config.setting_types import SettingsError
from broker.config.settings import Settings
from broker.http.answers import Later, json_answer
from broker.http.door import Door
from broker.http.listener import check_log_in
from broker.http.log_in import LogIn
from broker.http.server import MAX_OF_A_HOST
from tests.support.broker_process import Kohort
from tests.support.certificates import Authority
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "planted-token-91c"
BASIC = b64encode(b"ops:planted-word-4d2").decode()
BOTH = {"kohort.http.token": TOKEN, "kohort.http.basic.auth": "ops:planted-word-4d2"}


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        ("", 401),
        (f"Bearer {TOKEN}", 0),
        (f"bearer  {TOKEN}", 0),
        (f"Bearer {TOKEN}x", 401),
        (f"Basic {TOKEN}", 401),
        (f"Basic {BASIC}", 0),
        ("Basic b3BzOm5v", 401),
        (f"Bearer {BASIC}", 401),
        ("Bearer \u00e4", 401),
        ("Bearer", 401),
    ],
)
def test_the_token_or_the_password_opens(shown: str, status: int) -> None:
    refusal = LogIn(Settings(BOTH)).refusal("/metrics", {"authorization": shown})
    assert (0 if refusal is None else refusal.status) == status


def test_tokens_are_compared_in_constant_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes that comparison say yes is let in with a wrong one: nothing else looks at it."""
    wrong = {"authorization": "Bearer wrong"}
    assert LogIn(Settings(BOTH)).refusal("/metrics", wrong) is not None
    monkeypatch.setattr("broker.http.log_in.hmac.compare_digest", lambda one, other: True)
    assert LogIn(Settings(BOTH)).refusal("/metrics", wrong) is None


def test_a_token_may_have_any_letters() -> None:
    log_in = LogIn(Settings({"kohort.http.token": "schl\u00fcssel"}))
    came = "Bearer schl\u00fcssel".encode().decode("latin-1")  # as headers are read
    assert log_in.refusal("/metrics", {"authorization": came}) is None


def test_without_either_nobody_is_asked() -> None:
    assert LogIn(Settings({})).refusal("/metrics", {}) is None


def test_health_is_open() -> None:
    log_in = LogIn(Settings(BOTH))
    assert log_in.refusal("/healthz", {}) is None
    assert log_in.refusal("/readyz?x=1", {}) is None
    assert log_in.refusal("/readyz/..", {}) is not None
    assert log_in.refusal("//healthz", {}) is not None


@pytest.mark.parametrize("key", ["kohort.http.token", "kohort.http.basic.auth"])
def test_an_empty_one_refuses_the_start(key: str) -> None:
    with pytest.raises(SettingsError, match=f"{key}=\\[hidden\\]"):
        check_log_in(Settings({key: " "}))


def test_by_default_no_stranger_reaches_it() -> None:
    assert Settings({}).kohort_http_listener == "127.0.0.1:9644"


@pytest.mark.parametrize(
    ("given", "event"),
    [
        ({}, ""),
        ({"kohort.http.listener": "0.0.0.0:0"}, "http_open_to_all"),
        ({"kohort.http.listener": "0.0.0.0:0", "kohort.http.token": TOKEN}, "http_log_in_in_clear_text"),
        ({"kohort.http.listener": ":0", "kohort.http.token": TOKEN, "kohort.http.protocol": "HTTPS"}, ""),
        ({"kohort.http.listener": "127.0.0.1:0"}, ""),
    ],
)
def test_a_listener_that_strangers_reach_warns(
    given: dict[str, str], event: str, capfd: pytest.CaptureFixture[str]
) -> None:
    check_log_in(Settings(given))
    said = capfd.readouterr().err
    assert event in said
    assert bool(said) == bool(event)
    assert TOKEN not in said


def https(folder: Path) -> tuple[dict[str, str], ssl.SSLContext]:
    """The settings of a broker that asks who somebody is, over TLS, and how a client trusts it."""
    authority = Authority()
    (folder / "server.pem").write_bytes(authority.issue().pem())
    settings = {
        **BOTH,
        "kohort.http.protocol": "HTTPS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
    }
    context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    context.check_hostname = False
    return settings, context


def test_https_with_a_token(tmp_path: Path) -> None:
    """The certificate is that of the listeners; neither the token nor a wrong one is ever in the log."""
    settings, context = https(tmp_path)
    with Kohort(tmp_path / "data", {**settings, "kohort.log.level": "debug"}) as broker:

        def get(path: str, shown: str | None = None) -> tuple[int, bytes]:
            headers = {} if shown is None else {"Authorization": shown}
            asked = urllib.request.Request(f"{broker.http}{path}", headers=headers)
            try:
                with urllib.request.urlopen(asked, context=context, timeout=120) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()

        assert get("/healthz")[0] == 200
        status, body = get("/groups")
        assert (status, "log-in" in json.loads(body)["error"]) == (401, True)
        assert get("/groups", f"Bearer {TOKEN}") == (200, b'{"groups":[]}\n')
        assert get("/metrics", f"Basic {BASIC}")[0] == 200
        assert get("/metrics", "Bearer planted-wrong-77")[0] == 401
        with pytest.raises(OSError, match=r"(?i)certificate"):
            urllib.request.urlopen(f"{broker.http}/healthz", context=ssl.create_default_context(), timeout=120)
    told = [line for line in broker.log().splitlines() if "authentication_failed" in line]
    assert len(told) == 2
    assert all("listener=HTTP" in line and "peer=127.0.0.1" in line for line in told)
    assert "none was shown" in told[0]
    assert "mechanism=bearer" in told[1]
    assert "planted" not in broker.log()


def test_strangers_who_do_not_shake_hands_count_and_leave_in_time(tmp_path: Path) -> None:
    """As on the other listeners, whose TLS it is: the loop's own would keep as many as come."""
    settings, context = https(tmp_path)
    with Kohort(tmp_path / "data", settings) as broker, ExitStack() as opened:
        host, _, port = broker.http.removeprefix("https://").rpartition(":")

        def stranger(source: str) -> socket.socket:
            found = opened.enter_context(socket.socket())
            found.bind((source, 0))
            found.settimeout(20)
            found.connect((host, int(port)))
            return found

        first = stranger("127.0.0.2")
        for _ in range(MAX_OF_A_HOST - 1):
            stranger("127.0.0.2")
        with suppress(ConnectionError):
            assert stranger("127.0.0.2").recv(1) == b""
        assert urllib.request.urlopen(f"{broker.http}/healthz", context=context, timeout=120).status == 200
        first.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        with suppress(ConnectionError):
            while first.recv(1_000):
                pass
    assert "listener=http" in broker.log()
    assert "tls_handshake_failed" in broker.log()


def test_who_is_refused_often_is_answered_later_and_later() -> None:
    runtime, answers = VirtualRuntime(), []
    door = Door(runtime, LogIn(Settings(BOTH)), lambda *_: json_answer({}))

    def waits_ms(host: str) -> int:
        answers.clear()
        answer = door.respond("GET", "/groups", {"authorization": "Bearer no"}, host)
        assert isinstance(answer, Later)
        answer.when_there(answers.append)
        began_ms = runtime.now_ms()
        while not answers:
            runtime.advance(50)
        assert answers[0].status == 401
        return runtime.now_ms() - began_ms

    assert [waits_ms("10.0.0.1") for _ in range(12)] == [100] * 10 + [200, 400]
    assert waits_ms("10.0.0.2") == 100
