"""`kohort why` without a group: who is in trouble now, on Kohort and on any Kafka; and lag in seconds."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cli.conftest import kohort
from tests.clients import harness, ledger_reading
from tests.clients.ledger_reading import Member, members
from tests.support.broker_process import BrokerProcess, eventually

if TYPE_CHECKING:
    from pathlib import Path


def written(address: str, topic: str, partition: int, count: int, age_s: float) -> None:
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=int((time.time() - age_s) * 1_000))
    assert producer.flush(30) == 0


def committed(address: str, group_id: str, topic: str, partition: int, offset: int) -> None:
    places = [TopicPartition(topic, partition, offset)]
    asked = [ConsumerGroupTopicPartitions(group_id, places)]
    admin = AdminClient({"bootstrap.servers": address})
    admin.alter_consumer_group_offsets(asked)[group_id].result(30)


def test_groups_in_trouble_are_named_worst_first_with_an_exit_code(broker: BrokerProcess, name: str, tmp_path: Path):
    """A group that nobody reads for, and one that reads: a check can tell."""
    waits, reads = f"{name}-waits", f"{name}-reads"
    harness.create_topic(broker.address, name, 3)
    written(broker.address, name, 0, 5, age_s=600)
    written(broker.address, name, 1, 7, age_s=30)
    committed(broker.address, waits, name, 0, 2)
    committed(broker.address, waits, name, 1, 7)
    told = ledger_reading.why(broker.address)
    line = next(line for line in told.stdout.splitlines() if line.startswith(waits))
    assert told.returncode == 1, told
    assert "nobody is in the group, 3 records behind, the first of them 10 min" in line

    with members(Member(broker.address, reads, "worker-1", [name])) as (member,):
        eventually(lambda: member.owned == [0, 1, 2], what="assigned")
        told = ledger_reading.why(broker.address, "--json")
        answer = json.loads(told.stdout)
        mine = {one["group_id"]: one["troubles"] for one in answer["in_trouble"]}
        assert [one["rule"] for one in mine[waits]] == ["nobody_reads"]
        assert reads not in mine

        (described,) = json.loads(kohort("groups", "describe", waits, "--json", "-b", broker.address).out)
        lags = {row["partition"]: (row["lag"], row["lag_seconds"]) for row in described["offsets"]}
        assert lags[1] == (0, 0.0)
        assert lags[0][0] == 3
        assert 600 <= lags[0][1] < 700
        head = kohort("groups", "describe", waits, "-b", broker.address).out.splitlines()[1]
        assert head.split()[-1] == "LAG-SECONDS"
        assert "3 records behind, the first of them 10 min" in ledger_reading.why(broker.address, waits).stdout


def line_of(address: str, group_id: str) -> str | None:
    """What `why` alone says of a group, if it is in trouble."""
    lines = ledger_reading.why(address).stdout.splitlines()
    return next((one for one in lines if one.startswith(f"{group_id} ")), None)


@pytest.mark.slow
def test_a_rebalance_that_hangs_is_the_worst_and_says_whom_it_waits_for(broker: BrokerProcess, name: str):
    harness.create_topic(broker.address, name, 3)
    with members(Member(broker.address, name, "worker-1", [name])) as (first,):
        eventually(lambda: first.owned == [0, 1, 2], what="assigned")
        first.stall(40)
        second = Member(broker.address, name, "worker-2", [name])
        with members(second):
            told = partial(line_of, broker.address, name)
            line = eventually(told, what="seen", deadline_s=60)
            assert "a rebalance has been going on for " in line or "it is rebalancing" in line
            first.stall(0)
