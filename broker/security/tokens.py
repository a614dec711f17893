"""JSON Web Tokens: whose they are, if they are good. Keys and times are given.

Source: RFC 7519; Kafka's BrokerJwtValidator, OAuthBearerUnsecuredValidatorCallbackHandler.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, Any, NamedTuple

import jwt

from broker.security.mechanisms import Proven
from broker.security.oauth_bearer import BadToken

if TYPE_CHECKING:
    from collections.abc import Mapping

# Algorithm -> the type of its key, and the curve where it has one. Never HMAC: its key would be the public one.
_ALGORITHMS = {
    **{f"{kind}{bits}": ("RSA", None) for kind in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
}


class KeysWanted(Exception):
    """A token names a key that is not known: perhaps it is new."""


class KeySetError(Exception):
    """It is no JSON Web Key Set."""


class _Key(NamedTuple):
    type: str
    curve: str | None
    algorithm: str | None
    key: Any


class KeySet:
    """The public keys of a JSON Web Key Set. Raises: KeySetError."""

    def __init__(self, text: bytes) -> None:
        self._keys: dict[str | None, _Key] = {}
        try:
            for entry in json.loads(text)["keys"]:
                if entry.get("use", "sig") == "sig" and entry.get("kty") in ("RSA", "EC"):
                    parsed = jwt.PyJWK(entry, entry.get("alg") or {"RSA": "RS256", "EC": "ES256"}[entry["kty"]])
                    found = _Key(entry["kty"], entry.get("crv"), entry.get("alg"), parsed.key)
                    self._keys[entry.get("kid")] = found
        except (ValueError, TypeError, KeyError, AttributeError, jwt.PyJWTError) as error:
            raise KeySetError(f"it is no JSON Web Key Set: {error}") from None

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None) -> _Key | None:
        """The key of this name; without a name the only one there is."""
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)


class Rules(NamedTuple):
    """What a verified token must say."""

    subject_claim: str = "sub"
    skew_ms: int = 30_000
    audiences: frozenset[str] = frozenset()  # empty: any
    issuer: str | None = None  # None: any


def verified(token: str, keys: KeySet, rules: Rules, now_ms: int) -> Proven:
    """Whose a signed token is. Raises: BadToken, KeysWanted."""
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise BadToken("it is no token") from None
    algorithm = header.get("alg")
    wanted = _ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else None
    if wanted is None or not isinstance(algorithm, str):
        raise BadToken("its algorithm is not taken")
    key = keys.find(header.get("kid"))
    if key is None:
        raise KeysWanted
    if (key.type, key.curve if wanted[1] else None) != wanted or key.algorithm not in (None, algorithm):
        raise BadToken("its algorithm is not that of its key")
    checks = ("exp", "iat", "nbf", "aud", "iss", "sub", "jti")
    options: Any = {"verify_signature": True, **{f"verify_{check}": False for check in checks}}
    try:
        claims = jwt.decode(token, key.key, algorithms=[algorithm], options=options)
    except jwt.PyJWTError:
        raise BadToken("its signature is wrong") from None
    proven = _in_time(claims, rules.subject_claim, now_ms, rules.skew_ms, needs_issued_at=True)
    audiences = claims.get("aud")
    given = {audiences} if isinstance(audiences, str) else set(audiences) if isinstance(audiences, list) else set()
    if rules.audiences and not rules.audiences & given:
        raise BadToken("it is for another audience")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise BadToken("it is of another issuer")
    return proven


def unsecured(token: str, options: Mapping[str, str], now_ms: int) -> Proven:
    """Whose an unsigned token says it is: for development alone. `options` are those of the JAAS line.

    Raises: BadToken.
    """
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise BadToken("it is no unsigned token")
    header, claims = (_decoded(part) for part in parts[:2])
    if header.get("alg") != "none":
        raise BadToken("it is no unsigned token")
    skew_ms = int(options.get("unsecuredValidatorAllowableClockSkewMs") or 0)
    subject_claim = options.get("unsecuredValidatorPrincipalClaimName") or "sub"
    proven = _in_time(claims, subject_claim, now_ms, skew_ms, needs_issued_at=False)
    required = options.get("unsecuredValidatorRequiredScope", "").split()
    scope = claims.get(options.get("unsecuredValidatorScopeClaimName") or "scope", [])
    given = scope.split() if isinstance(scope, str) else scope if isinstance(scope, list) else []
    if not all(one in given for one in required):
        raise BadToken("it lacks a scope", status="insufficient_scope", scope=" ".join(required))
    return proven


def _in_time(
    claims: Mapping[str, Any], subject_claim: str, now_ms: int, skew_ms: int, *, needs_issued_at: bool
) -> Proven:
    subject = claims.get(subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise BadToken("it names nobody")
    expires_ms = _moment_ms(claims, "exp")
    issued_ms, from_ms = _moment_ms(claims, "iat"), _moment_ms(claims, "nbf")
    if expires_ms is None or (needs_issued_at and issued_ms is None):
        raise BadToken("it does not say from when until when it is good")
    if expires_ms < (issued_ms or 0):
        raise BadToken("it ends before it begins")
    if expires_ms + skew_ms <= now_ms:
        raise BadToken("it has expired")
    if max(issued_ms or 0, from_ms or 0) - skew_ms > now_ms:
        raise BadToken("it is not good yet")
    return Proven(subject, expires_ms)


def _moment_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 40:
        raise BadToken(f"its {name} is no moment")
    return int(value * 1_000)


def _decoded(part: str) -> dict[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, Base64Error, RecursionError):
        raise BadToken("it is no token") from None
    if not isinstance(found, dict):
        raise BadToken("it is no token")
    return found
