"""Log lines: Kafka-like by default, JSON on request, and never forged by a client."""

import io
import json
import re
from collections.abc import Iterator

import pytest

from broker import logs
from broker.logs import get_logger


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    yield io.StringIO()
    logs.configure()


def test_a_line_reads_like_kafkas_with_the_facts_behind_it(stream: io.StringIO):
    logs.configure(stream=stream)
    get_logger().info("rebalance_ended", group_id="orders", generation=3, reason=None, leader="a b")

    assert re.fullmatch(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] INFO rebalance_ended "
        r"group_id=orders generation=3 reason=None leader='a b'\n",
        stream.getvalue(),
    )


def test_a_name_that_a_client_chose_cannot_make_a_second_line(stream: io.StringIO):
    logs.configure(stream=stream)
    get_logger().warning("connection_closed", client_id="x\n[2026-01-01 00:00:00,000] INFO all_is_well", group='a"=b')

    assert len(stream.getvalue().splitlines()) == 1
    assert "\\n" in stream.getvalue()


def test_json_lines_are_objects_with_trace_and_time(stream: io.StringIO):
    logs.configure(json=True, stream=stream)
    try:
        raise ValueError("a bug")
    except ValueError:
        get_logger().exception("request_failed", api="Heartbeat v1")

    fact = json.loads(stream.getvalue())
    assert (fact["event"], fact["level"], fact["api"]) == ("request_failed", "error", "Heartbeat v1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fact["timestamp"])
    assert "a bug" in json.dumps(fact["exception"])


@pytest.mark.parametrize(("level", "expected"), [("debug", 4), ("info", 3), ("warn", 2), ("error", 1), ("off", 0)])
def test_lines_below_the_level_are_not_written(stream: io.StringIO, level: str, expected: int):
    logs.configure(level=level, stream=stream)
    log = get_logger()
    for tell in (log.debug, log.info, log.warning, log.error):
        tell("something_happened")

    assert len(stream.getvalue().splitlines()) == expected


def test_a_stream_that_takes_no_more_is_no_reason_to_fail(stream: io.StringIO):
    logs.configure(stream=stream)
    stream.close()
    get_logger().error("disk_full")
