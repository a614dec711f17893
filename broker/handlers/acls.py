"""DescribeAcls, CreateAcls, DeleteAcls.

Source: KIP-140, KIP-290; Kafka's AclApis, AclControlManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.authorization.acl_types import Operation, PatternType, Permission, ResourceType
from broker.catalogue.acls import MOST_CREATIONS, MOST_DELETIONS, AclFilter, refusal
from broker.handlers.authorizer import authorize
from broker.handlers.context import CloseConnection, Deferred
from broker.handlers.gathering import deferring, sliced
from broker.loop.logs import get_logger
from broker.loop.slices import Steps
from protocol.errors import ErrorCode
from protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.authorization.authorizer import Authorizer
    from broker.broker import Broker
    from broker.catalogue.acls import Acl, Refusal
    from broker.catalogue.requests import Result
    from broker.handlers.context import RequestContext

log = get_logger(__name__)

_FORBIDDEN: Refusal = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message)
_DISABLED: Refusal = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
_ENTRY_DISABLED: Refusal = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")  # Kafka has two wordings
_UNKNOWN = "a code of an ACL is 0, which stands for nothing"
_A_STEP = 200  # ACLs that are looked at without a pause, a tenth of a millisecond


def _refused(broker: Broker, context: RequestContext, operation: Operation, disabled: Refusal) -> Refusal | None:
    if not authorize(context, operation, ResourceType.CLUSTER):
        return _FORBIDDEN
    return disabled if broker.authorizer is None else None


def _filter(requested: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Raises: CloseConnection."""
    made = AclFilter(
        requested.resource_type_filter,
        requested.resource_name_filter,
        requested.pattern_type_filter,
        requested.principal_filter,
        requested.host_filter,
        requested.operation,
        requested.permission_type,
    )
    if made.has_unknown:
        raise CloseConnection(_UNKNOWN)
    return made


def _found(authorizer: Authorizer, wanted: AclFilter) -> Steps[list[Acl]]:
    """The ACLs that a filter means."""
    exact = wanted.pattern_type > 2 and wanted.resource_type > 1 and wanted.resource_name is not None
    if exact:
        return [one for one in authorizer.acls.exactly(*_place(wanted)) if wanted.means(one)]
    found: list[Acl] = []
    for number, acl in enumerate(list(authorizer.acls)):
        if wanted.means(acl):
            found.append(acl)
        if not (number + 1) % _A_STEP:
            yield None
    return found


def _place(wanted: AclFilter) -> tuple[int, str, int]:
    return wanted.resource_type, wanted.resource_name or "", wanted.pattern_type


def describe_acls(
    broker: Broker, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse | Deferred:
    """The ACLs that the filter means."""
    wanted = _filter(request)
    refused = _refused(broker, context, Operation.DESCRIBE, _DISABLED)
    if refused is not None or broker.authorizer is None:
        code, text = refused or _DISABLED
        return DescribeAclsResponse(error_code=code, error_message=text)
    authorizer = broker.authorizer

    def steps() -> Steps[DescribeAclsResponse]:
        resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
        for acl in (yield from _found(authorizer, wanted)):
            key = (acl.resource_type, acl.resource_name, acl.pattern_type)
            if key not in resources:
                resources[key] = DescribeAclsResource(
                    resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type
                )
            resources[key].acls.append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission_type,
                )
            )
        return DescribeAclsResponse(error_message="", resources=list(resources.values()))

    return sliced(broker, context, steps())


def create_acls(broker: Broker, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse | Deferred:
    """Make those that can be; one that is there already is made too."""
    deferred = Deferred()
    return deferring(broker, context, deferred, _creating(broker, context, request.creations, deferred))


def _creating(
    broker: Broker, context: RequestContext, wishes: Sequence[AclCreation], deferred: Deferred
) -> Steps[None]:
    for number, wish in enumerate(wishes, start=1):
        if 0 in (wish.resource_type, wish.resource_pattern_type, wish.operation, wish.permission_type):
            raise CloseConnection(_UNKNOWN)
        if not number % _A_STEP:
            yield None
    refused = _refused(broker, context, Operation.ALTER, _ENTRY_DISABLED) or _too_many(len(wishes), MOST_CREATIONS)
    if refused is not None:
        deferred.complete(CreateAclsResponse(results=[_created(refused)] * len(wishes)))
        return
    verdicts: list[Refusal | None] = []
    for wish in wishes:
        verdicts.append(refusal(wish))
        if not len(verdicts) % _A_STEP:
            yield None
    good = [wish for wish, verdict in zip(wishes, verdicts, strict=True) if verdict is None]

    def answer(result: Result) -> None:
        failure = (result.error, result.message or result.error.message) if result.error else None
        if failure is None:
            _tell_all(broker, "acl_created", context, good)
        deferred.complete(CreateAclsResponse(results=[_created(verdict or failure) for verdict in verdicts]))

    broker.catalogue.create_acls(good, answer)


def _created(refused: Refusal | None) -> AclCreationResult:
    code, text = refused or (ErrorCode.NONE, "")  # not null, as in Kafka
    return AclCreationResult(error_code=code, error_message=text)


def _too_many(count: int, most: int) -> Refusal | None:
    if count <= most:
        return None
    return ErrorCode.INVALID_REQUEST, f"One request may change {most} ACLs in this way, not {count}"


def delete_acls(broker: Broker, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse | Deferred:
    """Remove what the filters mean; what two of them mean is told with both, and removed once."""
    requested = request.filters
    deferred = Deferred()

    def steps() -> Steps[list[list[Acl] | Refusal]]:
        filters: list[AclFilter] = []
        for one in requested:
            filters.append(_filter(one))
            if not len(filters) % _A_STEP:
                yield None
        refused = _refused(broker, context, Operation.ALTER, _ENTRY_DISABLED) or _too_many(
            len(requested), MOST_DELETIONS
        )
        if refused is not None or broker.authorizer is None:
            return [refused or _ENTRY_DISABLED] * len(requested)
        authorizer = broker.authorizer
        found: list[list[Acl] | Refusal] = []
        for wanted in filters:
            if wanted.is_out_of_range:
                found.append((ErrorCode.INVALID_REQUEST, "The filter has a code that stands for nothing"))
            else:
                found.append((yield from _found(authorizer, wanted)))
            yield None
        return found

    def remove(found: list[list[Acl] | Refusal]) -> None:
        gone = list({acl.id: acl for one in found if isinstance(one, list) for acl in one}.values())
        excess = _too_many(len(gone), MOST_DELETIONS)
        if excess is not None:
            deferred.complete(_deleted([excess] * len(requested)))
            return
        if not gone:
            deferred.complete(_deleted(found))
            return

        def answer(result: Result) -> None:
            if result.error:
                failure = (result.error, result.message or result.error.message)
                deferred.complete(_deleted([failure] * len(requested)))
                return
            _tell_all(broker, "acl_removed", context, gone)
            deferred.complete(_deleted(found))

        broker.catalogue.delete_acls(gone, answer)

    broker.runtime.in_slices(steps(), remove, deferred.fail, owner=context.session, wanted=deferred.is_wanted)
    deferred.raise_failure()
    return deferred


def _deleted(found: Sequence[list[Acl] | Refusal]) -> DeleteAclsResponse:
    results: list[DeleteAclsFilterResult] = []
    refusals: dict[Refusal, DeleteAclsFilterResult] = {}  # one for all that are refused in the same words
    for one in found:
        if isinstance(one, tuple):
            if one not in refusals:
                refusals[one] = DeleteAclsFilterResult(error_code=one[0], error_message=one[1])
            results.append(refusals[one])
        else:
            results.append(DeleteAclsFilterResult(matching_acls=[_matching(acl) for acl in one]))
    return DeleteAclsResponse(filter_results=results)


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _tell_all(broker: Broker, event: str, context: RequestContext, acls: Sequence[AclCreation | Acl]) -> None:
    """For the audit log: who gave or took which rights, a line each."""

    def steps() -> Steps[None]:
        for acl in acls:
            _tell(event, context, acl)
            yield None

    broker.runtime.in_slices(steps(), lambda _: None, _bug, owner=context.session, wanted=lambda: True)


def _bug(error: Exception) -> None:
    raise error


def _tell(event: str, context: RequestContext, acl: AclCreation | Acl) -> None:
    pattern = acl.resource_pattern_type if isinstance(acl, AclCreation) else acl.pattern_type
    log.info(
        event,
        by=context.principal,
        host=context.host,
        permission=Permission(acl.permission_type).name,
        operation=Operation(acl.operation).name,
        principal=acl.principal,
        from_host=acl.host,
        resource=ResourceType(acl.resource_type).name,
        pattern=PatternType(pattern).name,
        name=acl.resource_name,
    )
