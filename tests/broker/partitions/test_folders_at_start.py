"""Folders of a log directory as a start finds them: made, set aside, or deleted, by what the metadata log says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.catalogue.requests import Result
from broker.catalogue.topic_changes import NewTopic
from broker.composition import Composition
from broker.config.settings import Settings
from protocol.errors import ErrorCode
from protocol.records import batch
from protocol.records import metadata_records as m
from storage.directory.log_directory import read_topic_id
from storage.log.partition_log import PartitionLog
from tests.support.virtual_runtime import VirtualRuntime

STRANGER = bytes(range(16))


class Run:
    """One life of a broker on a directory, in virtual time. `kill` leaves everything as it is."""

    def __init__(self, directory: Path) -> None:
        self.runtime = VirtualRuntime(eager_workers=True)
        settings = Settings({"log.dirs": str(directory)})
        self.composition = Composition.open(settings, self.runtime, [("PLAINTEXT", "localhost", 9092)])
        self.catalogue = self.composition.broker.catalogue

    def create(self, name: str, partitions: int = 1) -> bytes:
        """Create a topic; return its id."""
        results: list[Result] = []
        self.catalogue.create_topic(NewTopic(name, partitions), results.append)
        self.runtime.turn()
        assert results[0].error is ErrorCode.NONE
        return bytes(results[0].value.topic_id)

    def delete(self, name: str) -> None:
        results: list[Result] = []
        self.catalogue.delete_topic(results.append, name=name)
        self.runtime.turn()
        assert results[0].error is ErrorCode.NONE

    def append(self, topic: str) -> None:
        partition = self.composition.broker.partitions.get(topic, 0)
        assert partition is not None
        partition.append(batch.encode_batch([batch.Record(0, 0, b"k", b"v")]))

    def stop(self) -> bool:
        """A clean stop; whether the directory was marked clean."""
        ended: list[bool] = []
        self.composition.stop(ended.append)
        self.runtime.turn()
        return ended[0]


def folders(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir() and path.name != "__cluster_metadata-0")


def test_folders_that_a_kill_left_unmade_are_made_with_their_ids(tmp_path: Path) -> None:
    """DD09: killed after the fsync of the metadata and before the folders."""
    run = Run(tmp_path)
    run.composition.broker.catalogue.queue.listeners.clear()
    topic_id = run.create("orders", 3)
    assert folders(tmp_path) == []

    Run(tmp_path)

    assert folders(tmp_path) == ["orders-0", "orders-1", "orders-2"]
    assert {read_topic_id(tmp_path / name) for name in folders(tmp_path)} == {topic_id}


def test_a_deletion_that_a_kill_left_half_done_is_finished(tmp_path: Path) -> None:
    """DD10: killed after the fsync and before the rename: `-delete`, not `-stray`."""
    run = Run(tmp_path)
    topic_id = run.create("orders")
    run.catalogue.queue.listeners.clear()
    run.delete("orders")
    assert folders(tmp_path) == ["orders-0"]

    again = Run(tmp_path)

    (name,) = folders(tmp_path)
    assert name.startswith("orders-0.") and name.endswith("-delete")
    assert read_topic_id(tmp_path / name) == topic_id
    again.runtime.advance(60_000)
    assert folders(tmp_path) == [], "removed after file.delete.delay.ms"


def test_a_folder_with_an_unknown_topic_id_is_set_aside_whole(tmp_path: Path) -> None:
    """DD11."""
    run = Run(tmp_path)
    run.create("orders")
    run.append("orders")
    assert run.stop()
    (tmp_path / "orders-0/partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    before = {path.name: path.read_bytes() for path in (tmp_path / "orders-0").iterdir()}

    Run(tmp_path)

    plain, stray = folders(tmp_path)
    assert plain == "orders-0" and stray.startswith("orders-0.") and stray.endswith("-stray")
    assert {path.name: path.read_bytes() for path in (tmp_path / stray).iterdir()} == before
    assert before["00000000000000000000.log"]
    assert read_topic_id(tmp_path / stray) == STRANGER


def test_a_folder_without_a_topic_id_is_a_stray_and_its_topic_gets_another(tmp_path: Path) -> None:
    """DD12."""
    run = Run(tmp_path)
    topic_id = run.create("orders")
    run.append("orders")
    assert run.stop()
    (tmp_path / "orders-0/partition.metadata").unlink()

    again = Run(tmp_path)

    plain, stray = folders(tmp_path)
    assert stray.endswith("-stray") and (tmp_path / stray / "00000000000000000000.log").stat().st_size
    assert read_topic_id(tmp_path / plain) == topic_id
    partition = again.composition.broker.partitions.get("orders", 0)
    assert partition is not None and partition.high_watermark == 0


def test_an_open_metadata_transaction_has_no_effect(tmp_path: Path) -> None:
    """DD21: its records count for nothing, and AbortTransaction follows."""
    run = Run(tmp_path)
    run.create("orders")
    assert run.stop()
    log = tmp_path / "__cluster_metadata-0/00000000000000000000.log"
    data = log.read_bytes()
    end = [header for _, header in batch.iterate_headers(data)][-1].next_offset
    frames = [m.BeginTransactionRecord(name="half"), m.TopicRecord(name="half", topic_id=STRANGER)]
    pairs: list[Any] = [(None, m.encode_frame(record)) for record in frames]
    log.write_bytes(data + batch.encode_pairs(pairs, timestamp=0, base_offset=end, leader_epoch=1))

    again = Run(tmp_path)

    assert again.catalogue.image.names() == ("orders",)
    written = log.read_bytes()[len(data) :]
    values = [record.value for at, _ in batch.iterate_headers(written) for record in batch.iterate_records(written, at)]
    assert any(isinstance(m.decode_frame(v), m.AbortTransactionRecord) for v in values if v and v[0] == 1)


def test_the_marker_names_the_last_registration_and_is_absent_after_a_failed_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DD29."""
    marker = tmp_path / ".kafka_cleanshutdown"
    run = Run(tmp_path)
    run.create("orders")
    run.append("orders")
    assert run.stop()
    first = json.loads(marker.read_text())
    assert first == {"version": 0, "brokerEpoch": run.catalogue.broker_epoch}

    again = Run(tmp_path)
    assert not marker.exists()
    again.append("orders")

    def refused(_: PartitionLog) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(PartitionLog, "close", refused)
    assert not again.stop()
    assert not marker.exists()
