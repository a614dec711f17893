"""DeleteAcls: the ACLs that filters mean, removed."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class DeleteAclsFilter(Struct):
    """Which ACLs are to go; null and ANY for all."""

    resource_type_filter: int = field(Int8)  # 1: any, 2: topic, 3: group, 4: cluster, 5: transactional id
    resource_name_filter: str | None = field(Nullable(String))
    pattern_type_filter: int = field(Int8, default=3)  # 1: any, 2: match, 3: literal, 4: prefixed
    principal_filter: str | None = field(Nullable(String))
    host_filter: str | None = field(Nullable(String))
    operation: int = field(Int8)
    permission_type: int = field(Int8)  # 1: any, 2: deny, 3: allow


@message(api_key=ApiKey.DELETE_ACLS, versions=(1, 3), flexible_from=2)
class DeleteAclsRequest(Message):
    """Filters for what is to be removed. Source: KIP-140, KIP-290."""

    filters: list[DeleteAclsFilter] = field(Array(DeleteAclsFilter))


@struct
class DeleteAclsMatchingAcl(Struct):
    """One ACL that is gone."""

    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    pattern_type: int = field(Int8, default=3)
    principal: str = field(String)
    host: str = field(String)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


@struct
class DeleteAclsFilterResult(Struct):
    """What became of one filter."""

    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    matching_acls: list[DeleteAclsMatchingAcl] = field(Array(DeleteAclsMatchingAcl))


@message(api_key=ApiKey.DELETE_ACLS, versions=(1, 3), flexible_from=2)
class DeleteAclsResponse(Message):
    """A result for each filter, in their order."""

    throttle_time_ms: int = field(Int32)
    filter_results: list[DeleteAclsFilterResult] = field(Array(DeleteAclsFilterResult))
