"""No step of a scrape holds the loop for long, whatever there is to tell."""

from types import SimpleNamespace
from typing import Any

from broker.groups.figures import GroupFigures
from broker.groups.ledger.standing import StandingFindings
from broker.http.metrics import consumer_groups, rebalances
from broker.http.metrics.exposition import Scrape
from broker.http.metrics.lag import LagTable
from broker.http.metrics.topic_table import TopicTable
from coordinator.view import CommittedOffset
from tests.support.groups_fixture import GroupBroker
from tests.support.groups_fixture import topic as a_topic
from tests.support.steps import longest_step

GROUPS, PARTITIONS = 1_000, 10
STEP_LINES = 10_000  # of Python, about half a millisecond; no step of these takes half as many


class FakeLog:
    """Counts how often the time of a record is asked for."""

    log_start_offset = 0

    def __init__(self) -> None:
        self.looked_up: list[int] = []

    def timestamp_at(self, offset: int) -> int:
        self.looked_up.append(offset)
        return 1_700_000_000_000 - 1_000


def a_broker(groups: int, partitions: int, *, names: str = "group-{}") -> tuple[Any, Scrape]:
    """A broker whose groups have committed 50 of 100 records of every other partition, and all of the others."""
    broker: Any = GroupBroker(a_topic("orders", partitions))
    log = FakeLog()
    table = TopicTable()
    for index in range(partitions):
        fake: Any = SimpleNamespace(topic="orders", index=index, high_watermark=100, log=log, error=None)
        table.open["orders", index] = fake
    for number in range(groups):
        group_id = names.format(number)
        shard = broker.groups.leader_of(group_id).shard
        for index in range(partitions):
            shard.put_offset(group_id, ("orders", index), CommittedOffset(100 if index % 2 else 50, -1, "", 0))
    broker.group_figures = GroupFigures()
    broker.ledger = SimpleNamespace(errors=0)
    broker.standing_findings = StandingFindings(broker.runtime)
    broker.log = log
    app: Any = SimpleNamespace(broker=broker, moments={}, version="0", server=None, keeper=None)
    scrape = Scrape(app)
    scrape.topics = table
    return broker, scrape


def test_no_step_of_a_scrape_is_longer_for_more_groups():
    _, few = a_broker(GROUPS // 10, PARTITIONS)
    _, many = a_broker(GROUPS, PARTITIONS)

    usual, _, _ = longest_step(consumer_groups.section(few))
    longest, steps, text = longest_step(consumer_groups.section(many))

    assert text.count("\nkafka_consumergroup_lag{") == GROUPS * PARTITIONS
    assert steps > GROUPS
    assert longest < 1.1 * usual
    assert longest < STEP_LINES


def test_one_group_with_very_many_partitions_costs_a_step_only_their_sum():
    """Its partitions are sorted in one step and summed up in another: a few lines for each, no line to print."""
    partitions = 20_000
    _, scrape = a_broker(1, partitions)

    longest, steps, _ = longest_step(consumer_groups.section(scrape))

    assert steps > 500
    assert longest < 4 * partitions


def test_many_groups_with_rebalances_are_told_in_steps():
    broker, scrape = a_broker(0, 1)
    for number in range(GROUPS):
        for figures in broker.group_figures._both(f"group-{number}"):
            figures.began("member_joined")
            for phase in ("join", "assign", "sync"):
                figures.phase(phase, 100)

    longest, steps, text = longest_step(rebalances.section(scrape))

    assert steps > GROUPS
    assert text.count("kohort_group_rebalance_seconds_count") == GROUPS * 3
    assert longest < STEP_LINES


def test_the_time_of_a_record_is_read_once_for_as_long_as_the_committed_offset_stays():
    broker, scrape = a_broker(3, 4)
    list(consumer_groups.section(scrape))
    assert broker.log.looked_up == [50] * 6  # what is read to its end needs no reading

    list(consumer_groups.section(scrape))
    assert broker.log.looked_up == [50] * 6
    broker.groups.leader_of("group-1").shard.put_offset("group-1", ("orders", 0), CommittedOffset(60, -1, "", 0))
    list(consumer_groups.section(scrape))

    assert broker.log.looked_up == [50] * 6 + [60]


def test_what_is_remembered_goes_with_its_group():
    broker, scrape = a_broker(3, 4)
    list(consumer_groups.section(scrape))
    shard = broker.groups.leader_of("group-1").shard
    for index in range(4):
        shard.remove_offset("group-1", ("orders", index))

    list(consumer_groups.section(scrape))

    assert scrape.app.moments.keys() == {"group-0", "group-2"}


def test_offsets_beyond_the_end_of_a_partition_are_no_negative_lag():
    broker, scrape = a_broker(1, 1)
    broker.groups.leader_of("group-0").shard.put_offset("group-0", ("orders", 0), CommittedOffset(500, -1, "", 0))
    table = LagTable()
    list(table.gather(broker, scrape.topics.open))

    (row,) = table.rows
    assert (list(row.committed), list(row.lags), list(row.lags_s)) == ([500], [0], [0.0])


def test_a_rebalance_between_two_slices_does_not_end_the_scrape() -> None:
    """A group's first rebalance by another trigger comes while its line is being written."""
    figures = GroupFigures()
    figures.total.began("member_joined")
    figures.total.began("member_left")
    lines = rebalances._by([("", figures.total)], "trigger", lambda one: one.rebalances)
    first = next(lines)
    figures.total.began("session_expired")
    assert [first, *lines] == ['{trigger="member_joined"} 1', '{trigger="member_left"} 1']
