"""Levels of the broker's loggers: `root`, those of rooms and of modules. Source: KIP-412."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.handlers import altered_configs, configs
from broker.loop import logs
from protocol.errors import ErrorCode
from protocol.messages import describe_configs as describe
from protocol.messages import incremental_alter_configs as incremental
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.handlers.test_topic_handlers import Desk
from tests.support.broker_process import Kohort, eventually
from tests.support.wire import Wire

SET, DELETE, APPEND = 0, 1, 2
LOG = logs.get_logger("broker.partitions.moves")
logs.get_logger("broker.partitions.disks")
logs.get_logger("broker.http.server")


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
    every = {one.name: (one.value, one.config_source) for one in described(desk).configs}
    assert every.keys() >= {"root", "broker", "broker.partitions", "broker.partitions.moves"}
    assert set(every.values()) == {("INFO", 6)}
    assert described(desk, keys=["nobody"]).configs == []
    assert [one.name for one in described(desk, keys=["root"]).configs] == ["root"]
    assert alter(desk, "root", "ERROR", validate_only=True) == (ErrorCode.NONE, None)
    assert described(desk).configs[0].value == "INFO"
    assert alter(desk, "root", "DEBUG") == (ErrorCode.NONE, None)
    assert LOG.debugs
    assert described(desk).configs[0].value == "DEBUG"
    assert alter(desk, "root", "WARN") == (ErrorCode.NONE, None)
    assert not LOG.debugs


def test_a_rooms_level_is_its_modules_until_it_is_deleted(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    logs.configure(level="info")
    assert alter(desk, "broker.partitions", "DEBUG") == (ErrorCode.NONE, None)
    keys = ["broker.partitions", "broker.partitions.moves", "broker.partitions.disks", "broker.http"]
    assert {one.name: one.value for one in described(desk, keys=keys).configs} == {
        "broker.partitions": "DEBUG", "broker.partitions.moves": "DEBUG", "broker.partitions.disks": "DEBUG",
        "broker.http": "INFO",
    }  # fmt: skip
    assert LOG.debugs
    assert alter(desk, "broker.partitions", None, DELETE, validate_only=True) == (ErrorCode.NONE, None)
    assert LOG.debugs
    assert alter(desk, "broker.partitions", None, DELETE) == (ErrorCode.NONE, None)
    assert not LOG.debugs
    assert described(desk, keys=["broker.partitions"]).configs[0].value == "INFO"


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


def test_debug_of_one_room_shows_its_lines_and_the_rest_stays(tmp_path: Path) -> None:
    """Of a running broker: decisions that were remembered are told too, once the audit log is asked for them."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Kohort(tmp_path, settings) as broker, Wire(broker.address) as wire:
        wire.create_topic("orders", 1)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])

        def set_level(logger: str, level: str) -> None:
            one = incremental.AlterableConfig(name=logger, config_operation=SET, value=level)
            resource = incremental.AlterConfigsResource(resource_type=8, resource_name="1", configs=[one])
            answer = wire.call(incremental.IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert [one.error_code for one in answer.responses] == [0]

        def ask_nonsense() -> None:
            host, _, port = broker.http.removeprefix("http://").rpartition(":")
            with socket.create_connection((host, int(port))) as http:
                http.sendall(b"nonsense\r\n\r\n")
                while http.recv(4096):
                    pass

        wire.call(asked, 12)
        ask_nonsense()
        assert "DEBUG" not in broker.log()
        set_level("broker.http", "DEBUG")
        wire.call(asked, 12)
        ask_nonsense()
        eventually(lambda: "DEBUG http_refused" in broker.log(), what="a line of the room")
        assert "authorization_allowed" not in broker.log()
        set_level("broker.authorization.audit", "DEBUG")
        wire.call(asked, 12)
        eventually(lambda: "DEBUG authorization_allowed" in broker.log(), what="a line of the audit log")
