"""The routes of a connection that quotas hold: they measure each request, say in the answer how long to wait, and mute.

A connection that no quota holds has the routes of everybody and pays nothing for this. One that is held has one
request at a time, as in Kafka, so that what it must wait for is known before it asks for more; after a throttled answer
it is not heard for the time that the answer says, heartbeats included.

Source: Kafka's KafkaApis (sendResponseMaybeThrottle), ThrottledChannel.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker.handlers.dispatch import Route
from protocol.api_keys import ApiKey
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.broker import Broker
    from broker.handlers.context import Answer, Handle, RequestContext
    from broker.quotas.limits import Limits
    from protocol.schema import Message
    from protocol.schema.wire_types import Buffer

_EXEMPT = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.WRITE_TXN_MARKERS})

_WAIT = "throttle_time_ms"  # where an answer says it, if it does


class Muted(Protocol):
    """A connection."""

    def mute(self, for_ms: int) -> None:
        """Begin no further request for so long."""


class ThrottledRoute(Route):
    """One API in one version, for one connection."""

    __slots__ = ("_answer", "_clock_ns", "_connection", "_exempt", "_limits", "_plain", "_size_bytes")

    def __init__(self, plain: Route, connection: Muted, limits: Limits, clock_ns: Callable[[], int]) -> None:
        self.api_key = plain.api_key
        self.version = plain.version
        self.name = plain.name
        self.flows = False
        self.has_tags = plain.has_tags
        self.decode = self._decode
        self.handle = partial(self._handle, plain.handle)
        self.handle_long = partial(self._handle, plain.handle_long)
        self.encode = self._encode
        self.durations = plain.durations
        self.total_ns = 0
        self._plain = plain
        self._connection = connection
        self._limits = limits
        self._clock_ns = clock_ns
        self._exempt = plain.api_key in _EXEMPT
        self._size_bytes = 0
        self._answer: object = None  # that the quotas were held against

    def settle(self) -> None:
        """Count with everybody's what was counted here."""
        self._plain.total_ns += self.total_ns
        self.total_ns = 0

    def _decode(self, frame: bytes, position: int) -> tuple[Message, int]:
        self.settle()
        self._answer = None
        self._size_bytes = len(frame) - 4
        self._limits.began()
        began_ns = self._clock_ns()
        decoded = self._plain.decode(frame, position)
        self._limits.took(self._clock_ns() - began_ns)
        return decoded

    def _handle(self, handle: Handle, broker: Broker, context: RequestContext, request: Message) -> Answer:
        limits = self._limits
        began_ns = self._clock_ns()
        if isinstance(request, FetchRequest):
            most_bytes = limits.most_fetched_bytes
            if most_bytes is not None:
                request.max_bytes = min(request.max_bytes, most_bytes)
        response = handle(broker, context, request)
        limits.took(self._clock_ns() - began_ns)
        if isinstance(request, ProduceRequest):
            limits.produced(self._size_bytes)
            if request.acks == 0:
                self._mute(limits.answered(exempt=True))
        return response

    def _encode(self, response: Message, correlation_id: int) -> list[Buffer]:
        if response is not self._answer:
            self._answer = response
            self._mute(self._limits.answered(exempt=self._exempt))
        began_ns = self._clock_ns()
        buffers = self._plain.encode(self._told(response), correlation_id)
        self._limits.took(self._clock_ns() - began_ns)
        return buffers

    def encode_long(self, response: Message, correlation_id: int) -> list[Buffer]:
        """As `encode`, however long it takes. Any thread."""
        return self._plain.encode_long(self._told(response), correlation_id)

    def _told(self, response: Message) -> Message:
        waits_ms = self._limits.answered()
        if waits_ms and hasattr(response, _WAIT):
            response = copy(response)  # others may be given the same
            setattr(response, _WAIT, waits_ms)
        return response

    def _mute(self, for_ms: int) -> None:
        if for_ms:
            self._connection.mute(for_ms)


def settle(routes: Iterable[Route]) -> None:
    """Count with everybody's what was counted by one connection's own routes."""
    for route in routes:
        if isinstance(route, ThrottledRoute):
            route.settle()
