"""TLS over a transport that remembers: handshakes, certificates, large answers, ends."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import random
import socket
import ssl
import subprocess
import weakref
from pathlib import Path
from struct import pack
from time import thread_time_ns
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore

from broker.broker import Broker
from broker.config.listeners import parse_listeners
from broker.config.setting_types import SettingsError
from broker.config.settings import Settings
from broker.http.answers import json_answer
from broker.http.server import HttpServer
from broker.network.listener_security import ListenerSecurity
from broker.network.tls_channel import AHEAD_BYTES, HANDSHAKE_WITHIN_MS, TlsChannel
from broker.network.tls_settings import TlsRefused
from broker.network.tls_watch import LOOK_EVERY_MS, TlsWatch
from protocol.api_keys import ApiKey
from protocol.frame_cutter import FrameCutter
from protocol.frames import encode_request
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.broker_process import need
from tests.support.certificates import Authority, Issued
from tests.support.connections import FakeTransport, Harness
from tests.support.garbage import collected_by_nobody
from tests.support.virtual_runtime import VirtualRuntime

CA = Authority()
FOREIGN = Authority("Somebody Else")
SERVER = CA.issue()
LOCK = BestAvailableEncryption(b"opensesame")
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
PEM = {
    "listeners": "SSL://127.0.0.1:0",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": CA.certificate_pem.decode(),
}
INLINE = {
    **PEM,
    "ssl.keystore.key": SERVER.key_pem().decode(),
    "ssl.keystore.certificate.chain": SERVER.certificate_pem.decode(),
}


def security_of(settings: dict[str, str]) -> ListenerSecurity:
    parsed = Settings(settings)
    (listener,) = parse_listeners(parsed)
    return ListenerSecurity(parsed, listener)


class Service(Harness):
    """A listener with TLS."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.principals: list[str] = []
        self.large = "x" * 100

        def heartbeat(_: Broker, context: Any, __: Any) -> Any:
            self.principals.append(context.principal)
            return HeartbeatResponse(error_code=0)

        def metadata(*_: Any) -> Any:
            return MetadataResponse(brokers=[], topics=[], cluster_id=self.large)

        settings = {**INLINE, **(settings or {})}
        runtime = VirtualRuntime()
        handlers = {ApiKey.HEARTBEAT: heartbeat, ApiKey.METADATA: metadata}
        super().__init__(handlers, broker=Broker(Settings(settings), runtime))
        self.runtime = runtime
        self.security = security_of(settings)
        self.server.securities = {"SSL": self.security}

    def peer(self, **options: Any) -> Peer:
        return Peer(self, **options)

    def new_channel(self) -> TlsChannel:
        """Of one that connects."""
        channel = self.server._factory("SSL")()
        assert isinstance(channel, TlsChannel)
        return channel


class HttpsService(Service):
    """The HTTP listener with TLS, whose every answer is as long as `large`."""

    def __init__(self) -> None:
        super().__init__()
        self.http = HttpServer(self.runtime, lambda: lambda *_: json_answer(self.large))

    def new_channel(self) -> TlsChannel:
        assert self.security.tls is not None
        return TlsChannel(self.http.protocol(), self.server, self.security.tls)


class Peer:
    """A client's side of TLS, and the socket between the two."""

    def __init__(
        self,
        service: Service,
        shown: Issued | None = None,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        trusts: Authority = CA,
        folder: Path | None = None,
        host: str = "127.0.0.1",
        secrets: Path | None = None,
    ) -> None:
        self.runtime = service.runtime
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=trusts.certificate_pem.decode())
        context.minimum_version = context.maximum_version = version
        if secrets is not None:
            context.keylog_filename = str(secrets)
        if shown is not None:
            assert folder is not None
            context.load_cert_chain(*shown.write(folder, "client"))
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.channel = service.new_channel()
        self.connection = self.channel._connection
        self.transport = FakeTransport(host)
        self.transport.protocol = self.channel
        self.channel.connection_made(self.transport)
        self.error: ssl.SSLError | None = None
        self.received = b""

    def exchange(self) -> None:
        """Carry bytes to and fro until nobody has any."""
        while True:
            moved = self.outgoing.read()
            if moved and not self.transport.closed:
                self.channel.data_received(moved)
            self.runtime.turn()
            self.transport.peer_reads()
            self.runtime.turn()
            written = bytes(self.transport.written)
            self.transport.written.clear()
            if written:
                self.incoming.write(written)
            if not moved and not written:
                return
            self.step()

    def step(self) -> None:
        try:
            if self.tls.version() is None or not self.tls.cipher() or not self._shaken():
                return
            while piece := self.tls.read(65_536):
                self.received += piece
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.error = error

    def _shaken(self) -> bool:
        self.tls.do_handshake()
        return True

    def shake_hands(self) -> Peer:
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        for _ in range(4):
            self.runtime.turn()
            moved = self.outgoing.read()
            if moved and not self.transport.closed:
                self.channel.data_received(moved)
                self.runtime.turn()
            if self.transport.written:
                self.incoming.write(bytes(self.transport.written))
                self.transport.written.clear()
            try:
                self.tls.do_handshake()
                self.tls.read(1)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                self.error = error
                return self
        return self

    def send(self, data: bytes) -> None:
        self.tls.write(data)
        self.exchange()

    def frames(self) -> list[bytes]:
        return FrameCutter(1 << 30).feed(self.received)


def heartbeat() -> bytes:
    return encode_request(HEARTBEAT, 1, 7, "k")


# --- handshakes


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("asked", "shown", "principal"),
    [
        ("none", None, "User:ANONYMOUS"),
        ("none", "good", "User:ANONYMOUS"),
        ("none", "foreign", "User:ANONYMOUS"),
        ("requested", None, "User:ANONYMOUS"),
        ("requested", "good", "User:CN=alice"),
        ("requested", "foreign", None),
        ("required", None, None),
        ("required", "good", "User:CN=alice"),
        ("required", "foreign", None),
        ("required", "expired", None),
    ],
)
def test_who_is_let_in(tmp_path: Path, asked: str, shown: str | None, principal: str | None, version: ssl.TLSVersion):
    """SE05"""
    issued = {
        "good": CA.issue("alice"),
        "foreign": FOREIGN.issue("alice"),
        "expired": CA.issue("alice", from_day=-10, days=5),
    }
    service = Service({"ssl.client.auth": asked})
    peer = service.peer(shown=issued[shown] if shown else None, version=version, folder=tmp_path).shake_hands()
    if principal is None:
        assert peer.transport.closed
        assert peer.error is not None
        assert "ALERT" in str(peer.error)
        assert service.server.connections.keys() == {service.connection} or peer.connection.closed
        return
    assert peer.error is None
    peer.send(heartbeat())
    assert service.principals == [principal]
    assert len(peer.frames()) == 1


def test_rules_make_the_name_and_who_has_none_is_sent_away(tmp_path: Path):
    """SE07"""
    service = Service({"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=(a.*)$/$1/U"})
    peer = service.peer(shown=CA.issue("alice"), folder=tmp_path).shake_hands()
    peer.send(heartbeat())
    assert service.principals == ["User:ALICE"]
    peer = service.peer(shown=CA.issue("bob"), folder=tmp_path).shake_hands()
    assert peer.transport.closed


@pytest.mark.parametrize(
    "sent",
    [heartbeat(), b"GET / HTTP/1.1\r\n\r\n", bytes.fromhex("160301002f010000") + bytes(60), b"\xff" * 100],
)
def test_what_is_no_tls_is_closed_at_once(sent: bytes, capfd: pytest.CaptureFixture[str]):
    """SE09"""
    service = Service()
    peer = service.peer()
    peer.channel.data_received(sent)
    service.runtime.turn()
    assert peer.transport.closed
    assert "tls_handshake_failed" in capfd.readouterr().err
    other = service.peer().shake_hands()
    other.send(heartbeat())
    assert service.principals == ["User:ANONYMOUS"]


@pytest.mark.parametrize("pieces", [[b"\x80\x2e\x01\x03\x01"], [b"\xff", b"\xff", b"\x01"]])
def test_a_hello_of_ssl_2_is_refused_before_it_is_whole(pieces: list[bytes], capfd: pytest.CaptureFixture[str]):
    """SE09: the alert is the one that Java sends when it is whole."""
    service = Service()
    peer = service.peer()
    for piece in pieces:
        assert not peer.transport.closed
        peer.channel.data_received(piece)
        service.runtime.turn()
    assert peer.transport.closed
    assert bytes(peer.transport.written) == bytes.fromhex("15030300020228")
    assert "a hello of ssl 2" in capfd.readouterr().err


def test_old_versions_are_refused():
    """SE09"""
    service = Service({"ssl.enabled.protocols": "TLSv1.3"})
    peer = service.peer(version=ssl.TLSVersion.TLSv1_2).shake_hands()
    assert peer.transport.closed
    assert "PROTOCOL_VERSION" in str(peer.error)


def test_half_handshakes_count_and_end_in_time():
    """SE10"""
    service = Service()
    peers = [service.peer() for _ in range(500)]
    for peer in peers:
        with pytest.raises(ssl.SSLWantReadError):
            peer.tls.do_handshake()
        peer.channel.data_received(peer.outgoing.read()[:50])
    service.runtime.turn()
    assert len(service.server.connections) == 501  # the harness's own is one of them
    service.runtime.advance(HANDSHAKE_WITHIN_MS - 1)
    assert not peers[0].transport.closed
    service.runtime.advance(1)
    assert all(peer.transport.closed for peer in peers)
    for peer in peers:
        peer.channel.connection_lost(None)
    assert len(service.server.connections) == 1
    assert service.server.memory.used_bytes == 0


def test_what_openssl_holds_goes_with_the_connection_and_not_with_its_deadline():
    """SE10: hellos cost a hundred kilobytes each until their ten seconds were over, or the collector came."""
    service = Service()
    peer = service.peer()
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.do_handshake()
    peer.channel.data_received(peer.outgoing.read())
    service.runtime.turn()
    channel, held = weakref.ref(peer.channel), weakref.ref(peer.channel._tls)
    with collected_by_nobody():
        peer.channel.connection_lost(None)
        assert held() is None
        peer.transport.protocol = None  # transports of loops let go of it themselves
        del peer
        assert channel() is None  # no timer knows it any more, and neither does its connection


def test_what_waits_for_a_handshake_is_bounded():
    """SE10: many handshakes take their time, and who sends ahead meanwhile is read no further."""
    service = Service()
    peer = service.peer()
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.do_handshake()
    hello = peer.outgoing.read()
    peer.channel.data_received(hello[:5])
    peer.channel.data_received(hello[5:] + bytes(AHEAD_BYTES))
    assert not peer.transport.reading
    peer.connection.hold_back()
    peer.connection.let_go()
    assert not peer.transport.reading
    service.runtime.turn()
    assert peer.transport.closed  # zeros are no TLS

    peer = service.peer()
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.do_handshake()
    peer.channel.data_received(peer.outgoing.read())
    service.runtime.turn()
    peer.incoming.write(bytes(peer.transport.written))
    peer.transport.written.clear()
    peer.tls.do_handshake()
    requests = AHEAD_BYTES // len(heartbeat()) + 1
    peer.tls.write(heartbeat() * requests)
    peer.channel.data_received(peer.outgoing.read())
    assert not peer.transport.reading
    peer.exchange()
    assert len(service.principals) == requests
    assert peer.transport.reading


def test_a_connection_too_many_is_refused_before_its_handshake():
    service = Service()
    service.broker.settings.max_connections_per_ip = 1
    peer = service.peer()
    assert peer.transport.closed


# --- answers


def test_a_large_answer_is_encrypted_in_pieces_and_no_faster_than_it_is_taken():
    """SE66"""
    service = Service({"kohort.max.inflight.bytes": "65536"})
    peer = service.peer().shake_hands()
    service.large = "x" * 30_000
    request = encode_request(MetadataRequest(topics=[]), 2, 7, "k")
    peer.transport.room = 100_000
    peer.tls.write(request * 200)
    peer.channel.data_received(peer.outgoing.read())
    for _ in range(200):
        service.runtime.turn()
    assert peer.connection.side.write_paused  # the peer takes nothing, so no more is read of it
    assert 0 < len(peer.transport.written) < 400_000
    assert service.server.memory.used_bytes < 2_000_000
    peer.incoming.write(bytes(peer.transport.written))
    peer.transport.written.clear()
    peer.transport.peer_reads()
    peer.transport.room = 1 << 40
    peer.step()
    peer.exchange()
    assert len(peer.frames()) == 200


def test_a_turn_encrypts_so_much_and_no_more():
    """SE66: of twenty megabytes that the peer would take at once a little leaves at once, and a slice in each turn."""
    service = Service()
    service.runtime._rounds = 1
    service.runtime.step_ns = 100_000  # a piece
    peers = [service.peer().shake_hands() for _ in range(4)]
    sent = []
    for peer in peers:
        peer.transport.written.clear()
        peer.channel.writelines([bytes(20 << 20)])
        sent.append(len(peer.transport.written))
    assert all(131_072 < size < 140_000 for size in sent)
    for _ in range(100):
        for peer in peers:
            peer.transport.written.clear()
        service.runtime.turn()
        assert 0 < sum(len(peer.transport.written) for peer in peers) < 8 * 66_000  # of all together


def test_no_turn_encrypts_for_more_than_five_milliseconds():
    """SE66: measured in CPU time, of three readers of ten megabytes each, whose sockets take all of it at once."""
    longest_ns = []
    for _ in range(3):
        service = Service()
        service.runtime._rounds = 1
        service.runtime.slices._clock_ns = thread_time_ns
        peers = [service.peer().shake_hands() for _ in range(3)]
        answers = [bytes(10 << 20) for _ in peers]
        took_ns = []
        for peer, answer in zip(peers, answers, strict=True):
            began_ns = thread_time_ns()
            peer.channel.writelines([answer])
            took_ns.append(thread_time_ns() - began_ns)
        while any(peer.channel._pending.size_bytes for peer in peers):
            for peer in peers:
                peer.transport.written.clear()
            began_ns = thread_time_ns()
            service.runtime.turn()
            took_ns.append(thread_time_ns() - began_ns)
        assert len(took_ns) > 10
        longest_ns.append(max(took_ns))
    assert min(longest_ns) < 5_000_000


def test_handshakes_are_taken_in_a_thread_and_in_turn_by_address():
    """A signature takes up to four milliseconds; a hundred hellos of one address hold up none of another."""
    service = Service()
    service.runtime._eager_workers = False
    peers = [service.peer(host=host) for host in ["10.0.0.1"] * 100 + ["10.0.0.2"]]
    for peer in peers:
        with pytest.raises(ssl.SSLWantReadError):
            peer.tls.do_handshake()
        peer.channel.data_received(peer.outgoing.read())
        service.runtime.turn()
    assert len(service.runtime.works) == 1  # one at a time
    assert not any(peer.transport.written for peer in peers)
    for _ in range(2):
        service.runtime.run_work()
        service.runtime.turn()
    assert [bool(peer.transport.written) for peer in peers] == [True] + [False] * 99 + [True]


def test_who_goes_or_speaks_on_while_his_handshake_is_in_a_thread():
    service = Service()
    service.runtime._eager_workers = False
    gone, late = service.peer(), service.peer()
    for peer in (gone, late):
        with pytest.raises(ssl.SSLWantReadError):
            peer.tls.do_handshake()
        hello = peer.outgoing.read()
        peer.channel.data_received(hello[:100])
        service.runtime.turn()
        peer.channel.data_received(hello[100:])
    gone.channel.connection_lost(None)
    service.runtime.advance(HANDSHAKE_WITHIN_MS)
    assert late.transport.closed
    while service.runtime.works:
        service.runtime.run_work()
        service.runtime.turn()
    assert not gone.transport.written
    assert not late.transport.written


def test_closing_says_so_and_sends_what_is_left():
    service = Service()
    peer = service.peer().shake_hands()
    peer.send(heartbeat())
    peer.connection.end()
    assert peer.transport.closed
    peer.incoming.write(bytes(peer.transport.written))
    assert peer.tls.read(1) == b""


def test_a_peer_that_says_that_it_ends_is_closed():
    service = Service()
    peer = service.peer().shake_hands()
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
    peer.channel.data_received(peer.outgoing.read())
    assert peer.transport.closed


# --- stores


def test_every_kind_of_store_serves_the_same_certificate(tmp_path: Path):
    """SE04"""
    (tmp_path / "server.pem").write_bytes(b"text between\n" + SERVER.pem())
    (tmp_path / "locked.pem").write_bytes(SERVER.pem(b"opensesame"))
    (tmp_path / "old.pem").write_bytes(SERVER.key_pem(form=PrivateFormat.TraditionalOpenSSL) + SERVER.certificate_pem)
    (tmp_path / "server.p12").write_bytes(SERVER.p12(b"opensesame", CA.certificate))
    without = dict.fromkeys((), "")
    base = {key: value for key, value in PEM.items() if not key.startswith("ssl.keystore")} | without
    for store in (
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "server.pem")},
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "old.pem")},
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(tmp_path / "locked.pem"),
            "ssl.key.password": "opensesame",
        },
        {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(tmp_path / "server.p12"),
            "ssl.keystore.password": "opensesame",
        },
    ):
        service = Service()
        service.server.securities = {"SSL": security_of({**base, **store})}
        peer = service.peer().shake_hands()
        peer.send(heartbeat())
        assert peer.tls.getpeercert(binary_form=True) == SERVER.certificate.public_bytes(_der())


def test_who_is_trusted_may_stand_in_pkcs12(tmp_path: Path):
    (tmp_path / "trust.p12").write_bytes(serialize_java_truststore([PKCS12Certificate(CA.certificate, b"ca")], LOCK))
    settings = {
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(tmp_path / "trust.p12"),
    }
    own = {key: value for key, value in INLINE.items() if not key.startswith("ssl.truststore")} | settings
    with pytest.raises(SettingsError, match="its password is wrong"):
        security_of({**own, "ssl.truststore.password": "planted"})
    service = Service()
    service.server.securities = {"SSL": security_of({**own, "ssl.truststore.password": "opensesame"})}
    peer = service.peer(shown=CA.issue("alice"), folder=tmp_path).shake_hands()
    peer.send(heartbeat())
    assert service.principals == ["User:CN=alice"]
    assert service.peer(shown=FOREIGN.issue("alice"), folder=tmp_path).shake_hands().error is not None


def _der() -> Any:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.DER


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ssl.keystore.location": "x.jks", "ssl.keystore.type": "JKS"}, "keytool -importkeystore"),
        ({"ssl.keystore.location": "x.p12", "ssl.keystore.type": "JKS"}, "set the type to PKCS12"),
        ({"ssl.keystore.location": "x.pem", "ssl.keystore.type": "JKS"}, "set the type to PEM"),
        ({}, "ssl.keystore.location: it is missing"),
        ({"ssl.keystore.location": "/nowhere.pem"}, "no such file"),
        ({"ssl.keystore.key": "KEY"}, "ssl.keystore.certificate.chain: it is missing"),
        ({"ssl.keystore.certificate.chain": "CHAIN"}, "ssl.keystore.key: it is missing"),
        ({"ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "CHAIN", "ssl.keystore.location": "x"},
         "it takes one of them"),
        ({"ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "CHAIN", "ssl.keystore.type": "PKCS12"},
         "it takes PEM"),
        ({"ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "CHAIN", "ssl.keystore.password": "p"},
         "PEM has none"),
        ({"ssl.keystore.key": "KEYKEY", "ssl.keystore.certificate.chain": "CHAIN"}, "exactly one private key"),
        ({"ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "KEY"}, "no certificate in it"),
        ({"ssl.keystore.key": "LOCKED", "ssl.keystore.certificate.chain": "CHAIN"}, "ssl.key.password: it is missing"),
        ({"ssl.keystore.key": "LOCKED", "ssl.keystore.certificate.chain": "CHAIN", "ssl.key.password": "no"},
         "ssl.key.password is wrong"),
        ({"ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "OTHER"}, "not the certificate's"),
        ({"ssl.keystore.key": "STRANGE", "ssl.keystore.certificate.chain": "CHAIN"}, "key cannot be read"),
        ({"ssl.enabled.protocols": "TLSv1.1", "ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "CHAIN"},
         "TLSv1.2 and TLSv1.3"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_NULL_MD5", "ssl.keystore.key": "KEY",
          "ssl.keystore.certificate.chain": "CHAIN"}, "TLS_RSA_WITH_NULL_MD5 is not known"),
        ({"ssl.principal.mapping.rules": "RULE:(/x/", "ssl.keystore.key": "KEY",
          "ssl.keystore.certificate.chain": "CHAIN"}, "pattern is not understood"),
    ],
)  # fmt: skip
def test_stores_that_cannot_be_refuse_the_start_and_show_no_key(settings: dict[str, str], words: str):
    """SE03, SE04"""
    texts = {
        "KEY": SERVER.key_pem().decode(),
        "KEYKEY": SERVER.key_pem().decode() * 2,
        "LOCKED": SERVER.key_pem(b"opensesame").decode(),
        "CHAIN": SERVER.certificate_pem.decode(),
        "OTHER": CA.issue().certificate_pem.decode(),
        # Of an algorithm that nobody knows.
        "STRANGE": "-----BEGIN PRIVATE KEY-----\nMA4CAQAwBQYDKgMEBAIFAA==\n-----END PRIVATE KEY-----\n",
    }
    given = {**PEM, **{key: texts.get(value, value) for key, value in settings.items()}}
    with pytest.raises(SettingsError) as refused:
        security_of(given)
    assert words in str(refused.value)
    assert "BEGIN" not in str(refused.value)


def test_client_certificates_need_somebody_to_trust():
    given = {key: value for key, value in INLINE.items() if "truststore" not in key}
    with pytest.raises(SettingsError, match=r"ssl.client.auth=required needs"):
        security_of({**given, "ssl.client.auth": "required"})


def test_cipher_suites_have_javas_names():
    security = security_of(
        {**INLINE, "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"}
    )
    names = {cipher["name"] for cipher in security.tls.context.get_ciphers()}
    assert {"ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-SHA256"} <= names
    assert security.tls.context.maximum_version == ssl.TLSVersion.TLSv1_2


def test_suites_of_one_version_leave_out_the_other():
    newest = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"
    assert security_of({**INLINE, "ssl.cipher.suites": newest}).tls.context.minimum_version == ssl.TLSVersion.TLSv1_3
    with pytest.raises(SettingsError, match="none of them is of a version"):
        security_of({**INLINE, "ssl.cipher.suites": newest, "ssl.enabled.protocols": "TLSv1.2"})
    older = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    with pytest.raises(SettingsError, match="none of them is of a version"):
        security_of({**INLINE, "ssl.cipher.suites": older, "ssl.enabled.protocols": "TLSv1.3"})


# --- reading again


def test_a_replaced_file_serves_new_connections_and_old_ones_live(tmp_path: Path):
    """SE08"""
    file = tmp_path / "server.pem"
    file.write_bytes(SERVER.pem())
    service = Service()
    given = PEM | {"ssl.keystore.location": str(file)}
    security = security_of(given)
    service.server.securities = {"SSL": security}
    side = security.tls
    old = service.peer().shake_hands()
    assert not side.files_changed()

    renewed = CA.issue()
    file.write_bytes(renewed.pem())
    assert side.files_changed()
    side.reload()
    assert not side.files_changed()
    new = service.peer().shake_hands()
    old.send(heartbeat())
    new.send(heartbeat())
    assert old.tls.getpeercert(binary_form=True) == SERVER.certificate.public_bytes(_der())
    assert new.tls.getpeercert(binary_form=True) == renewed.certificate.public_bytes(_der())
    assert service.principals == ["User:ANONYMOUS"] * 2

    before = side.context
    for content, words in (
        (CA.issue("other").pem(), "ssl.allow.dn.changes"),
        (CA.issue(hosts=("localhost",)).pem(), "ssl.allow.san.changes"),
        (b"-----BEGIN nothing", "exactly one private key"),
    ):
        file.write_bytes(content)
        with pytest.raises(TlsRefused, match=words):
            side.reload()
        assert side.context is before
    file.unlink()
    with pytest.raises(TlsRefused, match="no such file"):
        side.reload()


def test_files_are_looked_at_every_minute_and_a_broken_one_is_told_of_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    """SE08"""
    file = tmp_path / "server.pem"
    file.write_bytes(SERVER.pem())
    next_one = CA.issue(days=20)  # younger than the first, which may have been made long ago
    runtime = VirtualRuntime(now_ms=int(next_one.certificate.not_valid_before_utc.timestamp() * 1_000) + 1)
    security = security_of(PEM | {"ssl.keystore.location": str(file)})
    watch = TlsWatch(runtime, [security])
    watch.start()
    before = security.tls.context

    file.write_bytes(b"broken")
    runtime.advance(LOOK_EVERY_MS * 3)
    assert capfd.readouterr().err.count("tls_reload_failed") == 1
    assert security.tls.context is before
    file.write_bytes(next_one.pem())
    runtime.advance(LOOK_EVERY_MS)
    said = capfd.readouterr().err
    assert "tls_reloaded" in said
    assert "certificate_expires_soon" in said
    assert security.tls.context is not before


def test_certificates_out_of_their_time_are_a_warning(capfd: pytest.CaptureFixture[str]):
    for issued, event in ((CA.issue(from_day=-9, days=5), "certificate_expired"),
                          (CA.issue(from_day=3), "certificate_not_yet_valid")):  # fmt: skip
        settings = {"ssl.keystore.key": issued.key_pem().decode(),
                    "ssl.keystore.certificate.chain": issued.certificate_pem.decode()}  # fmt: skip
        now_ms = int(SERVER.certificate.not_valid_before_utc.timestamp() * 1_000) + 1
        TlsWatch(VirtualRuntime(now_ms=now_ms), [security_of(PEM | settings)]).start()
        assert event in capfd.readouterr().err


def test_who_refuses_our_certificate_and_goes_at_once_is_told_of(capfd: pytest.CaptureFixture[str]):
    """Its alert and the end of its connection come together, before the alert has its turn."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        service = Service()
        peer = service.peer(trusts=FOREIGN, version=version)
        with pytest.raises(ssl.SSLWantReadError):
            peer.tls.do_handshake()
        peer.channel.data_received(peer.outgoing.read())
        peer.runtime.turn()
        peer.incoming.write(bytes(peer.transport.written))
        with pytest.raises(ssl.SSLCertVerificationError):
            peer.tls.do_handshake()
        peer.channel.data_received(peer.outgoing.read())
        peer.channel.connection_lost(None)
        peer.runtime.turn()
        assert service.server.failures.total == 1
        said = capfd.readouterr().err
        assert said.count("tls_handshake_failed") == 1
        assert "unknown ca" in said


def test_any_bytes_before_and_behind_the_handshake_end_or_wait(capfd: pytest.CaptureFixture[str]):
    """SE73"""
    generator = random.Random(12)
    service = Service()
    for _ in range(150):
        peer = service.peer()
        if generator.random() < 0.3:
            peer.shake_hands()
        hello = peer.outgoing.read() or generator.randbytes(50)
        data = bytearray(hello if generator.random() < 0.5 else generator.randbytes(generator.randrange(200)))
        for _ in range(generator.randrange(4)):
            if data:
                data[generator.randrange(len(data))] = generator.randrange(256)
        peer.channel.data_received(bytes(data))
        service.runtime.turn()
        peer.channel.connection_lost(None)
    assert len(service.server.connections) == 1
    assert service.server.memory.used_bytes == 0
    assert "Traceback" not in capfd.readouterr().err


# --- what OpenSSL lets a peer do


def hello_of(peer: Peer) -> bytes:
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.do_handshake()
    return peer.outgoing.read()


def in_records(message: bytes, size: int) -> list[bytes]:
    """A message of a handshake in records of so many bytes."""
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    return [b"\x16\x03\x01" + pack(">H", len(part)) + part for part in parts]


def with_extension(hello: bytes, kind: int, body: bytes) -> bytes:
    """The message of a hello that has this extension in the place of its own one."""
    message = hello[5:]
    at = 4 + 2 + 32
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at : at + 2])
    at += 1 + message[at]
    head, left, extensions = message[4:at], message[at + 2 :], b""
    while left:
        size = 4 + int.from_bytes(left[2:4])
        if int.from_bytes(left[:2]) != kind:
            extensions += left[:size]
        left = left[size:]
    extensions = pack(">HH", kind, len(body)) + body + extensions
    whole = head + pack(">H", len(extensions)) + extensions
    return b"\x01" + len(whole).to_bytes(3) + whole


def test_a_handshake_byte_by_byte_is_looked_at_when_a_record_is_whole_and_ends_in_time():
    """SE10: each look is a way to a thread and back; a byte a second does not get it ten more."""
    service = Service()
    quick, slow = service.peer(), service.peer()
    hello = hello_of(quick)
    for byte in hello[:-1]:
        quick.channel.data_received(bytes([byte]))
        service.runtime.turn()
    assert not quick.channel._begun
    quick.channel.data_received(hello[-1:])
    service.runtime.turn()
    assert quick.transport.written

    sent = 0
    while not slow.transport.closed:
        slow.channel.data_received(hello[sent : sent + 1])
        service.runtime.advance(1_000)
        sent += 1
    assert sent == HANDSHAKE_WITHIN_MS // 1_000
    assert not slow.channel._begun


def test_a_handshake_may_come_in_many_records_and_not_in_more_pieces_than_a_few(capfd: pytest.CaptureFixture[str]):
    """SE10"""
    service = Service()
    peer = service.peer()
    records = in_records(hello_of(peer)[5:], 1)
    assert len(records) > 200
    peer.channel.data_received(b"".join(records))
    service.runtime.turn()
    assert peer.transport.written and not peer.transport.closed

    other, sent = service.peer(), 0
    while not other.transport.closed:
        other.channel.data_received(records[sent])
        service.runtime.turn()
        sent += 1
    assert sent == 33
    assert "too many pieces" in capfd.readouterr().err
    for one in (peer, other):
        one.channel.connection_lost(None)
    assert service.server.memory.used_bytes == 0


SNI, ALPN, PADDING = 0, 16, 21
LONG = {
    "name": (SNI, pack(">HBH", 60_003, 0, 60_000) + b"a" * 60_000),
    "many names": (SNI, pack(">H", 60_000) + (pack(">BH", 0, 12) + b"a" * 12) * 4_000),
    "protocols": (ALPN, pack(">H", 60_000) + (b"\x0f" + b"p" * 15) * 3_750),
    "protocols of a byte": (ALPN, pack(">H", 60_000) + b"\x01p" * 30_000),
    "a protocol without end": (ALPN, pack(">H", 60_000) + b"\xff" * 60_000),
    "padding": (PADDING, bytes(60_000)),
}


@pytest.mark.parametrize("what", LONG)
def test_a_hello_of_sixty_thousand_bytes_is_answered_or_refused_and_costs_little(
    what: str, capfd: pytest.CaptureFixture[str]
):
    """SE10: OpenSSL takes a hello of 128 KB."""
    service = Service()
    peer = service.peer()
    message = with_extension(hello_of(peer), *LONG[what])
    for record in in_records(message, 16_384):
        peer.channel.data_received(record)
    began_ns = thread_time_ns()
    service.runtime.turn()
    assert thread_time_ns() - began_ns < 20_000_000
    assert bytes(peer.transport.written[:1]) == (b"\x16" if not peer.transport.closed else b"\x15")
    assert peer.transport.closed == (what in {"name", "many names", "a protocol without end"})
    peer.channel.connection_lost(None)
    assert service.server.memory.used_bytes == 0
    assert "Traceback" not in capfd.readouterr().err


class Chain:
    """Files that are there, shown as an issued certificate's are."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths

    def write(self, *_: object) -> tuple[str, ...]:
        return self._paths


@pytest.mark.parametrize(("count", "taken"), [(200, True), (320, False)])
def test_a_chain_of_a_hundred_kilobytes_is_refused(tmp_path: Path, count: int, taken: bool):
    """SE10: OpenSSL reads so much of it and no more; a chain that is smaller is looked through in a thread."""
    service = Service({"ssl.client.auth": "required"})
    alice = CA.issue("alice")
    links = b"".join(FOREIGN.issue(f"{number}").certificate_pem for number in range(8))
    file, key = tmp_path / "chain.pem", tmp_path / "chain.key"
    file.write_bytes(alice.certificate_pem + links * (count // 8))
    key.write_bytes(alice.key_pem())
    peer = service.peer(shown=Chain(str(file), str(key)), folder=tmp_path).shake_hands()
    assert peer.transport.closed != taken
    if taken:
        peer.send(heartbeat())
        assert service.principals == ["User:CN=alice"]


def test_keys_are_not_agreed_upon_again():
    """A handshake amid a session is made on the loop. TLS 1.2 has it, and who asks for it is not heard."""
    need("openssl")
    service = Service()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        words = ["-tls1_2", "-legacy_renegotiation", "-connect", f"127.0.0.1:{listening.getsockname()[1]}"]
        client = subprocess.Popen(
            ["openssl", "s_client", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert client.stdin is not None and client.stdout is not None
        accepted, _ = listening.accept()
    peer = service.peer()
    asked = False
    accepted.settimeout(5)
    with accepted, client:
        try:
            while data := accepted.recv(65_536):
                peer.channel.data_received(data)
                service.runtime.turn()
                accepted.sendall(peer.transport.written)
                peer.transport.written.clear()
                if peer.channel._established and not asked:
                    asked = True
                    client.stdin.write(b"R\n")
                    client.stdin.flush()
        except TimeoutError:
            pass  # it has nothing more to say
        finally:
            client.kill()
        said = client.stdout.read()
    assert asked
    assert b"RENEGOTIATING" in said
    assert b"no renegotiation" in said


def expand(secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label of RFC 8446, for what is shorter than a digest."""
    info = pack(">H", size) + bytes([6 + len(label)]) + b"tls13 " + label + b"\0\1"
    return hmac.new(secret, info, hashlib.sha384).digest()[:size]


def new_keys(secret: bytes, count: int, *, asked_back: bool) -> bytes:
    """So many records that say `update_key`, each under the keys that the one before it brought."""
    records = []
    for _ in range(count):
        head = b"\x17\x03\x03" + pack(">H", 22)
        words = bytes([24, 0, 0, 1, asked_back, 22])
        sealed = AESGCM(expand(secret, b"key", 32)).encrypt(expand(secret, b"iv", 12), words, head)
        records.append(head + sealed)
        secret = expand(secret, b"traffic upd", 48)
    return b"".join(records)


def shaken_with_secret(service: Service, folder: Path) -> tuple[Peer, bytes]:
    """A peer of TLS 1.3 and what its keys are made of."""
    secrets = folder / f"secrets-{len(list(folder.iterdir()))}"
    peer = service.peer(secrets=secrets).shake_hands()
    assert peer.tls.cipher()[0] == "TLS_AES_256_GCM_SHA384"
    (line,) = (one for one in secrets.read_text().splitlines() if one.startswith("CLIENT_TRAFFIC_SECRET_0 "))
    return peer, bytes.fromhex(line.split()[2])


@pytest.mark.parametrize("kind", [Service, HttpsService])
@pytest.mark.parametrize("asked_back", [False, True])
def test_new_keys_without_end_hold_nobody_up(tmp_path: Path, asked_back: bool, kind: type[Service]):
    """SE66: 27 bytes that cost thirty microseconds; a socket's buffer of them was a quarter of a second of the loop."""
    longest_ns = []
    for _ in range(3):
        service = kind()
        service.runtime._rounds = 1
        service.runtime.slices._clock_ns = thread_time_ns
        peer, secret = shaken_with_secret(service, tmp_path)
        sent = new_keys(secret, 2_000, asked_back=asked_back)
        took_ns = []
        began_ns = thread_time_ns()
        peer.channel.data_received(sent)
        took_ns.append(thread_time_ns() - began_ns)
        assert not peer.transport.reading
        while not peer.transport.reading:
            began_ns = thread_time_ns()
            service.runtime.turn()
            took_ns.append(thread_time_ns() - began_ns)
        assert len(took_ns) > 10
        assert (len(peer.transport.written) > 40_000) == asked_back
        longest_ns.append(max(took_ns))
    assert min(longest_ns) < 5_000_000


@pytest.mark.parametrize("kind", [Service, HttpsService])
def test_who_asks_for_new_keys_and_reads_none_is_sent_away(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: type[Service]
):
    service = kind()
    peer, secret = shaken_with_secret(service, tmp_path)
    peer.channel.data_received(new_keys(secret, 25_000, asked_back=True))
    for _ in range(100):
        service.runtime.turn()
    assert peer.transport.aborted
    assert len(peer.transport.written) < 540_000
    assert "answers to new keys are not read" in capfd.readouterr().err


def test_https_answers_come_whole_and_who_drips_leaves_in_time():
    """The HTTP listener's own deadline holds from the moment that somebody connects."""
    service = HttpsService()
    service.large = "x" * 3_000_000
    peer = service.peer().shake_hands()
    for _ in range(2):
        peer.received = b""
        peer.send(b"GET /groups HTTP/1.1\r\nHost: h\r\n\r\n")
        head, _, body = peer.received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert len(body) == 3_000_003
    silent, dripping = service.peer(), service.peer().shake_hands()
    dripping.send(b"GET /gro")
    assert len(service.http.connections) == 3
    for _ in range(10):
        service.runtime.advance(1_000)
        dripping.send(b"u")
    assert silent.transport.closed
    assert dripping.transport.closed
    for gone in (silent, dripping):
        gone.channel.connection_lost(None)
    assert len(service.http.connections) == 1


def test_requests_come_through_whatever_records_and_pieces_they_come_in():
    """Records of one byte up to all, cut anywhere, many at once: each request once, and in its order."""
    generator = random.Random(5)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        service = Service()
        service.runtime._rounds = 1
        service.runtime.step_ns = 100_000
        peer = service.peer(version=version).shake_hands()
        requests = b"".join(encode_request(HEARTBEAT, 1, number, "k") for number in range(300))
        at = 0
        while at < len(requests):
            size = generator.choice([1, 2, 3, 30, 200])
            peer.tls.write(requests[at : at + size])
            at += size
        sealed = peer.outgoing.read()
        while sealed:
            cut = generator.choice([1, 4, 200, 20_000])
            peer.channel.data_received(sealed[:cut])
            sealed = sealed[cut:]
            while not peer.transport.reading:
                service.runtime.turn()
        for _ in range(50):
            peer.exchange()
        assert [int.from_bytes(frame[4:8]) for frame in peer.frames()] == list(range(300))
