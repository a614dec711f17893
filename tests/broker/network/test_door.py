"""What those who have not logged in may take: prices and buckets in virtual time, no clock of the machine's."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from broker.http.metrics import requests
from broker.http.metrics.exposition import Scrape
from broker.network import door
from broker.network.admission import Admission
from broker.network.door import ACCEPT_NS, AWAY_MS, CROWD, FIRST_STEPS_NS, HANDSHAKE_NS, LOOK_MS, OUTSIDE_MS
from tests.broker.network.test_gate import BOB, Peer, authenticate, handshake
from tests.broker.network.test_tls import Peer as TlsPeer
from tests.broker.network.test_tls import Service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.network.connection import Connection
    from tests.support.connections import FakeTransport, Harness

SAVED_MS = 10_000
"""What a bucket may have saved up for."""
Made = list[tuple["Connection", "FakeTransport"]]


class Guarded(Peer):
    """A listener with SASL and its door; what it was told of accepting is kept."""

    def __init__(self, percentage: int = 10) -> None:
        super().__init__(kohort__unauthenticated__percentage=percentage)
        self.away: list[list[str]] = []
        """Whom the system was told to turn away, each time."""
        self.accepts = guard(self, "PLAINTEXT", self.away)
        self.bound = percentage * 10_000_000 // 2
        """Nanoseconds a second, of each bucket."""

    def come(self, count: int, host: str = "10.0.0.1") -> Made:
        return [self.connect(host, port) for port in range(count)]


def guard(harness: Harness, listener: str, away: list[list[str]]) -> list[bool]:
    accepts: list[bool] = []
    assert harness.security is not None

    def turn_away(_: str, hosts: Sequence[str]) -> bool:
        away.append(list(hosts))
        return True

    harness.server.admission = Admission(
        harness.broker, {listener: harness.security}, lambda _, whether: accepts.append(whether), turn_away
    )
    return accepts


def let_in(made: Made) -> int:
    return sum(not connection.outside for connection, _ in made)


def log_in(harness: Guarded, connection: Connection) -> None:
    connection.data_received(handshake() + authenticate(BOB))
    harness.runtime.turn()


def test_ten_seconds_worth_comes_in_at_once_and_then_so_many_a_second() -> None:
    harness = Guarded()
    at_once = harness.bound * SAVED_MS // 1_000 // FIRST_STEPS_NS
    made = harness.come(at_once + 3_000)
    assert let_in(made) == at_once
    harness.runtime.advance(1_000)
    assert let_in(made) - at_once == pytest.approx(harness.bound // FIRST_STEPS_NS, rel=0.05)
    assert not any(transport.closed for _, transport in made)


def test_who_waits_outside_is_not_read_and_is_served_when_let_in() -> None:
    harness = Guarded()
    *_, (connection, transport) = harness.come(harness.bound * SAVED_MS // 1_000 // FIRST_STEPS_NS + 1)
    harness.runtime.turn()
    assert connection.outside
    assert not transport.reading
    log_in(harness, connection)
    assert not transport.written
    harness.runtime.advance(LOOK_MS)
    harness.runtime.turn()
    assert not connection.outside
    assert transport.reading
    assert transport.written
    assert not connection.price_ns, "it has logged in, so it has cost nothing"


def test_addresses_take_turns_at_the_door() -> None:
    """Ten thousand of one address do not hold up the first one of another."""
    harness = Guarded()
    crowd = harness.come(8_000)
    (first,), (second,) = harness.come(1, "10.0.0.2"), harness.come(1, "10.0.0.3")
    assert first[0].outside and second[0].outside
    before = let_in(crowd)
    harness.runtime.advance(LOOK_MS)
    assert not first[0].outside and not second[0].outside
    assert let_in(crowd) - before < 10


def test_who_logs_in_gets_the_price_back() -> None:
    harness = Guarded(percentage=1)
    at_once = harness.bound * SAVED_MS // 1_000 // FIRST_STEPS_NS
    for port in range(3 * at_once):
        connection, _ = harness.connect("10.0.0.1", port)
        assert not connection.outside
        log_in(harness, connection)
    assert harness.server.admission.door.waited == 0
    strangers = harness.come(at_once + 1)
    assert let_in(strangers) == at_once


def test_who_logs_in_again_gets_nothing_back() -> None:
    """KIP-368: each time is the same connection's, which has been paid back."""
    harness = Guarded(percentage=1)
    connection, _ = harness.connect("10.0.0.1", 1)
    log_in(harness, connection)
    harness.come(harness.bound * SAVED_MS // 1_000 // FIRST_STEPS_NS)
    connection.authenticated("User:bob", watched=True)
    assert let_in(harness.come(1)) == 0


def test_nothing_is_accepted_while_accepting_alone_takes_too_much() -> None:
    harness = Guarded()
    saved = harness.bound * SAVED_MS // 1_000 // ACCEPT_NS
    harness.come(saved)
    assert harness.accepts == []
    harness.come(50)
    assert harness.accepts == [False]
    harness.runtime.advance(50 * ACCEPT_NS * 1_000 // harness.bound - LOOK_MS)
    assert harness.accepts == [False]
    harness.runtime.advance(LOOK_MS)
    assert harness.accepts == [False, True]


def test_those_who_come_most_are_kept_away_for_a_while_when_nobody_is_accepted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In the queue that fills then nobody can be told apart."""
    harness = Guarded()
    harness.come(CROWD - 1, "10.0.0.9")
    harness.come(CROWD, "10.0.0.2")
    harness.come(harness.bound * SAVED_MS // 1_000 // ACCEPT_NS)
    assert harness.away == [["10.0.0.1", "10.0.0.2"]]
    assert "addresses_kept_away addresses=10.0.0.1,10.0.0.2" in capfd.readouterr().err
    harness.runtime.advance(AWAY_MS - 1)
    assert harness.accepts == [False, True]
    assert len(harness.away) == 1
    harness.runtime.advance(1)
    assert harness.away[1:] == [[]]


def test_who_is_away_stays_it_when_others_come_as_many() -> None:
    harness = Guarded()
    harness.come(harness.bound * SAVED_MS // 1_000 // ACCEPT_NS + 1)
    harness.runtime.advance(1_500)
    for number in range(2, 22):
        harness.come(CROWD, f"10.0.0.{number}")
    assert harness.away[1][-1] == "10.0.0.1"
    harness.runtime.advance(AWAY_MS - 500)
    assert all(harness.away), "it is two seconds since the last ones"


def test_those_who_log_in_are_no_crowd() -> None:
    harness = Guarded(percentage=1)
    for port in range(2 * CROWD):
        log_in(harness, harness.connect("10.0.0.1", port)[0])
    harness.come(CROWD // 2)
    harness.come(harness.bound * SAVED_MS // 1_000 // ACCEPT_NS, "10.0.0.2")
    assert harness.away == [["10.0.0.2"]]


def test_one_address_has_half_of_the_places_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MOST_OUTSIDE", 100)
    harness = Guarded(percentage=1)
    at_once = harness.bound * SAVED_MS // 1_000 // FIRST_STEPS_NS
    made = harness.come(at_once + 60)
    assert sum(transport.closed for _, transport in made) == 10
    assert harness.server.admission.door.turned_away == 10
    assert not any(transport.closed for _, transport in harness.come(25, "10.0.0.2"))


def test_who_has_waited_for_too_long_is_sent_away_and_costs_nothing_more() -> None:
    harness = Guarded(percentage=1)
    at_once = harness.bound * SAVED_MS // 1_000 // FIRST_STEPS_NS
    a_second = harness.bound // FIRST_STEPS_NS
    made = harness.come(at_once + 40 * a_second)
    harness.runtime.advance(OUTSIDE_MS + 2_000)
    waited = [transport for _, transport in made[at_once:]]
    assert sum(not transport.closed for transport in waited) == pytest.approx(30 * a_second, rel=0.1)
    assert harness.server.admission.door.outside == 0


def test_who_goes_while_he_waits_leaves_his_turn_to_the_next() -> None:
    harness = Guarded()
    made = harness.come(harness.bound * SAVED_MS // 1_000 // FIRST_STEPS_NS + 200)
    gone = made[-200:-1]
    for connection, _ in gone:
        connection.connection_lost(None)
    harness.runtime.advance(2 * LOOK_MS)
    assert not made[-1][0].outside
    assert harness.server.admission.door.outside == 0


def test_without_a_bound_nobody_waits() -> None:
    harness = Guarded(percentage=100)
    assert let_in(harness.come(12_000)) == 12_000
    assert harness.accepts == []


def test_listeners_that_ask_nobody_have_no_door() -> None:
    harness = Peer()
    made = [harness.connect("10.0.0.1", port) for port in range(12_000)]
    assert let_in(made) == len(made)


def test_who_waits_at_the_end_is_sent_away() -> None:
    harness = Guarded(percentage=1)
    made = harness.come(harness.bound * SAVED_MS // 1_000 // FIRST_STEPS_NS + 10)
    harness.server.stop_reading()
    assert all(transport.closed for _, transport in made[-10:])
    harness.runtime.advance(1_000)


def test_a_handshake_begins_when_its_connection_is_let_in() -> None:
    """Its ten seconds too; and there is no OpenSSL for who says nothing."""
    service = Service({"kohort.unauthenticated.percentage": "10"})
    guard(service, "SSL", [])
    at_once = 500_000_000 // (FIRST_STEPS_NS + HANDSHAKE_NS)
    silent = [service.peer() for _ in range(at_once)]
    assert not any(peer.connection.outside for peer in silent)
    assert not any(peer.channel._begun for peer in silent)
    late = service.peer(host="10.0.0.2")
    assert late.connection.outside
    late.shake_hands()
    assert not late.channel._begun
    service.runtime.advance(5 * LOOK_MS)
    assert late.channel._begun
    TlsPeer.exchange(late)
    late.shake_hands()
    assert late.connection.price_ns == 0, "its certificate, or that it needs none, says who it is"
    assert late.error is None


def test_the_first_who_waits_is_a_line_once_a_minute(capfd: pytest.CaptureFixture[str]) -> None:
    harness = Guarded()
    at_once = harness.bound * SAVED_MS // 1_000 // FIRST_STEPS_NS

    def lines_of(count: int) -> int:
        """Of so many who come, and then have all been let in."""
        harness.come(count)
        harness.runtime.advance(5_000)
        assert harness.server.admission.door.outside == 0
        return capfd.readouterr().err.count("connections_wait_outside")

    assert lines_of(at_once) == 0
    assert lines_of(at_once) == 1
    for _ in range(10):
        assert lines_of(2_400) == 0
    harness.runtime.advance(5_000)
    assert lines_of(at_once) == 1


def test_who_waits_outside_and_who_is_turned_away_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the metrics of those that a limit or a rate has held up."""
    monkeypatch.setattr(door, "MOST_OUTSIDE", 100)
    harness = Guarded(percentage=1)
    app: Any = SimpleNamespace(broker=harness.broker, server=harness.server)

    def told() -> dict[str, int]:
        text = "".join(requests.section(Scrape(app)))
        found = re.findall(r"^kohort_connections_(refused|throttled)_total (\d+)$", text, re.MULTILINE)
        return {name: int(count) for name, count in found}

    harness.come(harness.bound * SAVED_MS // 1_000 // FIRST_STEPS_NS)
    assert told() == {"refused": 0, "throttled": 0}
    harness.come(60)
    assert told() == {"refused": 10, "throttled": 50}
    harness.runtime.advance(OUTSIDE_MS)
    assert told() == {"refused": 10, "throttled": 50}
