"""`cordoned.log.dirs`: directories that get no new partitions (KIP-1066)."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.catalogue.config_changes import ConfigChange, ConfigOperation
from broker.catalogue.requests import Result
from broker.config.setting_types import SettingsError
from protocol.errors import ErrorCode
from tests.broker.partitions.test_moves import alter
from tests.broker.partitions.test_several_directories import folders, start, write
from tests.support.whole_broker import Whole


def cordon(whole: Whole, value: str) -> ErrorCode:
    results: list[Result] = []
    change = ConfigChange("cordoned.log.dirs", ConfigOperation.SET, value)
    whole.broker.catalogue.alter_configs((4, "1"), [change], results.append)
    whole.runtime.turn()
    return results[0].error


def test_a_cordoned_directory_gets_no_new_partitions_and_serves_the_old_ones(tmp_path: Path) -> None:
    whole = start(tmp_path, cordoned__log__dirs=str(tmp_path / "b"))
    whole.create("t", 3)
    assert folders(tmp_path / "a") == ["t-0", "t-1", "t-2"]
    assert alter(whole, tmp_path / "b") == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert cordon(whole, str(tmp_path / "a")) is ErrorCode.NONE
    whole.create("u", 2)
    assert folders(tmp_path / "b", "u") == ["u-0", "u-1"]
    write(whole, "t", 0, b"taken")
    assert alter(whole, tmp_path / "b") == [ErrorCode.NONE]
    whole.runtime.advance(1_000)
    assert "t-0" in folders(tmp_path / "b")
    assert cordon(whole, "*") is ErrorCode.NONE
    assert whole.create("v", 1) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert whole.stop()
    whole = start(tmp_path)
    assert whole.create("v", 1) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert cordon(whole, "") is ErrorCode.NONE
    assert whole.create("v", 1) is ErrorCode.NONE
    assert whole.stop()


def test_only_log_directories_can_be_cordoned(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"must be present in log\.dirs"):
        start(tmp_path, cordoned__log__dirs=str(tmp_path / "c"))
    with pytest.raises(SettingsError, match="must not contain other values"):
        start(tmp_path, cordoned__log__dirs=f"*,{tmp_path / 'a'}")
    whole = start(tmp_path)
    assert cordon(whole, str(tmp_path / "c")) is ErrorCode.INVALID_REQUEST
    assert whole.stop()
