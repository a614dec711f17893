"""Whom a quota holds, and which of several counts. Pure.

Source: KIP-13, KIP-124, KIP-257, KIP-546; Kafka's ClientQuotaManager (DefaultQuotaCallback).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from protocol.records.metadata_records import QuotaEntity

PRODUCER_BYTES = "producer_byte_rate"
CONSUMER_BYTES = "consumer_byte_rate"
REQUEST_PERCENT = "request_percentage"
MUTATIONS = "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"

USER, CLIENT_ID, IP = "user", "client-id", "ip"


class Part(Enum):
    """What an entity may have in the place of a name."""

    ABSENT = "absent"  # it has no such type
    DEFAULT = "default"  # whoever has no quota by name


Name = str | Part
_ABSENT, _DEFAULT = Part.ABSENT, Part.DEFAULT


class Entity(NamedTuple):
    """Users and client ids that share quotas."""

    user: Name
    client_id: Name


def entity_of(parts: Sequence[QuotaEntity]) -> Entity:
    """Of a record that is not of an address."""
    names: dict[str, Name] = {
        one.entity_type: Part.DEFAULT if one.entity_name is None else one.entity_name for one in parts
    }
    return Entity(names.get(USER, _ABSENT), names.get(CLIENT_ID, _ABSENT))


def counting(quotas: Mapping[Entity, float], user: str, client_id: str) -> tuple[Entity, float] | None:
    """Whose meter a user with a client id shares, and the quota that it has; None: none."""
    both, alone, client = Entity(user, client_id), Entity(user, _ABSENT), Entity(_ABSENT, client_id)
    for entity, meter in (
        (both, both),
        (Entity(user, _DEFAULT), both),
        (alone, alone),
        (Entity(_DEFAULT, client_id), both),
        (Entity(_DEFAULT, _DEFAULT), both),
        (Entity(_DEFAULT, _ABSENT), alone),
        (client, client),
        (Entity(_ABSENT, _DEFAULT), client),
    ):
        quota = quotas.get(entity)
        if quota is not None:
            return meter, quota
    return None
