"""One connection: order, back-pressure, and every row of what bad input leads to (BI01 to BI05)."""

import random
from itertools import pairwise
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.handlers.context import CloseConnection, Deferred, RequestContext
from broker.network import closings
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.frames import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.connections import Harness

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Parked:
    """A Heartbeat handler that promises every answer."""

    def __init__(self) -> None:
        self.deferreds: list[Deferred] = []
        self.contexts: list[RequestContext] = []

    def __call__(self, broker: Any, context: RequestContext, request: HeartbeatRequest) -> Deferred:
        self.contexts.append(context)
        self.deferreds.append(Deferred())
        return self.deferreds[-1]


def at_once(broker: Any, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    return HeartbeatResponse()


# --- answers


def test_a_request_that_is_answered_at_once_is_written_without_waiting_for_the_turn_to_end():
    harness = Harness({ApiKey.HEARTBEAT: at_once})

    harness.send(HEARTBEAT, 1, correlation_id=7)

    assert harness.correlation_ids() == [7]


def test_requests_that_come_together_are_answered_in_one_write():
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    harness.connection.data_received(b"".join(encode_request(HEARTBEAT, 1, number, "c") for number in range(50)))

    assert harness.correlation_ids() == list(range(50))
    assert harness.transport.writes == 1


def test_answers_that_become_ready_in_one_turn_leave_in_one_write():
    parked = Parked()
    harness = Harness({ApiKey.HEARTBEAT: parked})
    for number in range(5):
        harness.send(HEARTBEAT, 1, correlation_id=number)

    for deferred in parked.deferreds:
        deferred.complete(HeartbeatResponse())
    assert harness.correlation_ids() == []
    harness.runtime.turn()

    assert harness.correlation_ids() == [0, 1, 2, 3, 4]
    assert harness.transport.writes == 1


def test_a_request_that_flows_is_handled_while_an_earlier_one_waits_and_answered_after_it():
    """D7"""
    parked = Parked()
    harness = Harness({ApiKey.HEARTBEAT: parked})
    harness.send(HEARTBEAT, 1, correlation_id=1)
    harness.send(HEARTBEAT, 1, correlation_id=2)
    harness.send(ApiVersionsRequest(), 0, correlation_id=3)
    harness.runtime.turn()
    assert harness.frames() == []
    assert len(parked.deferreds) == 2

    parked.deferreds[1].complete(HeartbeatResponse())
    harness.runtime.turn()
    assert harness.frames() == []
    parked.deferreds[0].complete(HeartbeatResponse())
    harness.runtime.turn()

    assert harness.correlation_ids() == [1, 2, 3]


class Journal:
    """Handlers that write down what is begun, and promise every answer."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.deferreds: list[Deferred] = []

    def handler(self, name: str) -> Any:
        def handle(*_: Any) -> Deferred:
            self.begun.append(name)
            self.deferreds.append(Deferred())
            return self.deferreds[-1]

        return handle

    def harness(self, **settings: str) -> Harness:
        keys = (ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.SYNC_GROUP, ApiKey.METADATA)
        return Harness({key: self.handler(key.name) for key in keys}, settings)


COMMIT = OffsetCommitRequest(group_id="g", member_id="m", topics=[])
SYNC = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[])


def test_what_comes_behind_a_request_that_waits_is_begun_when_that_is_answered():
    """D7: as Kafka, which reads no further while a request of the connection is not answered."""
    journal = Journal()
    harness = journal.harness()
    harness.send(SYNC, 1, correlation_id=1)
    harness.send(COMMIT, 8, correlation_id=2)
    harness.send(HEARTBEAT, 1, correlation_id=3)
    harness.runtime.turn()
    assert journal.begun == ["SYNC_GROUP"]

    journal.deferreds[0].complete(SyncGroupResponse())
    harness.runtime.turn()

    assert journal.begun == ["SYNC_GROUP", "OFFSET_COMMIT", "HEARTBEAT"]
    assert harness.correlation_ids() == [1]


def test_what_does_not_flow_is_begun_when_all_before_it_is_answered():
    journal = Journal()
    harness = journal.harness()
    for number, (request, version) in enumerate([(COMMIT, 8), (HEARTBEAT, 1), (SYNC, 1), (COMMIT, 8), (SYNC, 1)]):
        harness.send(request, version, correlation_id=number)
    harness.runtime.turn()
    assert journal.begun == ["OFFSET_COMMIT", "HEARTBEAT"]

    journal.deferreds[1].complete(HeartbeatResponse())
    harness.runtime.turn()
    assert len(journal.begun) == 2
    journal.deferreds[0].complete(OffsetCommitResponse(topics=[]))
    harness.runtime.turn()
    assert journal.begun[2:] == ["SYNC_GROUP"]
    journal.deferreds[2].complete(SyncGroupResponse())
    harness.runtime.turn()
    assert journal.begun[3:] == ["OFFSET_COMMIT"]
    journal.deferreds[3].complete(OffsetCommitResponse(topics=[]))
    harness.runtime.turn()
    assert journal.begun[4:] == ["SYNC_GROUP"]
    journal.deferreds[4].complete(SyncGroupResponse())
    harness.runtime.turn()
    assert harness.correlation_ids() == [0, 1, 2, 3, 4]


def test_a_peer_whose_requests_are_held_up_is_read_on_within_limits_so_that_its_end_is_seen():
    journal = Journal()
    harness = journal.harness(**{"kohort.max.inflight.requests": "10"})
    harness.send(SYNC, 1, correlation_id=0)
    for number in range(1, 10):
        harness.send(HEARTBEAT, 1, correlation_id=number)
    assert harness.transport.reading
    harness.send(HEARTBEAT, 1, correlation_id=10)
    assert not harness.transport.reading

    journal.deferreds[0].complete(SyncGroupResponse())
    harness.runtime.turn()
    assert harness.transport.reading
    for deferred in journal.deferreds:
        deferred.complete(HeartbeatResponse())
        harness.runtime.turn()
    assert harness.correlation_ids() == list(range(11))


def test_many_bytes_behind_a_request_that_waits_are_not_read():
    harness = Journal().harness(**{"kohort.max.inflight.bytes": "20000"})
    harness.send(SYNC, 1)
    big = HeartbeatRequest(group_id="g" * 15_000, generation_id=1, member_id="m")
    harness.send(big, 1)
    assert harness.transport.reading
    harness.send(big, 1)
    assert not harness.transport.reading


def test_a_peer_that_goes_takes_what_was_held_up_with_it():
    journal = Journal()
    harness = journal.harness()
    harness.send(SYNC, 1)
    harness.send(COMMIT, 8)
    gone: list[str] = []
    journal.deferreds[0].on_gone = lambda: gone.append("gone")

    harness.lose()
    journal.deferreds[0].complete(SyncGroupResponse())
    harness.runtime.turn()

    assert gone == ["gone"]
    assert journal.begun == ["SYNC_GROUP"]


def test_a_connection_that_stops_begins_nothing_that_was_held_up_or_comes_later():
    journal = Journal()
    harness = journal.harness()
    harness.send(SYNC, 1, correlation_id=1)
    harness.send(COMMIT, 8, correlation_id=2)
    harness.connection.stop_reading()
    harness.send(HEARTBEAT, 1, correlation_id=3)
    journal.deferreds[0].complete(SyncGroupResponse())
    harness.runtime.turn()
    harness.send(HEARTBEAT, 1, correlation_id=4)

    assert journal.begun == ["SYNC_GROUP"]
    assert harness.correlation_ids() == [1]


def test_a_bad_frame_behind_requests_that_are_held_up_closes_the_connection_after_them():
    journal = Journal()
    harness = journal.harness()
    harness.connection.data_received(encode_request(SYNC, 1, 1) + encode_request(HEARTBEAT, 1, 2) + pack(">i", -1))
    assert not harness.transport.closed
    assert not harness.transport.reading
    journal.deferreds[0].complete(SyncGroupResponse())
    harness.runtime.turn()

    assert journal.begun == ["SYNC_GROUP", "HEARTBEAT"]
    assert harness.correlation_ids() == [1]
    assert harness.transport.closed


def test_an_answer_that_does_not_leave_takes_no_place_in_the_order():
    """Produce with acks=0 is not answered, at once or later."""
    later = Deferred()
    answers: list[Any] = [None, later, HeartbeatResponse()]
    harness = Harness({ApiKey.HEARTBEAT: lambda *_: answers.pop(0)})
    for number in range(3):
        harness.send(HEARTBEAT, 1, correlation_id=number)
    later.complete(None)
    harness.runtime.turn()

    assert harness.correlation_ids() == [2]


@given(st.data())
def test_whatever_the_delays_answers_leave_in_the_order_of_requests(data: st.DataObject):
    """D7: requests are answered at once, within the handler, later or never, and may answer those before them, as a
    read of offsets does with the commits before it; arrival is cut anywhere."""
    deferreds: dict[int, Deferred] = {}
    kinds = data.draw(
        st.lists(st.sampled_from(["now", "within", "later", "never", "release"]), min_size=1, max_size=40)
    )

    def handle(broker: Any, context: RequestContext, request: HeartbeatRequest) -> Any:
        number = request.generation_id
        if kinds[number] == "now":
            return HeartbeatResponse()
        if kinds[number] == "never":
            return None
        if kinds[number] == "release":
            for earlier in deferreds.values():
                if not earlier.done:
                    earlier.complete(HeartbeatResponse())
            return HeartbeatResponse()
        deferred = deferreds[number] = Deferred()
        if kinds[number] == "within":
            deferred.complete(HeartbeatResponse())
        return deferred

    harness = Harness({ApiKey.HEARTBEAT: handle}, {"kohort.max.inflight.requests": str(data.draw(st.integers(1, 8)))})
    stream = b"".join(
        encode_request(HeartbeatRequest(group_id="g", generation_id=number, member_id="m"), 1, number, None)
        for number in range(len(kinds))
    )
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        harness.connection.data_received(stream[:size])
        stream = stream[size:]
        if data.draw(st.booleans()):
            harness.runtime.turn()
    harness.runtime.turn()
    while waiting := [number for number, deferred in deferreds.items() if not deferred.done]:
        deferreds[data.draw(st.sampled_from(waiting))].complete(HeartbeatResponse())
        if len(waiting) == 1 or data.draw(st.booleans()):
            harness.runtime.turn()

    assert harness.correlation_ids() == [number for number, kind in enumerate(kinds) if kind != "never"]
    assert harness.transport.reading


def test_the_context_says_who_asks_and_is_shared_while_nothing_changes():
    parked = Parked()
    harness = Harness({ApiKey.HEARTBEAT: parked})
    harness.send(HEARTBEAT, 1, client_id="a")
    harness.send(HEARTBEAT, 1, client_id="a")
    harness.send(HEARTBEAT, 3, client_id="a")
    peer = parked.contexts[0].session.peer
    assert peer.client == ("a", "/127.0.0.1")
    harness.send(HEARTBEAT, 1, client_id=None)
    assert peer.client == ("", "/127.0.0.1")

    first, second, third, fourth = parked.contexts
    assert first is second
    assert (first.client_id, first.version, first.host, first.listener) == ("a", 1, "127.0.0.1", "PLAINTEXT")
    assert (third.client_id, third.version) == ("a", 3)
    assert (fourth.client_id, fourth.version) == ("", 1)
    assert first.principal == "User:ANONYMOUS"
    assert fourth.session is first.session
    assert first.session.client == "@127.0.0.1:50000"


# --- the end of a connection


def test_a_request_is_the_same_whatever_client_the_one_before_it_named():
    """The header is read in a shorter way once its client id is known: what it says must not depend on that."""
    seen: list[tuple[str, int, str, int]] = []

    def record(broker: Any, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        seen.append((context.client_id, context.version, request.group_id, request.generation_id))
        return HeartbeatResponse()

    harness = Harness({ApiKey.HEARTBEAT: record})
    names = ["a", "ab", None, "", "\u00e9", "ab", "ab", None, None, "a", "a"]
    wanted = []
    for number, name in enumerate(names * 3):
        version = (1, 4)[number % 3 == 0]
        request = HeartbeatRequest(group_id=f"g{number}", generation_id=number, member_id="m")
        frame = encode_request(request, version, number, name)
        if version == 4 and number % 2:  # two tagged fields that nobody knows end its header
            at = 14 + len((name or "").encode())
            assert frame[at] == 0
            frame = frame[:at] + b"\2\0\3abc\x81\1\0" + frame[at + 1 :]
            frame = pack(">i", len(frame) - 4) + frame[4:]
        harness.connection.data_received(frame)
        wanted.append((name or "", version, request.group_id, number))
    assert seen == wanted
    assert harness.correlation_ids() == list(range(len(wanted)))


@pytest.mark.parametrize("known", [None, 4, 3], ids=["nobody", "client and request", "client"])
@pytest.mark.parametrize("kept", [0, 5, 9, 12, 15, 18])
def test_a_header_that_is_cut_off_closes_the_connection(
    known: int | None, kept: int, capfd: pytest.CaptureFixture[str]
):
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    whole = encode_request(HEARTBEAT, 4, 1, "test")
    if known is not None:
        harness.connection.data_received(encode_request(HEARTBEAT, known, 1, "test"))
    cut = whole[4 : 4 + kept]
    if kept == 15:
        cut = whole[4:18] + b"\1"  # a tagged field in the header, of which nothing comes
    harness.connection.data_received(pack(">i", len(cut)) + cut)
    assert harness.transport.closed
    assert harness.correlation_ids() == [1] * (known is not None)
    assert "Traceback" not in capfd.readouterr().err


def test_a_lost_connection_tells_its_parked_requests_once_and_late_answers_go_nowhere():
    parked = Parked()
    harness = Harness({ApiKey.HEARTBEAT: parked})
    harness.send(HEARTBEAT, 1)
    harness.send(HEARTBEAT, 1)
    gone: list[str] = []
    for deferred in parked.deferreds:
        deferred.on_gone = lambda: gone.append("gone")

    harness.lose()
    parked.deferreds[0].complete(HeartbeatResponse())
    harness.runtime.turn()

    assert gone == ["gone", "gone"]
    assert all(deferred.gone for deferred in parked.deferreds)
    assert harness.frames() == []
    assert not harness.server.connections


def test_a_handler_may_end_the_connection_without_an_answer(capfd: pytest.CaptureFixture[str]):
    def refuse(*_: Any) -> None:
        raise CloseConnection("acks=0 and no such topic")

    harness = Harness({ApiKey.HEARTBEAT: refuse})
    harness.send(HEARTBEAT, 1)

    assert harness.transport.closed
    log = capfd.readouterr().err
    assert "acks=0 and no such topic" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("at_once", [True, False])
def test_a_promise_too_may_end_the_connection_without_an_answer(capfd: pytest.CaptureFixture[str], at_once: bool):
    """What the handler learns after its return must not differ from what it raises: acks=0 inside of a transaction."""
    verdict = CloseConnection("acks=0 and no such topic")
    deferred = Deferred()
    if at_once:
        deferred.complete(verdict)
    harness = Harness({ApiKey.HEARTBEAT: lambda *_: deferred})
    harness.send(HEARTBEAT, 1)
    deferred.complete(verdict)
    harness.runtime.turn()

    assert harness.transport.closed
    assert not harness.frames()
    log = capfd.readouterr().err
    assert "acks=0 and no such topic" in log
    assert "Traceback" not in log


def test_a_bug_ends_its_own_connection_with_one_trace_however_often_it_strikes(capfd: pytest.CaptureFixture[str]):
    harness = Harness({ApiKey.HEARTBEAT: lambda *_: 1 // 0})
    other, transport = harness.connect(port=50_001)
    harness.send(ApiVersionsRequest(), 0, correlation_id=5)
    harness.send(HEARTBEAT, 1, correlation_id=6)
    other.data_received(encode_request(HEARTBEAT, 1, 1))
    third, third_transport = harness.connect(port=50_002)
    third.data_received(encode_request(ApiVersionsRequest(), 0, 1))

    log = capfd.readouterr().err
    assert harness.transport.closed
    assert harness.correlation_ids() == [5]
    assert transport.closed
    assert not third_transport.closed
    assert third_transport.written
    assert log.count("Traceback") == 1
    assert log.count("request_failed") == 2


def test_an_answer_that_cannot_be_encoded_ends_the_connection(capfd: pytest.CaptureFixture[str]):
    parked = Parked()
    harness = Harness({ApiKey.HEARTBEAT: parked})
    harness.send(HEARTBEAT, 1)
    parked.deferreds[0].complete(HeartbeatResponse(throttle_time_ms=2**40))
    harness.runtime.turn()

    assert harness.transport.closed
    assert "request_failed" in capfd.readouterr().err


# --- bad input: BI01, BI02, BI03, BI04, BI05


def test_a_setting_says_how_long_a_request_may_be():
    for size, closed in ((2_000, False), (2_001, True)):
        harness = Harness(settings={"socket.request.max.bytes": "2000"})
        harness.connection.data_received(size.to_bytes(4, "big"))
        assert harness.transport.closed is closed


@pytest.mark.parametrize("size", [-1, -(2**31), 104_857_601, 2**31 - 1])
def test_a_frame_of_a_size_that_is_not_allowed_closes_the_connection_with_one_line(
    size: int, capfd: pytest.CaptureFixture[str]
):
    harness = Harness()
    harness.send(ApiVersionsRequest(), 0, correlation_id=3)
    harness.connection.data_received(pack(">i", size))

    log = capfd.readouterr().err
    assert harness.transport.closed
    assert harness.correlation_ids() == [3]
    assert len(log.splitlines()) == 1
    assert "127.0.0.1:50000" in log
    assert str(size) in log


def test_an_unknown_api_key_closes_the_connection(capfd: pytest.CaptureFixture[str]):
    harness = Harness()
    harness.connection.data_received(pack(">ihhih", 10, 999, 0, 1, -1))

    assert harness.transport.closed
    assert harness.frames() == []
    assert "999" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("api_key", "version"), [(ApiKey.SASL_HANDSHAKE, 2), (ApiKey.SASL_HANDSHAKE, -1), (ApiKey.HEARTBEAT, 0)]
)
def test_a_version_that_is_not_served_or_an_api_without_a_handler_closes_the_connection(api_key: int, version: int):
    harness = Harness()
    harness.connection.data_received(pack(">ihhih", 10, api_key, version, 1, -1))

    assert harness.transport.closed
    assert harness.frames() == []


@pytest.mark.parametrize(("api_key", "version"), [(12, 1 - 2**15), (12 - 2**15, 1), (12, 99), (999, 1), (-1, -1)])
def test_nor_does_a_client_that_is_known_get_an_answer_to_such(api_key: int, version: int):
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    harness.send(HEARTBEAT, 3, correlation_id=7, client_id="c")
    frame = encode_request(HEARTBEAT, 1, 8, "c")
    harness.connection.data_received(frame)
    harness.connection.data_received(frame[:4] + pack(">hh", api_key, version) + frame[8:])

    assert harness.transport.closed
    assert harness.correlation_ids() == [7, 8]


@pytest.mark.parametrize("version", [6, 99, -1])
def test_an_unsupported_version_of_api_versions_gets_error_35_and_its_own_range_in_version_0(version: int):
    harness = Harness()
    harness.connection.data_received(pack(">ihhih", 15, ApiKey.API_VERSIONS, version, 77, -1) + b"\1\2\3\4\5")

    assert not harness.transport.closed
    assert harness.frames() == [pack(">iihihhh", 16, 77, ErrorCode.UNSUPPORTED_VERSION, 1, 18, 0, 5)]


def test_the_refusal_of_an_api_versions_version_waits_for_its_turn():
    parked = Parked()
    harness = Harness({ApiKey.HEARTBEAT: parked})
    harness.send(HEARTBEAT, 1, correlation_id=1)
    harness.connection.data_received(pack(">ihhih", 10, ApiKey.API_VERSIONS, 9, 2, -1))
    harness.runtime.turn()
    assert harness.frames() == []
    parked.deferreds[0].complete(HeartbeatResponse())
    harness.runtime.turn()

    assert harness.correlation_ids() == [1, 2]


@pytest.mark.parametrize(
    "message",
    [
        b"\x7f\xff",  # a group id of 32767 bytes in a frame of 20
        b"\0\1\xff\0\0\0\1\0\1m",  # a group id that is not UTF-8
        b"",  # nothing at all
    ],
)
def test_lengths_beyond_the_frame_and_bad_text_close_the_connection(message: bytes, capfd: pytest.CaptureFixture[str]):
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    harness.connection.data_received(pack(">ihhih", 10 + len(message), ApiKey.HEARTBEAT, 1, 1, -1) + message)

    log = capfd.readouterr().err
    assert harness.transport.closed
    assert len(log.splitlines()) == 1
    assert "Traceback" not in log


def test_bytes_left_over_after_a_request_are_answered_and_counted():
    harness = Harness()
    frame = bytearray(encode_request(ApiVersionsRequest(), 0, 4))
    frame += b"more"
    frame[:4] = pack(">i", len(frame) - 4)
    harness.connection.data_received(bytes(frame))

    assert harness.correlation_ids() == [4]
    assert harness.server.counters.requests_with_trailing_bytes == 1


def test_one_bad_frame_closes_its_own_connection_and_no_other():
    harness = Harness()
    _, transport = harness.connect(port=50_001)
    harness.connection.data_received(pack(">ihhih", 10, 999, 0, 1, -1))

    assert harness.transport.closed
    assert not transport.closed


# --- back-pressure


def test_too_many_unanswered_requests_pause_reading_until_there_is_room():
    parked = Parked()
    harness = Harness({ApiKey.HEARTBEAT: parked}, {"kohort.max.inflight.requests": "10"})
    harness.connection.data_received(b"".join(encode_request(HEARTBEAT, 1, number) for number in range(25)))

    assert len(parked.deferreds) == 10
    assert not harness.transport.reading

    done = 0
    while done < len(parked.deferreds):
        parked.deferreds[done].complete(HeartbeatResponse())
        done += 1
        harness.runtime.turn()
        assert len(parked.deferreds) <= done + 10

    assert harness.correlation_ids() == list(range(25))
    assert harness.transport.reading


def test_a_backlog_goes_on_when_its_last_request_answers_all_that_waited():
    """Commits wait for the turn's end, an OffsetFetch behind them writes them at once: then nothing waits any more."""
    parked: list[Deferred] = []

    def handle(broker: Any, context: RequestContext, request: HeartbeatRequest) -> Any:
        if request.generation_id % 3 < 2:
            parked.append(Deferred())
            return parked[-1]
        for deferred in parked:
            deferred.complete(HeartbeatResponse())
        parked.clear()
        return HeartbeatResponse()

    harness = Harness({ApiKey.HEARTBEAT: handle}, {"kohort.max.inflight.requests": "3"})
    harness.connection.data_received(
        b"".join(
            encode_request(HeartbeatRequest(group_id="g", generation_id=number, member_id="m"), 1, number, None)
            for number in range(9)
        )
    )
    for _ in range(5):
        harness.runtime.turn()

    assert harness.correlation_ids() == list(range(9))
    assert harness.transport.reading


def test_many_bytes_of_unanswered_requests_pause_reading():
    parked = Parked()
    harness = Harness({ApiKey.HEARTBEAT: parked}, {"kohort.max.inflight.bytes": "20000"})
    big = HeartbeatRequest(group_id="g" * 10_000, generation_id=1, member_id="m")
    harness.connection.data_received(b"".join(encode_request(big, 1, number) for number in range(6)))

    assert len(parked.deferreds) == 2
    assert not harness.transport.reading


def test_a_peer_that_does_not_read_is_not_read_either_and_nothing_piles_up():
    """A reader that never reads: its requests stay where they are, at most a few answers wait for it."""
    size = 100_000

    def big_answer(*_: Any) -> MetadataResponse:
        return MetadataResponse(cluster_id="x" * 30_000)

    harness = Harness({ApiKey.METADATA: big_answer})
    harness.transport.room = size
    stream = b"".join(encode_request(MetadataRequest(topics=[]), 5, number) for number in range(1_000))
    harness.connection.data_received(stream)
    harness.runtime.turn()

    assert not harness.transport.reading
    assert len(harness.transport.written) < 4 * size + 262_144
    before = len(harness.correlation_ids())
    harness.transport.peer_reads()
    harness.runtime.turn()
    assert len(harness.correlation_ids()) > before
    while len(harness.correlation_ids()) < 1_000:
        harness.transport.peer_reads()
        harness.runtime.turn()
    assert harness.correlation_ids() == list(range(1_000))
    harness.transport.peer_reads()
    harness.runtime.turn()
    assert harness.transport.reading


def test_one_turn_of_a_connection_is_bounded_by_time_and_those_that_want_more_share_what_is_left():
    """Twenty connections whose every request takes a millisecond have a turn of one millisecond, not of twenty."""
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    harness.broker.runtime.step_ns = 1_000_000
    others = [harness.connect() for _ in range(19)]
    big = HeartbeatRequest(group_id="g" * 2_000, generation_id=1, member_id="m")
    requests = b"".join(encode_request(big, 1, number) for number in range(50))
    everyone = [harness.connection, *(connection for connection, _ in others)]
    for connection in everyone:
        connection.data_received(requests)
    # What is read late in a turn is put off, and has such a turn later.
    assert [connection.backlog for connection in everyone] == [49] * 8 + [50] * 12

    left = [sum(connection.backlog for connection in everyone)]

    def look() -> None:
        left.append(sum(connection.backlog for connection in everyone))
        if left[-1]:
            harness.broker.runtime.next_turn(look)

    harness.broker.runtime.next_turn(look)
    harness.broker.runtime.turn()
    assert left[-1] == 0
    handled = [before - after for before, after in pairwise(left)]
    assert max(handled[3:]) <= 1
    assert 12 <= sum(handled[:3]) <= 15
    assert len(harness.frames()) == 50


@pytest.mark.parametrize("handler", [at_once, Parked()])
def test_a_request_is_followed_by_a_look_for_the_next_one(handler: Any):
    """Answered, or still waiting: see `broker.loop.busy_polling`."""
    harness = Harness({ApiKey.HEARTBEAT: handler})
    polling = harness.runtime.busy_polling
    polling.allow(200_000)
    assert polling._tried < 0
    harness.send(HEARTBEAT, 1, correlation_id=1)
    assert polling._tried == 0


def waiting(harness: Harness) -> None:
    """A turn has lasted too long, and somebody else waits."""
    harness.runtime.long_turns.put_off(lambda: None)


def test_what_is_put_off_is_answered_in_its_order_and_in_one_write():
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    waiting(harness)
    for number in range(3):
        harness.send(HEARTBEAT, 1, correlation_id=number)
    assert harness.correlation_ids() == []
    harness.runtime.turn()
    assert harness.correlation_ids() == [0, 1, 2]
    assert harness.transport.writes == 1
    harness.send(HEARTBEAT, 1, correlation_id=3)
    assert harness.correlation_ids() == [0, 1, 2, 3]


def test_who_is_put_off_is_read_until_a_second_request_waits():
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    waiting(harness)
    for number in range(6):
        assert harness.transport.reading == (number < 2)
        harness.send(HEARTBEAT, 1, correlation_id=number)
    held = harness.server.memory.used_bytes
    assert held > 0
    harness.runtime.turn()
    assert harness.correlation_ids() == list(range(6))
    assert harness.transport.reading
    assert harness.server.memory.used_bytes == 0


def test_who_goes_or_errs_while_he_is_put_off():
    """What came before a frame of a size that is not allowed is answered."""
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    other, others = harness.connect()
    waiting(harness)
    harness.send(HEARTBEAT, 1, correlation_id=1)
    other.data_received(encode_request(HEARTBEAT, 1, 2) + b"\xff" * 8)
    harness.lose()
    harness.runtime.turn()
    assert harness.frames() == []
    assert others.closed
    assert int.from_bytes(others.written[4:8], "big") == 2
    assert harness.server.memory.used_bytes == 0


def test_nothing_is_read_behind_a_frame_of_a_size_that_is_not_allowed():
    """While it waits to be refused, neither."""
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    waiting(harness)
    harness.connection.data_received(b"\xff" * 4)
    harness.send(HEARTBEAT, 1)
    harness.runtime.turn()
    assert harness.frames() == []
    assert harness.transport.closed


def test_who_cannot_be_written_to_when_his_turn_comes_is_let_go():
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    waiting(harness)
    harness.send(HEARTBEAT, 1)
    harness.transport.write = lambda data: 1 // 0
    harness.runtime.turn()
    assert harness.connection.closed


@pytest.mark.parametrize("how", ["eof_received", "peer_ended"])
def test_who_sends_and_ends_while_he_is_put_off_is_heard(how: str):
    """A producer with acks=0, say: once its socket is closed nothing of it is left."""
    heard: list[str] = []

    def hears(broker: Any, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        heard.append(request.group_id)
        return HeartbeatResponse()

    harness = Harness({ApiKey.HEARTBEAT: hears})
    waiting(harness)
    harness.send(HEARTBEAT, 1)
    getattr(harness.connection, how)()
    harness.lose()
    harness.runtime.turn()
    assert heard == ["g"]


def test_the_time_that_a_request_was_put_off_is_part_of_its_own():
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    waiting(harness)
    harness.runtime.step_ns = 5_000_000  # by each look at the clock
    harness.send(HEARTBEAT, 1)
    for _ in range(20):
        harness.runtime.clock_ns()
    harness.runtime.turn()
    route = harness.connection.route(ApiKey.HEARTBEAT, 1)
    assert route.total_ns >= 100_000_000


def test_one_turn_handles_a_share_of_a_flood_and_the_rest_later():
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    harness.connection.data_received(b"".join(encode_request(HEARTBEAT, 1, number) for number in range(2_000)))

    assert 0 < len(harness.frames()) < 1_000
    harness.runtime.turn()
    assert harness.correlation_ids() == list(range(2_000))
    assert harness.transport.reading


def test_a_hundred_thousand_requests_sent_at_once_are_answered_in_order_within_the_bounds():
    """SE65: a turn handles some of them, and what is not handled yet is so much and no more."""
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    count = 100_000
    left = memoryview(b"".join(encode_request(ApiVersionsRequest(), 0, number) for number in range(count)))
    longest = most_bytes = 0
    while left or harness.connection.backlog:
        if harness.transport.reading and left:
            harness.connection.data_received(bytes(left[:65_536]))
            left = left[65_536:]
        longest = max(longest, harness.connection.backlog)
        most_bytes = max(most_bytes, harness.connection.held_bytes)
        harness.runtime.turn()

    assert harness.correlation_ids() == list(range(count))
    assert longest < 2 * 65_536 // 14
    assert most_bytes < 1 << 20


def test_large_answers_end_the_turn_of_their_connection():
    """A peer that asks for much, again and again, leaves room for others between two answers."""
    harness = Harness({ApiKey.METADATA: lambda *_: MetadataResponse(cluster_id="x" * 30_000)})
    harness.connection.data_received(
        b"".join(encode_request(MetadataRequest(topics=[]), 5, number) for number in range(10))
    )

    assert len(harness.frames()) == 3
    harness.runtime.turn()
    assert harness.correlation_ids() == list(range(10))


def test_any_bytes_end_in_answers_or_a_closed_connection(capfd: pytest.CaptureFixture[str]):
    """Seeded garbage, frames with a right size and wrong content among it."""
    generator = random.Random(7)
    for _ in range(2_000):
        harness = Harness({ApiKey.HEARTBEAT: at_once})
        body = generator.randbytes(generator.randrange(40))
        if generator.random() < 0.7:
            body = pack(">hh", generator.choice([12, 17, 18, 36]), generator.randrange(-1, 6)) + body
        harness.connection.data_received(pack(">i", len(body)) + body)
        harness.runtime.turn()
        assert harness.transport.closed or len(harness.frames()) == 1

    assert "Traceback" not in capfd.readouterr().err


# --- SASL and ApiVersions


def test_api_versions_lists_what_has_a_handler_and_remembers_the_software():
    """CL01: whatever the version was."""
    harness = Harness({ApiKey.HEARTBEAT: at_once})
    harness.send(ApiVersionsRequest(client_software_name="lib", client_software_version="1.2-x"), 3)

    response = harness.answer(ApiKey.API_VERSIONS, 3)
    assert response.error_code == ErrorCode.NONE
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [
        (12, 0, 4),
        (17, 0, 1),
        (18, 0, 5),
        (36, 0, 2),
    ]
    # Those whose lowest level is 0 are for clients of version 4.
    assert [one.name for one in response.supported_features] == ["metadata.version"]
    assert harness.connection.caller.session.software_name == "lib"


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("lib", "-1"), ("li b", "1"), ("lib", "1.")])
def test_api_versions_refuses_a_software_name_or_version_of_another_form(name: str, version: str):
    """KIP-511"""
    harness = Harness()
    harness.send(ApiVersionsRequest(client_software_name=name, client_software_version=version), 3)

    assert harness.answer(ApiKey.API_VERSIONS, 3).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("here", 1, ErrorCode.NONE),
        ("here", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("elsewhere", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (None, 1, ErrorCode.INVALID_REQUEST),
        ("here", -1, ErrorCode.INVALID_REQUEST),
        ("", -1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_api_versions_refuses_who_means_another_cluster_or_node(cluster_id: str | None, node_id: int, error: ErrorCode):
    """KIP-1242, as seen from Kafka 4.4.0: both or none are given, and a refusal lists no API."""
    harness = Harness()
    harness.connection.broker.cluster_id = "here"
    request = ApiVersionsRequest(
        client_software_name="lib", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    harness.send(request, 5)

    response = harness.answer(ApiKey.API_VERSIONS, 5)
    assert response.error_code == error
    assert bool(response.api_keys) == (error == ErrorCode.NONE)


def test_sasl_is_refused_where_there_is_none():
    harness = Harness()
    harness.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert harness.answer(ApiKey.SASL_HANDSHAKE, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE

    harness = Harness()
    harness.send(SaslAuthenticateRequest(auth_bytes=b"\0u\0p"), 1)
    assert harness.answer(ApiKey.SASL_AUTHENTICATE, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_long_request_and_its_long_answer_are_read_and_written_in_threads_in_their_order():
    """A megabyte of partitions is a hundred thousand objects: to make and to write them holds nobody up."""
    asked: list[int] = []

    def told(_: Any, __: RequestContext, request: Any) -> Any:
        asked.append(len(request.topics))
        topics = [MetadataResponseTopic(error_code=0, name=topic.name, partitions=[]) for topic in request.topics]
        return MetadataResponse(brokers=[], topics=topics)

    harness = Harness({ApiKey.METADATA: told, ApiKey.HEARTBEAT: at_once})
    runtime = harness.broker.runtime
    names = [MetadataRequestTopic(name=f"t{number}") for number in range(2_000)]
    frames = [
        encode_request(MetadataRequest(topics=names[:10]), 5, 1),
        encode_request(MetadataRequest(topics=names), 5, 2),
        encode_request(HEARTBEAT, 1, 3),
    ]
    harness.connection.data_received(b"".join(frames))
    assert asked == [10]
    assert len(runtime.works) == 1  # it is read
    runtime.run_work()
    while not runtime.works:
        runtime._drain()
        for callback in runtime._next:
            runtime._next = []
            callback()
    assert asked == [10, 2_000]
    assert len(harness.frames()) == 1  # it is written: nothing behind it is begun
    runtime.turn()
    answers = harness.frames()
    assert [int.from_bytes(frame[4:8], "big") for frame in answers] == [1, 2, 3]
    _, response = decode_response(ApiKey.METADATA, 5, answers[1])
    assert [topic.name for topic in response.topics] == [topic.name for topic in names]
    assert harness.connection.backlog == 0


def test_a_long_request_that_cannot_be_read_ends_its_connection():
    harness = Harness({ApiKey.METADATA: at_once})
    names = [MetadataRequestTopic(name=f"t{number}") for number in range(2_000)]
    frame = bytearray(encode_request(MetadataRequest(topics=names), 5, 1))
    frame[-8:] = b"\xff" * 8
    harness.connection.data_received(bytes(frame))
    harness.broker.runtime.turn()
    assert harness.transport.closed
    assert harness.server.counters.bad_frames == 1


# --- Log lines


def test_who_keeps_asking_for_what_is_not_served_is_logged_once_and_then_counted(capfd: pytest.CaptureFixture[str]):
    """One line for a host and reason, whatever its port, with Kafka's name of the API; a count each minute."""
    harness = Harness()
    for port in range(50):
        connection, _ = harness.connect(port=port)
        connection.data_received(pack(">ihhih", 10, ApiKey.SHARE_FETCH, 1, 1, -1))
    other, _ = harness.connect(host="10.0.0.1")
    other.data_received(pack(">ihhih", 10, ApiKey.SHARE_FETCH, 1, 1, -1))
    another, _ = harness.connect()
    another.data_received(pack(">ihhih", 10, ApiKey.VOTE, 1, 1, -1))

    closed = [line for line in capfd.readouterr().err.splitlines() if "connection_closed" in line]
    assert ["api=" + line.split(" api=")[1].split()[0] for line in closed] == [
        "api=ShareFetch",
        "api=ShareFetch",
        "api=Vote",
    ]

    harness.runtime.advance(closings.EVERY_MS)
    (counted,) = [line for line in capfd.readouterr().err.splitlines() if "connections_closed" in line]
    assert "host=127.0.0.1 reason='unsupported API or version' count=49 api=ShareFetch version=1" in counted
    harness.runtime.advance(closings.EVERY_MS)
    assert "closed" not in capfd.readouterr().err
    again, _ = harness.connect()
    again.data_received(pack(">ihhih", 10, ApiKey.SHARE_FETCH, 1, 1, -1))
    assert "connection_closed" in capfd.readouterr().err, "it had been quiet for a minute"


def test_kinds_of_closed_connections_beyond_a_bound_are_counted_together(capfd: pytest.CaptureFixture[str]):
    harness = Harness()
    for version in range(closings.MOST + 40):
        connection, _ = harness.connect()
        connection.data_received(pack(">ihhih", 10, ApiKey.SHARE_FETCH, version + 10, 1, -1))

    assert capfd.readouterr().err.count("connection_closed") == closings.MOST + 1
    harness.runtime.advance(closings.EVERY_MS)
    assert "count=39" in capfd.readouterr().err
