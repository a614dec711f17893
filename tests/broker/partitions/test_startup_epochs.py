"""Opening directories that Apache Kafka had before: snapshots, bootstrap records, voters, epochs, and refusals."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.catalogue.startup import logged_epochs
from broker.catalogue.topic_changes import NewTopic
from protocol.errors import ErrorCode
from protocol.records import batch, control_records
from protocol.records import metadata_records as m
from protocol.records.control_records import ControlKey, ControlType
from storage.directory.log_directory import LogDirectory
from storage.errors import CorruptFile, DirectoryRefused
from tests.support.catalogue_fixture import DIRECTORY_ID, CatalogueDriver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.schema import Message

T0 = 1_700_000_000_000
FOLDER = "__cluster_metadata-0"
LOG = f"{FOLDER}/{0:020d}.log"
TOPIC = bytes(range(16))
OTHER_DIRECTORY = b"\x42" * 16


def control(kind: ControlType, value: Message) -> tuple[bytes, bytes]:
    return ControlKey(version=0, type=kind).encode(0), value.encode(0)


HEADER = control(ControlType.SNAPSHOT_HEADER, control_records.SnapshotHeaderRecord())
FOOTER = control(ControlType.SNAPSHOT_FOOTER, control_records.SnapshotFooterRecord())


def voters(*nodes: tuple[int, bytes]) -> list[tuple[bytes, bytes]]:
    """What a directory of `format --standalone` says: kraft.version 1, and who votes."""
    record = control_records.KRaftVotersRecord(
        voters=[control_records.KRaftVoter(voter_id=node, voter_directory_id=directory) for node, directory in nodes]
    )
    version = control_records.KRaftVersionRecord(kraft_version=1)
    return [control(ControlType.KRAFT_VERSION, version), control(ControlType.KRAFT_VOTERS, record)]


def batches(
    *contents: tuple[bool, Sequence[tuple[bytes | None, bytes]]], base_offset: int = 0, epoch: int = 1
) -> bytes:
    """(is control, pairs) each as one batch, back to back."""
    out = bytearray()
    for is_control, pairs in contents:
        out += batch.encode_pairs(pairs, timestamp=T0, base_offset=base_offset, leader_epoch=epoch, control=is_control)
        base_offset += len(pairs)
    return bytes(out)


def frames(*records: Message, level: int = 21) -> tuple[bool, list[tuple[None, bytes]]]:
    return False, [(None, m.encode_frame(record, metadata_version=level)) for record in records]


def snapshot(*records: Message, more: Sequence[tuple[bytes, bytes]] = (), level: int = 21, epoch: int = 3) -> bytes:
    data = [frames(*records, level=level)] if records else []
    return batches((True, [HEADER, *more]), *data, (True, [FOOTER]), epoch=epoch)


def partition(index: int = 0, **changes: Any) -> m.PartitionRecord:
    fields: dict[str, Any] = {
        "partition_id": index,
        "topic_id": TOPIC,
        "replicas": [1],
        "isr": [1],
        "leader": 1,
        "leader_epoch": 3,
        "partition_epoch": 5,
        "directories": [DIRECTORY_ID],
    }
    return m.PartitionRecord(**(fields | changes))


MV_21 = m.FeatureLevelRecord(name="metadata.version", feature_level=21)
MV_25 = m.FeatureLevelRecord(name="metadata.version", feature_level=25)
T = m.TopicRecord(name="t", topic_id=TOPIC)


def write(directory: Path, name: str, data: bytes) -> Path:
    path = directory / FOLDER / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def read_log(directory: Path, name: str = f"{0:020d}.log") -> list[tuple[int, Any]]:
    """(offset, record) of every record in a segment; control records as their type."""
    data = (directory / FOLDER / name).read_bytes()
    found: list[tuple[int, Any]] = []
    for position, header in batch.iterate_headers(data):
        batch.verify(data, position)
        for record in batch.iterate_records(data, position):
            value = (
                control_records.control_type(record.key) if header.is_control else m.decode_frame(record.value or b"")
            )
            found.append((record.offset, value))
    return found


def test_a_partition_whose_log_is_ahead_gets_the_epoch_after_it(tmp_path: Path) -> None:
    """DD13."""
    write(tmp_path, f"{0:020d}.log", batches(frames(MV_21, T, partition(0), partition(1))))

    driver = CatalogueDriver(tmp_path, clean=True, log_epochs={(TOPIC, 0): 9, (TOPIC, 1): 3})

    topic = driver.catalogue.image.topic("t")
    assert topic is not None and topic.leader_epochs == (10, 3)
    assert read_log(tmp_path)[-1][1] == partition(0, leader_epoch=10, partition_epoch=6)


def test_the_epoch_of_a_log_is_read_from_its_folder_and_belongs_to_its_topic_id(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path)
    directory.create_folders({("t", 0): TOPIC, ("t", 1): TOPIC})
    (tmp_path / "t-0/leader-epoch-checkpoint").write_text("0\n2\n0 0\n9 40\n")
    (tmp_path / "nobodys-0").mkdir()

    assert logged_epochs(directory, directory.scan()) == {(TOPIC, 0): 9, (TOPIC, 1): -1}
    directory.close()


def test_replay_begins_at_the_newest_snapshot(tmp_path: Path) -> None:
    """DD24: a snapshot at 100, a log that starts at 80."""
    covered = [m.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000 * n) for n in range(1, 21)]
    rest = m.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=50_000)
    log = batches(frames(*covered), base_offset=80, epoch=3) + batches(frames(rest), base_offset=100, epoch=3)
    write(tmp_path, f"{80:020d}.log", log)
    write(tmp_path, f"{50:020d}-{3:010d}.checkpoint", snapshot(MV_21))
    write(tmp_path, f"{100:020d}-{3:010d}.checkpoint", snapshot(MV_21, T, partition(), covered[-1]))

    driver = CatalogueDriver(tmp_path)

    topic = driver.catalogue.image.topic("t")
    assert topic is not None and topic.leader_epochs == (3,)
    assert driver.catalogue.state.next_producer_id == 50_000
    assert read_log(tmp_path, f"{80:020d}.log")[21][:1] == (101,), "the log goes on where it ended"
    assert '"leaderEpoch":4' in (tmp_path / FOLDER / "quorum-state").read_text()
    again = CatalogueDriver(tmp_path, seed=1)
    assert again.catalogue.image.names() == ("t",)


def test_a_log_that_starts_above_0_needs_its_snapshot(tmp_path: Path) -> None:
    """DD24: without the snapshot it is refused, and nothing is changed."""
    log = write(tmp_path, f"{80:020d}.log", batches(frames(MV_21), base_offset=80))
    before = log.read_bytes()

    with pytest.raises(CorruptFile, match="does not begin at offset 0"):
        CatalogueDriver(tmp_path)
    assert log.read_bytes() == before
    assert sorted(path.name for path in log.parent.iterdir()) == [log.name]


def test_unfinished_and_obsolete_snapshots_are_ignored(tmp_path: Path) -> None:
    """DD25."""
    write(tmp_path, f"{0:020d}.log", batches(frames(MV_21, T, partition())))
    write(tmp_path, f"{90:020d}-{9:010d}.checkpoint.part", b"half")
    write(tmp_path, f"{70:020d}-{9:010d}.checkpoint.deleted", snapshot(MV_21))

    assert CatalogueDriver(tmp_path).catalogue.image.names() == ("t",)


def test_a_directory_that_holds_only_a_snapshot_goes_on_at_its_end(tmp_path: Path) -> None:
    """Legal, and seen from Kafka."""
    write(tmp_path, f"{100:020d}-{3:010d}.checkpoint", snapshot(MV_21, T, partition()))

    driver = CatalogueDriver(tmp_path)
    assert driver.create("new").error is ErrorCode.NONE

    assert [offset for offset, _ in read_log(tmp_path, f"{100:020d}.log")] == list(range(100, 104))
    assert CatalogueDriver(tmp_path, seed=1).catalogue.image.names() == ("new", "t")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (batches(frames(MV_21)), "does not begin with a snapshot header"),
        (batches((True, [HEADER]), frames(MV_21)), "does not end with a snapshot footer"),
        (snapshot(MV_21)[:-1], "no whole batch"),
        (b"", "does not begin"),
        (snapshot(MV_21)[:-5] + b"\x55" + snapshot(MV_21)[-4:], "CRC"),
    ],
)
def test_a_snapshot_that_is_not_whole_is_refused(tmp_path: Path, data: bytes, what: str) -> None:
    write(tmp_path, f"{100:020d}-{3:010d}.checkpoint", data)

    with pytest.raises(CorruptFile, match=what):
        CatalogueDriver(tmp_path)


def test_a_log_that_ends_below_its_snapshot_is_refused(tmp_path: Path) -> None:
    """Kafka would drop the log; what it holds may be somebody's only copy."""
    write(tmp_path, f"{0:020d}.log", batches(frames(MV_21, T, partition())))
    write(tmp_path, f"{100:020d}-{3:010d}.checkpoint", snapshot(MV_21))

    with pytest.raises(CorruptFile, match="ends at offset 3, the newest snapshot at 100"):
        CatalogueDriver(tmp_path)


def test_a_gap_between_segments_is_refused(tmp_path: Path) -> None:
    write(tmp_path, f"{0:020d}.log", batches(frames(MV_21)))
    write(tmp_path, f"{7:020d}.log", batches(frames(T), base_offset=7))

    with pytest.raises(CorruptFile, match="ends at offset 1"):
        CatalogueDriver(tmp_path)


def test_what_kafka_formatted_a_directory_with_begins_the_log(tmp_path: Path) -> None:
    """The records of bootstrap.checkpoint, inside a metadata transaction."""
    group = m.FeatureLevelRecord(name="group.version", feature_level=1)
    (tmp_path / "bootstrap.checkpoint").write_bytes(snapshot(MV_25, group, epoch=0))

    driver = CatalogueDriver(tmp_path)

    records = [record for _, record in read_log(tmp_path)]
    assert records[:5] == [
        ControlType.LEADER_CHANGE,
        m.BeginTransactionRecord(name="Bootstrap records"),
        MV_25,
        group,
        m.EndTransactionRecord(),
    ]
    assert driver.catalogue.state.features == {"metadata.version": 25, "group.version": 1}
    assert driver.catalogue.broker_epoch == read_log(tmp_path)[5][0] == records[5].broker_epoch
    driver.create("t")
    assert CatalogueDriver(tmp_path, seed=1).catalogue.image.names() == ("t",)
    assert [type(r).__name__ for _, r in read_log(tmp_path)].count("BeginTransactionRecord") == 1, "once"


@pytest.mark.parametrize("data", [b"garbage" * 20, snapshot()])
def test_an_unusable_bootstrap_file_is_refused(tmp_path: Path, data: bytes) -> None:
    """Unreadable, or without a metadata.version."""
    (tmp_path / "bootstrap.checkpoint").write_bytes(data)

    with pytest.raises((CorruptFile, DirectoryRefused), match=r"bootstrap\.checkpoint"):
        CatalogueDriver(tmp_path)
    assert (tmp_path / LOG).read_bytes() == b""


def test_voters_of_a_zero_snapshot_are_read_and_none_are_written(tmp_path: Path) -> None:
    """DD23: kraft.version 1, `quorum-state` version 1."""
    write(tmp_path, f"{0:020d}-{0:010d}.checkpoint", snapshot(more=voters((1, DIRECTORY_ID)), epoch=0))

    CatalogueDriver(tmp_path)

    assert (tmp_path / FOLDER / "quorum-state").read_text() == (
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    kinds = [record for _, record in read_log(tmp_path) if isinstance(record, ControlType)]
    assert kinds == [ControlType.LEADER_CHANGE]
    CatalogueDriver(tmp_path, seed=1)
    assert '"leaderEpoch":2' in (tmp_path / FOLDER / "quorum-state").read_text()


@pytest.mark.parametrize(
    ("log", "what"),
    [
        (frames(MV_21, T, partition(replicas=[1, 2])), r"t-0 has replicas \[1, 2\]"),
        (frames(MV_21, T, partition(adding_replicas=[2])), "t-0 has replicas"),
        (frames(MV_21, T, partition(), partition(1, directories=[OTHER_DIRECTORY])), "t-1 lies in the directory"),
        ((True, voters((1, DIRECTORY_ID), (2, OTHER_DIRECTORY))), "voters of the metadata log are 1 .*, 2 "),
        ((True, voters((1, OTHER_DIRECTORY))), "voters"),
        (frames(m.FeatureLevelRecord(name="metadata.version", feature_level=34)), "metadata.version is at level 34"),
        (frames(MV_21, m.FeatureLevelRecord(name="group.version", feature_level=2)), "group.version is at level 2"),
        (frames(MV_21, m.FeatureLevelRecord(name="tea.version", feature_level=1)), "tea.version"),
        (frames(MV_21, T, partition(1)), "partitions of 't'"),
        (frames(MV_21, m.AccessControlEntryRecord(id=TOPIC)), "ACLs"),
        (
            frames(
                MV_21,
                T,
                partition(),
                m.ConfigRecord(resource_type=2, resource_name="t", name="remote.storage.enable", value="true"),
            ),
            "topic t is tiered",
        ),
    ],
)
def test_what_one_node_cannot_take_over_is_refused_by_name(tmp_path: Path, log: Any, what: str) -> None:
    """DD26, DD27: and nothing is changed."""
    path = write(tmp_path, f"{0:020d}.log", batches(log))
    before = path.read_bytes()

    with pytest.raises(DirectoryRefused, match=what):
        CatalogueDriver(tmp_path)
    assert path.read_bytes() == before


def test_reserved_directory_ids_are_no_directories(tmp_path: Path) -> None:
    unassigned = bytes(15) + b"\x01"
    write(tmp_path, f"{0:020d}.log", batches(frames(MV_21, T, partition(), partition(1, directories=[unassigned]))))

    driver = CatalogueDriver(tmp_path)

    change = m.PartitionChangeRecord(partition_id=1, topic_id=TOPIC, leader=1, directories=[DIRECTORY_ID])
    assert read_log(tmp_path)[-1][1] == change
    assert driver.catalogue.state.topics[TOPIC].partitions[1].directories == (DIRECTORY_ID,)


def test_a_clean_stop_of_kafka_with_elr_is_taken_over(tmp_path: Path) -> None:
    """DD28: MV 25, ISR [], leader -1, ELR [1]."""
    left = partition(isr=[], leader=-1, eligible_leader_replicas=[1], last_known_elr=[1])
    elr = m.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
    write(tmp_path, f"{0:020d}.log", batches(frames(MV_25, elr, T, left, level=25)))

    driver = CatalogueDriver(tmp_path, clean=True)

    change = m.PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC, isr=[1], leader=1, eligible_leader_replicas=[], last_known_elr=[]
    )
    assert read_log(tmp_path)[-1][1] == change
    state = driver.catalogue.state.topics[TOPIC].partitions[0]
    assert (state.isr, state.leader, state.leader_epoch, state.eligible_leader_replicas) == ((1,), 1, 4, ())
    size = (tmp_path / LOG).stat().st_size
    CatalogueDriver(tmp_path, clean=True, seed=1)
    assert [type(r).__name__ for _, r in read_log(tmp_path)][-1] == "RegisterBrokerRecord"
    assert (tmp_path / LOG).stat().st_size > size


def test_directories_are_not_named_before_the_metadata_version_that_has_them(tmp_path: Path) -> None:
    """Below 17 records cannot name a directory: that is no reason to change every partition at every start."""
    old = m.FeatureLevelRecord(name="metadata.version", feature_level=16)
    write(tmp_path, f"{0:020d}.log", batches(frames(old, T, partition(), level=16)))

    CatalogueDriver(tmp_path, clean=True)

    assert type(read_log(tmp_path)[-1][1]) is m.RegisterBrokerRecord


def test_twelve_thousand_partitions_after_a_kill_inside_a_transaction(tmp_path: Path) -> None:
    """The abort of what was left open comes first, the registration keeps its own offset as epoch, the rest follows."""
    many = [partition(n) for n in range(12_000)]
    log = batches(frames(MV_21, T, *many[:9_000]), frames(*many[9_000:]), frames(m.BeginTransactionRecord(), MV_25))
    write(tmp_path, f"{0:020d}.log", log)

    driver = CatalogueDriver(tmp_path, clean=False)

    added = [(offset, record) for offset, record in read_log(tmp_path) if offset >= 12_004]
    kinds = [record if isinstance(record, ControlType) else type(record).__name__ for _, record in added]
    assert kinds[:4] == [
        ControlType.LEADER_CHANGE,
        "AbortTransactionRecord",
        "RegisterBrokerRecord",
        "BeginTransactionRecord",
    ]
    assert kinds[-1] == "EndTransactionRecord"
    assert added[2][1].broker_epoch == added[2][0] == driver.catalogue.broker_epoch
    topic = driver.catalogue.image.topic("t")
    assert topic is not None and set(topic.leader_epochs) == {4}
    again = CatalogueDriver(tmp_path, clean=True, seed=1)
    assert again.catalogue.image.topic("t") == topic
    assert again.catalogue.state.features == {"metadata.version": 21}


def test_a_change_above_kafkas_batch_size_is_a_transaction(tmp_path: Path) -> None:
    """More than 10 000 records, or 8 MiB."""
    driver = CatalogueDriver(tmp_path)
    throttled = ",".join(f"{n}:1" for n in range(4_000))
    configs = {"leader.replication.throttled.replicas": throttled, "follower.replication.throttled.replicas": throttled}

    results = driver.all(
        *(partial(driver.catalogue.create_topic, NewTopic(f"t{n}", 1, configs=configs)) for n in range(200))
    )

    assert {result.error for result in results} == {ErrorCode.NONE}
    sizes = [header.size_bytes for _, header in batch.iterate_headers((tmp_path / LOG).read_bytes())]
    assert max(sizes) <= 8 * 1024 * 1024 < sum(sizes)
    kinds = [type(record).__name__ for _, record in read_log(tmp_path)]
    assert kinds.count("BeginTransactionRecord") == kinds.count("EndTransactionRecord") == 1
    assert len(CatalogueDriver(tmp_path, seed=1).catalogue.image) == 200
