"""Quotas of users, client ids and addresses: which may be, and what a wish for one changes. Pure.

Source: KIP-546; Kafka's ClientQuotaControlManager, QuotaConfig.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode
from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.catalogue.cluster_state import ClusterState

MOST_ALTERATIONS = 10_000  # of one request

EntityKey = tuple[tuple[str, str | None], ...]
"""(type, name) of each part, in the order of the request; a null name is the default."""
Refusal = tuple[ErrorCode, str]

_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"
_WHOLE_NUMBERS = frozenset({"producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"})
_OF_CLIENTS = frozenset({"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"})
_OF_ADDRESSES = frozenset({"connection_creation_rate"})
_MOST = {"connection_creation_rate": (2**31 - 1, "an INT")}
_MOST_LONG = (2**63, "a LONG")  # as a double has it
_FRACTION = 1e-6
_IN_KAFKAS_ORDER = (_CLIENT_ID, _USER, _IP)  # of a record


@dataclass(frozen=True, slots=True)
class Alteration:
    """What becomes of the quotas of one entity: (key, its value, or None to remove it)."""

    entity: EntityKey
    ops: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class Altered:
    """What is done of many, and for each entity why nothing is; None where all is done.

    Of an entity that is named twice the first wish counts, and the second is refused: it is in both.
    """

    done: list[Alteration]
    verdicts: dict[EntityKey, Refusal | None]


def alter(state: ClusterState, wishes: Sequence[Alteration]) -> tuple[list[records.ClientQuotaRecord], Altered]:
    """The records of what can be done, and what that is."""
    made: list[records.ClientQuotaRecord] = []
    done: list[Alteration] = []
    verdicts: dict[EntityKey, Refusal | None] = {}
    named: dict[EntityKey, EntityKey] = {}  # as it was named first
    for wish in wishes:
        entity = tuple(sorted(wish.entity))
        same = named.get(entity)
        named.setdefault(entity, wish.entity)
        keys = [key for key, _ in wish.ops]
        if same is not None or len(set(keys)) < len(keys):
            parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in wish.entity)
            text = f"Ignoring duplicate entity ClientQuotaEntity(entries={{{parts}}})"
            verdicts[same or wish.entity] = ErrorCode.INVALID_REQUEST, text
            continue
        refusal = _refusal(dict(wish.entity), wish.ops)
        verdicts[wish.entity] = refusal
        if refusal is None:
            made += _changes(state, entity, wish.ops)
            done.append(wish)
    return made, Altered(done, verdicts)


def _changes(
    state: ClusterState, entity: EntityKey, ops: Sequence[tuple[str, float | None]]
) -> list[records.ClientQuotaRecord]:
    names = dict(entity)
    made = []
    for key, value in ops:
        known = state.kept.quotas.get((entity, key))
        if (value is None) if known is None else value == known.value:
            continue
        parts = [
            records.QuotaEntity(entity_type=kind, entity_name=names[kind]) for kind in _IN_KAFKAS_ORDER if kind in names
        ]
        change: dict[str, Any] = {"remove": True} if value is None else {"value": value}
        made.append(records.ClientQuotaRecord(entity=parts, key=key, **change))
    return made


def _refusal(names: Mapping[str, str | None], ops: Sequence[tuple[str, float | None]]) -> Refusal | None:
    text = _of_entity(names)
    if text is None:
        allowed = _OF_ADDRESSES if _IP in names else _OF_CLIENTS
        text = next(filter(None, (_of_value(key, value, allowed) for key, value in ops if value is not None)), None)
    return None if text is None else (ErrorCode.INVALID_REQUEST, text)


def _of_entity(names: Mapping[str, str | None]) -> str | None:
    if not names:
        return "Invalid empty client quota entity"
    for kind, name in names.items():
        if kind not in (_USER, _CLIENT_ID, _IP):
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if _IP in names:
        if len(names) > 1:
            return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        address = names[_IP]
        if address is not None and not _is_address(address):
            return f"{address} is not a valid IP or resolvable host."
    return None


def _of_value(key: str, value: float, allowed: frozenset[str]) -> str | None:
    if key not in allowed:
        return f"Invalid configuration key {key}"
    if not value > 0:  # NaN too, which Kafka takes
        return f"Quota {key} must be greater than 0"
    if key in _WHOLE_NUMBERS:
        most, kind = _MOST.get(key, _MOST_LONG)
        if value > most:
            return f"Proposed value for {key} is too large for {kind}."
        if math.fmod(value, 1.0) > _FRACTION:
            return f"{key} cannot be a fractional value."
    return None


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
