"""IncrementalAlterConfigs: single configs set, deleted, appended to or subtracted from."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class AlterableConfig(Struct):
    """One change."""

    name: str = field(String)
    config_operation: int = field(Int8)  # 0: set, 1: delete, 2: append, 3: subtract
    value: str | None = field(Nullable(String))


@struct
class AlterConfigsResource(Struct):
    """One resource and its changes."""

    resource_type: int = field(Int8)  # as in DescribeConfigs
    resource_name: str = field(String)
    configs: list[AlterableConfig] = field(Array(AlterableConfig))


@message(api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible_from=1)
class IncrementalAlterConfigsRequest(Message):
    """Resources with the configs to change; the others stay. Source: KIP-339."""

    resources: list[AlterConfigsResource] = field(Array(AlterConfigsResource))
    validate_only: bool = field(Bool)


@struct
class AlterConfigsResourceResponse(Struct):
    """The result of one resource."""

    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    resource_type: int = field(Int8)  # as in DescribeConfigs
    resource_name: str = field(String)


@message(api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible_from=1)
class IncrementalAlterConfigsResponse(Message):
    """What became of each resource."""

    throttle_time_ms: int = field(Int32)
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))
