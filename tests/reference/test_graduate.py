"""Apache Kafka started on directories that Kohort wrote, and the other way round. Needs Java and Maven."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from coordinator.routing import partition_for
from offline.graduate.partition_files import inspect_partition
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.reference import graduation as g
from tests.support.broker_process import BrokerDiedError, BrokerProcess, eventually, free_port, need
from tests.support.wire import Wire

pytestmark = pytest.mark.slow

DUMP = "org.apache.kafka.tools.DumpLogSegments"
ENDED = pytest.mark.parametrize(
    ("version", "killed"),
    [
        pytest.param("3.9.2", False, id="stopped-3.9.2", marks=pytest.mark.long),
        pytest.param("3.9.2", True, id="killed-3.9.2"),
        pytest.param("4.3.1", False, id="stopped-4.3.1"),
        pytest.param("4.3.1", True, id="killed-4.3.1", marks=pytest.mark.long),
        pytest.param("4.4.0", False, id="stopped-4.4.0"),
        pytest.param("4.4.0", True, id="killed-4.4.0"),
    ],
)


@pytest.fixture
def tidy(request: pytest.FixtureRequest) -> Iterator[Callable[[Any], Any]]:
    """tidy(broker) -> broker, which is killed after the test if it still runs."""
    need("java", "mvn")
    yield from g.ending([])


@ENDED
def test_kafka_goes_on_where_kohort_was_ended_under_load(tmp_path: Path, tidy: Any, version: str, killed: bool) -> None:
    """DD32, DD33, DD34, DD35, DD44: the clients stay; what answers them is another broker.

    Stopped or killed while a producer and a group are at work: every topic, config, record, group and committed offset
    is there, each record once, and nothing is set aside.
    """
    port = free_port()
    kohort = tidy(g.kohort_on(tmp_path / "kohort", port))
    kohort.start()
    g.create(kohort.address, g.TOPIC, retention_ms="-1")
    g.create(kohort.address, "table", 2, cleanup_policy="compact", segment_bytes="1048576")
    g.create(kohort.address, "gone")
    g.write(kohort.address, "table", b"1", b"2", b"3", partition=1)
    g.commit(kohort.address, "simple", "table", 2, partition=1)
    g.delete(kohort.address, "gone")
    load = g.Load(kohort.address)
    load.wait_until_written(1_500)
    before = g.topics(kohort.address)
    if killed:
        kohort.kill()
        refused = g.graduate(kohort, "--check")
        assert refused.returncode == 1 and "the last stop was not a clean one" in refused.stderr
        settings: dict[str, Any] = {}
    else:
        kohort.stop()
        settings = g.graduated(kohort, "--to", version)
    kafka = tidy(g.kafka_on(tmp_path / "kafka", kohort.data, port, version=version, settings=settings))
    kafka.start()

    assert g.topics(kafka.address) == before
    more = load.written + 600
    eventually(lambda: load.written >= more, deadline_s=120)
    load.finish()
    load.check(kafka)
    assert g.overrides(kafka.address, g.TOPIC) == {"retention.ms": "-1"}
    assert g.overrides(kafka.address, "table") == {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    assert g.overrides(kafka.address, "__consumer_offsets")["cleanup.policy"] == "compact"
    assert [value for _, value in g.records(kafka.address, "table", 1)] == [b"1", b"2", b"3"]
    assert g.committed(kafka.address, "simple", "table", 2)[1] == 2
    described = g.tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server", kafka.address, "--describe", "--all-groups", version=version,
    )  # fmt: skip
    assert "readers" in described and "simple" in described
    assert g.strays(kohort.data) == []
    log = kafka.log()
    assert "stray" not in log.lower().replace("strays", "")
    if not killed:
        # The metadata log is read whole at every start.
        recovered = [line for line in log.splitlines() if "Recovering unflushed" in line]
        assert all("__cluster_metadata-0" in line for line in recovered), "a clean stop leaves nothing to recover"
        # While it starts, a Kafka of its own accord may lose leadership for a moment, amid the loading of groups.
        assert [line for line in log.splitlines() if "ERROR" in line and "is no longer the leader" not in line] == []
    kafka.stop()


# A snapshot after every few changes, and nothing of the log below the newest one is left.
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": 400,
    "metadata.max.retention.bytes": 1,
}


def _snapshots(data: Path) -> list[Path]:
    return sorted((data / "__cluster_metadata-0").glob("*.checkpoint"))


def _segments(data: Path) -> list[Path]:
    return sorted((data / "__cluster_metadata-0").glob("*.log"))


@pytest.mark.parametrize(
    ("version", "killed"), [("3.9.2", False), ("4.3.1", True), ("4.4.0", False)], ids=["3.9.2", "4.3.1-killed", "4.4.0"]
)
def test_kafka_starts_on_a_snapshot_that_kohort_made(tmp_path: Path, tidy: Any, version: str, killed: bool) -> None:
    """DD24, DD31, DD32, DD33: the log begins at the snapshot; topics, configs, records and offsets are there."""
    port = free_port()
    kohort = tidy(g.kohort_on(tmp_path / "kohort", port))
    kohort.settings |= SNAPSHOTS
    kohort.start()
    g.create(kohort.address, g.TOPIC, retention_ms="-1")
    g.write(kohort.address, g.TOPIC, *(b"%d" % number for number in range(50)))
    g.commit(kohort.address, "readers", g.TOPIC, 30)
    for number in range(12):
        g.create(kohort.address, f"short-{number}", 1, segment_bytes="1048576")
        if number != 7:
            g.delete(kohort.address, f"short-{number}")
    before = g.topics(kohort.address)
    kohort.kill() if killed else kohort.stop()
    (made,) = _snapshots(kohort.data)
    assert _segments(kohort.data)[0].name == f"{made.name[:20]}.log" > f"{1:020d}.log"
    dumped = g.tool(DUMP, "--cluster-metadata-decoder", "--files", made)
    assert dumped.count("SnapshotHeader") == dumped.count("SnapshotFooter") == 1
    assert '"name":"short-7"' in dumped and "short-6" not in dumped and "Exception" not in dumped
    settings: dict[str, Any] = {} if killed else dict(g.graduated(kohort, "--to", version))

    kafka = tidy(g.kafka_on(tmp_path / "kafka", kohort.data, port, version=version, settings=settings))
    kafka.start()

    assert g.topics(kafka.address) == before
    assert g.overrides(kafka.address, g.TOPIC) == {"retention.ms": "-1"}
    assert g.overrides(kafka.address, "short-7") == {"segment.bytes": "1048576"}
    assert [value for _, value in g.records(kafka.address, g.TOPIC, 0)] == [b"%d" % number for number in range(50)]
    assert g.committed(kafka.address, "readers", g.TOPIC)[0] == 30
    g.write(kafka.address, g.TOPIC, b"50")  # with a producer id that nobody has had
    g.create(kafka.address, "of-kafka")
    assert g.strays(kohort.data) == []
    assert "ERROR" not in "".join(line for line in kafka.log().splitlines() if "is no longer the leader" not in line)
    kafka.stop()
    kohort.start()
    assert sorted(g.topics(kohort.address)) == ["of-kafka", g.TOPIC, "short-7"]
    assert len(g.records(kohort.address, g.TOPIC, 0)) == 51
    kohort.stop()


@pytest.mark.parametrize(
    ("version", "standalone", "snapshots"),
    # Each two of the three together once.
    [
        pytest.param("4.3.1", False, False, marks=pytest.mark.long),
        pytest.param("4.3.1", True, True, marks=pytest.mark.long),
        ("4.4.0", False, True),
        ("4.4.0", True, False),
    ],
    ids=["4.3.1-kraft-0-log", "4.3.1-kraft-1-snapshots", "4.4.0-kraft-0-snapshots", "4.4.0-kraft-1-log"],
)
def test_a_round_trip_keeps_every_record_and_offset(
    tmp_path: Path, tidy: Any, standalone: bool, snapshots: bool, version: str
) -> None:
    """DD36, DD37, DD38: Kafka, Kohort, the same Kafka; topics change at each step.

    With `snapshots` nothing of what Kafka had written to the metadata log is left but what Kohort's snapshot says.
    """
    port = free_port()
    directory = tmp_path / "kafka"
    settings: dict[str, object] = {}
    if standalone:
        settings = {
            "controller.quorum.voters": "",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{port + 1}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        }
        _format_standalone(directory, port, version)
    kafka = tidy(g.Kafka(directory, settings, port=port, environment={"KAFKA_VERSION": version, **g.HEAP}))
    kafka.start()
    g.create(kafka.address, "first", retention_ms="-1")
    g.create(kafka.address, "doomed")
    g.write(kafka.address, "first", *(b"%d" % number for number in range(100)))
    g.commit(kafka.address, "old", "first", 60)
    with_new_protocol = _read_with_new_protocol(kafka, "new", "first", 40)
    _transactions(kafka.address, "first", commit=b"kept", abort=b"dropped")
    kafka.stop()

    kohort = tidy(g.kohort_on(tmp_path / "kohort", port, kafka.data))
    if snapshots:
        kohort.settings |= SNAPSHOTS
    kohort.start()
    at_kohort = g.topics(kohort.address)
    assert {name: count for name, (_, count) in at_kohort.items()} == {"first": 3, "doomed": 3}
    assert len(g.records(kohort.address, "first", 0)) == 100
    assert [value for _, value in g.records(kohort.address, "first", 2)] == [b"kept"]
    assert g.committed(kohort.address, "old", "first")[0] == 60
    assert g.committed(kohort.address, "new", "first")[0] == with_new_protocol
    assert g.overrides(kohort.address, "first") == {"retention.ms": "-1"}
    g.write(kohort.address, "first", *(b"%d" % number for number in range(100, 150)))
    g.create(kohort.address, "second", cleanup_policy="compact")
    g.write(kohort.address, "second", b"a", b"b")
    g.delete(kohort.address, "doomed")
    g.commit(kohort.address, "old", "first", 120)
    before = g.topics(kohort.address)
    assert before["first"] == at_kohort["first"], "the id stays"
    kohort.stop()
    properties = g.graduated(kohort, "--to", version)
    assert ("controller.quorum.bootstrap.servers" in properties) == standalone
    assert (_segments(kafka.data)[0].stem == f"{0:020d}") != snapshots

    again = tidy(g.kafka_on(tmp_path / "again", kafka.data, port, version=version, settings={**settings, **properties}))
    again.start()
    assert g.topics(again.address) == before
    assert [value for _, value in g.records(again.address, "first", 0)] == [b"%d" % number for number in range(150)]
    assert [value for _, value in g.records(again.address, "second", 0)] == [b"a", b"b"]
    assert g.committed(again.address, "old", "first")[0] == 120
    assert g.committed(again.address, "new", "first")[0] == with_new_protocol
    assert g.overrides(again.address, "second") == {"cleanup.policy": "compact"}
    _transactions(again.address, "first", commit=b"and more", abort=b"dropped too")
    assert [value for _, value in g.records(again.address, "first", 2)] == [b"kept", b"and more"]
    assert g.strays(kafka.data) == []
    again.stop()


@ENDED
def test_kohort_goes_on_where_kafka_was_ended_under_load(tmp_path: Path, tidy: Any, version: str, killed: bool) -> None:
    """DD36, DD39: the clients stay; every record that was acknowledged is there once, the group goes on.

    What the storage tool of Kafka 4.4 has formatted no older one starts on, and both sides say so.
    """
    port = free_port()
    environment = {"KAFKA_VERSION": version, **g.HEAP}
    kafka = tidy(g.Kafka(tmp_path / "kafka", {"offsets.topic.num.partitions": 4}, port=port, environment=environment))
    kafka.start()
    g.create(kafka.address, g.TOPIC, retention_ms="-1")
    load = g.Load(kafka.address)
    load.wait_until_written(1_000)
    before = g.topics(kafka.address)
    kafka.kill() if killed else kafka.stop()

    kohort = tidy(g.kohort_on(tmp_path / "kohort", port, kafka.data))
    kohort.start()

    assert g.topics(kohort.address) == before
    # A killed Kafka leaves each active segment an index of 10 MB, of zeros where nobody has written: that is no damage.
    assert " ERROR " not in kohort.log()
    more = load.written + 400
    eventually(lambda: load.written >= more, deadline_s=120)
    load.finish()
    load.check(kohort)
    assert g.strays(kafka.data) == []
    newer = version == "4.4.0"
    assert ("directory_of_newer_kafka oldest=4.4 metadata_version=33" in kohort.log()) == newer
    kohort.stop()
    assert g.graduate(kohort, "--check", "--to", version).returncode == 0
    backwards = g.graduate(kohort, "--check", "--to", "4.3")
    assert backwards.returncode == newer
    assert ("metadata.version is at level 33, and Kafka 4.3 knows it up to 30" in backwards.stderr) == newer


def _format_standalone(directory: Path, port: int, version: str) -> None:
    directory.mkdir()
    config = directory / "format.properties"
    config.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{port + 1}\nlog.dirs={directory / 'data'}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
    )
    g.tool(
        "kafka.tools.StorageTool",
        "format",
        "--standalone",
        "-t",
        "MkU3OEVBNTcwNTJENDM2Qg",
        "-c",
        config,
        version=version,
    )


def _transactions(address: str, topic: str, *, commit: bytes, abort: bytes) -> None:
    """One transaction of each kind, by the same transactional id each time, in partition 2."""
    producer = g.Producer({"bootstrap.servers": address, "transactional.id": "tx", **g.QUIET})
    producer.init_transactions(60)
    for value, end in ((commit, producer.commit_transaction), (abort, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=2)
        producer.flush(30)
        end(30)


def _read_with_new_protocol(broker: BrokerProcess, group: str, topic: str, count: int) -> int:
    """Read so many records as a KIP-848 group, commit, leave; return the committed offset of partition 0."""
    consumer = g.Consumer(
        {"bootstrap.servers": broker.address, "group.id": group, "group.protocol": "consumer",
         "auto.offset.reset": "earliest", "enable.auto.commit": False, **g.QUIET}
    )  # fmt: skip
    consumer.subscribe([topic])
    seen = 0
    while seen < count:
        seen += sum(message.error() is None for message in consumer.consume(count - seen, 1))
    consumer.commit(asynchronous=False)
    consumer.close()
    return seen


def test_kafka_started_by_mistake_beside_kohort(tmp_path: Path, tidy: Any) -> None:
    """DD41: it exits; Kohort ends itself at its next change of metadata, and a restart is consistent."""
    port = free_port()
    kohort = tidy(g.kohort_on(tmp_path / "kohort", port))
    kohort.start()
    g.create(kohort.address, "kept")
    g.write(kohort.address, "kept", b"1")
    kafka = tidy(g.kafka_on(tmp_path / "kafka", kohort.data, free_port()))

    with pytest.raises(BrokerDiedError):
        kafka.start()

    with pytest.raises(KafkaException):
        g.create(kohort.address, "refused")
    eventually(lambda: "another process has written to" in kohort.log() and "stopped" in kohort.log())
    kohort.stop()
    kohort.start()
    g.write(kohort.address, "kept", b"2")
    assert list(g.topics(kohort.address)) == ["kept"]
    assert [value for _, value in g.records(kohort.address, "kept", 0)] == [b"1", b"2"]
    g.create(kohort.address, "possible-again")
    kohort.stop()
    assert g.graduate(kohort, "--check").returncode == 0


def test_kafka_does_not_start_beside_a_foreign_folder(tmp_path: Path, tidy: Any) -> None:
    """DD43: `kohort graduate` says so beforehand."""
    port = free_port()
    kohort = tidy(g.kohort_on(tmp_path / "kohort", port))
    kohort.start()
    kohort.stop()
    (kohort.data / "lost+found").mkdir()

    refused = g.graduate(kohort)
    assert refused.returncode == 1 and "lost+found: it is no partition's folder" in refused.stderr

    with pytest.raises(BrokerDiedError):
        tidy(g.kafka_on(tmp_path / "kafka", kohort.data, port)).start()


def test_kafkas_dump_tool_reads_every_file_that_clients_made_kohort_write(tmp_path: Path, tidy: Any) -> None:
    """Deep iteration, the decoders, and both checks of the indexes; batch for batch what `graduate` has read."""
    kohort = tidy(g.kohort_on(tmp_path / "kohort", free_port()))
    kohort.settings["log.index.interval.bytes"] = 500
    kohort.start()
    g.create(kohort.address, g.TOPIC, segment_bytes="1048576")
    load = g.Load(kohort.address, per_turn=300)
    load.wait_until_written(30_000)
    for number in range(60):
        g.write(kohort.address, g.TOPIC, *[b"%d" % number + b"x" * 20_000] * 3, partition=1)
    load.finish_writing()
    kohort.stop()
    folders = [kohort.data / name for name in (f"{g.TOPIC}-0", f"{g.TOPIC}-1", f"{g.TOPIC}-2")]
    folders += [
        path
        for path in kohort.data.glob("__consumer_offsets-*")
        if any(file.stat().st_size for file in path.glob("*.log"))
    ]
    files = [file for folder in folders for file in sorted(folder.iterdir())]
    assert len(list(folders[1].glob("*.log"))) > 2, "several segments"

    def names(*suffixes: str) -> str:
        return ",".join(str(file) for file in files if file.suffix in suffixes)

    dumped = g.tool(DUMP, "--deep-iteration", "--files", names(".log", ".index", ".timeindex", ".snapshot"))
    checked = g.tool(DUMP, "--index-sanity-check", "--files", names(".index", ".timeindex"))

    for text in (dumped, checked):
        assert not re.search("mismatch|Found|not valid|Exception|isvalid: false", text), text[-3000:]
    indexes = [file for file in files if file.suffix in (".index", ".timeindex")]
    assert [line for line in checked.splitlines() if not line.startswith("Dumping")] == [
        f"{file} is empty." if _without_entries(file) else f"{file} passed sanity check." for file in indexes
    ]
    assert not all(map(_without_entries, indexes))
    ours = [inspect_partition(folder) for folder in folders]
    assert not [problem for one in ours for problem in one.problems]
    assert len(re.findall(r"^\| offset: ", dumped, re.MULTILINE)) == sum(one.record_count for one in ours) > 30_000


def _without_entries(index: Path) -> bool:
    """A segment shorter than `log.index.interval.bytes`; of a time index Kafka's tool does not say so."""
    return index.suffix == ".index" and index.stat().st_size == 0


def _folders(*paths: Path) -> dict[str, set[str]]:
    return {
        path.name: {one.name for one in path.iterdir() if re.fullmatch(r"(orders|later)-\d", one.name)}
        for path in paths
    }


def _moved(address: str, to: Path, topic: str) -> list[int]:
    """Have partition 0 moved; what that and wishes that cannot be met are answered."""
    answers = []
    with Wire(address) as wire:
        for path, name, partition in (
            (to, topic, 0),
            (to / "nowhere", topic, 1),
            (to, "nobody", 0),
            (to, topic, 99),
            (to, "x" * 220, 0),
            (to / "nowhere", "x" * 220, 0),
        ):
            its = [AlterReplicaLogDirTopic(name=name, partitions=[partition])]
            wire.send(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=its)]), 2)
            [result] = wire.receive().results
            answers.append(result.partitions[0].error_code)
    assert answers[0] == 0
    return answers


def test_several_directories_go_from_kohort_to_kafka_and_back(tmp_path: Path, tidy: Any) -> None:
    """JBOD: each partition stays where it lies, whoever put or moved it there, after a clean stop and after a kill."""
    port = free_port()
    one, two = tmp_path / "one", tmp_path / "two"
    kohort = tidy(g.kohort_on(tmp_path / "kohort", port))
    kohort.settings["log.dirs"] = f"{one},{two}"
    kohort.start()
    g.create(kohort.address, "orders", 3)
    for partition in range(3):
        g.write(kohort.address, "orders", b"first", partition=partition)
    g.commit(kohort.address, "group", "orders", 1)
    assert "orders-0" in _folders(one, two)["one"]
    ours = _moved(kohort.address, two, "orders")
    eventually(lambda: "orders-0" in _folders(one, two)["two"], deadline_s=60, what="the partition has moved")
    plan = tmp_path / "plan.json"
    wish = {"topic": "orders", "partition": 1, "replicas": [1], "log_dirs": [str(one)]}
    plan.write_text(json.dumps({"version": 1, "partitions": [wish]}))
    words = ("--bootstrap-server", kohort.address, "--reassignment-json-file", plan, "--execute")
    said = g.tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *words)
    assert f"Successfully started moving log directory to {one}" in said
    eventually(lambda: "orders-1" in _folders(one, two)["one"], deadline_s=60, what="the tool has moved another")
    placed = _folders(one, two)
    assert all(placed.values())
    kohort.stop()
    settings = g.graduated(kohort, "--to", "4.4")
    assert settings["log.dirs"] == f"{one},{two}"

    kafka = tidy(g.kafka_on(tmp_path / "kafka", one, port, version="4.4.0", settings=settings))
    kafka.start()
    g.create(kafka.address, "later", 4)
    for partition in range(3):
        g.write(kafka.address, "orders", b"second", partition=partition)
        assert [value for _, value in g.records(kafka.address, "orders", partition)] == [b"first", b"second"]
    assert g.committed(kafka.address, "group", "orders")[0] == 1
    assert _moved(kafka.address, one, "orders") == ours
    # Kafka gives the copy its name before it takes that of the source away.
    lies = [{"orders-0"}, set()]
    eventually(
        lambda: [its & {"orders-0"} for its in _folders(one, two).values()] == lies,
        deadline_s=60,
        what="Kafka has moved it back",
    )
    placed = {"one": placed["one"] | {"orders-0"}, "two": placed["two"] - {"orders-0"}}
    by_kafka = _folders(one, two)
    assert all(placed[name] < by_kafka[name] for name in placed)
    kafka.kill()

    kohort.start()
    for partition in range(3):
        assert len(g.records(kohort.address, "orders", partition)) == 2
    g.write(kohort.address, "later", b"third", partition=3)
    assert _folders(one, two) == by_kafka
    kohort.kill()
    kohort.start()
    assert len(g.records(kohort.address, "later", 3)) == 1
    kohort.stop()
    kafka.start()
    assert len(g.records(kafka.address, "later", 3)) == 1
    assert _folders(one, two) == by_kafka
    assert g.strays(one) == g.strays(two) == []
    kafka.stop()


def _told(address: str, group: str) -> dict[str, Any]:
    """What a broker says of the topic `orders`, its directories and a group, where that should not differ."""
    with Wire(address) as wire:
        topics = [MetadataRequestTopic(name="orders")]
        wire.send(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        [orders] = wire.receive().topics
        wire.send(DescribeLogDirsRequest(topics=None), 4)
        directories = wire.receive().results
        wire.send(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
        [coordinator] = wire.receive().coordinators
        asked = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name="orders",
                    partitions=[
                        ListOffsetsPartition(partition_index=one.partition_index, timestamp=-1)
                        for one in orders.partitions
                    ],
                )
            ],
        )
        wire.send(asked, 5)
        [offsets] = wire.receive().topics
    return {
        "partitions": sorted(
            (one.partition_index, one.error_code, one.leader_id, one.replica_nodes, one.offline_replicas)
            for one in orders.partitions
        ),
        "directories": {
            Path(one.log_dir).name: (
                one.error_code,
                sorted(p.partition_index for t in one.topics if t.name == "orders" for p in t.partitions),
            )
            for one in directories
        },
        "coordinator": (coordinator.error_code, coordinator.node_id),
        "offsets": sorted((one.partition_index, one.error_code, one.offset) for one in offsets.partitions),
    }


def test_a_start_without_one_of_two_directories_answers_as_kafkas(tmp_path: Path, tidy: Any) -> None:
    """The other's partitions have no leader, its groups no coordinator, and all is there when it is back."""
    port = free_port()
    one, two = tmp_path / "one", tmp_path / "two"
    kohort = tidy(g.kohort_on(tmp_path / "kohort", port))
    kohort.settings["log.dirs"] = f"{one},{two}"
    kohort.start()
    g.create(kohort.address, "orders", 4)
    for partition in range(4):
        g.write(kohort.address, "orders", b"first", partition=partition)
    g.commit(kohort.address, "group", "orders", 1)
    folders = {f"group{at}": f"__consumer_offsets-{partition_for(f'group{at}', 50)}" for at in range(20)}
    places = {name: "one" if (one / folder).exists() else "two" for name, folder in folders.items()}
    lost = next(name for name, place in places.items() if place == "two")
    kept = next(name for name, place in places.items() if place == "one")
    kohort.stop()
    settings = g.graduated(kohort, "--to", "4.4")
    two.rename(tmp_path / "unplugged")
    two.touch()

    kohort.start()
    ours = [_told(kohort.address, group) for group in (lost, kept)]
    kohort.stop()
    kafka = tidy(g.kafka_on(tmp_path / "kafka", one, port, version="4.4.0", settings=settings))
    kafka.start()
    eventually(lambda: _told(kafka.address, kept)["coordinator"] == (0, 1), deadline_s=60)
    eventually(lambda: _told(kafka.address, kept)["offsets"][0][1] == 0, deadline_s=60)
    theirs = [_told(kafka.address, group) for group in (lost, kept)]
    kafka.stop()
    for told, kafkas in zip(ours, theirs, strict=True):
        assert (told["partitions"], told["coordinator"]) == (kafkas["partitions"], kafkas["coordinator"])
        assert told["directories"] == {"one": (0, [0, 2]), "two": (56, [])}
        assert kafkas["directories"]["two"] == (56, [])
        # Kafka may say 6, since it makes an empty log, without a leader, in the directory that is left.
        assert told["offsets"] == [(0, 0, 1), (1, 56, -1), (2, 0, 1), (3, 56, -1)]
    assert [told["coordinator"] for told in ours] == [(15, -1), (0, 1)]

    two.unlink()
    (tmp_path / "unplugged").rename(two)
    for folder in one.iterdir():
        if (two / folder.name).is_dir():  # what Kafka has made, and would itself refuse to start with
            shutil.rmtree(folder)
    kohort.start()
    for partition in range(4):
        assert [value for _, value in g.records(kohort.address, "orders", partition)] == [b"first"]
    kohort.stop()
