"""Features of the cluster: what may be finalized, and what is written for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.catalogue import features
from broker.catalogue.cluster_state import ClusterState
from broker.catalogue.requests import Result
from broker.catalogue.topic_changes import Refused
from protocol.errors import ErrorCode
from protocol.messages.update_features import FeatureUpdateKey
from protocol.records import metadata_records as records
from tests.support.catalogue_fixture import CatalogueDriver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UP, DOWN_IF_SAFE, DOWN = 1, 2, 3


def wish(name: str, level: int, kind: int = UP) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)


def test_levels_rise_and_fall_as_records() -> None:
    """KIP-584: all of one request, each once; 0 takes a feature away."""
    state = ClusterState(features={"metadata.version": 29, "transaction.version": 2})
    wishes = [
        wish("group.version", 1),
        wish("transaction.version", 0, DOWN),
        wish("metadata.version", 23, DOWN_IF_SAFE),
    ]

    made = features.update(state, 1, wishes)

    assert made == [
        records.FeatureLevelRecord(name="group.version", feature_level=1),
        records.FeatureLevelRecord(name="transaction.version", feature_level=0),
        records.FeatureLevelRecord(name="metadata.version", feature_level=23),
    ]


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (wish("share.version", 1), "Local controller 1 does not support this feature."),
        (wish("nobody", 0, DOWN), "Invalid update version 0 for feature nobody. Feature nobody not found."),
        (wish("group.version", 2), "Local controller 1 only supports versions 0-1"),
        (wish("group.version", -1, DOWN), "cannot be less than 0"),
        (wish("group.version", 1, 0), "does not support the given upgrade type"),
        (wish("group.version", 1, DOWN), "Can't downgrade to a newer version"),
        (wish("transaction.version", 1), "without setting the upgrade type to either safe or unsafe downgrade"),
        (wish("metadata.version", 22, DOWN_IF_SAFE), "might delete metadata information"),
        (wish("metadata.version", 22, DOWN), "Unsafe metadata downgrade is not supported"),
        (wish("metadata.version", 34), "only supports versions 7-33"),
    ],
)
def test_what_cannot_be_finalized_refuses_all_of_a_request(one: FeatureUpdateKey, why: str) -> None:
    """Kafka's FeatureControlManager; metadata.version 23 came with records of a new form."""
    state = ClusterState(features={"metadata.version": 29, "transaction.version": 2})

    with pytest.raises(Refused, match="The update failed for all features") as refused:
        features.update(state, 1, [wish("group.version", 1), one])

    assert why in str(refused.value)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION


def test_a_finalized_level_survives_and_other_brokers_can_be_forgotten(tmp_path: Path) -> None:
    """What is only validated is not written. The broker itself, and one that nobody knows, stay."""
    driver = CatalogueDriver(tmp_path)
    answers: list[Result] = []
    epoch = driver.catalogue.features_epoch
    driver.catalogue.update_features([wish("group.version", 1)], answers.append, validate_only=True)
    driver.runtime.turn()
    assert "group.version" not in driver.catalogue.features
    driver.catalogue.update_features([wish("group.version", 1)], answers.append)
    driver.runtime.turn()
    assert driver.catalogue.features["group.version"] == 1
    assert driver.catalogue.features_epoch > epoch
    for broker_id in (1, 7):
        driver.catalogue.unregister_broker(broker_id, answers.append)
        driver.runtime.turn()

    assert [answer.error for answer in answers] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    ]


def test_a_feature_that_nobody_knows_refuses_a_large_request_at_once() -> None:
    """A megabyte of names, all taken together first, held the loop for 50 ms."""

    class NotAll(list[FeatureUpdateKey]):
        def __iter__(self) -> Iterator[FeatureUpdateKey]:
            yield from self[:1_501]
            raise AssertionError("all of them were looked at")

    known = [wish("group.version", 1)] * 1_500
    with pytest.raises(Refused, match="feature absent-0"):
        features.update(ClusterState(), 1, NotAll(known + [wish(f"absent-{number}", 1) for number in range(2_000)]))


def test_known_features_in_a_large_request_are_finalized_as_their_last_wishes_say() -> None:
    wishes = [wish("group.version", level % 2) for level in range(2_000)]

    made = features.update(ClusterState(), 1, wishes)

    assert made == [records.FeatureLevelRecord(name="group.version", feature_level=1)]
