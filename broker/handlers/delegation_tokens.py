"""The four APIs of delegation tokens, as a broker without a secret for them answers.

Source: KIP-48; Kafka's KafkaApis (allowTokenRequests, handleCreateTokenRequest).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.authorizer import Operation, ResourceType, authorize
from protocol.errors import ErrorCode
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.handlers.context import RequestContext

_NEVER = -1


def create_delegation_token(
    _broker: Broker, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Refused."""
    requester = context.principal.partition(":")
    owner_type, owner_name = requester[0], requester[2]
    if request.owner_principal_name:
        owner_type, owner_name = request.owner_principal_type or "", request.owner_principal_name
    error, owner = _refusal(context), f"{owner_type}:{owner_name}"
    if error is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED:
        of_another = owner != context.principal
        if of_another and not authorize(context, Operation.CREATE_TOKENS, ResourceType.USER, owner):
            error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        elif any(renewer.principal_type != "User" for renewer in request.renewers):
            error = ErrorCode.INVALID_PRINCIPAL_TYPE
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[2],
        issue_timestamp_ms=_NEVER,
        expiry_timestamp_ms=_NEVER,
        max_timestamp_ms=_NEVER,
    )


def renew_delegation_token(
    _broker: Broker, context: RequestContext, _request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Refused."""
    return RenewDelegationTokenResponse(error_code=_refusal(context), expiry_timestamp_ms=_NEVER)


def expire_delegation_token(
    _broker: Broker, context: RequestContext, _request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Refused."""
    return ExpireDelegationTokenResponse(error_code=_refusal(context), expiry_timestamp_ms=_NEVER)


def describe_delegation_token(
    _broker: Broker, context: RequestContext, _request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Refused."""
    return DescribeDelegationTokenResponse(error_code=_refusal(context))


def _refusal(context: RequestContext) -> ErrorCode:
    """Who did not say who it is may not even ask."""
    if context.principal == "User:ANONYMOUS":
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
