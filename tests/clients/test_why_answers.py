"""What `kohort why` answers about real clients, question by question; each of these answers was once wrong."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from coordinator.routing import partition_for
from coordinator.why.terms import duration
from coordinator.why.timeline import timeline
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

        a, b = (Member(broker.address, name, one, [name], max_poll_interval_ms=120_000) for one in "ab")
        with members(a, b):
            eventually(lambda: a.owned and b.owned)
            for count in (6, 9, 12):
                admin.create_partitions([NewPartitions(name, count)])[name].result(30)
                eventually(lambda count=count: len(a.owned) + len(b.owned) == count, what=f"{count} partitions")
            causes = [trigger for trigger, _ in ledger_reading.first_causes(broker.address, name)]
            assert causes.count("partitions_changed") == 3
            assert findings(broker, name).keys() & {"repeat_offender", "storm", "slow_joiner"} == set()

            b.stall(100)
            c = Member(broker.address, name, "c", [name])
            with members(c):
                eventually(lambda: ledger_reading.first_causes(broker.address, name)[-1] == ("member_joined", "c"))
                b.stall(2)
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


class Stranger:
    """A consumer that assigns itself a partition, and commits for a group that it is not in."""

    def __init__(self, broker: BrokerProcess, group_id: str, client_id: str) -> None:
        own = {"bootstrap.servers": broker.address, "group.id": group_id, "client.id": client_id}
        self._consumer = Consumer({**own, "enable.auto.commit": False, "log_level": 0})
        self._place = TopicPartition(group_id, 0, 0)
        self._consumer.assign([self._place])
        self.refused = 0

    def commit(self) -> None:
        """Once more, and be refused."""
        with pytest.raises(KafkaException) as error:
            self._consumer.commit(offsets=[self._place], asynchronous=False)
        assert error.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
        self.refused += 1

    def close(self) -> None:
        """It goes."""
        self._consumer.close()


@pytest.mark.slow
def test_what_happened_once_is_told_once_and_in_one_way(broker: BrokerProcess, name: str):
    """Refused commits in one line, no more lines than asked for, and one duration for one rebalance."""
    assert isinstance(broker, Kohort)
    http = broker.http.removeprefix("http://")
    harness.create_topic(broker.address, name, 3)
    a, b = (Member(broker.address, name, one, [name], max_poll_interval_ms=120_000) for one in "ab")
    with members(a, b):
        eventually(lambda: a.owned and b.owned and len(a.owned) + len(b.owned) == 3)
        other, another, tool = (Stranger(broker, name, one) for one in ("other", "another", "tool"))
        other.commit()
        another.commit()

        def counts() -> list[int]:
            found = ledger_reading.records(broker.address, name, "commits_refused")
            return [one["count"] for one in found if one["client_id"] == "tool"]

        while len(counts()) < 2:  # of two seconds
            tool.commit()
        eventually(lambda: sum(counts()) == tool.refused, what="all are counted")
        lines = why(broker.address, name, "--last", "2").stdout.splitlines()
        told = [line for line in lines if "commits were refused" in line and line[0].isdigit()]
        assert len(told) == 2, lines  # by --last
        assert re.search(rf"  tool's commits were refused {tool.refused} times in \d+\.\d s: it is no member$", told[0])
        assert told[1].endswith("another's commits were refused once: it is no member")
        assert [line.strip() for line in lines if "more that were" in line] == [
            "and 1 more that were no rebalances: --last N shows N"
        ]
        for one in (other, another, tool):
            one.close()

        b.stall(100)
        c = Member(broker.address, name, "c", [name])
        with members(c):
            since = re.compile(r"a rebalance has been going on for (.+?):.*  goes on since (.+?)\n", re.DOTALL)
            going = eventually(lambda: since.search(why(broker.address, name, "--http", http).stdout), every_s=0.3)
            assert going[1] == going[2]
            b.stall(0)
            eventually(lambda: c.owned)
            kinds = "rebalance_began", "rebalance_ended"
            records = eventually(lambda: _at_rest(ledger_reading.records(broker.address, name, *kinds)))
            took_ms = records[-1]["duration_ms"]
            assert records[-1]["ended_at_ms"] - records[-1]["began_at_ms"] == took_ms
            assert timeline(records, now_ms=int(time.time() * 1_000))[0].took_ms == took_ms
            with urlopen(f"{broker.http}/groups/{name}/rebalances?last=1", timeout=120) as answer:
                assert [one["duration_ms"] for one in json.load(answer)["records"] if "duration_ms" in one] == [took_ms]
            [line] = [line for line in why(broker.address, name).stdout.splitlines() if "c (127.0.0.1) joined" in line]
            assert line.split("  ")[2] == duration(took_ms)


def _at_rest(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """They, once the last that began has ended."""
    return records if records[-1]["kind"] == "rebalance_ended" else []


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
        assert "1 record of the ledger was written by a newer Kohort, and is left out" in answer.stderr
        assert "1 record of the ledger is another cluster's, and is left out" in answer.stderr
        write(*written)
        twice = why(broker.address, name).stderr
        assert "2 records of the ledger were written by a newer Kohort, and are left out" in twice
        assert "2 records of the ledger are another cluster's, and are left out" in twice
        write(json.dumps(sound))
        assert "the broker started after a crash" in why(broker.address, name).stdout
