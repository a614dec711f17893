"""What `kohort why` answers about real clients, question by question; each of these answers was once wrong."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from coordinator.routing import partition_for
from protocol.records.ledger import LEDGER_TOPIC
from tests.clients import harness, ledger_reading
from tests.clients.ledger_reading import Member, members, why
from tests.clients.test_ledger_gap import come_and_go
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, Kohort, eventually

pytestmark = pytest.mark.usefixtures("only_kohort")
DELAY_MS = 1_500


def findings(broker: BrokerProcess, group_id: str) -> dict[str, Any]:
    told = json.loads(why(broker.address, group_id, "--json").stdout)
    return {one["rule"]: one for one in told["findings"]}


def times(text: str) -> list[str]:
    return [line[:8] for line in text.splitlines() if line[:2].isdigit() and line[2:3] == ":"]


@pytest.mark.slow
def test_nobody_is_accused_of_what_administrators_and_settings_do(tmp_path: Path, name: str):
    """Of a topic that grows, whoever notices; of the initial delay; and the answer is the same however it is asked."""
    deployed = f"{name}-deployed"
    settings = {**QUICK_GROUPS, "group.initial.rebalance.delay.ms": DELAY_MS}
    with Kohort(tmp_path / "broker", settings) as broker:
        harness.create_topic(broker.address, name, 3)
        harness.create_topic(broker.address, deployed, 3)
        admin = AdminClient({"bootstrap.servers": broker.address})
        come_and_go(broker, deployed, 3)
        assert findings(broker, deployed)["deploy_churn"]["facts"]["stopped_ms"] < DELAY_MS

        a, b = (Member(broker.address, name, one, [name]) for one in "ab")
        with members(a, b):
            eventually(lambda: a.owned and b.owned)
            for count in (6, 9, 12):
                admin.create_partitions([NewPartitions(name, count)])[name].result(30)
                eventually(lambda count=count: len(a.owned) + len(b.owned) == count, what=f"{count} partitions")
            causes = [trigger for trigger, _ in ledger_reading.first_causes(broker.address, name)]
            assert causes.count("partitions_changed") == 3
            assert findings(broker, name).keys() & {"repeat_offender", "storm", "slow_joiner"} == set()

            b.stall(3)
            c = Member(broker.address, name, "c", [name])
            with members(c):
                eventually(lambda: c.owned)
                records = ledger_reading.records(broker.address, name, "rebalance_ended")
                slow = max(records, key=lambda one: one["duration_ms"] or 0)
                middle = datetime.fromtimestamp((slow["began_at_ms"] + slow["duration_ms"] / 2) / 1_000, UTC)
                until = why(broker.address, name, "--until", middle.strftime("%Y-%m-%dT%H:%M:%S.%f")).stdout
                assert "ended after that time" in until
                assert "has not ended" not in until
                unheard = why(broker.address, name, "--http", "127.0.0.1:1")
                assert "Not looked at, since no broker answers HTTP here" in unheard.stdout
                assert "no broker of this cluster tells of the group there" in unheard.stderr
                text = why(broker.address, "--group", name, "-v").stdout
                assert "moved from " in text
                assert times(text) == sorted(times(text), reverse=True)
                assert times(text) == times(why(broker.address, name).stdout)
                assert "waited 0.0 s" not in text
                assert "for b to rejoin" in text
        eventually(lambda: why(broker.address, name).stdout.startswith(f"group {name}: Empty"), every_s=0.5)
        admin.delete_consumer_groups([name])[name].result(30)
        gone = why(broker.address, name, "--http", broker.http.removeprefix("http://"))
        assert (gone.returncode, gone.stderr) == (0, "")
        assert "the group was deleted by " in gone.stdout


@pytest.mark.slow
def test_what_anybody_writes_into_the_topic_is_left_out_and_said(tmp_path: Path, name: str):
    """Torn records, those of a newer version and of another cluster; those of an older one that lack what is new."""
    with Kohort(tmp_path / "broker", QUICK_GROUPS) as broker:
        harness.create_topic(broker.address, name, 3)
        come_and_go(broker, name, 1)
        before = why(broker.address, name).stdout
        sound = {"version": 1, "kind": "coordinator_loaded", "at_ms": int(time.time() * 1_000), "group_id": name,
                 "group_type": "classic", "generation": 2, "members": 7, "load_ms": 1, "unclean": True}  # fmt: skip
        written = [json.dumps({**sound, **more}) for more in ({"version": 99}, {"cluster_id": "other"})]
        written += [json.dumps(sound)[:40], "", "[]", json.dumps({**sound, "members": {"a": 1}}), "\x00"]
        producer = Producer({"bootstrap.servers": broker.address})

        def write(*values: str) -> None:
            for value in values:
                place = partition_for(name, 50)
                producer.produce(LEDGER_TOPIC, value.encode(), key=name.encode(), partition=place)
            assert producer.flush(30) == 0

        write(*written)
        answer = why(broker.address, name)
        assert answer.returncode == 0
        assert times(answer.stdout) == times(before)
        assert "1 records of the ledger were written by a newer Kohort" in answer.stderr
        assert "1 records of the ledger are another cluster's" in answer.stderr
        write(json.dumps(sound))
        assert "the broker started after a crash" in why(broker.address, name).stdout
