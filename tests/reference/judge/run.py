"""One run of the judge: both brokers side by side, five lives each, every scenario on both, then the differences.

The first life ("main") has quick groups and nothing that expires. The second ("later") starts on the same directories
with what would disturb the others: an initial rebalance delay, small groups, short retention. The third ("classic") has
the new consumer protocol switched off, and is where features are lowered. In the fourth ("short") producers and
transactional ids expire, nothing is verified and the cleaner comes at once; it ends with a SIGKILL (`_kill`). While
both are "dead", scenarios may change their files. The fifth ("killed") starts on what is left. A scenario may act in
each.

A difference counts when it shows twice: a scenario whose transcripts differ in an unlisted way is played again, alone
with its like, because the machine may have been slow. Scenarios with two acts cannot be.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest
from tests.reference.judge import compare, files, offsets_log, versions
from tests.reference.judge.members import DELAY_MS, T1, T2
from tests.reference.judge.play import Scenario, Script, Transcript
from tests.support.broker_process import BrokerProcess, Kafka, Kohort, eventually
from tests.support.wire import Wire

THREADS = 16
EXPIRATION_MS = 5_000
SETTINGS: dict[str, dict[str, object]] = {
    "main": {
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 300,
        "offsets.retention.check.interval.ms": 600_000,
        "log.retention.check.interval.ms": 3_600_000,
        "num.partitions": 1,
        "group.consumer.assignment.interval.ms": 0,
        # Who leaves nothing behind must not expire on a slow machine.
        "group.consumer.session.timeout.ms": 1_200_000,
        "group.consumer.max.session.timeout.ms": 1_200_000,
        # But in a group that says so.
        "group.consumer.min.session.timeout.ms": 1_000,
        "group.consumer.min.heartbeat.interval.ms": 500,
    },
}
SETTINGS["later"] = SETTINGS["main"] | {
    "group.initial.rebalance.delay.ms": DELAY_MS,
    "group.max.size": 3,
    "offsets.retention.check.interval.ms": 1_000,
    "offsets.retention.minutes": 1,
    "group.consumer.max.size": 2,
    "group.consumer.migration.policy": "upgrade",
}
SETTINGS["classic"] = SETTINGS["main"] | {
    "group.coordinator.rebalance.protocols": "classic",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
SETTINGS["short"] = SETTINGS["main"] | {
    "transactional.id.expiration.ms": EXPIRATION_MS,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 500,
    "producer.id.expiration.ms": EXPIRATION_MS,
    "producer.id.expiration.check.interval.ms": 500,
    "transaction.partition.verification.enable": "false",
    "log.cleaner.backoff.ms": 300,
}
SETTINGS["killed"] = SETTINGS["main"] | {
    "group.consumer.migration.policy": "disabled",
    "group.consumer.max.size": 2,
}
STAGES = ("main", "later", "classic", "short", "dead", "killed")


@dataclass
class Side:
    """One broker and what was seen on it; `by` is the version of Kafka that judges."""

    broker: BrokerProcess
    by: str
    scripts: dict[str, Script] = field(default_factory=dict)
    records: dict[str, list[offsets_log.Entry]] = field(default_factory=dict)

    def play(self, scenarios: Iterable[Scenario], stage: str, attempt: int, threads: int = THREADS) -> None:
        """Play them, several at a time."""

        def one(scenario: Scenario) -> None:
            script = self.scripts.get(scenario.id)
            if script is None or attempt > 0:
                script = self.scripts[scenario.id] = Script(scenario, self.broker.address, attempt, self.by)
                script.data = self.broker.data
            script.names.restarted = stage != "main"
            script.play(stage)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(one, scenarios))

    def read_records(self, stage: str) -> None:
        """Keep the records of the scenarios that end with this stage."""
        found = offsets_log.read(self.broker.address)
        for script in self.scripts.values():
            if list(script.scenario.acts)[-1] == stage:
                self.records[script.own] = found.get(script.own, [])

    def prepare(self) -> None:
        """The topics that scenarios share, and every coordinator loaded."""
        with Wire(self.broker.address, client_id="judge") as wire:
            for topic, partitions in ((T1, 4), (T2, 2)):
                wire.create_topic(topic, partitions)
            wire.call(FindCoordinatorRequest(key="any", key_type=0), 1)
            groups = [f"warm-{i}" for i in range(300)]  # enough to meet every partition
            for group in groups:
                eventually(lambda group=group: wire.committed(group, T1, [0])[0] == 0, deadline_s=60, what="loaded")
            # The first producer ids come from the controller; until then Kafka says that it is loading.
            asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            eventually(lambda: wire.call(asked, 2).error_code == 0, deadline_s=60, what="producer ids")

    def recovered(self) -> None:
        """Wait until no log is recovered any more, which Kohort does behind the open listener."""
        with Wire(self.broker.address, client_id="judge") as wire:
            found = wire.call(MetadataRequest(topics=None), 7).topics
            topics = [
                ListOffsetsTopic(
                    name=topic.name,
                    partitions=[ListOffsetsPartition(partition_index=p.partition_index) for p in topic.partitions],
                )
                for topic in found
            ]
            asked = ListOffsetsRequest(replica_id=-1, topics=topics)

            def is_loading() -> bool:
                answers = wire.call(asked, 4).topics
                return any(p.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER for t in answers for p in t.partitions)

            eventually(lambda: not is_loading(), deadline_s=60, what="logs recovered")


@dataclass
class Result:
    """What a run found. `cut` names the request at which a scenario ended, for a Kafka that does not know it."""

    transcripts: dict[str, Transcript]
    kohort: dict[str, Transcript]
    verdict: compare.Verdict
    broken: dict[str, str]
    records: int
    seconds: float
    cut: dict[str, str]

    def report(self) -> str:
        """The scorecard, and every difference that has no reason."""
        lines = [compare.scorecard(self.transcripts, self.verdict, self.records), f"{self.seconds:.0f} s"]
        if self.cut:
            lines.append(
                f"{len(self.cut)} scenarios end where Kafka does not know a request: {Counter(self.cut.values())}"
            )
        lines += [f"BROKEN {name}: {trace}" for name, trace in self.broken.items()]
        lines += [f"UNLISTED {difference}" for difference in self.verdict.unlisted]
        lines += [f"STALE {row.scenarios} {row.answers} {row.fields}" for row in self.verdict.stale]
        lines += [f"GONE {line}" for line in self.verdict.gone]
        return "\n".join(lines)


def run(directory: Path, scenarios: list[Scenario], rules: compare.Rules, threads: int = THREADS) -> Result:
    """Judge by the version of Kafka that the rules are for; play `threads` scenarios at a time."""
    began = time.monotonic()
    scenarios = [s for s in scenarios if versions.is_since(s.since, rules.by)]
    sides = [
        Side(Kafka(directory / Kafka.name, environment={"KAFKA_VERSION": rules.by}), rules.by),
        Side(Kohort(directory / Kohort.name), rules.by),
    ]
    with ThreadPoolExecutor(2) as pool:

        def on_both(act: Callable[[Side], Any]) -> None:
            list(pool.map(act, sides))

        try:
            for stage in STAGES:
                todo = [s for s in scenarios if stage in s.acts]
                if stage != "main" and not todo:
                    continue
                on_both(lambda side, stage=stage, todo=todo: _live(side, stage, todo, threads))
                if stage == "dead":
                    continue
                for attempt in (1, 2):
                    again = [s for s in todo if len(s.acts) == 1 and _unlisted(s.id, sides, rules)]
                    if not again:
                        break
                    on_both(
                        lambda side, again=again, n=attempt, stage=stage: side.play(again, stage, n, min(threads, 4))
                    )
                on_both(lambda side, stage=stage: side.read_records(stage))
        finally:
            on_both(lambda side: side.broker.stop() if side.broker.pid else None)
    return _judged(scenarios, sides, rules, time.monotonic() - began)


def _live(side: Side, stage: str, todo: list[Scenario], threads: int) -> None:
    if stage == "dead":
        _kill(side.broker)
    elif side.broker.pid:
        side.broker.stop()
    if stage == "dead":
        side.play(todo, stage, 0, 1)
        return
    side.broker.settings = dict(SETTINGS[stage])
    if isinstance(side.broker, Kafka):
        side.broker.settings = {**versions.SETTINGS.get(side.by, {}), **SETTINGS[stage]}
    side.broker.start()
    first = [s for s in todo if s.first]
    side.play(first, stage, 0, 1)
    side.prepare()
    if stage == "killed":
        side.recovered()
    side.play([s for s in todo if not s.first], stage, 0, threads)


def _kill(broker: BrokerProcess) -> None:
    """SIGKILL; Apache Kafka is stopped, and its files then say nothing of that.

    Kafka takes a killed broker for alive until its session is over. Where that happens after its coordinators have
    loaded, partitions lose their leaders under the markers, and a transaction is completed without them.
    """
    if isinstance(broker, Kafka):
        before = files.BeforeStop.of(broker.data)
        broker.stop()
        before.go_back(broker.data)
    else:
        broker.kill()


def _expires(scenario: Scenario) -> bool:
    """Whether every tombstone is the scenario's own."""
    return list(scenario.acts) == ["main"] or scenario.id.startswith("E")


def _unlisted(scenario: str, sides: list[Side], rules: compare.Rules) -> bool:
    kafka, kohort = (side.scripts[scenario].transcript for side in sides)
    if kafka.broke or kohort.broke:
        return True
    found = compare.differences(scenario, kafka, kohort)
    return any(rules.row_of(difference) is None for difference in found)


def _judged(scenarios: list[Scenario], sides: list[Side], rules: compare.Rules, seconds: float) -> Result:
    found: list[compare.Difference] = []
    broken: dict[str, str] = {}
    records = 0
    by_side: list[Mapping[str, Transcript]] = [{k: s.transcript for k, s in side.scripts.items()} for side in sides]
    for scenario in scenarios:
        transcripts = [side[scenario.id] for side in by_side]
        for side, transcript in zip(sides, transcripts, strict=True):
            if transcript.broke:
                broken[f"{scenario.id} on {side.broker.name}"] = transcript.broke
        found += compare.differences(scenario.id, *transcripts)
        logs = []
        for side in sides:
            script = side.scripts[scenario.id]
            logs.append(offsets_log.plain(side.records[script.own], script.names, expiry=_expires(scenario)))
        records += len(logs[0])
        found += compare.record_differences(scenario.id, *logs)
    verdict = compare.Verdict(found, rules, {scenario.id for scenario in scenarios})
    cut = {script.scenario.id: script.cut_at for script in sides[0].scripts.values() if script.cut_at}
    return Result(dict(by_side[0]), dict(by_side[1]), verdict, broken, records, seconds, cut)
