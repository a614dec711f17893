"""UpdateFeatures: raise or lower the finalized levels of features."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class FeatureUpdateKey(Struct):
    """The level that a feature is to have."""

    feature: str = field(String)
    max_version_level: int = field(Int16)  # 0 deletes the feature
    allow_downgrade: bool = field(Bool, until=0)
    upgrade_type: int = field(Int8, since=1, default=1)  # 1: up only, 2: down if nothing is lost, 3: down


@message(api_key=ApiKey.UPDATE_FEATURES, versions=(0, 2), flexible_from=0)
class UpdateFeaturesRequest(Message):
    """Levels to finalize, all or none. Source: KIP-584, KIP-778, KIP-1022."""

    timeout_ms: int = field(Int32, default=60_000)
    feature_updates: list[FeatureUpdateKey] = field(Array(FeatureUpdateKey))
    validate_only: bool = field(Bool, since=1)


@struct
class UpdatableFeatureResult(Struct):
    """Whether one feature has its level."""

    feature: str = field(String)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))


@message(api_key=ApiKey.UPDATE_FEATURES, versions=(0, 2), flexible_from=0)
class UpdateFeaturesResponse(Message):
    """What became of it; from version 2 on as a whole."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    results: list[UpdatableFeatureResult] = field(Array(UpdatableFeatureResult), until=1)
