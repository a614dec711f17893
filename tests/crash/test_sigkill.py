"""The broker is killed by SIGKILL while clients commit and produce, and started again. It has two log directories, and
partitions are on their way from one to the other when it is killed.

20 rounds in CI, 3 in a plain `make test`, `make crash ROUNDS=1000` for the long run. A run prints its seed;
KOHORT_CRASH_SEED repeats its moments.
"""

import os
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient

from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.clients import harness
from tests.clients.harness import Worker
from tests.crash import load
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, eventually
from tests.support.wire import Wire

ROUNDS = int(os.environ.get("KOHORT_CRASH_ROUNDS", "20" if os.environ.get("CI") else "3"))
CLIENTS = ("aiokafka", "confluent", "kafka_python", "franz")


@pytest.mark.xdist_group("crash")
def test_sigkill_under_load_loses_nothing_acknowledged(
    start_broker: Callable[..., BrokerProcess], spawn: Callable[..., Worker], tmp_path: Path
):
    """CR01, CR02, CR03, CR05, CR08, TX11, P01: see `docs/scenarios/crash.md`."""
    seed = int(os.environ.get("KOHORT_CRASH_SEED", random.randrange(1 << 32)))
    print(f"KOHORT_CRASH_SEED={seed}, {ROUNDS} rounds")
    chance = random.Random(seed)
    disks = tmp_path / "one", tmp_path / "two"
    broker = start_broker({**QUICK_GROUPS, "num.partitions": 2, "log.dirs": ",".join(map(str, disks))})
    topic = "load"
    harness.create_topic(broker.address, topic)
    groups = {
        client: [
            spawn(
                client,
                mode="group",
                bootstrap=broker.address,
                topic=topic,
                group=f"group-{client}",
                assignor="range",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=20_000,
                commit_every_ms=50,
                client_id=f"{client}-{n}",
            )
            for n in range(2)
        ]
        for client in CLIENTS
    }
    for workers in groups.values():
        harness.wait_until_shared(workers)
    producers = load.Producers(broker.address, topic)
    committers = load.Committers(broker.address, topic)
    down_ms, moves = [], 0

    for number in range(ROUNDS):
        wait_until_all_advance(groups, producers, committers)
        moves += move_some(broker, chance, topic, disks)
        time.sleep(chance.uniform(0, 0.3))  # the moment of the blow, not a wait for anything
        topic_id = create_by_metadata(broker, f"made-{number}") if number % 2 == 0 else None
        # What has been acknowledged by now must survive; a copy, since acknowledgements go on until the blow.
        committed = dict(committers.acknowledged)
        produced = dict(producers.acknowledged)
        positions = {client: load.committed_by(workers) for client, workers in groups.items()}

        broker.kill()
        broker.start()

        down_ms.append(broker.start_ms)
        load.check_commits(broker, committers, committed)
        for client, seen in positions.items():
            load.check_group(broker, f"group-{client}", topic, seen)
        for key, end in ends_of(broker, topic).items():
            least = sum(count for (_, partition), count in produced.items() if partition == key)
            assert end >= least, f"partition {key} ends at {end}, {least} had been acknowledged"
        if topic_id is not None:
            assert id_of(broker, f"made-{number}") == topic_id

    wait_until_all_advance(groups, producers, committers)
    producers.stop()
    committers.stop()
    assert not producers.errors, producers.errors[:5]
    assert not committers.errors, committers.errors[:5]
    load.check_records(broker, producers, producers.sent)
    written = ends_of(broker, topic)
    for workers in groups.values():
        harness.wait_until_read(workers, written, deadline_s=120)
        for worker in workers:
            worker.leave()
        harness.check_reads(workers, written)
    assert len(re.findall(r"partition_moved ", broker.log())) > 0, f"{moves} were begun"
    for key in range(harness.PARTITIONS):
        assert sum((disk / f"{topic}-{key}").exists() for disk in disks) == 1
    print(f"start to ready after SIGKILL: {min(down_ms):.0f} to {max(down_ms):.0f} ms")


def wait_until_all_advance(
    groups: dict[str, list[Worker]], producers: load.Producers, committers: load.Committers
) -> None:
    """CR03: every client gets new acknowledgements: groups go on, commits and records are accepted."""
    for client, workers in groups.items():
        load.until_resumed(
            lambda workers=workers: sum(len(worker.seen("committed")) for worker in workers),
            what=f"the group of {client} commits again: {[worker.events[-3:] for worker in workers]}",
        )
    load.until_resumed(
        lambda: min(producers.acknowledged[codec, 0] for codec in producers.CODECS), what="producers go on"
    )
    load.until_resumed(lambda: sum(committers.acknowledged.values()), what="commits go on")


def move_some(broker: BrokerProcess, chance: random.Random, topic: str, disks: tuple[Path, Path]) -> int:
    """Have the topic's partitions, and some of the groups', lie in this directory or that one; how many."""
    wishes: dict[Path, list[tuple[str, int]]] = {disk: [] for disk in disks}
    keys = [(topic, partition) for partition in range(harness.PARTITIONS)]
    keys += [("__consumer_offsets", chance.randrange(50)) for _ in range(10)]
    for key in keys:
        wishes[chance.choice(disks)].append(key)
    dirs = [
        AlterReplicaLogDir(
            path=str(disk), topics=[AlterReplicaLogDirTopic(name=name, partitions=[index]) for name, index in its]
        )
        for disk, its in wishes.items()
    ]
    with Wire(broker.address) as wire:
        wire.send(AlterReplicaLogDirsRequest(dirs=dirs), 2)
        for result in wire.receive().results:
            for partition in result.partitions:
                assert partition.error_code in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE), result
    return len(keys)


def ends_of(broker: BrokerProcess, topic: str) -> dict[int, int]:
    """The end offset by partition, once all are recovered: after a crash that goes on behind the open listener."""
    with Wire(broker.address) as wire:

        def told() -> dict[int, int]:
            found = wire.end_offsets(topic, list(range(harness.PARTITIONS)))
            codes = {code for code, _ in found.values()}
            assert codes <= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}, codes
            return {partition: end for partition, (_, end) in found.items()} if codes == {ErrorCode.NONE} else {}

        return eventually(told, deadline_s=60, what="every partition is recovered")


def create_by_metadata(broker: BrokerProcess, name: str) -> str:
    """CR05: have a producer's Metadata request create a topic; its id."""
    producer = ck.Producer({"bootstrap.servers": broker.address, **load.QUIET})
    producer.produce(name, b"first")
    assert producer.flush(60) == 0
    return id_of(broker, name)


def id_of(broker: BrokerProcess, name: str) -> str:
    """The id of a topic."""
    admin = AdminClient({"bootstrap.servers": broker.address, **load.QUIET})
    [future] = admin.describe_topics(ck.TopicCollection([name])).values()
    found = future.result(60)
    assert len(found.partitions) == 2
    return str(found.topic_id)
