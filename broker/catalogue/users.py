"""Users who log in by SCRAM: what is kept of their passwords, and what may happen to it. Pure.

A password itself is never here: a client sends it salted, and of that only what can be checked against is kept.

Source: KIP-554, RFC 5802; Kafka's ScramControlManager, ScramMechanism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion
from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.catalogue.cluster_state import ClusterState
    from broker.security.scram import Shape

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
MIN_SALT_BYTES = 8
MOST_ALTERATIONS = 1_000  # of one request: a hundredth of a second of HMACs

Refusal = tuple[ErrorCode, str]
Wish = ScramCredentialDeletion | ScramCredentialUpsertion


class ScramMechanism(IntEnum):
    """A mechanism, by its number in requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """As SASL calls it: `SCRAM-SHA-256`."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The hash, as hashlib calls it."""
        return f"sha{self.name[-3:]}"

    @classmethod
    def by_name(cls, name: str) -> ScramMechanism | None:
        """The mechanism that SASL calls so."""
        return next((one for one in cls if one.sasl_name == name), None)


@dataclass(frozen=True, slots=True, repr=False)
class ScramCredential:
    """What a log-in is checked against. It tells no password, but who has it can pose as the server."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential([hidden], iterations={self.iterations})"

    @classmethod
    def of(cls, mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
        """From a password that was salted already (`Hi` of RFC 5802)."""
        import hashlib  # noqa: PLC0415  4 MB and 10 ms, which few brokers need
        import hmac  # noqa: PLC0415

        client_key = hmac.digest(salted_password, b"Client Key", mechanism.digest)
        stored_key = hashlib.new(mechanism.digest, client_key).digest()
        return cls(salt, stored_key, hmac.digest(salted_password, b"Server Key", mechanism.digest), iterations)


Credentials = Mapping[tuple[str, int], records.UserScramCredentialRecord]
"""By (user, mechanism)."""


def credential(kept: Credentials, user: str, mechanism: str) -> ScramCredential | None:
    """A user's credential for what SASL calls `mechanism`."""
    known = ScramMechanism.by_name(mechanism)
    record = None if known is None else kept.get((user, known))
    if record is None:
        return None
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)


def usual(kept: Credentials, mechanism: str) -> Shape:
    """What most credentials for what SASL calls `mechanism` look like."""
    from broker.security.scram import ORDINARY, Shape  # noqa: PLC0415  4 MB and 10 ms, which few brokers need

    known = ScramMechanism.by_name(mechanism)
    shapes = Counter(Shape.of(record) for (_, number), record in kept.items() if number == known)
    return shapes.most_common(1)[0][0] if shapes else ORDINARY


def alter(
    state: ClusterState, deletions: Sequence[ScramCredentialDeletion], upsertions: Sequence[ScramCredentialUpsertion]
) -> tuple[list[Any], dict[str, Refusal | None]]:
    """The records of what can be done, and for each user what cannot; None for those whose wish is done.

    A user who is named twice, even with two mechanisms, gets nothing.
    """
    verdicts: dict[str, Refusal | None] = {}
    made: dict[str, Any] = {}
    wishes: list[Wish] = [*deletions, *upsertions]
    for wish in wishes:
        if wish.name in verdicts:
            if made.pop(wish.name, None) is not None:
                text = "A user credential cannot be altered twice in the same request"
                verdicts[wish.name] = (ErrorCode.DUPLICATE_RESOURCE, text)
            continue
        record = _record(state.kept.scram, wish)
        if isinstance(record, tuple):
            verdicts[wish.name] = record
        else:
            verdicts[wish.name] = None
            made[wish.name] = record
    return list(made.values()), verdicts


def _record(kept: Credentials, wish: Wish) -> Any:
    if not wish.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    try:
        mechanism = ScramMechanism(wish.mechanism)
    except ValueError:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(wish, ScramCredentialDeletion):
        if (wish.name, wish.mechanism) not in kept:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return records.RemoveUserScramCredentialRecord(name=wish.name, mechanism=mechanism)
    if wish.iterations < MIN_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if wish.iterations > MAX_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if len(wish.salt) < MIN_SALT_BYTES:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"The salt is shorter than {MIN_SALT_BYTES} bytes"
    if not wish.salted_password:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password is empty"
    return record_of(wish.name, mechanism, bytes(wish.salt), bytes(wish.salted_password), wish.iterations)


def record_of(
    name: str, mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> records.UserScramCredentialRecord:
    """The record that gives a user a credential."""
    made = ScramCredential.of(mechanism, salt, salted_password, iterations)
    return records.UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=iterations,
    )


def mechanisms_by_user(kept: Credentials) -> dict[str, list[tuple[int, int]]]:
    """(mechanism, iterations) of each user's credentials."""
    found: dict[str, list[tuple[int, int]]] = {}
    for (user, mechanism), record in kept.items():
        found.setdefault(user, []).append((mechanism, record.iterations))
    return found
