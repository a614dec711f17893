"""Who is let in, and who has been silent for too long."""

from broker.handlers.context import Deferred
from broker.network.connection import Connection
from protocol.api_keys import ApiKey
from protocol.frames import encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.connections import Harness

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def asks(harness: Harness, connection: Connection) -> None:
    """A request comes."""
    connection.data_received(encode_request(HEARTBEAT, 1, 1, "c"))
    harness.runtime.turn()


def test_one_connection_too_many_is_served_when_another_goes():
    """SE59: nobody is closed, and those who are there are not touched."""
    harness = Harness({ApiKey.HEARTBEAT: lambda *_: HeartbeatResponse()}, settings={"max.connections": "2"})
    second, _ = harness.connect(port=2)
    third, waiting = harness.connect(port=3)
    fourth, behind = harness.connect(port=4)
    for connection in (third, fourth, second):
        asks(harness, connection)
    assert not waiting.closed
    assert waiting.written == behind.written == b""
    assert second.side._transport.written

    second.connection_lost(None)
    harness.runtime.turn()
    assert waiting.written
    assert not behind.written


def test_who_goes_while_he_waits_lets_the_next_one_through():
    """SE59"""
    harness = Harness({ApiKey.HEARTBEAT: lambda *_: HeartbeatResponse()}, settings={"max.connections": "1"})
    second, _ = harness.connect(port=2)
    third, transport = harness.connect(port=3)
    second.side.closed = True
    second.connection_lost(None)
    asks(harness, third)
    assert not transport.written
    harness.lose()
    harness.runtime.turn()
    assert transport.written


def test_a_listener_accepts_nothing_while_somebody_waits():
    """SE59: the system's queue fills instead."""
    harness = Harness(settings={"max.connections": "1"})
    told: list[tuple[str, bool]] = []
    harness.server.admission._accept = lambda listener, whether: told.append((listener, whether))
    harness.connect(port=2)
    harness.connect(port=3)
    assert told == [("PLAINTEXT", False)]
    harness.broker.settings.apply_dynamic(cluster={"max.connections": "3"}, broker={})
    assert told == [("PLAINTEXT", False), ("PLAINTEXT", True)]


def test_nobody_is_accepted_while_descriptors_are_short():
    """SE74: who is there is served; each listener that somebody still comes through stops, and all begin again."""
    harness = Harness()
    told: list[tuple[str, bool]] = []
    harness.server.admission._accept = lambda listener, whether: told.append((listener, whether))
    harness.runtime.short_of_descriptors = lambda: True
    asks(harness, harness.connect(port=2)[0])
    harness.connect(port=3)
    assert told == [("PLAINTEXT", False), ("PLAINTEXT", False)]
    harness.runtime.advance(1_000)
    assert len(told) == 2
    harness.runtime.short_of_descriptors = lambda: False
    harness.runtime.advance(100)
    assert told[2:] == [("PLAINTEXT", True)]


def test_connections_that_come_too_fast_wait_one_after_the_other():
    """SE59: nobody is closed."""
    harness = Harness(
        {ApiKey.HEARTBEAT: lambda *_: HeartbeatResponse()}, settings={"max.connection.creation.rate": "1"}
    )
    made = [harness.connect(port=port) for port in range(2, 14)]
    for connection, _ in made:
        asks(harness, connection)
    assert sum(bool(transport.written) for _, transport in made) == 9, "ten a window of ten seconds, one was there"
    harness.runtime.advance(1_000)
    assert sum(bool(transport.written) for _, transport in made) == 10
    harness.runtime.advance(2_000)
    assert all(transport.written and not transport.closed for _, transport in made)


def test_an_address_that_connects_too_fast_is_held_and_then_closed():
    """SE60: one a second, and fourteen at once."""
    harness = Harness()
    harness.broker.quotas.by_address["10.0.0.1"] = 1.0
    made = [harness.connect("10.0.0.1", port) for port in range(14)]
    assert not any(transport.closed for _, transport in made)
    harness.runtime.advance(1_000)
    assert [transport.closed for _, transport in made] == [False] * 10 + [True] * 4
    assert harness.server.admission.throttled == 4
    assert not harness.connect("10.0.0.2", 1)[1].closed


def test_one_address_may_have_so_many_connections_and_an_override_counts_more():
    harness = Harness(settings={"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "10.0.0.9:2"})

    assert harness.connect("127.0.0.1", 2)[1].closed
    assert not harness.connect("10.0.0.1", 2)[1].closed
    assert not harness.connect("10.0.0.9", 2)[1].closed
    assert not harness.connect("10.0.0.9", 3)[1].closed
    refused, transport = harness.connect("10.0.0.9", 4)
    assert transport.closed
    refused.connection_lost(None)
    assert harness.connect("10.0.0.9", 5)[1].closed


def test_limits_follow_what_is_set_while_the_broker_runs():
    harness = Harness()
    harness.broker.settings.apply_dynamic(cluster={"max.connections.per.ip": "1"}, broker={})

    assert harness.connect(port=2)[1].closed


class _NoListeners:
    """The part of a `LoopRuntime` that listens."""


def _idle_harness(handlers: dict[int, object] | None = None) -> Harness:
    harness = Harness(handlers, {"connections.max.idle.ms": "60000"})
    harness.server.listen(_NoListeners(), [])
    return harness


def test_an_idle_connection_is_closed_and_a_busy_one_is_not():
    harness = _idle_harness()
    busy, transport = harness.connect(port=2)
    for _ in range(10):
        harness.runtime.advance(10_000)
        busy.data_received(encode_request(ApiVersionsRequest(), 0, 1))

    assert harness.transport.closed
    assert not transport.closed


def test_an_idle_connection_lives_for_its_whole_time():
    harness = _idle_harness()
    harness.runtime.advance(60_000)
    assert not harness.transport.closed
    harness.runtime.advance(15_000)
    assert harness.transport.closed


def test_a_connection_with_a_parked_request_is_not_idle():
    """CL19: a JoinGroup may be parked for longer than connections.max.idle.ms."""
    deferred = Deferred()
    harness = _idle_harness({ApiKey.HEARTBEAT: lambda *_: deferred})
    harness.send(HEARTBEAT, 1)
    harness.runtime.advance(600_000)
    assert not harness.transport.closed

    deferred.complete(HeartbeatResponse())
    harness.runtime.turn()
    harness.runtime.advance(50_000)
    assert not harness.transport.closed
    harness.runtime.advance(30_000)
    assert harness.transport.closed


def test_a_connection_that_never_reads_its_answers_is_idle_and_in_the_end_aborted():
    """SE63"""
    harness = _idle_harness()
    harness.transport.room = 10
    harness.connection.data_received(encode_request(ApiVersionsRequest(), 0, 1) * 20_000)
    harness.runtime.advance(70_000)
    assert harness.transport.closed
    assert not harness.transport.aborted
    harness.runtime.advance(10_000)
    assert harness.transport.aborted


def test_nobody_is_idle_when_the_time_is_negative():
    harness = Harness(settings={"connections.max.idle.ms": "-1"})
    harness.server.listen(_NoListeners(), [])
    harness.runtime.advance(10_000_000)

    assert not harness.transport.closed


def test_a_server_that_stops_takes_no_further_request_but_answers_what_it_has_taken():
    deferred = Deferred()
    harness = Harness({ApiKey.HEARTBEAT: lambda *_: deferred})
    harness.send(HEARTBEAT, 1, correlation_id=1)
    harness.server.stop_reading()
    harness.send(ApiVersionsRequest(), 0, correlation_id=2)
    deferred.complete(HeartbeatResponse())
    harness.runtime.turn()

    assert harness.correlation_ids() == [1]
    assert not harness.transport.reading
    harness.server.close_connections()
    assert harness.transport.closed


def test_a_request_that_comes_byte_by_byte_has_a_deadline():
    """SE62: a thousand that each declare much and send little: all are closed in time, and hold nothing then."""
    harness = Harness({ApiKey.HEARTBEAT: lambda *_: HeartbeatResponse()})
    frame = (10 * 1024 * 1024).to_bytes(4, "big")
    slow = [harness.connect(port=port) for port in range(1_000)]
    for second in range(170):
        for connection, transport in slow:
            if not transport.closed:
                connection.data_received(frame if second == 0 else b"x")
        asks(harness, harness.connection)
        harness.runtime.advance(1_000)
        assert any(transport.closed for _, transport in slow) == (second >= 160 + 4)
    assert all(transport.closed for _, transport in slow)
    assert harness.server.memory.used_bytes == 0
    assert not harness.transport.closed, "others are served"
    assert len(harness.frames()) == 170


def test_each_request_has_its_own_time_and_those_we_do_not_read_have_all_of_it():
    """SE62"""
    harness = Harness({ApiKey.HEARTBEAT: lambda *_: HeartbeatResponse()})
    whole = encode_request(HEARTBEAT, 1, 1, "c")
    for _ in range(5):
        harness.connection.data_received(whole[:5])
        harness.runtime.advance(50_000)
        harness.connection.data_received(whole[5:] + whole[:5])
        harness.runtime.advance(50_000)
        harness.connection.data_received(whole[5:])
    assert not harness.transport.closed
    harness.connection.data_received(whole[:5])
    harness.connection.hold_back()
    harness.runtime.advance(200_000)
    assert not harness.transport.closed
    harness.connection.let_go()
    harness.runtime.advance(70_000)
    assert harness.transport.closed
