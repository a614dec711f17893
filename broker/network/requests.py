"""The requests of one connection: bytes to frames, frames to their handlers, in order and in turns (D7).

A request is begun when those before it are answered, as in Kafka, which reads a connection again when its answer has
left. Only requests that flow (`broker.handlers.dispatch.FLOWING`) are begun behind each other without waiting. What is
ready when a loop turn ends leaves in one write. Who asks for much takes its share of a turn, and goes on in slices.

A peer is read no further while too many of its requests are unanswered, or it leaves too much unread; what was cut into
frames already waits in the backlog.
Source: Kafka's SocketServer (a channel is muted while it has a request), docs/decisions/one-request-at-a-time.md.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from broker.handlers.context import Deferred, Encoded
from broker.handlers.durations import DURATION_SHIFT
from broker.loop.slices import QUANTUM_NS
from broker.loop.stalls import NOTED_NS
from broker.network.answers import LARGE_REQUEST_BYTES
from broker.network.gate import SHUT
from broker.network.long_messages import decoded
from broker.network.ports import GONE
from broker.network.slots import needs_slot
from protocol.api_keys import ApiKey, api_name
from protocol.errors import ErrorCode, LongMessage
from protocol.frame_cutter import BadFrameSize, FrameCutter
from protocol.frames import CLIENT_ID_AT, encode_response, past_tags, read_request_header, read_route
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.registry import APIS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from broker.handlers.context import AnswerRoute
    from broker.handlers.dispatch import Route
    from broker.network.answers import Answers
    from broker.network.caller import Caller
    from broker.network.gate import Gate, Shut
    from broker.network.long_messages import Decoded
    from broker.network.ports import Owner, Served
    from broker.network.slots import Slot
    from broker.network.transport_side import TransportSide
    from protocol.schema import Message

_MAX_LOOKS_PER_TURN = 32
_MAX_TURN_NS = 500_000
_LOOKS_EVERY_BYTES = 1_024  # of requests, at the clock
_AT_LEAST_BYTES = 64  # that a request counts for: it may be small and ask for much
# Of answers: then they are written, to learn whether the peer reads, and others have a turn.
_MAX_BYTES_PER_TURN = 65_536


class Requests:
    """Of one connection. `connection` is told what ends it; answers leave through `answers` and `side`."""

    __slots__ = (
        "_answers",
        "_broker",
        "_busy_polling",
        "_caller",
        "_clock_ns",
        "_connection",
        "_fault",
        "_flush_scheduled",
        "_largest_of_objects",
        "_long_turns",
        "_max_bytes",
        "_memory",
        "_owner",
        "_peer",
        "_resting",
        "_side",
        "_stalled",
        "_waits",
        "_working",
        "backlog",
        "cutter",
        "gate",
        "held_bytes",
        "held_much",
        "max_requests",
    )

    def __init__(self, connection: Served, owner: Owner, side: TransportSide, answers: Answers, caller: Caller) -> None:
        settings = owner.broker.settings
        self._connection = connection
        self._owner = owner
        self._broker = owner.broker
        self._clock_ns = owner.broker.runtime.clock_ns
        self._long_turns = owner.broker.runtime.long_turns
        self._busy_polling = owner.broker.runtime.busy_polling
        self._side = side
        self._answers = answers
        self._caller = caller
        self._peer = caller.session.peer
        self.gate: Gate | Shut | None = None
        """What every request must pass first."""
        self.max_requests = settings.kohort_max_inflight_requests
        """That may be unanswered; 0: it is read no more."""
        self._max_bytes = settings.kohort_max_inflight_bytes
        self._memory = memory = owner.memory
        self._largest_of_objects = memory.shares.objects
        self.cutter = FrameCutter(min(settings.socket_request_max_bytes, memory.shares.request))
        self.backlog: deque[bytes] = deque()
        """Frames that are not handled yet."""
        self._fault: BadFrameSize | None = None  # what follows them
        self.held_bytes = 0
        """What the memory of all connections is charged with for this one."""
        self.held_much = False
        """Whether that was ever more than many connections may hold."""
        self._working = False
        self._resting = False  # it has had its share, and goes on when others have had theirs
        self._waits = False  # it was read late in a turn that lasts too long: it goes on when its turn comes
        self._stalled = False  # nothing is begun before somebody else has answered: who a peer is, say
        self._flush_scheduled = False

    def received(self, data: bytes) -> None:
        """Some bytes have come."""
        if not self.max_requests or self._fault is not None:
            return
        side, cutter, backlog = self._side, self.cutter, self.backlog
        side.last_tick = self._owner.tick
        try:
            frames = cutter.feed(data)
        except BadFrameSize as fault:
            frames, fault.frames = fault.frames, []
            self._fault = fault.with_traceback(None)  # kept: the frames it came through hold this connection
        backlog += frames
        if not self._working and not self._resting:
            now_ns = self._clock_ns()
            if self._long_turns.puts_off(now_ns):
                self._put_off(now_ns)
            else:
                self._work(now_ns)
        if self.held_bytes or cutter.missing or backlog:
            self.settle()
            self._owner.slow_frames.came(self._connection, cutter.missing, anew=bool(frames))
            if frames:
                self._memory.had_its_turn(self._connection)

    # --- called by the connection, and by what its requests wait for

    @property
    def stalled(self) -> bool:
        """Whether nothing is begun until `unstall`."""
        return self._stalled

    def stall(self) -> None:
        """Begin nothing until `unstall`."""
        self._stalled = True

    def unstall(self) -> None:
        """Go on."""
        self._stalled = False
        self.go_on()

    def mute(self, for_ms: int) -> None:
        """Begin no further request for so long."""
        self._stalled = True
        runtime = self._broker.runtime
        runtime.timers.set(("mute", id(self)), runtime.now_ms() + for_ms, self.unstall)

    def hold(self, frame: bytes) -> None:
        """Show this frame again when everything before it is answered."""
        self.backlog.appendleft(frame)
        self._answers.held = True

    def wait_with(self, frame: bytes) -> Callable[[], None]:
        """Do nothing more; what is returned shows this frame again and goes on. Nothing is owed before it."""
        self.backlog.appendleft(frame)
        self._stalled = True
        return self.unstall

    def stop(self) -> None:
        """Handle no further request; answers that are owed still leave."""
        self.backlog.clear()
        self.max_requests = 0
        self._side.pause_reading()

    def go_on(self) -> None:
        """Handle what waits, unless that is done already."""
        if not self._side.closed and not self._working and not self._resting:
            self._work(self._clock_ns())
            if self.held_bytes:
                self.settle()

    def hurry(self) -> None:
        """The peer has sent all, and ends: a request that was put off is handled now, or never."""
        if self._waits:
            self.go_on()

    def settle(self) -> None:
        """Tell the memory of all connections what this one holds."""
        held = 0
        side, answers = self._side, self._answers
        if not side.closed:
            held = self.cutter.held_bytes + side.unsent_bytes
            for frame in self.backlog:
                held += len(frame)
            if answers.inflight_bytes >= LARGE_REQUEST_BYTES:
                held += answers.inflight_bytes
        by_bytes = held - self.held_bytes
        if by_bytes:
            self.held_bytes = held
            self.held_much = self.held_much or held > LARGE_REQUEST_BYTES
            self._memory.changed(self._connection, by_bytes)

    def deferred_completed(self, deferred: Deferred) -> None:
        """An answer has come."""
        waiting = self._answers.waiting
        if not self._working and not self._flush_scheduled and waiting and waiting[0] is deferred:
            self._flush_scheduled = True
            self._broker.runtime.last(self._flush)

    def failed(self, route: AnswerRoute | None, error: Exception) -> None:
        """The connection ends."""
        self._connection.failed(route, error)

    def unserved(self, api_key: int, version: int, correlation_id: int) -> None:
        """An API or a version that is not ours. Source: KIP-511; Kafka's SocketServer closes the connection."""
        if api_key != ApiKey.API_VERSIONS:
            self._owner.counters.bad_frames += 1
            self._connection.close(
                "unsupported API or version", api_key=api_key, api=api_name(api_key), version=version
            )
            return
        first, last = APIS[api_key].advertised
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[ApiVersion(api_key=api_key, min_version=first, max_version=last)],
        )
        self._side.put(encode_response(api_key, 0, correlation_id, response))

    def over(self) -> None:
        """The connection is gone."""
        self.max_requests = 0
        self.backlog.clear()
        self.cutter.clear()
        self.settle()
        if self.gate is not None:
            self.gate.over()
            self.gate = SHUT  # a gate and its connection hold each other
        if self._stalled:  # perhaps by a quota that is gone by now
            self._broker.runtime.timers.cancel(("mute", id(self)))
        self._connection = GONE  # it and its requests hold each other

    # --- turns

    def _work(self, start_ns: int) -> None:
        """Handle the backlog until it is empty, enough is in flight or this took long; then write what is ready."""
        backlog, answers, side = self.backlog, self._answers, self._side
        waiting = answers.waiting
        self._working = True
        clock_ns = self._clock_ns
        began_ns = answers.since_ns = answers.since_ns or start_ns
        self._peer.heard_ns = start_ns
        before = len(backlog)
        frame = b""
        looks = unlooked_bytes = 0
        enough = side.write_paused
        # Requests that come together leave together, so they took the same time: one look at the clock for all of them.
        answered: Route | None = None
        count = 0
        while backlog and not enough and not self._stalled:
            if waiting and (
                answers.held or len(waiting) >= self.max_requests or answers.inflight_bytes >= self._max_bytes
            ):
                break
            frame = backlog.popleft()
            route = self._handle(frame)
            if route is not None:
                if route is not answered:
                    if answered is not None:
                        answered.tally(count, clock_ns() - began_ns)
                    answered, count = route, 0
                count += 1
            elif side.closed:
                return
            if not backlog:
                break
            unlooked_bytes += len(frame) + _AT_LEAST_BYTES
            if side.out_bytes >= _MAX_BYTES_PER_TURN:
                side.write()
                # Large answers are work too: a peer that asks for many takes its share of a turn, not all of it.
                enough = True
            elif unlooked_bytes >= _LOOKS_EVERY_BYTES:
                unlooked_bytes = 0
                looks += 1
                share_ns = QUANTUM_NS if self._resting else _MAX_TURN_NS
                enough = looks >= _MAX_LOOKS_PER_TURN or clock_ns() - start_ns >= share_ns
        now_ns = clock_ns()
        if answered is not None:
            took_ns = now_ns - began_ns  # as `tally`, without the call
            answered.durations[(took_ns >> DURATION_SHIFT).bit_length()] += count
            answered.total_ns += took_ns * count
        handled = before - len(backlog)
        if handled and (answered is not None or waiting):  # a stranger's logging in is no reason to stay awake
            self._busy_polling.came(now_ns, handled)
        if not backlog or answers.held or self._stalled:
            # Requests that are held up count from when their turn comes: Kafka would not have read them yet.
            answers.since_ns = 0
        self._working = False
        if now_ns - start_ns > NOTED_NS:
            # What took long was the last of them: it ends the turn.
            self._broker.runtime.stalls.note(_api_of(frame), self._caller.session.client, now_ns - start_ns)
        if enough and backlog and not self._resting and not side.write_paused:
            self._rest()
        if waiting and waiting[0].done:
            if not answers.drain():
                return
            if backlog:
                # A request has answered those before it, so there is room now, and perhaps nothing else that says so.
                self._broker.runtime.next_turn(self.go_on)
        if side.out_bytes:
            if not waiting:
                side.write()
            elif not self._flush_scheduled:
                # More may be ready when the turn ends (commits become durable together): one write for all of it.
                self._flush_scheduled = True
                self._broker.runtime.last(self._flush)
        if backlog and not (answers.held and self._reads_ahead()):
            if not side.reading_paused:
                side.pause_reading()
        elif self._fault is not None:
            self._refuse_frame(self._fault)
        elif side.reading_paused and not side.write_paused and self.max_requests:
            side.resume_reading()

    def _reads_ahead(self) -> bool:
        """Whether the peer is read though requests are held up: only of who is read it is seen that it has gone."""
        backlog = self.backlog
        return self._fault is None and len(backlog) < self.max_requests and sum(map(len, backlog)) < self._max_bytes

    def _put_off(self, now_ns: int) -> None:
        """Go on when all who were read before have had their turn; its requests take their time from now on."""
        self._answers.since_ns = self._answers.since_ns or now_ns
        self._peer.heard_ns = now_ns
        if not self._waits:
            self._waits = True
            self._long_turns.put_off(self._its_turn)
        if len(self.backlog) > 1:  # one alone would be handled if its peer sent no more: see `hurry`
            self._side.pause_reading()

    def _its_turn(self) -> None:
        self._waits = False
        try:
            self.go_on()
        except Exception as error:  # as the loop would, to which it is raised elsewhere
            self.failed(None, error)

    def _rest(self) -> None:
        """Go on in slices, which all connections that ask for much share: nobody else waits for them together."""
        self._resting = True
        self._broker.runtime.in_slices(
            self._in_turns(),
            _nothing,
            partial(self.failed, None),
            owner=self,
            wanted=lambda: not self._side.closed,
            at_once=False,
        )

    def _in_turns(self) -> Generator[None, None, None]:
        before = -1
        while self.backlog and len(self.backlog) != before:
            before = len(self.backlog)
            self._work(self._clock_ns())
            if self.held_much:
                self.settle()  # who holds little tells it when all is handled
            yield
        self._resting = False
        self.go_on()

    def _flush(self) -> None:
        """Write what is ready, at the end of a turn."""
        self._flush_scheduled = False
        side = self._side
        if side.closed or not self._answers.drain():
            return
        side.write()
        if self.backlog or side.reading_paused:
            self.go_on()
        if self.held_bytes:
            self.settle()

    def _refuse_frame(self, fault: BadFrameSize) -> None:
        self._fault = None
        if not self.max_requests:
            return  # what is owed at the end is on its way
        if self.gate is not None and self.gate.bad_size(fault.size, fault.limit):
            return
        self._owner.counters.bad_frames += 1
        self._connection.close("frame of a size that is not allowed", size=fault.size, limit=fault.limit)

    # --- one request

    def _handle(self, frame: bytes) -> Route | None:
        """Handle a request; its route when the answer is there at once."""
        route: Route | None = None
        try:
            if self.gate is not None and not self.gate.lets_through(frame):
                return None
            caller, answers = self._caller, self._answers
            size_bytes = len(frame)
            # What differs from request to request, where the client says that it is who it was; else all of the header.
            found = None
            if frame.startswith(
                caller.id_bytes, CLIENT_ID_AT
            ):  # not a slice: native ones must not end before they begin
                api_and_version, correlation_id = read_route(frame)
                found = caller.served.get(api_and_version)
                if found is None:
                    found = caller.find(api_and_version >> 16, api_and_version & 0xFFFF, self)
            if found is not None:
                route, context = found
                position = caller.header_end
                if route.has_tags:
                    position = position + 1 if frame.startswith(b"\0", position) else past_tags(frame, position)
            else:
                api_key, version, correlation_id, client_id, position = read_request_header(frame)
                caller.named(client_id, frame)
                found = caller.find(api_key, version, self)
                if found is None:
                    if answers.waiting:
                        self.hold(frame)
                    else:
                        self.unserved(api_key, version, correlation_id)
                    return None
                route, context = found
            if answers.waiting and not route.flows:
                self.hold(frame)
                return None
            if size_bytes > self._largest_of_objects and route.api_key != ApiKey.PRODUCE:
                # A megabyte of names or partitions is some twenty of objects while it is answered.
                self._owner.counters.bad_frames += 1
                self._connection.close(
                    "request too large for the memory there is", size=size_bytes, limit=self._largest_of_objects
                )
                return None
            try:
                request, end = route.decode(frame, position)
            except LongMessage:
                self._read_in_thread(route, frame, position, correlation_id)
                return None
            if end != size_bytes:
                self._owner.counters.requests_with_trailing_bytes += 1
            response: Message | Deferred | Encoded | None = route.handle(self._broker, context, request)
            if isinstance(response, Deferred):
                if not response.done:
                    self._park(response, route, correlation_id, size_bytes)
                    answers.held = not route.flows or response.holds
                    return None
                known = response.response
                if isinstance(known, Exception):
                    # Raised here, it would know this frame, which knows it: the request would wait for the collector.
                    self._connection.failed(route, known)
                    return None
                response = known
            if response is None:
                return route
            if not answers.waiting:
                try:
                    self._side.put(route.encode(response, correlation_id))
                except LongMessage:
                    answers.held = True
                else:
                    return route
            ready = Deferred()
            ready.complete(response)
            self._park(ready, route, correlation_id, 0)
            return None
        except Exception as error:
            self._connection.failed(route, error)
        return None

    def _park(self, deferred: Deferred, route: Route, correlation_id: int, size_bytes: int) -> None:
        self._answers.park(deferred, self, route, correlation_id, size_bytes)
        if deferred.size_bytes >= LARGE_REQUEST_BYTES:
            self.settle()

    def _read_in_thread(self, route: Route, frame: bytes, position: int, correlation_id: int) -> None:
        """Handle a long request once it is read. Nothing is begun behind it."""
        promise = Deferred()
        self._park(promise, route, correlation_id, len(frame))
        self._answers.held = True
        caller = self._caller
        slot: Slot | None = None
        if needs_slot(route.api_key, len(frame)):
            slot = self._memory.slots.enter()
            promise.on_gone = slot.gone
        self._broker.runtime.in_slices(
            decoded(route, frame, position, slot),
            partial(self._handle_long, promise, slot, route, caller.client_id, len(frame)),
            partial(self.failed, route),
            owner=caller.session,
            wanted=lambda: not promise.gone,
        )

    def _behind(self, callback: Callable[[], None]) -> None:
        """Call it when the works of this connection that there are now have ended."""
        owner = self._caller.session
        self._broker.runtime.in_slices(_one_step(callback), _nothing, _nothing, owner=owner, at_once=False)

    def _handle_long(
        self,
        promise: Deferred,
        slot: Slot | None,
        route: Route,
        client_id: str | None,
        size_bytes: int,
        read: Decoded,
    ) -> None:
        promise.parts = read.parts
        if read.end != size_bytes:
            self._owner.counters.requests_with_trailing_bytes += 1
        response: Message | Deferred | Exception | Encoded | None
        try:
            context = self._caller.context(client_id, route.version)
            response = route.handle_long(self._broker, context, read.request)
        except Exception as error:
            self.failed(route, error)
            return
        finally:
            if slot is not None:
                # Behind what the handler does in slices, and then behind the writing of its answer, if that is there:
                # works of one owner follow each other.
                self._behind(partial(self._broker.runtime.next_turn, partial(self._behind, slot.leave)))
        if isinstance(response, Deferred):
            if not response.done:
                response.parts = read.parts
                self._answers.replace(promise, response)
                return
            response = response.response
        promise.complete(response)


def _one_step(callback: Callable[[], None]) -> Generator[None, None, None]:
    callback()
    yield


def _api_of(frame: bytes) -> str:
    api_key = int.from_bytes(frame[4:6], "big")
    return api_name(api_key)


def _nothing(_: object) -> None:
    """Nobody waits for that."""
