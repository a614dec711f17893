"""DescribeConfigs: the configs of resources, and where each value comes from."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class DescribeConfigsResource(Struct):
    """One resource, and which of its configs; null is all."""

    resource_type: int = field(Int8)  # 2: topic, 4: broker, 8: broker logger, 16: client metrics, 32: group
    resource_name: str = field(String)
    configuration_keys: list[str] | None = field(Nullable(Array(String)))


@message(api_key=ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), flexible_from=4)
class DescribeConfigsRequest(Message):
    """Resources whose configs are wanted. Source: KIP-133, KIP-226, KIP-569."""

    resources: list[DescribeConfigsResource] = field(Array(DescribeConfigsResource))
    include_synonyms: bool = field(Bool)
    include_documentation: bool = field(Bool, since=3)


@struct
class DescribeConfigsSynonym(Struct):
    """A place that the value could come from, the winning one first."""

    name: str = field(String)
    value: str | None = field(Nullable(String))
    source: int = field(Int8)  # as `config_source`


@struct
class DescribeConfigsResourceResult(Struct):
    name: str = field(String)
    value: str | None = field(Nullable(String))
    read_only: bool = field(Bool)
    # 1: topic, 2: broker, 3: cluster, 4: file, 5: default, 8: group.
    config_source: int = field(Int8, default=-1)
    is_sensitive: bool = field(Bool)
    synonyms: list[DescribeConfigsSynonym] = field(Array(DescribeConfigsSynonym))
    # 1: boolean, 2: string, 3: int, 4: short, 5: long, 6: double, 7: list, 8: class, 9: password.
    config_type: int = field(Int8, since=3)
    documentation: str | None = field(Nullable(String), since=3)


@struct
class DescribeConfigsResult(Struct):
    """The configs of one resource, or why there are none."""

    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    resource_type: int = field(Int8)  # as in the request
    resource_name: str = field(String)
    configs: list[DescribeConfigsResourceResult] = field(Array(DescribeConfigsResourceResult))


@message(api_key=ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), flexible_from=4)
class DescribeConfigsResponse(Message):
    """The configs of each resource."""

    throttle_time_ms: int = field(Int32)
    results: list[DescribeConfigsResult] = field(Array(DescribeConfigsResult))
