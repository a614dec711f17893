"""What stands before a connection's requests until it has said who it is, and again when its session ends.

The connection shows every frame to its gate first, as long as it has one: a gate goes when nothing is left to watch.
The states are `broker.security.sasl_states`; here they meet bytes, clocks and log lines. A failed step is answered
after a delay, nothing behind it is read, and the connection ends with the answer.

Source: Kafka's SaslServerAuthenticator, Processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from broker.handlers.context import CloseConnection
from broker.loop.logs import get_logger
from broker.security.sasl_states import Answer, SaslStates, State, Verdict
from protocol.api_keys import ApiKey, api_name
from protocol.errors import ErrorCode, ProtocolError
from protocol.frames import encode_response, read_request_header
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.registry import APIS
from protocol.schema.runtime import skip_tagged_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from broker.handlers.dispatch import Route
    from broker.network.listener_security import ListenerSecurity
    from broker.network.ports import Owner
    from protocol.schema.wire_types import Buffer

LOGIN_WITHIN_MS = 30_000
"""From a connection's first moment until it has authenticated."""

log = get_logger(__name__)


class Gated(Protocol):
    """A connection, as its gate uses it."""

    @property
    def peer(self) -> str:
        """Address and port of its client."""

    @property
    def host(self) -> str:
        """The bare address of its client."""

    @property
    def broker(self) -> Broker:
        """What it serves."""

    @property
    def owes(self) -> bool:
        """Whether a request before this one is not answered yet."""

    def hold(self, frame: bytes) -> None:
        """Show this frame again when everything before it is answered."""

    def route(self, api_key: int, version: int) -> Route | None:
        """What serves a version of an API, None if nothing does."""

    def context(self, client_id: str | None, version: int) -> RequestContext:
        """Of a request."""

    def unserved(self, api_key: int, version: int, correlation_id: int) -> None:
        """Answer a version that is not ours."""

    def answer(self, buffers: list[Buffer]) -> None:
        """Send this, in its turn."""

    def wait_with(self, frame: bytes) -> Callable[[], None]:
        """Do nothing more; what is returned shows this frame again and goes on."""

    def end_later(self, buffers: list[Buffer], delay_ms: int) -> None:
        """Read nothing more; after the delay send this and end."""

    def close(self, reason: str, **facts: Any) -> None:
        """End it now, with a line."""

    def authenticated(self, principal: str, *, watched: bool) -> None:
        """From now on it is this principal; the gate goes unless it is `watched`."""


class Shut:
    """The gate of a connection that is gone: nothing passes, and nothing of the connection is held."""

    __slots__ = ()

    def opened(self) -> None:
        """Nothing: nobody is there."""

    def over(self) -> None:
        """Nothing: it has ended already."""

    def lets_through(self, frame: bytes) -> bool:
        """Nothing."""
        return False

    def bad_size(self, size: int, limit: int) -> bool:
        """There is no end to see to."""
        return True


SHUT = Shut()


class Gate:
    """The gate of one connection."""

    __slots__ = ("_connection", "_now_ms", "_owner", "_security", "_states", "_timers")

    def __init__(self, connection: Gated, owner: Owner, security: ListenerSecurity) -> None:
        self._connection = connection
        self._owner = owner
        self._security = security
        self._states = SaslStates(security.offers)
        self._now_ms = owner.broker.runtime.now_ms
        self._timers = owner.broker.runtime.timers

    def opened(self) -> None:
        """The connection is there: its time runs."""
        deadline_ms = self._now_ms() + LOGIN_WITHIN_MS
        self._timers.set(("login", id(self._connection)), deadline_ms, self._too_late)

    def over(self) -> None:
        """The connection is gone."""
        self._timers.cancel(("login", id(self._connection)))

    def lets_through(self, frame: bytes) -> bool:
        """Whether a request may be served; if not, it is dealt with here. Raises: ProtocolError."""
        states = self._states
        now_ms = self._now_ms()
        if states.state is State.BARE_TOKENS:
            self._bare_token(frame, now_ms)
            return False
        api_key, version, correlation_id, client_id, position = read_request_header(frame)
        verdict = states.judge(api_key, now_ms)
        if verdict is Verdict.SERVE:
            if states.state is State.DONE:
                return True
            self._api_versions(frame, version, correlation_id, client_id, position)
        elif verdict is Verdict.AUTHENTICATE:
            if self._connection.owes:
                self._connection.hold(frame)
            elif api_key == ApiKey.SASL_HANDSHAKE:
                self._handshake(frame, version, correlation_id, position, now_ms)
            else:
                self._token(frame, version, correlation_id, position, now_ms)
        elif verdict is Verdict.REFUSE:
            self._fail(self._refusal(api_key, version, correlation_id), "a request that is no step of it")
        elif verdict is Verdict.EXPIRED:
            self._owner.counters.sessions_expired += 1
            self._connection.close("its session has expired")
        else:
            self._owner.counters.bad_frames += 1
            self._connection.close("a request before it has authenticated", api_key=api_key, api=api_name(api_key))
        return False

    def bad_size(self, size: int, limit: int) -> bool:
        """A frame has a size that it cannot have; true when the gate sees to the end of it."""
        if self._states.state is State.DONE:
            return False
        self._owner.counters.bad_frames += 1
        self._fail([], f"a request of {size} bytes, allowed are 0 to {limit}")
        return True

    # ---

    def _api_versions(
        self, frame: bytes, version: int, correlation_id: int, client_id: str | None, position: int
    ) -> None:
        connection = self._connection
        route = connection.route(ApiKey.API_VERSIONS, version)
        if route is None:
            try:
                skip_tagged_fields(frame, position + 1, frame[position])
            except IndexError:
                raise ProtocolError("request header is cut off") from None
            connection.unserved(ApiKey.API_VERSIONS, version, correlation_id)
            return
        request, _ = route.decode(frame, position)
        response: Any = route.handle(connection.broker, connection.context(client_id, version), request)
        connection.answer(route.encode(response, correlation_id))
        if response.error_code == ErrorCode.NONE:
            self._states.versions_answered()

    def _handshake(self, frame: bytes, version: int, correlation_id: int, position: int, now_ms: int) -> None:
        if self._connection.route(ApiKey.SASL_HANDSHAKE, version) is None:
            raise CloseConnection(f"SaslHandshake {version} is not served")
        request: SaslHandshakeRequest = SaslHandshakeRequest.decode(version, frame, position)
        answer = self._states.handshake(version, request.mechanism, now_ms)
        response = SaslHandshakeResponse(error_code=answer.error, mechanisms=list(self._security.offers))
        buffers = encode_response(ApiKey.SASL_HANDSHAKE, version, correlation_id, response)
        if answer.failed is None:
            self._connection.answer(buffers)
        else:
            self._fail(buffers, answer.failed)

    def _token(self, frame: bytes, version: int, correlation_id: int, position: int, now_ms: int) -> None:
        if self._connection.route(ApiKey.SASL_AUTHENTICATE, version) is None:
            raise CloseConnection(f"SaslAuthenticate {version} is not served")
        request: SaslAuthenticateRequest = SaslAuthenticateRequest.decode(version, frame, position)
        answer = self._judged(request.auth_bytes, frame, now_ms)
        if answer is None:
            return
        response = SaslAuthenticateResponse(
            error_code=answer.error,
            error_message=answer.message,
            auth_bytes=answer.token,
            session_lifetime_ms=answer.lifetime_ms,
        )
        self._answered(answer, encode_response(ApiKey.SASL_AUTHENTICATE, version, correlation_id, response))

    def _bare_token(self, frame: bytes, now_ms: int) -> None:
        answer = self._judged(frame[4:], frame, now_ms)
        if answer is None:
            return
        buffers: list[Buffer] = [len(answer.token).to_bytes(4, "big") + answer.token]
        self._answered(answer, buffers if answer.failed is None else [])

    def _judged(self, token: bytes, frame: bytes, now_ms: int) -> Answer | None:
        """What a token is answered; None when that is not known yet, and the frame comes again."""
        answer = self._states.token(token, now_ms)
        if answer.wait is None:
            return answer
        answer.wait(self._connection.wait_with(frame))
        return None

    def _answered(self, answer: Answer, buffers: list[Buffer]) -> None:
        if answer.failed is not None:
            self._fail(buffers if answer.error else [], answer.failed)
            return
        self._connection.answer(buffers)
        states = self._states
        if states.state is State.DONE:
            self._owner.counters.authenticated += 1
            self._timers.cancel(("login", id(self._connection)))
            self._connection.authenticated(f"User:{states.user}", watched=not states.lasts)

    def _refusal(self, api_key: int, version: int, correlation_id: int) -> list[Buffer]:
        """An answer that says ILLEGAL_SASL_STATE, where the API has a place for it."""
        if self._connection.route(api_key, version) is None:
            return []
        response: Any = APIS[api_key].response()
        if hasattr(response, "error_code"):
            response.error_code = ErrorCode.ILLEGAL_SASL_STATE
        return encode_response(api_key, version, correlation_id, response)

    def _fail(self, buffers: list[Buffer], reason: str) -> None:
        connection, states = self._connection, self._states
        self._timers.cancel(("login", id(connection)))
        delay_ms, left_out = self._owner.failures.failed(
            connection.host, self._security.failed_delay_ms, self._now_ms()
        )
        if left_out is not None:
            log.info(
                "authentication_failed",
                peer=connection.peer,
                listener=self._security.name,
                mechanism=states.mechanism,
                user=states.user_of_failure[:256],
                reason=reason,
                **({"left_out": left_out} if left_out else {}),
            )
        connection.end_later(buffers, delay_ms)

    def _too_late(self) -> None:
        self._connection.close("not authenticated in time", within_ms=LOGIN_WITHIN_MS)
