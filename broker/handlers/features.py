"""UpdateFeatures. What is finalized, ApiVersions tells.

Source: KIP-584; Kafka's QuorumController.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.context import Deferred
from protocol.errors import ErrorCode
from protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.catalogue.requests import Result
    from broker.handlers.context import RequestContext

_FORBIDDEN = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def update_features(
    broker: Broker, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse | Deferred:
    """Finalize levels, all of them or none."""
    if not authorize(context, Operation.ALTER, ResourceType.CLUSTER):
        return UpdateFeaturesResponse(error_code=_FORBIDDEN, error_message=_FORBIDDEN.message)
    deferred = Deferred()

    def answer(result: Result) -> None:
        if result.error:
            deferred.complete(UpdateFeaturesResponse(error_code=result.error, error_message=result.message))
            return
        none = ErrorCode.NONE
        results = [
            UpdatableFeatureResult(feature=name, error_code=none, error_message=none.message)
            for name in dict.fromkeys(update.feature for update in request.feature_updates)
        ]
        deferred.complete(UpdateFeaturesResponse(error_message=None, results=results))

    broker.catalogue.update_features(request.feature_updates, answer, validate_only=request.validate_only)
    return deferred
