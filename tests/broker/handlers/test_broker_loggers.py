"""Levels of the broker's loggers: there is one, `root`. Source: KIP-412."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.handlers import altered_configs, configs
from broker.loop import logs
from protocol.errors import ErrorCode
from protocol.messages import describe_configs as describe
from protocol.messages import incremental_alter_configs as incremental
from tests.broker.handlers.test_topic_handlers import Desk

SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    logs.configure()


def described(desk: Desk, name: str = "1", keys: list[str] | None = None) -> Any:
    resource = describe.DescribeConfigsResource(resource_type=8, resource_name=name, configuration_keys=keys)
    (result,) = desk.ask(configs.describe_configs, describe.DescribeConfigsRequest(resources=[resource]), 4).results
    return result


def alter(desk: Desk, logger: str, level: str | None, operation: int = SET, node: str = "1", **more: Any) -> Any:
    one = incremental.AlterableConfig(name=logger, config_operation=operation, value=level)
    resource = incremental.AlterConfigsResource(resource_type=8, resource_name=node, configs=[one])
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], **more)
    (result,) = desk.ask(altered_configs.incremental_alter_configs, request, 1).responses
    return ErrorCode(result.error_code), result.error_message


def test_the_level_is_told_and_changed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    logs.configure(level="info")
    assert [(one.name, one.value, one.config_source) for one in described(desk).configs] == [("root", "INFO", 6)]
    assert described(desk, keys=["nobody"]).configs == []
    assert alter(desk, "root", "ERROR", validate_only=True) == (ErrorCode.NONE, None)
    assert described(desk).configs[0].value == "INFO"
    assert alter(desk, "root", "DEBUG") == (ErrorCode.NONE, None)
    assert logs.get_logger().debugs
    assert described(desk).configs[0].value == "DEBUG"
    assert alter(desk, "root", "WARN") == (ErrorCode.NONE, None)
    assert not logs.get_logger().debugs


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (("org.apache.kafka", "DEBUG"), ErrorCode.INVALID_CONFIG, "Logger org.apache.kafka does not exist!"),
        (("root", "LOUD"), ErrorCode.INVALID_CONFIG, "Cannot set the log level of root to LOUD"),
        (("root", None, DELETE), ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger"),
        (("root", "INFO", APPEND), ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
        (("root", "INFO", SET, "7"), ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 7"),
        (("root", "INFO", SET, ""), ErrorCode.INVALID_REQUEST, "Node id must be an integer"),
    ],
)
def test_what_cannot_be_done_has_kafkas_words(tmp_path: Path, change: Any, error: ErrorCode, message: str) -> None:
    code, said = alter(Desk(tmp_path), *change)
    assert code is error
    assert message in said


def test_the_loggers_of_another_broker_are_not_told(tmp_path: Path) -> None:
    assert described(Desk(tmp_path), "7").error_code == ErrorCode.INVALID_REQUEST
