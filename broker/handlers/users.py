"""DescribeUserScramCredentials, AlterUserScramCredentials.

Source: KIP-554; Kafka's KafkaApis, ScramImage, ScramControlManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.catalogue.users import MOST_ALTERATIONS, mechanisms_by_user
from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.context import Deferred
from broker.handlers.gathering import PACE, sliced, tallied
from broker.loop.logs import get_logger
from broker.loop.slices import Steps
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.broker import Broker
    from broker.catalogue.requests import Result
    from broker.catalogue.users import Refusal, Wish
    from broker.handlers.context import RequestContext

log = get_logger(__name__)

_FORBIDDEN = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def describe_user_scram_credentials(
    broker: Broker, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse | Deferred:
    """Mechanisms and iterations of the users that are named, or of all."""
    allowed = authorize(context, Operation.DESCRIBE, ResourceType.CLUSTER)

    def steps() -> Steps[DescribeUserScramCredentialsResponse]:
        requested = yield from tallied(user.name for user in request.users or ())
        results: list[DescribeUserScramCredentialsResult] = []
        if not allowed:
            for name in requested:
                results.append(_result(name, (_FORBIDDEN, _FORBIDDEN.message)))
                if not len(results) % PACE:
                    yield None
            return DescribeUserScramCredentialsResponse(
                error_code=_FORBIDDEN, error_message=_FORBIDDEN.message, results=results
            )
        kept = mechanisms_by_user(broker.catalogue.credentials)
        for name in requested or kept:
            results.append(_described(name, requested.get(name, 1), kept.get(name)))
            if not len(results) % PACE:
                yield None
        return DescribeUserScramCredentialsResponse(results=results)

    return sliced(broker, context, steps())


def _described(name: str, times: int, found: list[tuple[int, int]] | None) -> DescribeUserScramCredentialsResult:
    if times > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return _result(name, (ErrorCode.DUPLICATE_RESOURCE, text))
    if found is None:
        text = f"Attempt to describe a user credential that does not exist: {name}"
        return _result(name, (ErrorCode.RESOURCE_NOT_FOUND, text))
    infos = [CredentialInfo(mechanism=mechanism, iterations=iterations) for mechanism, iterations in sorted(found)]
    return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)


def _result(name: str, refusal: Refusal) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=name, error_code=refusal[0], error_message=refusal[1])


def alter_user_scram_credentials(
    broker: Broker, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse | Deferred:
    """Set and remove credentials; what can be done is, all of it or, after a crash, nothing."""
    wishes: list[Wish] = [*request.deletions, *request.upsertions]
    refusal: Refusal | None = None
    if not authorize(context, Operation.ALTER, ResourceType.CLUSTER):
        refusal = _FORBIDDEN, _FORBIDDEN.message
    elif len(wishes) > MOST_ALTERATIONS:
        refusal = ErrorCode.INVALID_REQUEST, f"One request may alter {MOST_ALTERATIONS} users, not {len(wishes)}"
    if refusal is not None:
        return sliced(broker, context, _refused(wishes, refusal))
    deferred = Deferred()

    def answer(result: Result) -> None:
        if result.error:
            told = (result.error, result.message or result.error.message)
            deferred.complete(_altered(dict.fromkeys((wish.name for wish in wishes), told)))
            return
        for wish in wishes:
            if result.value[wish.name] is None:
                event = "scram_credential_removed"
                if isinstance(wish, ScramCredentialUpsertion):
                    event = "scram_credential_set"
                log.info(event, user=wish.name, mechanism=wish.mechanism, by=context.principal, host=context.host)
        deferred.complete(_altered(result.value))

    broker.catalogue.alter_users(request.deletions, request.upsertions, answer)
    return deferred


def _refused(wishes: Sequence[Wish], refusal: Refusal) -> Steps[AlterUserScramCredentialsResponse]:
    times = yield from tallied(wish.name for wish in wishes)
    results: list[AlterUserScramCredentialsResult] = []
    for name in times:
        results.append(_alteration(name, refusal))
        if not len(results) % PACE:
            yield None
    return AlterUserScramCredentialsResponse(results=results)


def _altered(verdicts: dict[str, Refusal | None]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(results=[_alteration(name, refusal) for name, refusal in verdicts.items()])


def _alteration(name: str, refusal: Refusal | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=name,
        error_code=ErrorCode.NONE if refusal is None else refusal[0],
        error_message=None if refusal is None else refusal[1],
    )
