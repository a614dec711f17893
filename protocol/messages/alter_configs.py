"""AlterConfigs: the whole set of a resource's overrides, replaced."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class AlterableConfig(Struct):
    """One override."""

    name: str = field(String)
    value: str | None = field(Nullable(String))


@struct
class AlterConfigsResource(Struct):
    """One resource and its overrides."""

    resource_type: int = field(Int8)  # as in DescribeConfigs
    resource_name: str = field(String)
    configs: list[AlterableConfig] = field(Array(AlterableConfig))


@message(api_key=ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible_from=2)
class AlterConfigsRequest(Message):
    """Resources with all their overrides: what is not named falls back. Source: KIP-133."""

    resources: list[AlterConfigsResource] = field(Array(AlterConfigsResource))
    validate_only: bool = field(Bool)


@struct
class AlterConfigsResourceResponse(Struct):
    """The result of one resource."""

    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    resource_type: int = field(Int8)  # as in DescribeConfigs
    resource_name: str = field(String)


@message(api_key=ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible_from=2)
class AlterConfigsResponse(Message):
    """What became of each resource."""

    throttle_time_ms: int = field(Int32)
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))
