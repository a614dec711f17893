"""DescribeCluster: the cluster's id and brokers."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@message(api_key=ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), flexible_from=0)
class DescribeClusterRequest(Message):
    """What to tell of the cluster. Source: KIP-700, KIP-919, KIP-1073."""

    include_cluster_authorized_operations: bool = field(Bool)
    endpoint_type: int = field(Int8, since=1, default=1)  # 1: brokers, 2: controllers
    include_fenced_brokers: bool = field(Bool, since=2)


@struct
class DescribeClusterBroker(Struct):
    """Where a broker is reached."""

    broker_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(Nullable(String), default=None)
    is_fenced: bool = field(Bool, since=2)


@message(api_key=ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), flexible_from=0)
class DescribeClusterResponse(Message):
    """The cluster and its brokers."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String), default=None)
    endpoint_type: int = field(Int8, since=1, default=1)  # as asked
    cluster_id: str = field(String)
    controller_id: int = field(Int32, default=-1)
    brokers: list[DescribeClusterBroker] = field(Array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(Int32, default=-(2**31))  # bits; this is: not asked for
