"""DescribeAcls: the ACLs that a filter means."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@message(api_key=ApiKey.DESCRIBE_ACLS, versions=(1, 3), flexible_from=2)
class DescribeAclsRequest(Message):
    """Which ACLs are wanted; null and ANY for all. Source: KIP-140, KIP-290."""

    resource_type_filter: int = field(Int8)  # 1: any, 2: topic, 3: group, 4: cluster, 5: transactional id
    resource_name_filter: str | None = field(Nullable(String))
    pattern_type_filter: int = field(Int8, default=3)  # 1: any, 2: match, 3: literal, 4: prefixed
    principal_filter: str | None = field(Nullable(String))
    host_filter: str | None = field(Nullable(String))
    operation: int = field(Int8)
    permission_type: int = field(Int8)  # 1: any, 2: deny, 3: allow


@struct
class AclDescription(Struct):
    """One ACL of a resource."""

    principal: str = field(String)
    host: str = field(String)
    operation: int = field(Int8)
    permission_type: int = field(Int8)  # 2: deny, 3: allow


@struct
class DescribeAclsResource(Struct):
    """The ACLs of one pattern."""

    resource_type: int = field(Int8)
    resource_name: str = field(String)
    pattern_type: int = field(Int8, default=3)
    acls: list[AclDescription] = field(Array(AclDescription))


@message(api_key=ApiKey.DESCRIBE_ACLS, versions=(1, 3), flexible_from=2)
class DescribeAclsResponse(Message):
    """The ACLs, by their patterns."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    resources: list[DescribeAclsResource] = field(Array(DescribeAclsResource))
