"""What a scrape says of log-ins, sessions, certificates and quotas, of one broker at which each has happened."""

from __future__ import annotations

import ssl
from socket import create_connection
from typing import TYPE_CHECKING

import pytest

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.http.metrics.http_client import Metrics
from tests.support.broker_process import Kohort, eventually, free_port
from tests.support.certificates import Authority
from tests.support.data_plane import batch
from tests.support.wire import Wire

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def log_in(address: str, password: str) -> Wire:
    """A connection of bob's, or of who says so."""
    wire = Wire(address)
    assert wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    wire.call(SaslAuthenticateRequest(auth_bytes=f"\0bob\0{password}".encode()), 2)
    return wire


def test_log_ins_sessions_certificates_and_quotas_have_figures(tmp_path: Path) -> None:
    """Three log-ins, one wrong, a handshake that fails, a session that ends, and a producer that waits."""
    sasl, secure = (f"127.0.0.1:{free_port()}" for _ in range(2))
    server = Authority().issue(days=3)
    port = free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://{sasl},SSL://{secure}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} required user_bob="right";',
        "listener.name.sasl_plaintext.connections.max.reauth.ms": 200,
        "connection.failed.authentication.delay.ms": 0,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": server.key_pem().decode(),
        "ssl.keystore.certificate.chain": server.certificate_pem.decode(),
    }
    with Kohort(tmp_path, settings, port=port) as broker:
        before = Metrics(broker.http)
        log_in(sasl, "right").close()
        log_in(sasl, "right").close()
        log_in(sasl, "wrong").close()
        with log_in(sasl, "right") as wire:

            def ended() -> bool:
                try:
                    return not wire.call(MetadataRequest(topics=[]), 1)
                except ConnectionError:
                    return True

            eventually(ended, what="the end of a session")
        host, _, number = secure.partition(":")
        with create_connection((host, int(number)), 20) as raw, pytest.raises(ssl.SSLError):
            ssl.create_default_context().wrap_socket(raw, server_hostname="localhost")
        ops = [OpData(key="producer_byte_rate", value=1_000.0, remove=False)]
        entity = [EntityData(entity_type="client-id", entity_name="held")]
        with Wire(broker.address, client_id="held") as wire:
            assert wire.create_topic("t", 1) == 0
            wire.call(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)]), 1)
            topic = TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=0, records=batch(b"v" * 60_000))]
            )
            told_ms = wire.call(ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[topic]), 9).throttle_time_ms
        assert told_ms > 45_000
        figures = eventually(
            lambda: (found := Metrics(broker.http)).value("kohort_authentications_failed_total") == 2 and found,
            what="the handshake that fails",
            deadline_s=60,
        )
    assert before.value("kohort_authentications_total") == 0
    assert figures.value("kohort_authentications_total") == 3
    assert figures.value("kohort_sessions_expired_total") == 1
    ends_s = server.certificate.not_valid_after_utc.timestamp()
    assert figures.value("kohort_certificate_not_after_seconds", listener="SSL") == int(ends_s)
    assert "certificate_expires_soon" in broker.log()
    quota = {"quota": "producer_byte_rate"}
    assert figures.value("kohort_quota_throttled_total", **quota) == 1
    assert figures.value("kohort_quota_throttle_seconds_total", **quota) == told_ms / 1_000
    assert figures.value("kohort_quota_held", **quota) == 1
    assert figures.value("kohort_quota_throttled_total", quota="consumer_byte_rate") == 0
