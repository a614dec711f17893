"""Snapshots of the metadata log: what is in them, when they are made, what they replace, and a crash anywhere in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.catalogue.cluster_state import ClusterState
from broker.catalogue.config_changes import ConfigChange, ConfigOperation
from broker.catalogue.metadata_log import MetadataLog
from broker.catalogue.queue import MEND_AFTER_MS
from broker.catalogue.snapshot_writer import SnapshotPolicy
from broker.catalogue.snapshots import MetadataBatch, all_snapshots, log_timestamp, read_snapshot
from broker.loop import logs
from protocol.errors import ErrorCode
from protocol.records import control_records
from protocol.records import metadata_records as m
from protocol.records.control_records import ControlType
from storage.errors import CorruptFile
from storage.files import DISK
from tests.broker.partitions.test_startup_epochs import (
    FOLDER,
    MV_21,
    TOPIC,
    T,
    batches,
    frames,
    partition,
    snapshot,
    voters,
    write,
)
from tests.support.catalogue_fixture import DIRECTORY_ID, CatalogueDriver
from tests.support.recording_disk import RecordingDisk, World
from tests.support.whole_broker import Whole

HOUR_MS = 3_600_000
EVERY_KB = SnapshotPolicy(record_bytes=1_000)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(DISK, name, lambda _: None)  # nothing here cuts the power of the real disk
    yield
    logs.configure()


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / FOLDER).iterdir() if path.suffix in (".log", ".checkpoint"))


def newest(directory: Path) -> list[MetadataBatch]:
    return all_snapshots(directory / FOLDER)[-1].read()


def records_in(read: list[MetadataBatch]) -> list[Any]:
    return [m.decode_frame(value) for batch in read if not batch.control for _, value in batch.values]


def test_a_snapshot_is_made_when_enough_was_written_and_the_log_begins_anew_behind_it(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path, snapshots=EVERY_KB)
    for number in range(8):
        assert driver.create(f"t{number}", configs={"retention.ms": "7"}).error is ErrorCode.NONE

    (first, *_) = found = all_snapshots(tmp_path / FOLDER)
    assert len(found) == 1 and first.epoch == 1
    assert files(tmp_path) == [
        f"{0:020d}.log",
        f"{first.end_offset:020d}-{1:010d}.checkpoint",
        f"{first.end_offset:020d}.log",
    ]
    assert (first.path.stat().st_mode & 0o777) == 0o444
    read = first.read()
    assert [control_records.control_type(batch.values[0][0]) for batch in (read[0], read[-1])] == [
        ControlType.SNAPSHOT_HEADER,
        ControlType.SNAPSHOT_FOOTER,
    ]
    assert [batch.base_offset for batch in read] == [0, 1, read[-1].base_offset]
    assert {batch.leader_epoch for batch in read} == {1}
    assert log_timestamp(first.path) == driver.runtime.now_ms()

    again = CatalogueDriver(tmp_path, seed=1, snapshots=EVERY_KB)
    assert again.catalogue.image.names() == tuple(f"t{number}" for number in range(8))
    assert again.catalogue.image.topic("t3") == driver.catalogue.image.topic("t3")
    (tmp_path / FOLDER / f"{0:020d}.log").unlink()
    assert CatalogueDriver(tmp_path, seed=2).catalogue.image.names() == again.catalogue.image.names()


def test_a_snapshot_is_made_for_its_age_when_anything_has_changed(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path)
    driver.runtime.advance(5 * HOUR_MS)
    assert files(tmp_path) == [f"{0:020d}.log"], "nothing was asked for"
    driver.create("t")
    assert len(files(tmp_path)) == 3
    driver.create("u")
    driver.runtime.advance(HOUR_MS - 1)
    driver.create("v")
    assert len(files(tmp_path)) == 3, "the newest is not an hour old"
    driver.runtime.advance(1)
    driver.all(lambda answer: driver.catalogue.create_partitions("nobody", 2, None, answer))
    assert len(files(tmp_path)) == 5, "what changed before counts"
    driver.runtime.advance(HOUR_MS)
    driver.all(lambda answer: driver.catalogue.create_partitions("nobody", 2, None, answer))
    assert len(files(tmp_path)) == 5, "nothing has changed"
    never = CatalogueDriver(tmp_path, seed=1, snapshots=SnapshotPolicy(interval_ms=0))
    never.runtime.advance(5 * HOUR_MS)
    never.create("w")
    assert len(files(tmp_path)) == 5


def test_everything_that_kafka_wrote_is_in_the_snapshot_in_kafkas_order(tmp_path: Path) -> None:
    """Quotas, credentials, tokens, registrations: nothing to us, and Kafka finds them; what was removed is not."""
    quota = m.ClientQuotaRecord(entity=[m.QuotaEntity(entity_type="user", entity_name="a")], key="k", value=1.5)
    other = m.ClientQuotaRecord(entity=[m.QuotaEntity(entity_type="user", entity_name=None)], key="k", value=2.5)
    gone = m.ClientQuotaRecord(
        entity=[m.QuotaEntity(entity_type="user", entity_name="a")], key="k", value=0, remove=True
    )
    scram = m.UserScramCredentialRecord(
        name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"x", iterations=9
    )
    token = m.DelegationTokenRecord(owner="o", requester="r", token_id="i")
    controller = m.RegisterControllerRecord(controller_id=1, incarnation_id=TOPIC)
    second = m.RegisterBrokerRecord(
        broker_id=2, broker_epoch=7, incarnation_id=TOPIC, log_dirs=[DIRECTORY_ID], rack="r"
    )
    unfenced = m.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=7, fenced=-1, in_controlled_shutdown=1)
    ids = m.ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=3_000)
    group = m.FeatureLevelRecord(name="group.version", feature_level=1)
    zk = m.ZkMigrationStateRecord(zk_migration_state=3)
    client = m.ConfigRecord(resource_type=16, resource_name="c", name="x", value="y")
    topic = m.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5")
    acl = m.AccessControlEntryRecord(id=TOPIC, principal="User:a")
    log = frames(
        scram, token, acl, quota, other, gone, MV_21, group, ids, T, topic, client, partition(1), partition(0),
        m.NoOpRecord(), zk, controller, second, unfenced, m.RemoveAccessControlEntryRecord(id=TOPIC),
        m.UserScramCredentialRecord(name="v", mechanism=2), m.RemoveUserScramCredentialRecord(name="v", mechanism=2),
        m.DelegationTokenRecord(token_id="j"), m.RemoveDelegationTokenRecord(token_id="j"),
    )  # fmt: skip
    write(tmp_path, f"{0:020d}.log", batches(log))

    driver = CatalogueDriver(tmp_path, clean=True, snapshots=SnapshotPolicy(record_bytes=1))
    driver.all(lambda answer: driver.catalogue.create_partitions("nobody", 2, None, answer))

    ours = driver.catalogue.state.kept.brokers[1]
    now_unfenced = m.RegisterBrokerRecord(
        broker_id=2, broker_epoch=7, incarnation_id=TOPIC, log_dirs=[DIRECTORY_ID], rack="r", fenced=False,
        in_controlled_shutdown=True,
    )  # fmt: skip
    assert records_in(newest(tmp_path)) == [
        MV_21, group, zk, now_unfenced, ours, controller, T, partition(0), partition(1), topic, client, other,
        m.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=3_000), scram, token,
    ]  # fmt: skip
    assert ours.broker_epoch == driver.catalogue.broker_epoch
    again = CatalogueDriver(tmp_path, seed=1)
    assert again.catalogue.state.kept.scram == driver.catalogue.state.kept.scram
    (block,) = again.all(again.catalogue.allocate_producer_ids)
    assert block.value == range(3_000, 4_000)


def test_eligible_replicas_are_in_the_snapshot_and_cleared_by_their_record() -> None:
    state = ClusterState()
    for record in (MV_21, T, partition(eligible_leader_replicas=[1], last_known_elr=[1], isr=[])):
        state.apply(record)
    assert state.topics[TOPIC].partitions[0].eligible_leader_replicas == (1,)
    state.apply(m.ClearElrRecord(topic_name="t"))
    assert state.topics[TOPIC].partitions[0].eligible_leader_replicas == ()


def test_voters_are_in_the_snapshot(tmp_path: Path) -> None:
    """kraft.version 1: the zero snapshot names them, and the next one takes its place."""
    zero = f"{0:020d}-{0:010d}.checkpoint"
    write(tmp_path, zero, snapshot(more=voters((1, DIRECTORY_ID)), epoch=0))

    driver = CatalogueDriver(tmp_path, snapshots=SnapshotPolicy(record_bytes=1, retention_ms=1_000))
    driver.create("t")

    assert zero not in files(tmp_path), "it is older than a second"
    head = newest(tmp_path)[0].values
    assert [control_records.control_type(key) for key, _ in head] == [
        ControlType.SNAPSHOT_HEADER,
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
    ]
    assert tuple(head[1:]) == tuple(voters((1, DIRECTORY_ID)))
    CatalogueDriver(tmp_path, seed=1)
    assert '"data_version":1' in (tmp_path / FOLDER / "quorum-state").read_text()


def test_a_large_snapshot_is_several_batches(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path, snapshots=SnapshotPolicy(record_bytes=100_000))
    driver.create("big", 5_000)
    read = newest(tmp_path)
    assert max(len(batch.values) for batch in read) == 1_024 and len(read) > 5
    assert list(CatalogueDriver(tmp_path, seed=1).catalogue.image) == list(driver.catalogue.image)


@pytest.mark.parametrize(
    "policy",
    [
        SnapshotPolicy(record_bytes=700, interval_ms=0, retention_bytes=6_000, retention_ms=-1),
        SnapshotPolicy(record_bytes=700, interval_ms=0, retention_bytes=-1, retention_ms=12 * HOUR_MS),
    ],
)
def test_old_snapshots_go_with_the_log_below_them_and_the_size_stays_bounded(
    tmp_path: Path, policy: SnapshotPolicy
) -> None:
    """Topics come and go for years: the log does not grow with them."""
    driver = CatalogueDriver(tmp_path, snapshots=policy)
    driver.create("kept")
    sizes = []
    for number in range(120):
        driver.create(f"t{number}")
        driver.delete(f"t{number}")
        driver.runtime.advance(HOUR_MS)
        sizes.append(sum(path.stat().st_size for path in (tmp_path / FOLDER).iterdir()))
    assert max(sizes[20:]) < 9_000, sizes
    found = files(tmp_path)
    snapshots = [name for name in found if name.endswith("checkpoint")]
    segments = [name for name in found if name.endswith("log")]
    assert len(snapshots) > 1
    assert f"{0:020d}" < segments[0][:20] == snapshots[0][:20], "the log begins at the oldest snapshot"
    assert len(driver.catalogue.state.removed_topic_ids) < 20
    again = CatalogueDriver(tmp_path, seed=1)
    assert again.catalogue.image.names() == ("kept",)


def test_damage_below_the_newest_snapshot_is_no_matter_to_us_and_found_before_kafka_meets_it(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path, snapshots=EVERY_KB)
    for number in range(8):
        driver.create(f"t{number}")
    MetadataLog.inspect(tmp_path, node_id=1)
    path = tmp_path / FOLDER / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[400] ^= 1
    path.write_bytes(data)

    with pytest.raises(CorruptFile, match="CRC"):
        MetadataLog.inspect(tmp_path, node_id=1)
    assert len(CatalogueDriver(tmp_path, seed=1).catalogue.image) == 8


def test_unfinished_snapshots_are_removed_by_the_next_start(tmp_path: Path) -> None:
    """DD25."""
    CatalogueDriver(tmp_path)
    write(tmp_path, f"{90:020d}-{9:010d}.checkpoint.part", b"half")
    write(tmp_path, f"{70:020d}-{9:010d}.checkpoint.deleted", b"obsolete")
    CatalogueDriver(tmp_path, seed=1)
    assert not [path for path in (tmp_path / FOLDER).iterdir() if ".checkpoint" in path.name]


def test_a_folder_that_could_not_be_renamed_is_renamed_before_its_deletion_is_forgotten(tmp_path: Path) -> None:
    """Else the next start would find a folder of a topic that nobody knows, and keep it for ever."""
    whole = Whole(tmp_path / "data", metadata__log__max__snapshot__interval__ms=str(HOUR_MS))
    whole.create("t")
    with pytest.MonkeyPatch.context() as patches:

        def refuse(source: Path, target: Path) -> None:
            if source.name == "t-0":
                raise OSError(5, "Input/output error")
            Path(source).replace(target)

        patches.setattr(DISK, "rename", refuse)
        assert whole.delete("t") is ErrorCode.NONE
        whole.runtime.advance(HOUR_MS)
        whole.create("u")
        assert "metadata_snapshot_failed" in whole.log.getvalue()
        assert not all_snapshots(tmp_path / "data" / FOLDER)
    whole.runtime.advance(HOUR_MS)
    whole.create("v")
    assert "metadata_snapshot_written" in whole.log.getvalue()
    assert not (tmp_path / "data/t-0").exists()
    assert whole.stop()
    again = Whole(tmp_path / "data")
    assert not [path.name for path in (tmp_path / "data").iterdir() if path.name.endswith("-stray")]
    assert sorted(again.broker.catalogue.image.names()) == ["u", "v"]


# Crashes


@dataclass
class Life:
    """Changes, and after how many operations of the disk each was answered."""

    disk: RecordingDisk
    answered: list[tuple[int, dict[str, str]]] = field(default_factory=list)  # (operations, topic -> its retention.ms)
    refused: int = 0

    def note(self, driver: CatalogueDriver) -> None:
        told = {topic.name: topic.configs.get("retention.ms", "") for topic in driver.catalogue.image}
        self.answered.append((len(self.disk.journal), told))

    def live(self, driver: CatalogueDriver) -> None:
        """Topics come, change and go, and snapshots are made meanwhile."""
        for number in range(6):
            self.refused += driver.create(f"t{number}").error is not ErrorCode.NONE
            self.note(driver)
            if number % 2:
                change = ConfigChange("retention.ms", ConfigOperation.SET, str(number))
                driver.all(lambda answer, change=change: driver.catalogue.alter_configs((2, "t0"), [change], answer))  # type: ignore[misc]
                self.note(driver)
                driver.delete(f"t{number}")
                self.note(driver)
            driver.runtime.advance(60_000 + MEND_AFTER_MS)

    def check(self, at: int, driver: CatalogueDriver, where: str) -> None:
        found = {topic.name: topic.configs.get("retention.ms", "") for topic in driver.catalogue.image}
        last = max((number for number, (when, _) in enumerate(self.answered) if when <= at), default=-1)
        legal = [told for _, told in self.answered[max(last, 0) : last + 2]]
        if last < 0:
            legal.append({})
        assert found in legal, f"{where}: {found} is none of {legal}"


def crash_everywhere(life: Life, tmp_path: Path) -> int:
    world, starts = World(), 0
    for at in range(len(life.disk.journal) + 1):
        random = Random(at)
        images: list[tuple[str, Callable[[Path], None]]] = [
            ("killed", world.write_to),
            ("power lost", world.lose_power),
        ]
        images += [("power lost at random", lambda to, random=random: world.lose_power(to, random))] * 2  # type: ignore[misc]
        for name, image in images:
            folder = tmp_path / "crashed"
            (folder / FOLDER).mkdir(parents=True)
            image(folder)
            where = f"{name} before {at}: {life.disk.journal[at : at + 1]}"
            try:
                life.check(at, CatalogueDriver(folder, clean=False, seed=50), where)
            except BaseException as error:
                error.add_note(where)
                raise
            shutil.rmtree(folder)
            starts += 1
        if at < len(life.disk.journal):
            world.apply(life.disk.journal[at])
    return starts


CRASHED = SnapshotPolicy(record_bytes=500, retention_bytes=2_500)


def test_a_crash_at_any_moment_of_making_a_snapshot_loses_nothing(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    life = Life(RecordingDisk(root))
    life.live(CatalogueDriver(root, disk=life.disk, snapshots=CRASHED))
    again = CatalogueDriver(root, disk=life.disk, snapshots=CRASHED, seed=1)
    life.live(again)
    kinds = [(op.kind, op.name.rsplit(".", 1)[-1]) for op in life.disk.journal]
    assert not life.refused or life.refused == 3  # of the second life: those that are there
    assert kinds.count(("rename", "part")) > 3 and kinds.count(("unlink", "log")) > 1
    assert kinds.count(("unlink", "checkpoint")) > 1
    assert crash_everywhere(life, tmp_path) > 300


@pytest.mark.parametrize("first", range(0, 24, 3))
def test_a_snapshot_whose_flush_fails_is_made_later_and_nothing_is_lost(tmp_path: Path, first: int) -> None:
    """Of the new file, of its name, of the new segment: each leaves a log that goes on, and a start that finds all."""
    root = tmp_path / "data"
    root.mkdir()
    life = Life(RecordingDisk(root))
    driver = CatalogueDriver(root, disk=life.disk, snapshots=CRASHED)
    seen = [0]

    def refuse(name: str) -> bool:
        seen[0] += 1
        return seen[0] - 1 in range(first, first + 2)

    life.disk.refuse_sync = refuse  # type: ignore[method-assign]
    life.live(driver)
    driver.runtime.advance(60_000 + MEND_AFTER_MS)
    assert driver.catalogue.queue.failed is None
    assert driver.create("late").error is ErrorCode.NONE
    life.note(driver)
    assert all_snapshots(root / FOLDER)
    crash_sometimes(life, tmp_path)


def crash_sometimes(life: Life, tmp_path: Path) -> None:
    """What was answered last, before every fifth operation."""
    world = World()
    for at, op in enumerate(life.disk.journal):
        if at % 5 == 0:
            folder = tmp_path / "crashed"
            (folder / FOLDER).mkdir(parents=True)
            world.lose_power(folder)
            life.check(at, CatalogueDriver(folder, clean=False, seed=50), f"power lost before {at}: {op[:3]}")
            shutil.rmtree(folder)
        world.apply(op)


def test_a_snapshot_that_was_read_is_the_whole_state(tmp_path: Path) -> None:
    """Fold of the log = fold of the snapshot, for a state with everything in it."""
    driver = CatalogueDriver(tmp_path, snapshots=SnapshotPolicy(record_bytes=1))
    driver.create("t", 3, configs={"retention.ms": "5", "segment.ms": "9"})
    driver.create("u")
    driver.delete("t")
    driver.create("t", 2)
    state = ClusterState()
    for record in records_in(read_snapshot(all_snapshots(tmp_path / FOLDER)[-1].path)):
        state.apply(record)
    ours = driver.catalogue.state
    assert (state.topics, state.configs, state.features, state.kept) == (
        ours.topics,
        ours.configs,
        ours.features,
        ours.kept,
    )
