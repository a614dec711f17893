"""ApiVersions: which APIs and versions the broker offers; the first request of every connection."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int16, Int32, Int64, Message, Nullable, String, Struct, field, message, struct


@message(api_key=ApiKey.API_VERSIONS, versions=(0, 5), flexible_from=3)
class ApiVersionsRequest(Message):
    """Who is connecting, and to whom it means to. Source: KIP-35, KIP-511, KIP-1242."""

    client_software_name: str = field(String, since=3)
    client_software_version: str = field(String, since=3)
    cluster_id: str | None = field(Nullable(String), since=5, default=None)  # null, and node -1: not known
    node_id: int = field(Int32, since=5, default=-1)


@struct
class ApiVersion(Struct):
    api_key: int = field(Int16)
    min_version: int = field(Int16)
    max_version: int = field(Int16)


@struct
class SupportedFeatureKey(Struct):
    """The levels of a feature that the broker has."""

    name: str = field(String)
    min_version: int = field(Int16)  # 0 only in answers of version 4 on
    max_version: int = field(Int16)


@struct
class FinalizedFeatureKey(Struct):
    """The level of a feature that the cluster is at."""

    name: str = field(String)
    max_version_level: int = field(Int16)
    min_version_level: int = field(Int16)


@message(api_key=ApiKey.API_VERSIONS, versions=(0, 5), flexible_from=3)
class ApiVersionsResponse(Message):
    """What is offered: APIs, and features of the cluster. Source: KIP-35, KIP-584."""

    error_code: int = field(Int16)
    api_keys: list[ApiVersion] = field(Array(ApiVersion))
    throttle_time_ms: int = field(Int32, since=1)
    supported_features: list[SupportedFeatureKey] = field(Array(SupportedFeatureKey), since=3, tag=0)
    finalized_features_epoch: int = field(Int64, since=3, default=-1, tag=1)  # -1: the list says nothing
    finalized_features: list[FinalizedFeatureKey] = field(Array(FinalizedFeatureKey), since=3, tag=2)
    zk_migration_ready: bool = field(Bool, since=3, tag=3)
