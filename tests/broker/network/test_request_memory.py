"""Who is read, and who is not, when requests hold as much memory as they may."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from broker.handlers.context import Deferred
from broker.network.memory import IN_FLIGHT_MS, STUCK_MS, RequestMemory, Shares, follow
from broker.network.slow_frames import LEAST_MS
from protocol.api_keys import ApiKey
from protocol.frames import encode_request
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.connections import Harness
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from broker.network.connection import Connection
    from tests.support.connections import FakeTransport

KB = 1_024
SHARES = Shares(requests=100 * KB, request=80 * KB, objects=60 * KB, decompressed=KB)
SMALL = encode_request(HeartbeatRequest(group_id="g", generation_id=0, member_id="m"), 0, 1, "t")
LARGE = encode_request(HeartbeatRequest(group_id="g" * 30_000, generation_id=0, member_id="m"), 0, 1, "t")


def harness(handlers: dict[int, Any] | None = None) -> Harness:
    return Harness({ApiKey.HEARTBEAT: lambda *_: HeartbeatResponse(), **(handlers or {})}, shares=SHARES)


def crowd(made: Harness, count: int, data: bytes) -> list[tuple[Connection, FakeTransport]]:
    """Connections that have sent `data`, unless they were held back."""
    found = [made.connect(port=50_001 + at) for at in range(count)]
    for connection, transport in found:
        if transport.reading:
            connection.data_received(data)
    return found


def reading(connections: list[tuple[Connection, FakeTransport]]) -> list[bool]:
    return [transport.reading for _, transport in connections]


def test_beside_requests_that_have_no_room_small_ones_are_served() -> None:
    """Four have half of a request here: that is all the memory there is."""
    made = harness()
    made.connection.data_received(SMALL)
    large = crowd(made, 6, LARGE[:27_000])
    memory = made.server.memory
    assert memory.short
    assert reading(large) == [True, False, False, False, False, False]  # the first of them is read alone
    assert made.transport.reading
    before = len(made.frames())
    made.connection.data_received(SMALL)
    assert len(made.frames()) == before + 1


def test_each_is_read_alone_until_its_request_is_handled_and_then_there_is_room_for_all() -> None:
    made = harness()
    large = crowd(made, 6, LARGE[:27_000])
    for at in range(2):
        assert reading(large)[at]
        large[at][0].data_received(LARGE[27_000:])
        assert large[at][1].written
    assert not made.server.memory.short
    assert all(reading(large))


def test_who_sends_one_large_request_after_the_other_waits_for_the_others() -> None:
    made = harness()
    large = crowd(made, 4, LARGE[:27_000])
    large[0][0].data_received(LARGE[27_000:] + LARGE[:27_000])
    assert reading(large) == [False, True, False, False]


def test_a_new_connection_waits_while_memory_is_short() -> None:
    made = harness()
    large = crowd(made, 4, LARGE[:27_000])
    _, transport = made.connect(port=60_000)
    assert not transport.reading
    for connection, _ in large[:2]:
        connection.data_received(LARGE[27_000:])
    assert transport.reading


def test_everybody_waits_when_twice_the_budget_is_used() -> None:
    made = harness()
    light = [made.connect(port=40_000 + at) for at in range(10)]
    for connection, _ in light:
        connection.data_received(SMALL)
    crowd(made, 4, LARGE[:27_000])
    assert all(reading(light))
    for connection, transport in light:
        if transport.reading:
            connection.data_received(LARGE[:27_000])
    assert not any(reading(light))


def test_a_request_that_does_not_come_is_closed_while_others_wait() -> None:
    """Kafka would wait for it, and everybody with it."""
    made = harness()
    large = crowd(made, 4, LARGE[:27_000])
    made.runtime.advance(STUCK_MS + 2_000)
    assert large[0][1].aborted
    made.runtime.advance(LEAST_MS - STUCK_MS - 3_000)
    assert not made.server.memory.short
    assert not large[3][0].closed  # with those before it gone there is room: it may take its time


def test_nobody_is_closed_while_there_is_room() -> None:
    made = harness()
    large = crowd(made, 3, LARGE[:27_000])
    made.runtime.advance(LEAST_MS - 1_000)
    assert not any(connection.closed for connection, _ in large)


def test_answers_that_are_not_read_count_and_who_leaves_most_is_closed() -> None:
    """SE63"""
    answer = SaslHandshakeResponse(mechanisms=["m" * 30_000])
    made = harness({ApiKey.SASL_HANDSHAKE: lambda *_: answer})
    deaf = [made.connect(port=50_001 + at) for at in range(4)]
    ask = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "t")
    for connection, transport in deaf:
        transport.room = 20_000
        connection.data_received(ask)
        made.runtime.turn()
    memory = made.server.memory
    assert memory.short
    deaf[0][1].peer_reads()
    assert not deaf[0][0].held_bytes
    deaf[0][0].data_received(ask)
    made.runtime.turn()
    made.runtime.advance(STUCK_MS + 2_000)
    assert memory.evicted == 1
    assert not memory.short


def test_large_requests_in_flight_count() -> None:
    parked: list[Deferred] = []

    def park(*_: Any) -> Deferred:
        parked.append(Deferred())
        return parked[-1]

    made = harness({ApiKey.HEARTBEAT: park})
    large = crowd(made, 4, LARGE)
    memory = made.server.memory
    assert memory.used_bytes == 30 * len(LARGE)  # its fields are objects by now, so the others are not even read
    assert reading(large) == [False] * 4
    assert memory.short
    for deferred in parked:
        deferred.complete(HeartbeatResponse())
    made.runtime.turn()
    assert memory.used_bytes == 0
    assert not memory.short
    assert all(reading(large))


def test_requests_in_flight_may_take_their_time_but_not_for_ever() -> None:
    """It is mostly our own work that is slow; a join or a fetch waits on purpose."""
    made = harness({ApiKey.HEARTBEAT: lambda *_: Deferred()})
    large = crowd(made, 4, LARGE)
    made.runtime.advance(IN_FLIGHT_MS - 2_000)
    assert not any(connection.closed for connection, _ in large)
    made.runtime.advance(4_000)
    assert sum(connection.closed for connection, _ in large) == 1
    assert not made.server.memory.short


def test_a_request_of_many_things_must_be_smaller_than_a_produce() -> None:
    made = harness()
    request = HeartbeatRequest(group_id="g" * 32_000, generation_id=0, member_id="m" * 30_000)
    made.connection.data_received(encode_request(request, 0, 1, "t"))
    assert made.connection.closed
    other, _ = made.connect()
    other.data_received((81 * KB).to_bytes(4, "big"))
    assert other.closed


@pytest.mark.parametrize("seed", range(20))
def test_what_is_charged_is_what_is_held_and_nothing_remains(seed: int) -> None:
    rng = random.Random(seed)
    parked: list[Deferred] = []

    def park(*_: Any) -> Any:
        if rng.random() < 0.5:
            return HeartbeatResponse()
        parked.append(Deferred())
        return parked[-1]

    made = harness({ApiKey.HEARTBEAT: park})
    streams: dict[Any, bytes] = {}
    memory = made.server.memory
    for _ in range(400):
        act = rng.random()
        if act < 0.1 and len(streams) < 12:
            streams[made.connect(port=rng.randrange(1_000, 60_000))] = rng.choice((SMALL, LARGE)) * 3
        elif act < 0.7 and streams:
            connection, transport = who = rng.choice(list(streams))
            if transport.reading and not connection.closed:
                size = rng.choice((10, 5_000, 40_000))
                connection.data_received(streams[who][:size])
                streams[who] = streams[who][size:] or rng.choice((SMALL, LARGE)) * 3
        elif act < 0.85 and parked:
            parked.pop(rng.randrange(len(parked))).complete(HeartbeatResponse())
        elif act < 0.88 and streams:
            connection, _ = who = rng.choice(list(streams))
            del streams[who]
            connection.connection_lost(None)
        else:
            made.runtime.advance(rng.choice((1, 1_000)))
        made.runtime.turn()
        assert memory.used_bytes == sum(connection.held_bytes for connection in made.server.connections)
        if not memory.short:
            assert all(transport.reading for _, transport in streams if not transport.closed) or parked
    for connection, _ in streams:
        connection.connection_lost(None)
    assert memory.used_bytes == 0
    made.runtime.advance(5_000)
    assert not memory.short


def test_the_budget_shrinks_by_what_state_has_come_to_hold() -> None:
    """Topics, groups and offsets are not requests; what they take is no longer there for these."""
    runtime = VirtualRuntime()
    shares = Shares.of(1 << 30, 100 << 20)
    memory = RequestMemory(runtime, shares, [])
    state = [112 << 20]
    follow(memory, runtime, 1 << 30, lambda: state[0], lambda: 0)
    assert memory.limit_bytes == shares.requests
    state[0] = 600 << 20
    runtime.advance(5_000)
    assert memory.limit_bytes == shares.requests  # it may pass
    runtime.advance(10_000)
    assert memory.limit_bytes < shares.requests // 2
    state[0] = 112 << 20
    runtime.advance(1_000)
    assert memory.limit_bytes == shares.requests


def test_when_memory_is_nearly_all_taken_what_was_kept_is_looked_through() -> None:
    """Garbage that the collector had no time for is found then, but not every second: nobody is answered meanwhile."""
    runtime = VirtualRuntime()
    memory = RequestMemory(runtime, Shares.of(1 << 30, 100 << 20), [])
    state = [112 << 20]
    looked: list[int] = []

    def look_through() -> int:
        looked.append(runtime.now_ms())
        state[0] -= 1 << 20  # not enough
        return 1

    follow(memory, runtime, 1 << 30, lambda: state[0], look_through)
    runtime.advance(60_000)
    assert not looked
    state[0] = 1 << 30
    runtime.advance(300_000)
    assert len(looked) == 1
    runtime.advance(3_600_000)
    assert 5 <= len(looked) <= 7
    runtime.step_ns = 60_000_000_000  # it takes a minute
    runtime.advance(1_200_000)
    looked.clear()
    runtime.advance(12 * 3_600_000)
    assert 2 <= len(looked) <= 3
