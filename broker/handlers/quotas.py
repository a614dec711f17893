"""DescribeClientQuotas, AlterClientQuotas: what the metadata log says of quotas.

Source: KIP-546; Kafka's ClientQuotasImage.describe, ClientQuotaControlManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.catalogue.quotas import MOST_ALTERATIONS, Alteration
from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.context import Deferred
from broker.handlers.gathering import PACE, deferring, sliced
from broker.loop.logs import get_logger
from broker.loop.slices import Steps
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntity,
)
from protocol.messages.alter_client_quotas import EntityData as AlteredEntityData
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.broker import Broker
    from broker.catalogue.quotas import EntityKey, Refusal
    from broker.catalogue.requests import Result
    from broker.handlers.context import RequestContext
    from protocol.messages.describe_client_quotas import ComponentData

log = get_logger(__name__)

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_TYPES = ("user", "client-id", "ip")


def describe_client_quotas(
    broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse | Deferred:
    """The quotas of the entities that are meant; without components of all, or with `strict` of none."""
    if not authorize(context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClientQuotasResponse(error_code=code, error_message=code.message, entries=None)
    refused = _refusal(request.components)
    if refused is not None:
        return DescribeClientQuotasResponse(error_code=refused[0], error_message=refused[1], entries=None)
    kept = broker.catalogue.client_quotas
    wanted = {component.entity_type: component for component in request.components}

    def steps() -> Steps[DescribeClientQuotasResponse]:
        found: dict[tuple[tuple[str, str | None], ...], EntryData] = {}
        for number, record in enumerate(kept):
            if number % PACE == PACE - 1:
                yield None
            entity = {one.entity_type: one.entity_name for one in record.entity}
            if not _means(wanted, entity, strict=request.strict):
                continue
            key = tuple(sorted(entity.items()))
            if key not in found:
                named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
                found[key] = EntryData(entity=named)
            found[key].values.append(ValueData(key=record.key, value=record.value))
        return DescribeClientQuotasResponse(entries=list(found.values()))

    return sliced(broker, context, steps())


def _refusal(components: Sequence[ComponentData]) -> tuple[ErrorCode, str] | None:
    seen: set[str] = set()
    for one in components:
        text = None
        if not one.entity_type:
            text = "Invalid empty entity type."
        elif one.entity_type in seen:
            text = f"Entity type {one.entity_type} cannot appear more than once in the filter."
        elif one.entity_type not in _TYPES:
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}"
        elif one.match_type not in (_EXACT, _DEFAULT, _ANY):
            text = f"Unknown match type {one.match_type}"
        elif one.match_type == _EXACT and one.match is None:
            text = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        elif one.match_type != _EXACT and one.match is not None:
            kind = "DEFAULT" if one.match_type == _DEFAULT else "SPECIFIED"
            text = f"Request specified MATCH_TYPE_{kind}, but also specified a match string."
        if text is not None:
            return ErrorCode.INVALID_REQUEST, text
        seen.add(one.entity_type)
    if "ip" in seen and len(seen) > 1:
        return (
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component.",
        )
    return None


def _means(wanted: Mapping[str, ComponentData], entity: Mapping[str, str | None], *, strict: bool) -> bool:
    for kind, one in wanted.items():
        if kind not in entity:
            return False
        if one.match_type == _EXACT and entity[kind] != one.match:
            return False
        if one.match_type == _DEFAULT and entity[kind] is not None:
            return False
    return not strict or len(wanted) == len(entity)


def alter_client_quotas(
    broker: Broker, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse | Deferred:
    """Set and remove quotas; what can be done is, all of it or, after a crash, nothing."""
    deferred = Deferred()
    return deferring(broker, context, deferred, _altering(broker, context, request, deferred))


def _altering(
    broker: Broker, context: RequestContext, request: AlterClientQuotasRequest, deferred: Deferred
) -> Steps[None]:
    refused: Refusal | None = None
    if not authorize(context, Operation.ALTER_CONFIGS, ResourceType.CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        refused = code, code.message
    wishes: list[Alteration] = []
    count = 0
    for entry in request.entries:
        count += max(len(entry.ops), 1)
        if refused is None and count > MOST_ALTERATIONS:
            refused = ErrorCode.INVALID_REQUEST, f"One request may alter {MOST_ALTERATIONS} quotas"
        entity = tuple({part.entity_type: part.entity_name for part in entry.entity}.items())
        ops = () if refused is not None else tuple((op.key, None if op.remove else op.value) for op in entry.ops)
        wishes.append(Alteration(entity, ops))
        if not len(wishes) % PACE:
            yield None
    if refused is not None:
        deferred.complete((yield from _all_refused(wishes, refused)))
        return

    def answer(result: Result) -> None:
        if result.error:
            told = (result.error, result.message or result.error.message)
            deferred.complete(_altered({wish.entity: told for wish in wishes}))
            return
        if not request.validate_only:
            for wish in result.value.done:
                for key, value in wish.ops:
                    entity = {kind: "<default>" if name is None else name for kind, name in wish.entity}
                    log.info(
                        "quota_removed" if value is None else "quota_set",
                        entity=entity,
                        quota=key,
                        value=value,
                        by=context.principal,
                        host=context.host,
                    )
        deferred.complete(_altered(result.value.verdicts))

    broker.catalogue.alter_quotas(wishes, answer, validate_only=request.validate_only)


def _all_refused(wishes: Sequence[Alteration], refusal: Refusal) -> Steps[AlterClientQuotasResponse]:
    entries: dict[EntityKey, AlteredEntity] = {}
    for count, wish in enumerate(wishes, start=1):
        if wish.entity not in entries:
            entries[wish.entity] = _altered_entity(wish.entity, refusal)
        if not count % PACE:
            yield None
    return AlterClientQuotasResponse(entries=list(entries.values()))


def _altered(verdicts: Mapping[EntityKey, Refusal | None]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_altered_entity(*verdict) for verdict in verdicts.items()])


def _altered_entity(entity: EntityKey, refusal: Refusal | None) -> AlteredEntity:
    return AlteredEntity(
        error_code=ErrorCode.NONE if refusal is None else refusal[0],
        error_message=None if refusal is None else refusal[1],
        entity=[AlteredEntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )
