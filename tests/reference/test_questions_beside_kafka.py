"""Small questions of listeners, rights and log-ins: Kohort and Apache Kafka come to the same."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.reference.beside import logged_in
from tests.reference.test_rights_beside_kafka import (
    ALL,
    ALLOW,
    CLUSTER,
    DENY,
    DESCRIBE,
    PREFIXED,
    READ,
    WRITE,
    acl,
    ask,
    give,
    there,
)
from tests.support.broker_process import eventually
from tests.support.wire import Wire, is_ready

if TYPE_CHECKING:
    from tests.reference.beside import Side

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]

IDEMPOTENT_WRITE, LOADING = 12, 14
ALICE = SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret")


def test_each_listener_tells_of_itself_as_kafkas_do(sides: tuple[Side, Side]) -> None:
    """SE01: in Metadata and FindCoordinator, with a log-in and without."""
    for side in sides:
        give(side, acl(ALLOW, DESCRIBE, "g", kind=3))
        with Wire(side.broker.address) as plain:
            for address, wire in ((side.broker.address, plain), (side.sasl, side.wire)):
                port = int(address.rpartition(":")[2])
                assert [one.port for one in wire.call(MetadataRequest(topics=[]), 9).brokers] == [port]
                assert wire.call(FindCoordinatorRequest(key="g", key_type=0), 1).port == port


SETS = {
    "nothing": (),
    "one topic": (acl(ALLOW, WRITE),),
    "all of it": (acl(ALLOW, ALL),),
    "to read alone": (acl(ALLOW, READ),),
    "the cluster": (acl(ALLOW, IDEMPOTENT_WRITE, "kafka-cluster", CLUSTER),),
    "from elsewhere": (acl(ALLOW, WRITE, host="127.0.0.2"),),
    "one topic, and it is denied": (acl(ALLOW, WRITE), acl(DENY, WRITE)),
    "one topic, and another is denied": (acl(ALLOW, WRITE), acl(DENY, WRITE, "other")),
    "one topic, and its prefix is denied": (acl(ALLOW, WRITE), acl(DENY, WRITE, "ord", resource_pattern_type=PREFIXED)),
    "one topic, and all are denied": (acl(ALLOW, WRITE), acl(DENY, WRITE, "*")),
    "one topic, and reading all is denied": (acl(ALLOW, WRITE), acl(DENY, READ, "*")),
    "one topic, and all is denied to everybody": (acl(ALLOW, WRITE), acl(DENY, ALL, "*", principal="User:*")),
    "a prefix, and a topic of it is denied": (
        acl(ALLOW, WRITE, "ord", resource_pattern_type=PREFIXED), acl(DENY, WRITE),
    ),
    "a prefix, and a shorter one is denied": (
        acl(ALLOW, WRITE, "ord", resource_pattern_type=PREFIXED),
        acl(DENY, WRITE, "or", resource_pattern_type=PREFIXED),
    ),
    "a prefix, and a longer one is denied": (
        acl(ALLOW, WRITE, "ord", resource_pattern_type=PREFIXED),
        acl(DENY, WRITE, "orde", resource_pattern_type=PREFIXED),
    ),
    "all topics, and one is denied": (acl(ALLOW, WRITE, "*"), acl(DENY, WRITE)),
}  # fmt: skip


def test_who_may_write_somewhere_has_a_producer_id_as_with_kafka(sides: tuple[Side, Side]) -> None:
    """SE41: without a transactional id, under each set of ACLs."""
    told = []
    for side in sides:
        found = {}
        for name, acls in SETS.items():
            give(side, *acls)
            asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

            def answered(side: Side = side, asked: InitProducerIdRequest = asked) -> tuple[int] | None:
                code = side.wire.call(asked, 4).error_code
                return None if code == LOADING else (code,)  # Kafka has to get producer ids first

            found[name] = eventually(answered, what="an answer")
        told.append(found)
    assert told[0] == told[1]
    assert set(told[0].values()) == {(0,), (31,)}


def test_who_may_not_ask_for_users_is_answered_at_once_where_kafka_says_nothing(sides: tuple[Side, Side]) -> None:
    """SE52: all users, and none by name."""
    ours, theirs = sides
    asked = DescribeUserScramCredentialsRequest(users=None)
    give(ours)
    answer = ours.wire.call(asked, 0)
    assert (answer.error_code, answer.results) == (31, [])
    give(theirs)
    with logged_in(theirs.sasl, timeout_s=2) as wire, pytest.raises(TimeoutError):
        wire.call(asked, 0)


def test_too_many_partitions_at_once_are_refused_as_by_kafka(sides: tuple[Side, Side]) -> None:
    """SE67: of one topic; Kafka counts all topics of a request together and refuses all (docs/unsupported.md)."""
    told = []
    for side in sides:
        found = []
        for wanted in ((10_001,), (1, 10_001)):
            topics = [CreatableTopic(name=f"se67-{one}", num_partitions=one, replication_factor=1) for one in wanted]
            answer = ask(side, CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=True), 5)
            found.append(sorted(one.error_code for one in answer.topics))
        told.append(found)
    assert told == [[[44], [0, 44]], [[44], [44, 44]]]


def test_a_fetch_that_waits_is_answered_before_who_asks_is_asked_again_as_with_kafka(sides: tuple[Side, Side]) -> None:
    """SE24: a log-in that comes behind it, on the listener that asks again and again; until then nothing comes."""
    waits_ms = 600
    for side in sides:
        there(side, "quiet")
        give(side, acl(ALLOW, READ, "quiet"))
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
        topics = [FetchTopic(topic="quiet", partitions=[partition])]
        fetch = FetchRequest(max_wait_ms=waits_ms, min_bytes=1, max_bytes=1_000, topics=topics)
        with logged_in(side.addresses["AGAIN"]) as wire:
            time.sleep(1.1)  # Kafka takes no other one within a second
            wire.send(fetch, 11)
            # The log-in comes when the fetch has been parked, and not in one piece with it.
            assert not is_ready(wire.socket, waits_ms / 4_000)
            began = time.monotonic()
            wire.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            wire.send(ALICE, 2)
            # Nothing comes before the fetch is over; `receive` refuses an answer that is not to what was asked first.
            assert not is_ready(wire.socket, waits_ms / 4_000)
            fetched = wire.receive()
            assert time.monotonic() - began > waits_ms / 4_000
            shaken, known = wire.receive(), wire.receive()
            assert fetched.responses[0].partitions[0].error_code == 0
            assert (shaken.error_code, known.error_code) == (0, 0)
            assert 0 < known.session_lifetime_ms <= 2_000
            wire.send(fetch, 11)  # and is who he was
            assert wire.receive().responses[0].partitions[0].error_code == 0
