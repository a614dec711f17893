"""What is remembered of connections and of members that went over them."""

from __future__ import annotations

from time import process_time

from broker.groups.ledger.departures import TRACES_MAX, WATCHED_MS, Departures
from broker.groups.peers import CLOSED_MAX, KEPT_MS, Peer, Peers
from coordinator.cause import Cause
from coordinator.events import DepartureTraced, GroupEvent, MemberLeft, SessionExpired
from coordinator.why.window import TRACED_AFTER_MS
from tests.support.virtual_runtime import VirtualRuntime


def connected(peers: Peers, client: str = "b") -> Peer:
    peer = Peer()
    peers.named(peer, client, "/10.0.0.1")
    return peer


def test_a_closed_connection_is_told_unless_its_client_came_again():
    runtime = VirtualRuntime()
    peers = Peers(runtime)
    peer = connected(peers)
    peers.joined(peer, "g", "m")
    assert peers.facts("g", "m")["state"] == "open"  # type: ignore[index]
    peers.closed(peer, "reset")
    runtime.advance(500)
    assert peers.facts("g", "m") == {"state": "closed", "how": "reset", "closed_ms": 500}
    connected(peers)
    assert peers.facts("g", "m")["again"] is True  # type: ignore[index]
    assert peers.facts("g", "nobody") is None


def test_no_more_is_remembered_than_is_said():
    runtime = VirtualRuntime()
    peers = Peers(runtime)
    for number in range(CLOSED_MAX + 5):
        peer = connected(peers, str(number))
        peers.joined(peer, "g", str(number))
        peers.closed(peer, "end of file")
    assert len(peers._closed) == len(peers._by_member) == len(peers._by_client) == CLOSED_MAX
    runtime.advance(KEPT_MS + 1)
    peers.closed(connected(peers), "end of file")
    assert len(peers._closed) == len(peers._by_client) == 1
    assert not peers._by_member


def test_who_left_and_kept_its_connection_is_told_and_so_is_its_return():
    runtime = VirtualRuntime()
    peers = Peers(runtime)
    told: list[GroupEvent] = []
    departures = Departures(runtime, peers, told.append)
    peer = connected(peers)
    peers.joined(peer, "g", "m")
    departures.happened(
        GroupEvent(MemberLeft(Cause(runtime.now_ms(), "member_left", "m", None, "b", "/10.0.0.1")), "g", 3)
    )
    runtime.advance(TRACED_AFTER_MS)
    peers.joined(peer, "g", "m-2")
    saw = [(one.what.saw, one.what.same_connection) for one in told if isinstance(one.what, DepartureTraced)]
    assert saw == [("open", None), ("returned", True)]
    assert not departures._traces
    assert departures._count == 0


def test_a_client_that_gives_its_coordinator_up_and_lives_on_is_the_same():
    """As Java's does after a pause; who shares a name with others is not told so."""
    for namesake in (False, True):
        runtime = VirtualRuntime()
        peers = Peers(runtime)
        told: list[GroupEvent] = []
        departures = Departures(runtime, peers, told.append)
        peer, other = connected(peers), connected(peers)
        peers.joined(peer, "g", "m")
        if namesake:
            peers.joined(connected(peers), "g", "twin")
        runtime.advance(1_000)
        cause = Cause(runtime.now_ms(), "session_expired", "m", None, "b", "/10.0.0.1")
        departures.happened(GroupEvent(SessionExpired(cause), "g", 3))
        peers.closed(peer, "end of file")
        runtime.advance(1_000)
        other.heard_ns = runtime.clock_ns() + 1
        peers.joined(connected(peers), "g", "m-2")
        runtime.advance(TRACED_AFTER_MS)
        saw = [(one.what.saw, one.what.same_connection) for one in told if isinstance(one.what, DepartureTraced)]
        assert saw == ([("closed", None)] if namesake else [("returned", True)])


def test_of_those_who_share_a_name_only_the_own_connection_tells():
    """The heartbeats of one process are not those of another; a namesake's new connection is not its own."""
    runtime = VirtualRuntime()
    peers = Peers(runtime)
    mine, other = connected(peers), connected(peers)
    peers.joined(mine, "g", "m")
    peers.joined(other, "g", "twin")
    runtime.advance(4_000)
    other.heard_ns = runtime.clock_ns()
    facts = peers.facts("g", "m")
    assert facts is not None
    assert (facts["quiet_ms"], facts["shared"]) == (facts["own_quiet_ms"], True)
    peers.closed(mine, "reset")
    peers.joined(connected(peers), "g", "third")
    runtime.advance(500)
    assert peers.facts("g", "m") == {"state": "closed", "how": "reset", "closed_ms": 500}


def test_a_member_whose_heartbeats_come_over_another_connection_speaks_over_that():
    """Idle connections are closed, and made again: it is the new one whose end is a death."""
    runtime = VirtualRuntime()
    peers = Peers(runtime)
    first, second = connected(peers), connected(peers)
    peers.joined(first, "g", "m")
    peers.closed(first, "broker")
    assert peers.awaited == {("g", "m")}
    runtime.advance(60_000)
    peers.heard(second, "g", "m")
    assert not peers.awaited
    peers.closed(second, "reset")
    runtime.advance(500)
    assert peers.facts("g", "m") == {"state": "closed", "how": "reset", "closed_ms": 500}
    assert peers.gone("g", "m") is second
    assert not peers.awaited


def expired_beside_a_twin() -> tuple[VirtualRuntime, Peers, Departures, Peer, list[GroupEvent]]:
    """The session of member m is over, another one has its client id and host."""
    runtime = VirtualRuntime()
    peers = Peers(runtime)
    told: list[GroupEvent] = []
    departures = Departures(runtime, peers, told.append)
    peer, other = connected(peers), connected(peers)
    peers.joined(peer, "g", "m")
    peers.joined(other, "g", "twin")
    cause = Cause(runtime.now_ms(), "session_expired", "m", None, "b", "/10.0.0.1")
    departures.happened(GroupEvent(SessionExpired(cause), "g", 3))
    return runtime, peers, departures, peer, told


def test_a_namesake_that_joins_is_not_a_member_that_comes_back():
    _, peers, _, peer, told = expired_beside_a_twin()
    peers.joined(connected(peers), "g", "third")
    assert not told
    peers.joined(peer, "g", "m-2")
    assert [(one.what.saw, one.what.same_connection) for one in told if isinstance(one.what, DepartureTraced)] == [
        ("returned", True)
    ]


def test_of_one_that_shares_its_name_its_own_heartbeat_says_that_it_lives():
    """Java's client gives its connection up after a pause, and asks over another one with the id that it had."""
    runtime, peers, departures, peer, told = expired_beside_a_twin()
    peers.closed(peer, "end of file")
    runtime.advance(TRACED_AFTER_MS)
    again = connected(peers)
    peers.heard(again, "g", "m")
    peers.joined(again, "g", "m-2")
    saw = [(one.what.saw, one.what.same_connection) for one in told if isinstance(one.what, DepartureTraced)]
    assert saw == [("closed", None), ("returned", None)]
    assert not peers.awaited
    assert not departures._traces


def test_who_goes_twice_under_one_id_leaves_nothing_behind():
    """Members of the consumer protocol choose their id, and keep it when they come again."""
    runtime = VirtualRuntime()
    peers = Peers(runtime)
    departures = Departures(runtime, peers, lambda event: None)
    for _ in range(3):
        peer = connected(peers)
        peers.joined(peer, "g", "m")
        left = MemberLeft(Cause(runtime.now_ms(), "member_left", "m", None, "b", "/10.0.0.1"))
        departures.happened(GroupEvent(left, "g", 3))
        runtime.advance(TRACED_AFTER_MS)
        peers.closed(peer, "end of file")
    runtime.advance(WATCHED_MS)
    assert not departures._traces
    assert departures._count == 0


def test_ten_thousand_members_of_one_client_that_go_cost_no_more_each_than_one():
    """A pod that ends takes all its members along: each is put aside, found and dropped without a look at others."""
    runtime = VirtualRuntime()
    peers = Peers(runtime)
    departures = Departures(runtime, peers, lambda event: None)
    peer = connected(peers)
    for number in range(TRACES_MAX):
        peers.joined(peer, "g", f"m-{number}")
    began = process_time()
    for number in range(TRACES_MAX):
        left = MemberLeft(Cause(runtime.now_ms(), "member_left", f"m-{number}", None, "b", "/10.0.0.1"))
        departures.happened(GroupEvent(left, "g", 3))
    for number in range(TRACES_MAX // 2):
        peers.joined(peer, "g", f"again-{number}")
    took = process_time() - began

    assert departures._count == TRACES_MAX // 2
    assert took < 0.7, took  # two seconds when each was looked for among all
