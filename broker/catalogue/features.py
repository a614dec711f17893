"""Features of the cluster: which levels are built, and what may happen to those that are finalized. Pure.

Source: KIP-584, KIP-778, KIP-1022; Kafka's FeatureControlManager, MetadataVersion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.catalogue.topic_changes import Refused
from protocol.errors import ErrorCode
from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.catalogue.cluster_state import ClusterState
    from protocol.messages.update_features import FeatureUpdateKey

METADATA_VERSION = "metadata.version"
FEATURES = {"group.version": (0, 1), METADATA_VERSION: (7, 33), "transaction.version": (0, 2)}
"""Name -> the lowest and the highest level that is built."""

_MANY = 1_000
"""Updates of which the first that is unknown refuses all: to take 75,000 together first held the loop for 50 ms."""

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
# Those of Kafka's that are not here can be disabled, which changes nothing.
_ELSEWHERE = frozenset({"eligible.leader.replicas.version", "kraft.version", "share.version", "streams.version"})
# Levels that came with records of a new form: nobody may go back below one.
_NEW_RECORDS = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})


def update(state: ClusterState, node_id: int, updates: Sequence[FeatureUpdateKey]) -> list[Any]:
    """The records that finalize these levels, all of them. Raises: Refused."""
    if len(updates) > _MANY:
        for wish in updates:
            if wish.feature not in FEATURES and wish.feature not in _ELSEWHERE:
                _check(state, node_id, wish)
    made: list[Any] = []
    for wish in {one.feature: one for one in updates}.values():
        _check(state, node_id, wish)
        made.append(records.FeatureLevelRecord(name=wish.feature, feature_level=wish.max_version_level))
    return made


def _check(state: ClusterState, node_id: int, wish: FeatureUpdateKey) -> None:
    why = _reason_against(state, node_id, wish)
    if why is not None:
        raise Refused(
            ErrorCode.INVALID_UPDATE_VERSION,
            "The update failed for all features since the following feature had an error: " + why,
        )


def _reason_against(state: ClusterState, node_id: int, wish: FeatureUpdateKey) -> str | None:
    name, level, kind = wish.feature, wish.max_version_level, wish.upgrade_type
    invalid = f"Invalid update version {level} for feature {name}. "
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return invalid + "The controller does not support the given upgrade type."
    if level < 0:
        return invalid + "A feature version cannot be less than 0."
    low, high = FEATURES.get(name, (0, 0))
    if not low <= level <= high:
        what = f"only supports versions {low}-{high}" if high else "does not support this feature."
        return f"{invalid}Local controller {node_id} {what}"
    if name not in FEATURES and name not in _ELSEWHERE:
        return f"{invalid}Feature {name} not found."
    now = state.features.get(name, 0)
    if level < now and kind == _UPGRADE:
        return (
            invalid + "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if level > now and kind != _UPGRADE:
        return invalid + "Can't downgrade to a newer version."
    if name == METADATA_VERSION and not _NEW_RECORDS.isdisjoint(range(level + 1, now + 1)):
        why = (
            "Unsafe metadata downgrade is not supported in this version."
            if kind == _UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        return f"Unsupported metadata.version downgrade from {now} to {level}. {why}"
    return None
