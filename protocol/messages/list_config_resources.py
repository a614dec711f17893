"""ListConfigResources: of what there are configs."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int8, Int16, Int32, Message, String, Struct, field, message, struct


@message(api_key=ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), flexible_from=0)
class ListConfigResourcesRequest(Message):
    """Types of resources, none for all; version 0 asks for client metrics. Source: KIP-714, KIP-1142."""

    resource_types: list[int] = field(Array(Int8), since=1)


@struct
class ConfigResource(Struct):
    resource_name: str = field(String)
    resource_type: int = field(Int8, since=1, default=16)


@message(api_key=ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), flexible_from=0)
class ListConfigResourcesResponse(Message):
    """The resources of these types."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    config_resources: list[ConfigResource] = field(Array(ConfigResource))
