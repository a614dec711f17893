"""Moves copy no faster than `replica.alter.log.dirs.io.max.bytes.per.second` says by now. Source: KIP-113."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.config.throttles import MOVES, move_rate
from broker.handlers.altered_configs import incremental_alter_configs
from broker.handlers.context import RequestContext
from broker.partitions.move_pace import Pace
from protocol.errors import ErrorCode
from protocol.messages import incremental_alter_configs as incremental
from tests.broker.partitions.test_moves import begin
from tests.broker.partitions.test_several_directories import start, write
from tests.support.whole_broker import Whole


def set_rate(whole: Whole, value: str | None, name: str = MOVES, node: str = "1") -> ErrorCode:
    one = incremental.AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
    resource = incremental.AlterConfigsResource(resource_type=4, resource_name=node, configs=[one])
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource])
    answer: Any = incremental_alter_configs(whole.broker, RequestContext(version=1), request)
    while not answer.done:
        whole.runtime.turn()
    return ErrorCode(answer.response.responses[0].error_code)


def test_what_is_owed_is_paid_at_the_rate_of_the_moment() -> None:
    rate: int | None = 1_000
    pace = Pace(lambda: rate)
    assert pace.wait_ms(5_000) == 0
    pace.copied(700)
    assert pace.wait_ms(5_000) == 700
    assert pace.wait_ms(5_600) == 100
    assert pace.wait_ms(5_700) == 0
    pace.copied(30_000)
    assert pace.wait_ms(5_700) == 1_000  # and then it is asked again
    rate = 100_000
    assert pace.wait_ms(5_700) == 300
    assert (pace.piece_bytes(1 << 20), pace.piece_bytes(1_000)) == (100_000, 1_000)
    rate = 0
    assert pace.wait_ms(60_000_000) == 1_000
    rate = None
    assert pace.wait_ms(60_000_000) == 0
    assert pace.piece_bytes(1 << 20) == 1 << 20


def test_a_move_takes_as_long_as_the_rate_says_and_a_new_rate_counts_at_once(tmp_path: Path) -> None:
    """Two megabytes at 100 KB a second; after ten seconds nobody holds it any more."""
    whole = start(tmp_path)
    whole.create("t", 1)
    for number in range(20):
        write(whole, "t", 0, b"%04d" % number + bytes(100_000))
    assert set_rate(whole, "100000") is ErrorCode.NONE
    begin(whole, tmp_path / "b")
    sizes = []
    for _ in range(10):
        whole.runtime.advance(1_000)
        ((_, _, size, _),) = whole.broker.moves._copies()
        sizes.append(size)
    # A batch, the least that is copied, is a little more than a second's bytes.
    assert [round(size / 100_000) for size in sizes] == pytest.approx(list(range(1, 11)), abs=1.1)
    assert set_rate(whole, None) is ErrorCode.NONE
    whole.runtime.advance(2_000)
    assert whole.broker.moves.ended["moved"] == 1
    assert len(whole.values("t")) == 20
    whole.stop()


def test_at_a_rate_of_nothing_moves_stand_still(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 1)
    write(whole, "t", 0, b"v")
    assert set_rate(whole, "0", node="") is ErrorCode.NONE
    begin(whole, tmp_path / "b")
    whole.runtime.advance(60_000)
    assert whole.broker.moves.ended["moved"] == 0
    assert set_rate(whole, "1000") is ErrorCode.NONE
    whole.runtime.advance(2_000)
    assert whole.broker.moves.ended["moved"] == 1
    whole.stop()


@pytest.mark.parametrize("kind", ["leader.replication", "follower.replication"])
def test_rates_that_mean_nothing_on_one_node_are_kept(tmp_path: Path, kind: str) -> None:
    """What `kafka-reassign-partitions --throttle` sets; a rate below nothing is refused."""
    whole = start(tmp_path)
    assert set_rate(whole, "5000", f"{kind}.throttled.rate") is ErrorCode.NONE
    assert set_rate(whole, "-1", f"{kind}.throttled.rate") is ErrorCode.INVALID_REQUEST
    assert whole.broker.catalogue.configs[4, "1"] == {f"{kind}.throttled.rate": "5000"}
    whole.stop()


def test_the_brokers_own_rate_comes_before_the_clusters() -> None:
    assert move_rate({}, 1) is None
    assert move_rate({(4, ""): {MOVES: "7"}}, 1) == 7
    assert move_rate({(4, ""): {MOVES: "7"}, (4, "1"): {MOVES: "8"}}, 1) == 8
    assert move_rate({(4, "2"): {MOVES: "8"}, (4, "1"): {MOVES: "much"}}, 1) is None
