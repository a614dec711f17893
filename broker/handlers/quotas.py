"""DescribeClientQuotas: what the metadata log says of quotas. Nobody is throttled by them here.

Source: KIP-546; Kafka's ClientQuotasImage.describe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.gathering import PACE, Steps, sliced
from protocol.errors import ErrorCode
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
    from broker.handlers.context import Deferred, RequestContext
    from protocol.messages.describe_client_quotas import ComponentData

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
    kept = list(broker.catalogue.state.kept.quotas.values())
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
            text = "Unexpected empty filter component entity type."
        elif one.entity_type in seen:
            text = f"Entity type {one.entity_type} cannot appear more than once in the filter."
        elif one.match_type not in (_EXACT, _DEFAULT, _ANY):
            text = f"Unknown match type {one.match_type}"
        elif one.match_type == _EXACT and one.match is None:
            text = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        elif one.match_type != _EXACT and one.match is not None:
            text = "Request specified a match type without a name, and a name."
        if text is not None:
            return ErrorCode.INVALID_REQUEST, text
        if one.entity_type not in _TYPES:
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}"
        seen.add(one.entity_type)
    if "ip" in seen and len(seen) > 1:
        return ErrorCode.INVALID_REQUEST, "Invalid entity filter component combination: ip stands alone."
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
