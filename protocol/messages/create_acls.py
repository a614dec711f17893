"""CreateAcls: rights given and taken."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class AclCreation(Struct):
    resource_type: int = field(Int8)  # 2: topic, 3: group, 4: cluster, 5: transactional id
    resource_name: str = field(String)
    resource_pattern_type: int = field(Int8, default=3)  # 3: literal, 4: prefixed
    principal: str = field(String)
    host: str = field(String)
    operation: int = field(Int8)
    permission_type: int = field(Int8)  # 2: deny, 3: allow


@message(api_key=ApiKey.CREATE_ACLS, versions=(1, 3), flexible_from=2)
class CreateAclsRequest(Message):
    """ACLs to make. Source: KIP-140, KIP-290."""

    creations: list[AclCreation] = field(Array(AclCreation))


@struct
class AclCreationResult(Struct):
    """What became of one ACL."""

    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))


@message(api_key=ApiKey.CREATE_ACLS, versions=(1, 3), flexible_from=2)
class CreateAclsResponse(Message):
    """A result for each creation, in their order."""

    throttle_time_ms: int = field(Int32)
    results: list[AclCreationResult] = field(Array(AclCreationResult))
