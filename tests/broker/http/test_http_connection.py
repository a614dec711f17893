"""One HTTP connection: what is answered, what is refused, who waits for whom."""

import io
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.http import connection as limits
from broker.http.answers import Answer, Later, json_answer
from broker.http.routes import respond
from broker.http.server import MAX_CONNECTIONS, MAX_OF_A_HOST
from broker.loop import logs
from broker.loop.slices import SLICE_NS
from tests.support.garbage import collected_by_nobody
from tests.support.http_fixture import HttpHarness


def pieces(count: int, size: int = 1) -> Iterator[bytes]:
    yield from (b"x" * size for _ in range(count))


def test_requests_of_one_connection_are_answered_one_after_the_other():
    harness = HttpHarness()
    harness.get("/a")
    harness.get("/b")

    assert harness.answers() == [(200, b'{"target":"/a"}\n'), (200, b'{"target":"/b"}\n')]
    assert not harness.transport.closed


def test_requests_that_are_sent_ahead_are_answered_in_order():
    harness = HttpHarness()
    harness.send("".join(f"GET /{name} HTTP/1.1\r\nHost: b\r\n\r\n" for name in "abc"))

    assert [body for _, body in harness.answers()] == [b'{"target":"/%s"}\n' % name for name in (b"a", b"b", b"c")]


def test_what_comes_before_the_parser_is_there_is_not_lost():
    """The first connection waits for an import in a thread."""
    harness = HttpHarness()
    harness.connection, harness.transport = harness.connect()
    harness.server._loaded = None  # as if it were the first
    harness.connection, harness.transport = harness.connect()
    harness.connection.data_received(b"GET /early HTTP/1.1\r\n")
    harness.connection.data_received(b"Host: b\r\n\r\n")
    assert not harness.transport.written

    harness.runtime.turn()

    assert harness.answers() == [(200, b'{"target":"/early"}\n')]


def test_a_request_may_come_byte_by_byte():
    harness = HttpHarness()
    for byte in b"GET /slow HTTP/1.1\r\nHost: b\r\n\r\n":
        harness.send(bytes((byte,)))

    assert harness.answers() == [(200, b'{"target":"/slow"}\n')]


def test_head_is_answered_without_the_body_and_the_body_is_not_even_made():
    made = []

    def body() -> Iterator[bytes]:
        made.append(1)
        yield b"x"

    harness = HttpHarness(lambda *_: Answer(body()))
    harness.get(method="HEAD")
    harness.get(method="HEAD")

    assert harness.answers("HEAD", "HEAD") == [(200, b""), (200, b"")]
    assert not made


def test_http_1_0_gets_its_answer_and_the_end_of_the_connection():
    harness = HttpHarness(lambda *_: Answer(pieces(3)))
    harness.send("GET / HTTP/1.0\r\n\r\n")

    assert harness.transport.written.endswith(b"\r\n\r\nxxx")
    assert b"chunked" not in harness.transport.written
    assert harness.transport.closed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET /a HTTP/1.1\r\n",
        b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n" * 3,
        b"no HTTP\r\n\r\n",
        b"POST /a HTTP/1.1\r\nHost: b\r\nContent-Length: 5\r\n\r\nab",
    ],
)
@pytest.mark.parametrize("body", [3, 3_000])
def test_who_is_gone_leaves_nothing_behind(data: bytes, body: int):
    """Not even until the collector comes: what has lived for long it does not look at any more."""
    harness = HttpHarness(lambda *_: Answer(pieces(body, 1_000)))
    if data:
        harness.send(data)
    harness.connection.connection_lost(None)
    harness.runtime.turn()
    gone = weakref.ref(harness.connection)
    harness.transport.protocol = None  # transports of loops let go of it themselves
    with collected_by_nobody():
        del harness.connection, harness.transport
        assert gone() is None


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100 + b"\r\n\r\n",  # TLS
        b"\x00\x00\x00\x0f\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04abcd\r\n\r\n",  # Kafka
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n",
    ],
)
def test_bytes_that_are_no_request_are_answered_400_and_closed(data: bytes):
    harness = HttpHarness()
    harness.send(data)

    assert [status for status, _ in harness.answers()] == [400]
    assert harness.transport.closed


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_whatever_comes_ends_in_an_answer_a_wait_or_a_closed_connection(parts: list[bytes]):
    harness = HttpHarness()
    for part in parts:
        if not harness.transport.closed:
            harness.send(part)
    harness.runtime.advance(limits.HEAD_WITHIN_MS + limits.IDLE_MS + limits.READ_WITHIN_MS)

    assert harness.transport.closed


def test_a_head_that_is_too_long_is_answered_431():
    harness = HttpHarness()
    harness.send(b"GET / HTTP/1.1\r\nHost: b\r\nX: " + b"y" * (limits.MAX_HEAD_BYTES + 1))

    assert [status for status, _ in harness.answers()] == [431]
    assert harness.transport.closed


def test_a_body_that_is_too_long_is_answered_413():
    harness = HttpHarness()
    harness.send(b"GET / HTTP/1.1\r\nHost: b\r\nContent-Length: 1000000\r\n\r\n" + b"y" * 100_000)

    assert [status for status, _ in harness.answers()] == [413]
    assert harness.transport.closed


def test_a_head_that_does_not_come_to_its_end_in_time_is_answered_408():
    harness = HttpHarness()
    harness.send("GET / HT")
    harness.runtime.advance(limits.HEAD_WITHIN_MS - 1)
    harness.send("TP/1.1\r\n")  # dripping does not help
    assert not harness.transport.closed
    harness.runtime.advance(2)

    assert [status for status, _ in harness.answers()] == [408]
    assert harness.transport.closed


def test_a_connection_that_asks_nothing_is_closed_and_one_that_asks_again_in_time_is_not():
    harness = HttpHarness()
    harness.get()
    harness.runtime.advance(limits.IDLE_MS - 1)
    harness.get()
    assert not harness.transport.closed
    harness.runtime.advance(limits.IDLE_MS + 1)

    assert harness.transport.closed
    assert len(harness.answers()) == 2


REQUEST = b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"


def made_by_turn(harness: HttpHarness, made: list[int]) -> list[int]:
    """How many pieces were made in each turn of the loop, from now on to the end."""
    turns: list[int] = []
    seen = len(made)

    def mine() -> None:
        nonlocal seen
        turns.append(len(made) - seen)
        seen = len(made)
        if harness.runtime.slices:
            harness.runtime.next_turn(mine)

    harness.runtime.next_turn(mine)
    harness.runtime.turn()
    return turns


def test_a_long_answer_is_made_in_slices_between_which_others_have_their_turn():
    made: list[int] = []

    def body() -> Iterator[bytes]:
        for number in range(100):
            made.append(number)
            yield b"x" * 100

    harness = HttpHarness(lambda *_: Answer(body()))
    harness.runtime.step_ns = SLICE_NS // 4
    harness.connection.data_received(REQUEST)
    assert len(made) <= 4
    assert max(made_by_turn(harness, made)) <= 4

    assert harness.answers() == [(200, b"x" * 10_000)]


def test_many_answers_at_once_share_one_slice():
    """A hundred scrapes at once would else take a hundred milliseconds of each turn of the loop."""
    made: list[int] = []

    def body(number: int) -> Iterator[bytes]:
        for _ in range(20):
            made.append(number)
            yield b"x"

    numbers = iter(range(100))
    harness = HttpHarness(lambda *_: Answer(body(next(numbers))))
    harness.runtime.step_ns = SLICE_NS // 4
    others = [harness.connect() for _ in range(9)]
    harness.connection.data_received(REQUEST)
    for connection, _ in others:
        connection.data_received(REQUEST)
    turns = made_by_turn(harness, made)
    assert max(turns) <= 4
    assert set(made[:20]) == set(range(10))  # each has had its turn before anybody has much of it

    assert len(made) == 200
    assert all(b"x\r\n0\r\n" in transport.written for _, transport in others)


def test_no_more_is_made_than_the_peer_reads_and_one_that_stops_reading_is_cut_off():
    made = 0

    def body() -> Iterator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"x" * 1_000

    harness = HttpHarness(lambda *_: Answer(body()))
    harness.transport.room = 0
    harness.get()
    harness.runtime.advance(1_000)
    first = made
    harness.transport.peer_reads()
    harness.runtime.advance(100)
    second = made
    assert second > first
    harness.runtime.advance(limits.READ_WITHIN_MS + 1)

    assert harness.transport.aborted
    assert made == second


def test_an_answer_that_is_complete_and_not_read_is_no_reason_to_wait_for_ever():
    harness = HttpHarness(lambda *_: Answer(b"x" * 1_000))
    harness.transport.room = 0
    harness.get()
    harness.runtime.advance(limits.IDLE_MS + 1)

    assert harness.transport.aborted


def test_nothing_more_is_read_while_an_answer_is_on_its_way():
    later = Later()
    harness = HttpHarness(lambda *_: later)
    harness.get()
    assert not harness.transport.reading
    later.complete(json_answer(1))
    harness.runtime.turn()

    assert harness.transport.reading
    assert harness.answers() == [(200, b"1\n")]


def test_an_answer_that_comes_after_its_peer_has_gone_is_dropped():
    later = Later()
    harness = HttpHarness(lambda *_: later)
    harness.get()
    harness.transport.closed = True
    harness.connection.connection_lost(None)
    later.complete(json_answer(1))

    assert not harness.transport.written
    assert not harness.server.connections


def test_a_fault_of_ours_is_answered_500_and_one_amid_an_answer_cuts_it_off(capfd: pytest.CaptureFixture[str]):
    def broken(*_: Any) -> Answer:
        raise KeyError("ours")

    harness = HttpHarness(broken)
    harness.get()
    assert [status for status, _ in harness.answers()] == [500]
    assert "http_failed" in capfd.readouterr().err

    def body() -> Iterator[bytes]:
        yield b"x"
        raise KeyError("ours")

    harness = HttpHarness(lambda *_: Answer(body()))
    harness.get()

    assert harness.transport.aborted


def test_one_connection_too_many_is_closed_and_makes_room_when_another_goes():
    harness = HttpHarness()
    others = [harness.connect(f"10.0.0.{number}") for number in range(MAX_CONNECTIONS - 1)]
    _, refused = harness.connect()
    assert refused.aborted

    others[0][0].connection_lost(None)

    assert not harness.connect()[1].closed


def test_one_address_leaves_room_for_others():
    """And is told of once a second, however often it comes."""
    harness, log = HttpHarness(), io.StringIO()
    logs.configure(level="info", stream=log)
    assert not any(harness.connect("10.0.0.1")[0].closed for _ in range(MAX_OF_A_HOST))
    for _ in range(50):
        assert harness.connect("10.0.0.1")[1].aborted
    assert not harness.connect("10.0.0.2")[1].aborted
    harness.runtime.advance(1_000)
    assert harness.connect("10.0.0.1")[1].aborted
    told = [line for line in log.getvalue().splitlines() if "http_refused" in line]
    assert len(told) == 2
    assert "left_out=49" in told[1]


def test_a_target_that_a_proxy_would_be_asked_for_and_a_query_without_end():
    app: Any = SimpleNamespace(version="1")
    assert respond(app, "GET", "http://broker:9644/healthz?x=1", {}).status == 200  # type: ignore[union-attr]  # no Later
    refused: Any = respond(app, "GET", "/?" + "a=1&" * 21, {})
    assert (refused.status, b"more than 20 fields" in refused.body) == (400, True)
