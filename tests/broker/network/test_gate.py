"""A connection on a listener with SASL, from its first byte."""

from __future__ import annotations

import random
import weakref
from struct import pack
from typing import Any

import pytest

from broker.broker import Broker
from broker.config.listeners import parse_listeners
from broker.config.settings import Settings
from broker.handlers.context import Deferred
from broker.network.gate import LOGIN_WITHIN_MS
from broker.network.listener_security import ListenerSecurity
from broker.network.securities import Securities
from broker.security.mechanisms import Offer
from broker.security.scram import Scram
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.frames import encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.security.test_scram import NONCE, credential
from tests.support.connections import Harness
from tests.support.garbage import collected_by_nobody
from tests.support.virtual_runtime import VirtualRuntime

PREFIX = "listener.name.sasl_plaintext"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="bobpw" user_carol="carolpw";'
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    f"{PREFIX}.plain.sasl.jaas.config": JAAS,
}
BOB = b"\0bob\0bobpw"
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Peer(Harness):
    """One connection on such a listener; PLAIN with bob and carol, SCRAM with alice."""

    def __init__(self, handlers: dict[int, Any] | None = None, **settings: Any) -> None:
        given = {**SETTINGS, **{key.replace("__", "."): str(value) for key, value in settings.items()}}
        self.principals: list[str] = []

        def heartbeat(_: Broker, context: Any, __: Any) -> Any:
            self.principals.append(context.principal)
            return HeartbeatResponse(error_code=0)

        def metadata(_: Broker, context: Any, __: Any) -> Any:
            self.principals.append(context.principal)
            return MetadataResponse(brokers=[], topics=[])

        parsed = Settings(given)
        (listener,) = parse_listeners(parsed)
        security = ListenerSecurity(parsed, listener)
        runtime = VirtualRuntime()
        security.open(runtime, lambda *_: None, b"")
        security.offers["SCRAM-SHA-256"] = Offer(
            lambda: Scram(
                "SCRAM-SHA-256",
                lambda user, _: credential("alice-secret") if user == "alice" else None,
                NONCE,
                b"",
            )
        )
        table = {ApiKey.HEARTBEAT: heartbeat, ApiKey.METADATA: metadata, **(handlers or {})}
        super().__init__(table, broker=Broker(parsed, runtime), security=security)
        self.runtime = runtime

    def sends(self, *frames: bytes) -> None:
        self.connection.data_received(b"".join(frames))
        self.runtime.turn()

    def answers(self) -> list[bytes]:
        """The frames since the last look."""
        frames = self.frames()
        self.transport.written.clear()
        return frames

    def log_in(self, token: bytes = BOB, version: int = 2) -> None:
        self.sends(handshake(), authenticate(token, version=version))


def handshake(mechanism: str = "PLAIN", version: int = 1, correlation_id: int = 2) -> bytes:
    return encode_request(SaslHandshakeRequest(mechanism=mechanism), version, correlation_id, "k")


def authenticate(token: bytes = BOB, version: int = 2, correlation_id: int = 3) -> bytes:
    return encode_request(SaslAuthenticateRequest(auth_bytes=token), version, correlation_id, "k")


def versions(version: int = 3, name: str = "lib", correlation_id: int = 1) -> bytes:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return encode_request(request, version, correlation_id, "k")


def any_request(api_key: int) -> bytes:
    """A request of that API: whole where it may be served, else a header alone."""
    if api_key == ApiKey.SASL_HANDSHAKE:
        return handshake()
    if api_key == ApiKey.API_VERSIONS:
        return versions()
    body = pack(">hhih", api_key, 0, 1, -1)
    return pack(">i", len(body)) + body


def heartbeat(correlation_id: int = 9) -> bytes:
    return encode_request(HEARTBEAT, 1, correlation_id, "k")


def hexed(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


def error_of(frame: bytes) -> int:
    """Of an answer that begins with it, behind a header of version 0."""
    return int.from_bytes(frame[8:10], "big", signed=True)


# --- the bytes


def test_the_golden_exchange_of_plain():
    """SE11: the bytes of Apache Kafka, but for the order of the mechanisms."""
    peer = Peer()
    peer.sends(hexed("00000012 0011 0001 00000002 0001 6b 0005 504c41494e"))
    assert peer.answers() == [
        hexed("00000020 00000002 0000 00000002 0005504c41494e 000d534352414d2d5348412d323536"),
    ]
    peer.sends(hexed("00000018 0024 0002 00000003 0001 6b 00 0b 00626f6200626f627077 00"))
    assert peer.answers() == [hexed("00000012 00000003 00 0000 01 01 0000000000000000 00")]
    peer.sends(heartbeat())
    assert peer.principals == ["User:bob"]


def test_the_golden_exchange_of_plain_in_version_0_and_with_a_wrong_password():
    """SE11"""
    peer = Peer()
    peer.sends(handshake())
    peer.answers()
    peer.sends(hexed("00000019 0024 0000 00000002 0001 6b 0000000a 00626f6200626f627077"))
    assert peer.answers() == [hexed("0000000c 00000002 0000 0000 00000000")]

    peer = Peer()
    peer.sends(handshake())
    peer.answers()
    peer.sends(authenticate(b"\0bob\0wrong", correlation_id=2))
    peer.runtime.advance(100)
    assert peer.answers() == [
        hexed("00000045 00000002 00 003a 34")
        + b"Authentication failed: Invalid username or password"
        + hexed("01 0000000000000000 00")
    ]


def test_the_golden_exchange_of_scram():
    """SE11"""
    peer = Peer()
    peer.sends(hexed("0000001a 0011 0001 00000001 0001 6b 000d 534352414d2d5348412d323536"))
    peer.answers()
    peer.sends(hexed("00000033 0024 0002 00000002 0001 6b 00 26") + b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL" + b"\0")
    assert peer.answers() == [
        hexed("0000006b 00000002 00 0000 01 5a")
        + b"r=fyko+d2lbbFgONRv9qkxdawLcp1a547vmw7mud261aeom7z72,s=c2FsdHNhbHRzYWx0c2FsdHNhbHQ=,i=4096"
        + hexed("0000000000000000 00")
    ]
    peer.sends(
        hexed("00000077 0024 0002 00000003 0001 6b 00 6a")
        + b"c=biws,r=fyko+d2lbbFgONRv9qkxdawLcp1a547vmw7mud261aeom7z72,p=+Vjr71ZSe8mifcc0SOYTIo9hByBMp0D9r/Rt8z5k0J8="
        + b"\0"
    )
    assert peer.answers() == [
        hexed("00000040 00000003 00 0000 01 2f")
        + b"v=q0NnQ/C9Mw+JYgTSoxB8/iF0Q8apBTwj0W9L5ioNwXI="
        + hexed("0000000000000000 00")
    ]
    peer.sends(heartbeat())
    assert peer.principals == ["User:alice"]


def test_bare_tokens_follow_a_handshake_of_version_0():
    """SE12"""
    peer = Peer()
    peer.sends(handshake(version=0), pack(">i", len(BOB)) + BOB)
    first, answer = peer.answers()
    assert error_of(first) == ErrorCode.NONE
    assert answer == bytes(4)
    peer.sends(heartbeat())
    assert peer.principals == ["User:bob"]

    peer = Peer()
    peer.sends(handshake(version=0), pack(">i", 3) + b"\0a\0")
    peer.answers()
    peer.runtime.advance(99)
    assert not peer.transport.closed
    peer.runtime.advance(1)
    assert peer.transport.closed
    assert not peer.transport.written


# --- the states


@pytest.mark.parametrize("api_key", range(93))
def test_only_api_versions_and_handshakes_may_come_first(api_key: int):
    """SE13"""
    peer = Peer()
    peer.sends(any_request(api_key))
    served = api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS)
    assert len(peer.answers()) == served
    assert peer.transport.closed != served


@pytest.mark.parametrize("api_key", range(93))
def test_behind_api_versions_only_a_handshake_may_come(api_key: int):
    """SE14"""
    peer = Peer()
    peer.sends(versions())
    peer.answers()
    peer.sends(any_request(api_key))
    served = api_key == ApiKey.SASL_HANDSHAKE
    assert len(peer.answers()) == served
    assert peer.transport.closed != served


def test_api_versions_comes_once_and_may_be_tried_again_after_an_error():
    """SE14"""
    peer = Peer()
    peer.sends(versions(), versions())
    assert len(peer.answers()) == 1
    assert peer.transport.closed

    peer = Peer()
    peer.sends(handshake(), versions(correlation_id=5))
    assert len(peer.answers()) == 1
    assert not peer.transport.closed
    peer.runtime.advance(100)
    (answer,) = peer.answers()
    assert error_of(answer) == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.transport.closed

    peer = Peer()
    too_new = pack(">hhih", ApiKey.API_VERSIONS, 9, 4, 1) + b"k" + b"\0"
    peer.sends(pack(">i", len(too_new)) + too_new, versions(name="li b"), versions(), handshake(), authenticate())
    errors = [error_of(answer) for answer in peer.answers()]
    assert errors == [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST, 0, 0, 0]

    peer = Peer()
    no_tags = pack(">hhih", ApiKey.API_VERSIONS, 9, 4, 1) + b"k"
    peer.sends(pack(">i", len(no_tags)) + no_tags)
    assert peer.transport.closed
    assert not peer.transport.written


def test_a_request_in_the_midst_of_a_log_in_is_refused_and_ends_it():
    """SE14: an empty Metadata answer, and the end a little later."""
    peer = Peer()
    peer.sends(handshake())
    peer.answers()
    peer.sends(encode_request(MetadataRequest(topics=None), 1, 7, "k"), heartbeat())
    peer.runtime.advance(99)
    assert not peer.answers()
    peer.runtime.advance(1)
    assert len(peer.answers()) == 1
    assert peer.transport.closed
    assert peer.principals == []


def test_bytes_that_came_ahead_are_served_and_nothing_behind_a_failure_is():
    """SE31"""
    peer = Peer()
    peer.sends(versions(), handshake(), authenticate(), heartbeat())
    assert len(peer.answers()) == 4
    assert peer.principals == ["User:bob"]

    peer = Peer()
    peer.sends(versions(), handshake(), authenticate(b"\0bob\0no"), heartbeat(), heartbeat())
    assert len(peer.answers()) == 2
    peer.sends(heartbeat())
    peer.runtime.advance(10_000)
    assert len(peer.answers()) == 1
    assert peer.principals == []
    assert peer.transport.closed


# --- failures


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"bob", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"bob\0bobpw", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0bob\0bobpw\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0bobpw", "Authentication failed: username not specified"),
        (b"\0bob\0", "Authentication failed: password not specified"),
        (b"\0bob\0\xff\xfe", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0bobpw", "Authentication failed: Invalid username or password"),
        (
            b"carol\0bob\0bobpw",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_a_plain_token_that_is_wrong_is_told_what_kafka_tells(token: bytes, text: str):
    """SE15, SE16"""
    peer = Peer()
    peer.sends(handshake(), authenticate(token, version=1))
    peer.runtime.advance(100)
    answer = peer.answers()[-1]
    assert error_of(answer) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert text.encode() in answer


@pytest.mark.parametrize("token", [b"\0bob\0bobpw", b"bob\0bob\0bobpw"])
def test_an_authorization_id_may_be_empty_or_the_user(token: bytes):
    """SE16"""
    peer = Peer()
    peer.log_in(token)
    assert [error_of(answer) for answer in peer.answers()] == [0, 0]


def test_a_failure_is_answered_after_the_delay_together_with_the_end():
    """SE17"""
    for frames in ((handshake(), authenticate(b"\0bob\0no", version=1)), (handshake("GSSAPI"),)):
        peer = Peer()
        peer.sends(*frames)
        peer.answers()
        peer.runtime.advance(99)
        assert not peer.transport.written
        assert not peer.transport.closed
        peer.runtime.advance(1)
        assert peer.transport.closed
        (answer,) = peer.answers()
        assert error_of(answer) in (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    assert b"PLAIN" in answer


def test_a_frame_that_cannot_be_behind_a_failure_changes_nothing():
    """SE31: it is not another failure, and takes nothing of the first one's answer."""
    peer = Peer()
    peer.sends(handshake(), authenticate(b"\0bob\0no", version=1), pack(">i", -1))
    peer.runtime.advance(100)
    assert error_of(peer.answers()[-1]) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert peer.server.failures.total == 1


def test_frames_before_the_log_in_have_a_limit():
    """SE30"""
    for size, delayed in ((524_289, True), (-1, True), (0, False)):
        peer = Peer()
        peer.sends(pack(">i", size))
        assert peer.transport.closed != delayed
        peer.runtime.advance(100)
        assert peer.transport.closed
        assert not peer.transport.written

    peer = Peer(sasl__server__max__receive__size=2_000)
    peer.sends(handshake(), pack(">i", 2_001))
    peer.runtime.advance(100)
    assert peer.transport.closed

    peer = Peer(sasl__server__max__receive__size=2_000)
    peer.log_in()
    large = encode_request(HeartbeatRequest(group_id="g" * 3_000, generation_id=1, member_id="m"), 1, 9, "k")
    peer.sends(large)
    assert peer.principals == ["User:bob"]


def test_who_says_nothing_is_sent_away_in_time():
    peer = Peer()
    peer.runtime.advance(LOGIN_WITHIN_MS - 1)
    assert not peer.transport.closed
    peer.runtime.advance(1)
    assert peer.transport.closed

    peer = Peer()
    peer.log_in()
    peer.runtime.advance(LOGIN_WITHIN_MS * 2)
    assert not peer.transport.closed
    assert not [timer for timer in peer.runtime.timers._by_key if timer[0] == "login" and timer in peer.runtime.timers]


def test_wrong_passwords_cost_their_address_more_and_more_and_nobody_else(capfd: pytest.CaptureFixture[str]):
    """SE32"""
    peer = Peer()
    for port in range(1_000):
        peer.connection, peer.transport = peer.connect("10.0.0.1", port + 1)
        peer.sends(handshake(), authenticate(b"\0bob\0guess"))
    capfd.readouterr()
    peer.runtime.advance(4_999)
    assert not peer.transport.closed
    peer.runtime.advance(1)
    assert peer.transport.closed

    peer.connection, peer.transport = peer.connect("10.0.0.2", 1)
    peer.sends(handshake(), authenticate(b"\0bob\0guess"))
    peer.runtime.advance(100)
    assert peer.transport.closed
    assert peer.server.failures.total == 1_001


# --- sessions


def test_a_session_ends_unless_it_is_authenticated_again():
    """SE23"""
    peer = Peer(connections__max__reauth__ms=3_000)
    peer.log_in(version=1)
    assert peer.answers()[-1].endswith(pack(">q", 3_000))
    peer.runtime.advance(2_000)
    peer.log_in(version=1)
    assert [error_of(answer) for answer in peer.answers()] == [0, 0]
    peer.runtime.advance(999)
    peer.sends(handshake(correlation_id=6))
    assert [error_of(answer) for answer in peer.answers()] == [ErrorCode.ILLEGAL_SASL_STATE]
    peer.runtime.advance(2_000)
    peer.sends(heartbeat())
    assert len(peer.answers()) == 1
    peer.runtime.advance(100)
    peer.log_in()  # its session has ended, and nothing else came first
    assert [error_of(answer) for answer in peer.answers()] == [0, 0]
    peer.runtime.advance(3_000)
    assert not peer.transport.closed
    peer.sends(versions())
    assert peer.transport.closed
    assert not peer.transport.written
    assert peer.server.counters.sessions_expired == 1
    assert set(peer.principals) == {"User:bob"}


@pytest.mark.parametrize(
    ("mechanism", "token", "text"),
    [
        ("PLAIN", b"\0carol\0carolpw", "Cannot change principals during re-authentication from User.bob: User.carol"),
        ("PLAIN", b"\0bob\0no", "Authentication failed: Invalid username or password"),
        ("SCRAM-SHA-256", b"n,,n=alice,r=a", None),
    ],
)
def test_who_authenticates_again_is_who_it_was_by_the_same_mechanism(mechanism: str, token: bytes, text: str | None):
    """SE23"""
    peer = Peer(connections__max__reauth__ms=3_000)
    peer.log_in()
    peer.answers()
    peer.sends(handshake(mechanism), authenticate(token))
    (answer,) = peer.answers()
    assert error_of(answer) == ErrorCode.NONE
    peer.runtime.advance(100)
    told = peer.answers()
    assert peer.transport.closed
    if text is None:
        assert told == []
    else:
        assert text.encode() in told[0]


def test_without_a_lifetime_a_handshake_is_refused_and_the_connection_goes_on():
    """SE23"""
    peer = Peer()
    peer.log_in()
    peer.answers()
    peer.log_in(version=1)
    assert [error_of(answer) for answer in peer.answers()] == [ErrorCode.ILLEGAL_SASL_STATE] * 2
    peer.sends(heartbeat())
    assert len(peer.answers()) == 1


def test_authenticating_again_waits_for_what_is_parked():
    """SE24: and what was parked keeps the identity that it came with."""
    parked: list[Deferred] = []

    def park(*_: Any) -> Deferred:
        parked.append(Deferred())
        return parked[-1]

    peer = Peer({ApiKey.HEARTBEAT: park}, connections__max__reauth__ms=3_000)
    peer.log_in()
    peer.answers()
    peer.sends(heartbeat(4), handshake(correlation_id=5), authenticate(correlation_id=6))
    assert peer.answers() == []
    parked[0].complete(HeartbeatResponse(error_code=0))
    peer.runtime.turn()
    assert peer.correlation_ids() == [4, 5, 6]


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [pack(">i", -1)],
        [versions(), handshake()],
        [handshake("GSSAPI")],
        [handshake(), authenticate(b"\0bob\0no")],
        [handshake(), encode_request(MetadataRequest(topics=None), 1, 7, "k")],
        [handshake("SCRAM-SHA-256"), authenticate(b"n,,n=alice,r=a"), authenticate(b"c=biws,r=a,p=AAAA")],
        [handshake(), authenticate()],
    ],
)
def test_who_was_not_let_in_leaves_nothing_behind(frames: list[bytes]):
    """SE73: not even until garbage is looked for, which is put off while there is much of it."""
    peer = Peer(connections__max__reauth__ms=3_000)
    peer.sends(*frames)
    peer.runtime.advance(10_000)
    peer.lose()
    gone = weakref.ref(peer.connection)
    peer.transport.protocol = None  # transports of loops let go of it themselves
    with collected_by_nobody():
        peer.connection = peer.transport = None
        assert gone() is None


def test_the_loop_looks_for_nobody_before_he_has_logged_in():
    """`kohort.busy.poll.us`: strangers cannot keep it awake."""
    peer = Peer()
    polling = peer.runtime.busy_polling
    polling.allow(200_000)
    peer.sends(versions())
    peer.log_in()
    assert polling._tried < 0
    peer.sends(heartbeat())
    assert polling._tried == 0


def test_the_plaintext_listener_has_no_gate():
    harness = Harness()
    assert harness.connection.requests.gate is None
    parsed = Settings({})
    (security,) = Securities(parsed, parse_listeners(parsed)).by_name.values()
    assert not security.protocol.sasl


def test_any_bytes_end_in_an_answer_or_in_the_end(capfd: pytest.CaptureFixture[str]):
    """SE73: frames of every shape, in every state."""
    generator = random.Random(11)
    starts = [[], [versions()], [handshake()], [handshake(version=0)], [handshake("SCRAM-SHA-256")],
              [handshake(), authenticate()]]  # fmt: skip
    for _ in range(200):
        peer = Peer(connections__max__reauth__ms=3_000)
        peer.sends(*generator.choice(starts))
        for _ in range(3):
            body = generator.randbytes(generator.randrange(40))
            if generator.random() < 0.8:
                body = pack(">hh", generator.choice([3, 12, 17, 18, 36]), generator.randrange(-1, 6)) + body
            peer.sends(pack(">i", generator.choice([len(body)] * 9 + [-1, 1 << 30])) + body)
        peer.runtime.advance(5_000)
        assert peer.transport.closed or peer.frames() is not None
        peer.lose()
        assert not peer.server.memory.used_bytes
    assert "Traceback" not in capfd.readouterr().err


""""""
