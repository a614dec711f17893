"""The table of states of a connection, row by row: every API in every state, and every move.

That the verdicts are acted upon, with Kafka's bytes, delays and ends, `tests/broker/network/test_gate.py` shows.
"""

from __future__ import annotations

import pytest

from broker.security.mechanisms import Mechanism, Offer, Proven, Rejected
from broker.security.sasl_states import SaslStates, State, Verdict
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode

API_KEYS = range(93)
NOW_MS = 1_000_000
LIFETIME_MS = 5_000
SERVE, AUTHENTICATE, REFUSE, CLOSE, EXPIRED = (
    Verdict.SERVE,
    Verdict.AUTHENTICATE,
    Verdict.REFUSE,
    Verdict.CLOSE,
    Verdict.EXPIRED,
)
HANDSHAKE, TOKEN, VERSIONS = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS


class Steps(Mechanism):
    """`more` wants another token, `no` is rejected, anything else is the user's name."""

    proven: Proven | None = None

    def step(self, token: bytes) -> bytes:
        if token == b"no":
            raise Rejected("it is wrong", told=None)
        if token != b"more":
            self.proven = Proven(token.decode(), None)
        return b"go on"


def connection(state: State, *, reauth_ms: int = 0) -> SaslStates:
    """One that stands there."""
    states = SaslStates({"PLAIN": Offer(Steps, reauth_ms), "OTHER": Offer(Steps, reauth_ms)})
    if state is State.VERSIONS:
        states.versions_answered()
    if state in (State.TOKENS, State.BARE_TOKENS, State.DONE):
        states.handshake(0 if state is State.BARE_TOKENS else 1, "PLAIN", NOW_MS)
    if state is State.DONE:
        states.token(b"bob", NOW_MS)
    assert states.state is state
    return states


@pytest.mark.parametrize(
    ("state", "reauth_ms", "later_ms", "special", "all_others"),
    [
        (State.START, 0, 0, {VERSIONS: SERVE, HANDSHAKE: AUTHENTICATE}, CLOSE),
        (State.VERSIONS, 0, 0, {HANDSHAKE: AUTHENTICATE}, CLOSE),
        (State.TOKENS, 0, 0, {TOKEN: AUTHENTICATE}, REFUSE),
        (State.DONE, 0, 1 << 40, {}, SERVE),
        (State.DONE, LIFETIME_MS, LIFETIME_MS - 1, {HANDSHAKE: AUTHENTICATE}, SERVE),
        (State.DONE, LIFETIME_MS, LIFETIME_MS, {HANDSHAKE: AUTHENTICATE}, EXPIRED),
    ],
)
def test_what_becomes_of_each_api(
    state: State, reauth_ms: int, later_ms: int, special: dict[ApiKey, Verdict], all_others: Verdict
) -> None:
    """SE13, SE14, SE23"""
    for api_key in API_KEYS:
        states = connection(state, reauth_ms=reauth_ms)
        expected = special.get(api_key, all_others)  # type: ignore[call-overload]
        assert states.judge(api_key, NOW_MS + later_ms) is expected, api_key
        assert states.state is state  # to look is not to move


def test_versions_lead_from_the_start_alone() -> None:
    states = connection(State.START)
    states.versions_answered()
    assert states.state is State.VERSIONS
    for state in (State.TOKENS, State.BARE_TOKENS, State.DONE):
        states = connection(state)
        states.versions_answered()
        assert states.state is state


@pytest.mark.parametrize("state", [State.START, State.VERSIONS])
@pytest.mark.parametrize(("version", "leads_to"), [(0, State.BARE_TOKENS), (1, State.TOKENS)])
def test_a_handshake_leads_to_tokens_by_its_version(state: State, version: int, leads_to: State) -> None:
    """SE12"""
    states = connection(state)
    assert states.handshake(version, "PLAIN", NOW_MS).failed is None
    assert states.state is leads_to


@pytest.mark.parametrize("state", [State.START, State.VERSIONS, State.DONE])
def test_a_handshake_for_what_is_not_offered_fails_where_it_stands(state: State) -> None:
    """SE17"""
    states = connection(state, reauth_ms=LIFETIME_MS)
    answer = states.handshake(1, "GSSAPI", NOW_MS)
    assert answer.error is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.failed
    assert states.state is state


@pytest.mark.parametrize("state", [State.TOKENS, State.BARE_TOKENS])
def test_tokens_stay_are_done_or_fail(state: State) -> None:
    states = connection(state)
    assert states.token(b"more", NOW_MS).failed is None
    assert states.state is state
    assert states.token(b"bob", NOW_MS).failed is None
    assert (states.state, states.user) == (State.DONE, "bob")

    states = connection(state)
    answer = states.token(b"no", NOW_MS)
    assert answer.error is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.failed
    assert (states.state, states.user) == (state, None)


@pytest.mark.parametrize(("version", "leads_to"), [(0, State.BARE_TOKENS), (1, State.TOKENS)])
def test_with_a_lifetime_done_leads_back_to_tokens_and_to_a_new_lifetime(version: int, leads_to: State) -> None:
    """SE23"""
    states = connection(State.DONE, reauth_ms=LIFETIME_MS)
    states.handshake(version, "PLAIN", NOW_MS + 2_000)
    assert (states.state, states.user) == (leads_to, "bob")  # who it is stays
    assert states.token(b"bob", NOW_MS + 2_100).lifetime_ms == LIFETIME_MS
    assert states.state is State.DONE
    assert states.judge(ApiKey.HEARTBEAT, NOW_MS + 2_100 + LIFETIME_MS - 1) is SERVE
    assert states.judge(ApiKey.HEARTBEAT, NOW_MS + 2_100 + LIFETIME_MS) is EXPIRED
    assert states.judge(HANDSHAKE, NOW_MS + 2_999) is SERVE  # within a second: answered ILLEGAL_SASL_STATE
    assert states.judge(HANDSHAKE, NOW_MS + 3_000) is AUTHENTICATE


@pytest.mark.parametrize(("mechanism", "token"), [("PLAIN", b"carol"), ("OTHER", b"bob"), ("PLAIN", b"no")])
def test_who_authenticates_again_as_another_or_otherwise_fails(mechanism: str, token: bytes) -> None:
    """SE23"""
    states = connection(State.DONE, reauth_ms=LIFETIME_MS)
    assert states.handshake(1, mechanism, NOW_MS + 2_000).failed is None
    assert states.token(token, NOW_MS + 2_100).failed
    assert (states.state, states.user) == (State.TOKENS, "bob")
