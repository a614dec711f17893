"""OAUTHBEARER: tokens good and bad, keys that come and go."""

from __future__ import annotations

import contextlib
import hmac
import http.server
import json
import ssl
import threading
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from broker.config.listener_settings import check_own
from broker.config.listeners import parse_listeners
from broker.config.setting_types import SettingsError
from broker.config.settings import Settings
from broker.network import jwks
from broker.network.jwks import FOR_NEW_KEYS_EVERY_MS, JwksSource
from broker.network.listener_security import ListenerSecurity
from broker.security.mechanisms import NotYet, Proven, Rejected
from broker.security.oauth_bearer import BadToken
from broker.security.tokens import KeySet, KeySetError
from protocol.errors import ErrorCode
from tests.broker.network.test_gate import Peer, authenticate, error_of, handshake, heartbeat
from tests.support.certificates import Authority
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW_S = 1_700_000_000
PREFIX = "listener.name.sasl_plaintext.oauthbearer"
JAAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
RSA_KEY = rsa.generate_private_key(65_537, 2_048)
OTHER_KEY = rsa.generate_private_key(65_537, 2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def jwk(key: Any, key_id: str) -> dict[str, Any]:
    kind = jwt.algorithms.ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else jwt.algorithms.RSAAlgorithm
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": key_id, "use": "sig"}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


KEYS = key_set(jwk(RSA_KEY, "one"), jwk(EC_KEY, "two"))


def signed(key: Any = RSA_KEY, key_id: str | None = "one", algorithm: str = "RS256", **claims: Any) -> str:
    said = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 100, "aud": "kafka", "iss": "https://issuer", **claims}
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode({key: value for key, value in said.items() if value is not None}, key, algorithm, headers)


def plain(header: dict[str, Any] | None = None, signature: str = "", **claims: Any) -> str:
    said = {"sub": "alice", "exp": NOW_S + 100, **claims}
    parts = [header or {"alg": "none"}, {key: value for key, value in said.items() if value is not None}]
    return (
        ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "." + signature
    )


def keyed_with_the_public_key() -> str:
    """HS256, whose secret everybody knows: the RSA key that verifies."""
    public = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = plain({"alg": "HS256", "kid": "one"}, iat=NOW_S)[:-1]
    signature = urlsafe_b64encode(hmac.digest(public, head.encode(), "sha256")).decode().rstrip("=")
    return f"{head}.{signature}"


DEEP = urlsafe_b64encode(b"[" * 12_000).decode().rstrip("=")


def message(token: str, authorization_id: str = "", more: str = "") -> bytes:
    name = f"a={authorization_id}" if authorization_id else ""
    return f"n,{name},\x01auth=Bearer {token}\x01{more}\x01".encode()


def security(tmp_path: Path, keys: bytes | None = KEYS, **more: str) -> tuple[ListenerSecurity, VirtualRuntime]:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}.sasl.jaas.config": f"{JAAS};",
        "sasl.oauthbearer.expected.audience": "kafka,other",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
    }
    if keys is not None:
        (tmp_path / "keys.json").write_bytes(keys)
        settings["sasl.oauthbearer.jwks.endpoint.url"] = f"file://{tmp_path}/keys.json"
    parsed = Settings({**settings, **{key.replace("__", "."): value for key, value in more.items()}})
    (listener,) = parse_listeners(parsed)
    made, runtime = ListenerSecurity(parsed, listener), VirtualRuntime(now_ms=NOW_S * 1_000)
    made.open(runtime, lambda *_: None, b"")
    runtime.turn()
    return made, runtime


def proven(made: ListenerSecurity, token: bytes) -> Proven | None:
    exchange = made.offers["OAUTHBEARER"].begin()
    exchange.step(token)
    return exchange.proven


def test_settings_say_the_claim_of_the_user_and_by_how_much_clocks_differ(tmp_path: Path):
    made, _ = security(tmp_path, **{"sasl.oauthbearer.sub.claim.name": "upn"})
    found = proven(made, message(signed(upn="bob")))
    assert found is not None
    assert found.user == "bob"

    late = message(signed(exp=NOW_S - 29, iat=NOW_S - 90))
    assert proven(security(tmp_path)[0], late) is not None
    assert proven(security(tmp_path, **{"sasl.oauthbearer.clock.skew.seconds": "28"})[0], late) is None


def test_keys_are_read_as_often_as_a_setting_says(tmp_path: Path):
    made, runtime = security(tmp_path, **{"sasl.oauthbearer.jwks.endpoint.refresh.ms": "5000"})
    assert proven(made, message(signed())) is not None
    (tmp_path / "keys.json").write_bytes(b'{"keys": []}')
    runtime.advance(4_999)
    assert proven(made, message(signed())) is not None
    runtime.advance(1)
    exchange = made.offers["OAUTHBEARER"].begin()
    with pytest.raises(NotYet):
        exchange.step(message(signed()))


def test_each_listener_reads_the_keys_of_one_endpoint_until_it_asks_another(tmp_path: Path):
    """SE26: with one timer for both the keys of one listener stayed as they were for ever."""
    file, runtime = tmp_path / "keys.json", VirtualRuntime(now_ms=NOW_S * 1_000)
    file.write_bytes(KEYS)
    sources = [JwksSource(f"file://{file}", 1_000) for _ in range(3)]
    for source in sources:
        source.start(runtime)
    runtime.turn()
    sources[2].stop()
    file.write_bytes(key_set(jwk(OTHER_KEY, "three")))
    runtime.advance(1_000)
    assert [len(source.keys) for source in sources] == [1, 1, 2]


def test_an_endpoint_that_is_changed_is_asked_from_now_on(tmp_path: Path):
    """SE26"""
    made, runtime = security(tmp_path)
    (tmp_path / "other").mkdir()
    other, _ = security(tmp_path / "other", key_set(jwk(OTHER_KEY, "one")), **{
        "listener.name.sasl_plaintext.sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000"})  # fmt: skip
    held = made.offers
    token = signed(OTHER_KEY)
    assert proven(made, message(token)) is None
    made.take(other)
    runtime.turn()
    assert made.offers is held
    assert proven(made, message(token)) is not None
    assert proven(made, message(signed())) is None
    (tmp_path / "other" / "keys.json").write_bytes(KEYS)
    runtime.advance(1_000)
    assert proven(made, message(signed())) is not None


@pytest.mark.parametrize(
    ("expected", "of_any", "claims"),
    [
        ("sasl.oauthbearer.expected.audience", "sasl.oauthbearer.allow.unverified.audience", {"aud": "elsewhere"}),
        ("sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.allow.unverified.issuer", {"iss": "https://other"}),
    ],
)
def test_whose_tokens_count_must_be_said_or_that_all_do(
    tmp_path: Path, expected: str, of_any: str, claims: dict[str, str]
):
    """Kafka 4.4, BrokerJwtValidator."""
    with pytest.raises(SettingsError, match=f"{expected}: it is missing, .*{of_any}=true"):
        security(tmp_path, **{expected: ""})
    made, _ = security(tmp_path, **{expected: "", of_any: "true"})
    assert proven(made, message(signed(**claims))) is not None


@pytest.mark.parametrize(
    "token",
    [signed(), signed(EC_KEY, "two", "ES256"), signed(algorithm="PS384"), signed(aud=["x", "other"]),
     signed(exp=NOW_S - 29, iat=NOW_S - 90), signed(iat=NOW_S + 29)],
)  # fmt: skip
def test_a_signed_token_says_who_it_is(tmp_path: Path, token: str):
    made, _ = security(tmp_path)
    found = proven(made, message(token))
    assert found is not None
    assert found.user == "alice"


@pytest.mark.parametrize(
    "token",
    [
        signed(exp=NOW_S - 31, iat=NOW_S - 90), signed(exp=NOW_S + 5, iat=NOW_S + 9),
        signed(exp=None), signed(iat=None), signed(iat=NOW_S + 31), signed(nbf=NOW_S + 31),
        signed(sub=None), signed(sub=" "), signed(sub=""), plain(), signed(key_id="nobody"),
        signed(OTHER_KEY), signed(EC_KEY, "one", "ES256"), signed(RSA_KEY, "two"),
        keyed_with_the_public_key(),
        signed(aud="elsewhere"), signed(aud=None), signed(iss="https://other"), signed(iss=None),
        "a.b.c", signed()[:-4], "x", f"{DEEP}.e30.x",
    ],
)  # fmt: skip
def test_a_token_that_proves_nothing_is_answered_in_json(tmp_path: Path, token: str):
    """SE25"""
    made, runtime = security(tmp_path)
    exchange = made.offers["OAUTHBEARER"].begin()
    try:
        told = exchange.step(message(token))
    except NotYet:  # an unknown key: it is read again once
        runtime.turn()
        told = exchange.step(message(token))
    assert told == b'{"status":"invalid_token"}'
    assert exchange.proven is None
    with pytest.raises(Rejected) as rejected:
        exchange.step(b"\x01")
    assert rejected.value.told == '{"status":"invalid_token"}'


@pytest.mark.parametrize(
    "text",
    [b"", b"n,,", b"y,,\x01auth=Bearer x\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"n,,\x01key=value\x01\x01",
     b"n,,\x01auth=Bearer x\x01", message("x" * 70_000), b"n,,\x01auth=Bearer \xff\x01\x01"],
)  # fmt: skip
def test_a_message_of_another_form_fails(tmp_path: Path, text: bytes):
    made, _ = security(tmp_path)
    with pytest.raises(Rejected) as rejected:
        proven(made, text)
    assert rejected.value.told is None


def test_an_authorization_id_is_the_user_or_nobody(tmp_path: Path):
    """SE16"""
    made, _ = security(tmp_path)
    assert proven(made, message(signed(), "alice", "extension=some thing\x01")) is not None
    with pytest.raises(Rejected) as rejected:
        proven(made, message(signed(), "bob"))
    assert rejected.value.told == (
        "Authentication failed: Client requested an authorization id (bob) that is different from the token's "
        "principal name (alice)"
    )


def test_unsigned_tokens_are_for_who_allows_them(tmp_path: Path):
    """SE25"""
    with pytest.raises(SettingsError, match=r"allow.unsecured.oauth"):
        security(tmp_path, keys=None)
    scope = 'unsecuredValidatorRequiredScope="read write"'
    made, _ = security(
        tmp_path, keys=None, kohort__allow__unsecured__oauth="true",
        **{f"{PREFIX}.sasl.jaas.config": f"{JAAS} {scope};"},
    )  # fmt: skip
    assert proven(made, message(plain(scope=["read", "write"]))) == Proven("alice", (NOW_S + 100) * 1_000)
    exchange = made.offers["OAUTHBEARER"].begin()
    assert exchange.step(message(plain(scope="read"))) == b'{"status":"insufficient_scope", "scope":"read write"}'
    wrong = (plain(exp=NOW_S), plain(exp=None), plain(sub=None), plain({"alg": "RS256"}), plain(signature="x"),
             plain(iat=NOW_S + 1), plain(exp=True), signed(),
             plain(scope=5), plain(scope=[{}]), f"{DEEP}.e30.", f"e30.{DEEP}.")  # fmt: skip
    for token in wrong:
        with pytest.raises(Rejected):
            exchange = made.offers["OAUTHBEARER"].begin()
            exchange.step(message(token))
            exchange.step(b"\x01")


def test_a_validator_without_an_endpoint_is_refused(tmp_path: Path):
    from broker.config.listener_keys import CALLBACK_HANDLER
    from broker.config.listener_settings import TOKEN_VALIDATOR

    key = f"{PREFIX}.{CALLBACK_HANDLER}"
    with pytest.raises(SettingsError, match=r"jwks.endpoint.url: it is missing"):
        security(tmp_path, keys=None, kohort__allow__unsecured__oauth="true", **{key: TOKEN_VALIDATOR})
    assert check_own(Settings({key: TOKEN_VALIDATOR}), ["SASL_PLAINTEXT"]) == []
    for url in ("ftp://x/y", f"file://{tmp_path}/nothing"):
        with pytest.raises(SettingsError, match=r"jwks.endpoint.url="):
            JwksSource(url, 1)


def test_what_is_no_key_set_is_refused():
    for text in (b"", b"[]", b"{}", b'{"keys": [{"kty": "RSA"}]}', b'{"keys": [7]}'):
        with pytest.raises(KeySetError):
            KeySet(text)
    assert len(KeySet(b'{"keys": [{"kty": "oct", "k": "AAAA"}, {"kty": "RSA", "use": "enc"}]}')) == 0


# --- keys that come and go


def test_new_keys_are_looked_for_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """SE26"""
    made, runtime = security(tmp_path)
    reads: list[str] = []
    real = jwks.read
    monkeypatch.setattr(jwks, "read", lambda url: reads.append(url) or real(url))
    (tmp_path / "keys.json").write_bytes(key_set(jwk(OTHER_KEY, "new")))
    exchange = made.offers["OAUTHBEARER"].begin()
    called: list[bool] = []
    with pytest.raises(NotYet) as not_yet:
        exchange.step(message(signed(OTHER_KEY, "new")))
    not_yet.value.wait(lambda: called.append(True))
    runtime.turn()
    assert called == [True]
    exchange.step(message(signed(OTHER_KEY, "new")))
    assert exchange.proven is not None
    for number in range(100):
        assert made.offers["OAUTHBEARER"].begin().step(message(signed(OTHER_KEY, f"unknown {number}")))
    assert len(reads) == 1
    runtime.advance(FOR_NEW_KEYS_EVERY_MS)
    with pytest.raises(NotYet):
        made.offers["OAUTHBEARER"].begin().step(message(signed(OTHER_KEY, "unknown", exp=NOW_S + 1_000)))


def test_old_keys_go_on_when_the_endpoint_is_down(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """SE26"""
    made, runtime = security(tmp_path)
    (tmp_path / "keys.json").unlink()
    runtime.advance(3_600_000)
    assert "jwks_not_read" in capfd.readouterr().err
    runtime._now_ms = NOW_S * 1_000
    assert proven(made, message(signed())) is not None


@contextlib.contextmanager
def answering(secured: ssl.SSLContext | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where keys are given, and what is answered; over TLS if there is a context."""
    state: dict[str, Any] = {"body": KEYS, "redirect": ""}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if state["redirect"] else 200)
            if state["redirect"]:
                self.send_header("Location", state["redirect"])
            self.end_headers()
            self.wfile.write(state["body"])

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if secured is not None:
        server.socket = secured.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"{'https' if secured else 'http'}://127.0.0.1:{server.server_port}/keys", state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def endpoint() -> Iterator[tuple[str, dict[str, Any]]]:
    with answering() as made:
        yield made


def test_keys_are_read_over_http_within_bounds(endpoint: tuple[str, dict[str, Any]]):
    url, state = endpoint
    assert len(jwks.read(url)) == 2
    state["redirect"] = "http://localhost:1/keys"
    with pytest.raises(OSError, match="another host"):
        jwks.read(url)
    state["redirect"] = ""
    state["body"] = b" " * (jwks.MAX_BYTES + 1)
    with pytest.raises(KeySetError, match="longer"):
        jwks.read(url)


@pytest.mark.parametrize(("hosts", "trusted"), [(("127.0.0.1",), True), (("127.0.0.1",), False), (("other",), True)])
def test_keys_are_read_over_https_from_who_has_a_trusted_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: tuple[str, ...], trusted: bool
):
    """Of the address that is asked, and of an authority that the system trusts, or `SSL_CERT_FILE` names."""
    authority = Authority()
    trusts = authority if trusted else Authority("Other")
    (tmp_path / "trusted.pem").write_bytes(trusts.certificate_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secured.load_cert_chain(*authority.issue(hosts=hosts).write(tmp_path, "server"))
    with answering(secured) as (url, _):
        if trusted and hosts == ("127.0.0.1",):
            assert len(jwks.read(url)) == 2
        else:
            with pytest.raises(OSError, match=r"(?i)certificate verify failed"):
                jwks.read(url)


# --- on a connection


class OAuthPeer(Peer):
    """A connection on a listener whose keys come from a file."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__()
        made, self.runtime = security(tmp_path)
        self.broker.runtime = self.runtime
        self.security = made
        self.connection, self.transport = self.connect()


def test_a_session_lasts_as_long_as_its_token(tmp_path: Path):
    """SE11: the golden answer of 14.3, with our lifetime."""
    peer = OAuthPeer(tmp_path)
    peer.sends(handshake("OAUTHBEARER"), authenticate(message(signed()), correlation_id=2))
    assert peer.answers()[1] == bytes.fromhex("00000012 00000002 00 0000 01 01 00000000000186a0 00")
    peer.sends(heartbeat())
    assert peer.principals == ["User:alice"]
    peer.runtime.advance(100_000)
    peer.sends(heartbeat())
    assert peer.transport.closed


def test_a_connection_waits_for_new_keys_and_then_goes_on(tmp_path: Path):
    """SE26: nothing behind it is looked at before."""
    peer = OAuthPeer(tmp_path)
    (tmp_path / "keys.json").write_bytes(key_set(jwk(OTHER_KEY, "new")))
    token = authenticate(message(signed(OTHER_KEY, "new")), version=1)
    peer.connection.data_received(handshake("OAUTHBEARER") + token + heartbeat())
    assert len(peer.answers()) == 1
    assert peer.principals == []
    peer.runtime.turn()
    assert [error_of(answer) for answer in peer.answers()] == [0, 0]
    assert peer.principals == ["User:alice"]

    peer.connection, peer.transport = peer.connect()
    peer.sends(handshake("OAUTHBEARER"), authenticate(message(signed(key_id="gone")), version=1))
    answers = peer.answers()
    assert b'{"status":"invalid_token"}' in answers[1]
    peer.sends(authenticate(b"\x01", version=1))
    peer.runtime.advance(100)
    (answer,) = peer.answers()
    assert error_of(answer) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert b'{"status":"invalid_token"}' in answer
    assert peer.transport.closed


def test_what_is_wrong_with_a_token_does_not_hold_it():
    assert "alice" not in str(BadToken("it has expired"))
