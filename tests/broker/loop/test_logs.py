"""Log lines: Kafka-like by default, JSON on request, and never forged by a client."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import broker.groups.groups  # noqa: F401  lines about groups have its words
from broker.loop import logs
from broker.loop.logs import get_logger

ROOT = Path(__file__).parents[3]


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    yield io.StringIO()
    logs.configure()


def test_a_line_reads_like_kafkas_with_the_facts_behind_it(stream: io.StringIO):
    logs.configure(stream=stream)
    get_logger("broker.test").info("rebalance_ended", group_id="orders", generation=3, reason=None, leader="a b")

    assert re.fullmatch(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] INFO rebalance_ended "
        r"group_id=orders generation=3 reason=None leader='a b'\n",
        stream.getvalue(),
    )


def test_a_name_that_a_client_chose_cannot_make_a_second_line(stream: io.StringIO):
    logs.configure(stream=stream)
    get_logger("broker.test").warning(
        "connection_closed", client_id="x\n[2026-01-01 00:00:00,000] INFO all_is_well", group='a"=b'
    )

    assert len(stream.getvalue().splitlines()) == 1
    assert "\\n" in stream.getvalue()


def test_json_lines_are_objects_with_trace_and_time(stream: io.StringIO):
    logs.configure(json=True, stream=stream)
    try:
        raise ValueError("a bug")
    except ValueError:
        get_logger("broker.test").exception("request_failed", api="Heartbeat v1")

    fact = json.loads(stream.getvalue())
    assert (fact["event"], fact["level"], fact["api"]) == ("request_failed", "error", "Heartbeat v1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fact["timestamp"])
    assert "a bug" in json.dumps(fact["exception"])


@pytest.mark.parametrize(("level", "expected"), [("debug", 4), ("info", 3), ("warn", 2), ("error", 1), ("off", 0)])
def test_lines_below_the_level_are_not_written(stream: io.StringIO, level: str, expected: int):
    logs.configure(level=level, stream=stream)
    log = get_logger("broker.test")
    for tell in (log.debug, log.info, log.warning, log.error):
        tell("something_happened")

    assert len(stream.getvalue().splitlines()) == expected


def test_a_room_has_a_level_of_its_own_and_its_modules_follow_it(stream: io.StringIO):
    logs.configure(level="warn", stream=stream)
    ours, sibling, other = (get_logger(f"tests.{name}") for name in ("room.ours", "room.sibling", "another.ours"))

    def told() -> str:
        stream.seek(0)
        stream.truncate()
        for log, word in ((ours, "a"), (sibling, "b"), (other, "c"), (get_logger("tests.room.late"), "d")):
            log.debug(word)
        return "".join(line[-1] for line in stream.getvalue().splitlines())

    assert told() == ""
    logs.set_level("tests.room", "debug")
    assert told() == "abd"
    logs.set_level("tests.room.ours", "error")
    logs.set_level(logs.ROOT, "trace")
    assert told() == "bcd"
    names = ("root", "tests", "tests.room", "tests.room.ours", "tests.another.ours")
    assert [logs.levels()[name] for name in names] == ["trace", "trace", "debug", "error", "trace"]
    logs.set_level("tests.room.ours", None)
    logs.set_level("tests.room", None)
    logs.set_level(logs.ROOT, "info")
    assert told() == ""
    logs.configure(level="debug", stream=stream)
    assert told() == "abcd"


@pytest.mark.parametrize("json_lines", [False, True])
def test_a_level_of_one_room_holds_for_lines_of_every_shape(stream: io.StringIO, json_lines: bool):
    """JSON lines and traces go through structlog, which is not to sort out lines a second time."""
    logs.configure(json=json_lines, level="error", stream=stream)
    get_logger("tests.other").error("first")
    logs.set_level("tests.room", "debug")
    get_logger("tests.room").debug("second")
    assert len(stream.getvalue().splitlines()) == 2


def test_a_stream_that_takes_no_more_is_no_reason_to_fail(stream: io.StringIO):
    logs.configure(stream=stream)
    stream.close()
    get_logger("broker.test").error("disk_full")


def _joined(client: str, **facts: object) -> dict[str, object]:
    return {"group_id": "orders", "generation": 7, "member_id": client, "instance_id": None, "reason": None, **facts}


def test_groups_are_told_in_kafkas_own_sentences(stream: io.StringIO):
    """Ledger 7: existing parsers of Kafka's log find the lines they know."""
    logs.configure(stream=stream)
    log = get_logger("broker.test")
    log.info("rebalance_began", **_joined("a-1", trigger="member_joined", state_before="Stable"))
    log.info("rebalance_began", **_joined("a-1", trigger="session_expired", state_before="Stable"))
    log.info("generation_began", group_id="orders", generation=8, members=3)
    log.info("assignment_received", group_id="orders", generation=8, leader="a-1", members=3, static_members=1)
    log.info("session_expired", **_joined("a-1"))
    log.info("member_left", **_joined("a-1", trigger="member_left", reason="the consumer is being closed"))
    log.info("rebalance_ended", group_id="orders", generation=9, outcome="empty")

    said = [line.split(" INFO ", 1)[1] for line in stream.getvalue().splitlines()]
    assert said == [
        "Preparing to rebalance group orders in state PreparingRebalance with old generation 7 (reason: Adding new "
        "member a-1 with group instance id null; client reason: not provided).",
        "Preparing to rebalance group orders in state PreparingRebalance with old generation 7 (reason: removing "
        "member a-1 on heartbeat expiration.).",
        "Stabilized group orders generation 8 with 3 members.",
        "Assignment received from leader a-1 for group orders for generation 8. The group has 3 members, 1 of which "
        "are static.",
        "Member a-1 in group orders has failed, removing it from the group.",
        "[GroupId orders] Dynamic member a-1 has left group through explicit `LeaveGroup` request; client reason: the "
        "consumer is being closed",
        "Group orders with generation 9 is now empty.",
    ]


def test_a_group_cannot_forge_a_line_either(stream: io.StringIO):
    """Group and member ids come from clients."""
    logs.configure(stream=stream)
    get_logger("broker.test").info(
        "generation_began", group_id="x\n[2026-01-01 00:00:00,000] INFO all_is_well", generation=1, members=1
    )

    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("json_lines", [True, False])
def test_whatever_clients_call_themselves_is_one_line_and_not_a_long_one(stream: io.StringIO, json_lines: bool):
    """SE68: line ends, NUL, escape codes and 32 KiB, in names of clients, groups, members and users."""
    logs.configure(json=json_lines, stream=stream)
    log = get_logger("broker.test")
    names = ["x\n" * 16_384, "\r\0\x1b[31m\u2028\u202e\x85", "n" * 32_767]
    for name in names:
        log.info("connection_closed", client_id=name, reason=f"member {name} has gone")
        log.info("generation_began", group_id=name, generation=1, members=1)
        log.info("session_expired", **_joined(name))
        log.info("authentication_failed", user=name, peer="127.0.0.1:1")

    written = stream.getvalue()
    lines = written.splitlines()
    assert len(lines) == written.count("\n") == 4 * len(names)
    assert max(map(len, lines)) < 6 * logs.LONGEST_FACT
    assert not set("\r\0\x1b\x85\u2028\u202e") & set(written)
    if json_lines:
        assert all(isinstance(json.loads(line), dict) for line in lines)


def test_json_keeps_the_facts_of_groups(stream: io.StringIO):
    """Ledger 7: JSON output has the keys."""
    logs.configure(json=True, stream=stream)
    get_logger("broker.test").info("generation_began", group_id="orders", generation=8, members=3)

    fact = json.loads(stream.getvalue())
    assert (fact["event"], fact["group_id"], fact["members"]) == ("generation_began", "orders", 3)


def test_a_plain_line_does_not_load_structlog():
    """A tenth of a second where rich is installed: no line before ready, and none on the loop, should wait for that."""
    program = (
        "import sys; from broker.loop.logs import get_logger; get_logger('broker.test').warning('x', y=1);"
        "print('structlog' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert ended.stdout == "False\n"
    assert "WARN x y=1" in ended.stderr
