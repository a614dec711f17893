"""Segments in remote storage, laid out as Aiven's plugin does it: what is read is what the brokers' own files give."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.errors import DataError, UsageError
from pipeline.sources import log_dir, log_growth
from pipeline.sources.files import Local
from pipeline.sources.segments import index_entries, latest_timestamp
from pipeline.sources.tiered import _chunk_sizes
from tests.pipeline.capture import unpack
from tests.pipeline.logs import Log, rows

IDS = ("lZ6vvmajTWKDBUTV6SQAtQ", "MWJ6FHTfRYy67jzwZdeqSQ")
SEGMENT_ID = "adh9f8BMS4anaUnD8KWfWg"
OF_THE_PLUGIN = (
    '{"version":"1","chunkIndex":{"type":"fixed","originalChunkSize":100,"originalFileSize":1000,'
    '"transformedChunkSize":110,"finalTransformedChunkSize":110},"segmentIndexes":{"offset":{"position":0,"size":1},'
    '"timestamp":{"position":1,"size":1},"producerSnapshot":{"position":2,"size":1},"leaderEpoch":{"position":3,'
    '"size":1},"transaction":null},"compression":false,"encryption":{"aad":"CgsMDQ=="},"remoteLogSegmentMetadata":'
    '{"remoteLogSegmentId":{"topicIdPartition":{"topicId":"lZ6vvmajTWKDBUTV6SQAtQ","topicPartition":{"topic":"topic1",'
    '"partition":42}},"id":"adh9f8BMS4anaUnD8KWfWg"},"startOffset":0,"endOffset":1000,"maxTimestampMs":1000000000,'
    '"brokerId":2,"eventTimestampMs":2000000000,"segmentLeaderEpochs":{"0":100,"1":200,"2":300}}}'
)
"""A manifest out of the plugin's own tests (SegmentManifestV1SerdeTest)."""


def upload(directory: Path, tier: Path, *, compressed: bool = False, chunk_bytes: int = 700) -> None:
    """What the plugin makes of every segment below a log directory, indexes too."""
    for partition in log_dir.scan(str(directory)):
        for segment in filter(lambda one: one.size_bytes, partition.segments):
            folder = tier / f"{partition.topic}-{IDS[0]}" / str(partition.number)
            folder.mkdir(parents=True, exist_ok=True)
            put(Path(segment.path), folder, SEGMENT_ID, segment, compressed=compressed, chunk_bytes=chunk_bytes)


def put(log: Path, folder: Path, name: str, segment: Any, *, compressed: bool, chunk_bytes: int) -> None:
    data = log.read_bytes()
    chunks = [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)]
    index: dict[str, Any] = {"originalChunkSize": chunk_bytes, "originalFileSize": len(data)}
    if compressed:
        chunks = [zstandard.compress(chunk) for chunk in chunks]
        index |= {"type": "variable", "transformedChunks": encoded([len(chunk) for chunk in chunks])}
    else:
        last = len(chunks[-1]) if chunks else 0
        index |= {"type": "fixed", "transformedChunkSize": chunk_bytes, "finalTransformedChunkSize": last}
    indexes: dict[str, Any] = {}
    joined = b""
    for kind, suffix in (("offset", ".index"), ("timestamp", ".timeindex"), ("producerSnapshot", ".snapshot"),
                         ("leaderEpoch", ".epochs"), ("transaction", ".txnindex")):  # fmt: skip
        beside = log.with_suffix(suffix)
        part = beside.read_bytes() if beside.exists() else None
        indexes[kind] = (
            None if part is None and kind == "transaction" else {"position": len(joined), "size": len(part or b"")}
        )
        joined += part or b""
    last_offset = max(
        (row["last_offset"] for row in rows(log.parent, records="batch") if row["file"] == str(log)), default=0
    )
    manifest = {
        "version": "1", "chunkIndex": index, "segmentIndexes": indexes, "compression": compressed,
        "remoteLogSegmentMetadata": {"startOffset": segment.base_offset, "endOffset": last_offset},
    }  # fmt: skip
    stem = f"{segment.base_offset:020d}-{name}"
    (folder / f"{stem}.log").write_bytes(b"".join(chunks))
    (folder / f"{stem}.indexes").write_bytes(joined)
    (folder / f"{stem}.rsm-manifest").write_text(json.dumps(manifest))


def encoded(sizes: list[int]) -> str:
    """As ChunkSizesBinaryCodec: the last in full, the others above the least, in as few bytes as the greatest needs."""
    data = len(sizes).to_bytes(4)
    if len(sizes) > 1:
        least = min(sizes[:-1])
        width = max((max(sizes[:-1]) - least).bit_length() + 7, 8) // 8
        data += least.to_bytes(4) + bytes([width]) + b"".join((size - least).to_bytes(width) for size in sizes[:-1])
    return base64.b64encode(zstandard.compress(data + sizes[-1].to_bytes(4))).decode()


@pytest.mark.parametrize("compressed", [False, True])
def test_a_tier_gives_what_the_files_give(tmp_path: Path, compressed: bool):
    """Kafka's own segments, transactions among them, and a log of several segments."""
    directory, _ = unpack("kafka-4.3.1", tmp_path)
    log = Log(directory, "long", 0)
    for _ in range(3):
        for _ in range(4):
            log.append([(b"k", bytes(20))] * 20)
        log.roll()
    tier = tmp_path / "tier"
    upload(directory, tier, compressed=compressed)

    for options in (
        {"topicPattern": "[^_].*", "isolationLevel": "read_committed"},
        {"topic": "long", "splitBytes": "1k"},
    ):
        there = rows(tier, **options)
        assert there
        assert there == rows(directory, **options)
    [here] = [one for one in log_dir.scan(str(directory)) if one.key == ("orders", 0)]
    [away] = [one for one in log_dir.scan(str(tier / f"orders-{IDS[0]}")) if one.key == ("orders", 0)]
    assert away.topic_id == IDS[0]
    assert list(index_entries(away.segments[0])) == list(index_entries(here.segments[0]))
    assert latest_timestamp(away.segments[0]) == latest_timestamp(here.segments[0])
    assert not log_growth.growth([away], [])[1] - {"orders"}


def test_a_segment_that_was_uploaded_twice_counts_once(tmp_path: Path):
    """By two leaders: what reaches furthest. Without a manifest it was never finished."""
    log = Log(tmp_path / "data", "orders", 0)
    log.append([(b"k", b"v")] * 5)
    upload(tmp_path / "data", tmp_path / "tier")
    log.append([(b"k", b"v")] * 5)
    folder = tmp_path / "tier" / f"orders-{IDS[0]}" / "0"
    [partition] = log_dir.scan(str(tmp_path / "data"))
    put(log.path, folder, IDS[1], partition.segments[0], compressed=True, chunk_bytes=64)
    (folder / f"{10:020d}-{SEGMENT_ID}.log").write_bytes(b"half")
    assert [row["offset"] for row in rows(tmp_path / "tier")] == list(range(10))


def test_what_came_after_the_first_read_is_read_too(tmp_path: Path):
    """Partitions, and topics made anew under another id: where a segment lies is remembered for a while."""
    data, tier = tmp_path / "data", tmp_path / "tier"
    Log(data, "orders", 0).append([(b"k", b"v")])
    upload(data, tier)
    assert [row["value"] for row in rows(tier)] == [b"v"]
    Log(data, "orders", 1).append([(b"k", b"w")])
    upload(data, tier)
    assert [row["value"] for row in rows(tier)] == [b"v", b"w"]

    [first, _] = log_dir.scan(str(tier))
    (tier / f"orders-{IDS[0]}").rename(tier / f"orders-{IDS[1]}")
    with first.files.open(first.segments[0].path) as file:  # as a task that was planned elsewhere, and remembers
        assert file.size_bytes == first.segments[0].size_bytes
    assert [row["value"] for row in rows(tier)] == [b"v", b"w"]


def test_a_tier_is_listed_once_for_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A listing is a request to a store: one of the root, of a topic, of a partition, and one to know it for a tier."""
    for topic in range(4):
        for partition in range(3):
            Log(tmp_path / "data", f"t{topic}", partition).append([(b"k", b"v")])
    upload(tmp_path / "data", tmp_path / "tier")
    command: list[str] = []
    listed = Local.entries
    monkeypatch.setattr(Local, "entries", lambda self, folder: (command.append(folder), listed(self, folder))[1])
    assert len(log_dir.scan(str(tmp_path / "tier"))) == 12
    assert len(command) <= 3 + 4 + 12


def test_what_cannot_be_read_is_named(tmp_path: Path):
    folder = tmp_path / f"topic1-{IDS[0]}" / "42"
    folder.mkdir(parents=True)
    manifest = folder / f"{0:020d}-{SEGMENT_ID}.rsm-manifest"
    for text, says in (
        (OF_THE_PLUGIN, "it is encrypted; only the brokers have the key"),
        (OF_THE_PLUGIN.replace('"1"', '"2"', 1), "a manifest of version 2"),
        ("{}", "its manifest is none"),
    ):
        manifest.write_text(text)
        with pytest.raises(DataError, match=f"{re.escape(str(manifest)[:-13])}: {says}"):
            log_dir.scan(str(folder.parent) + ("" if "2" in says else "/"))
    (tmp_path / f"topic1-{IDS[1]}" / "42").mkdir(parents=True)
    with pytest.raises(UsageError, match="two topics topic1"):
        log_dir.scan(str(tmp_path))


def test_chunk_sizes_are_those_of_the_plugin():
    """ChunkIndexSerializationTest."""
    index = {"type": "variable", "originalChunkSize": 100, "originalFileSize": 250}
    assert _chunk_sizes(index | {"transformedChunks": "KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe"}) == [10, 20, 30]
    assert _chunk_sizes(index | {"transformedChunks": encoded([10, 70_000, 30, 7])}) == [10, 70_000, 30, 7]
    fixed = {"type": "fixed", "transformedChunkSize": 110, "finalTransformedChunkSize": 30}
    assert _chunk_sizes(index | fixed) == [110, 110, 30]
