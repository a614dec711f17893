"""Which files and byte ranges are read, and what happens when they are broken, swapped, doubled or gone. No Spark."""

import ast
import shutil
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.decode.batches import CorruptBatch
from pipeline.errors import DataError, UsageError
from pipeline.sources import log_dir, notices, plan, segment_reader
from pipeline.sources import options as options_module
from pipeline.sources.options import parse
from pipeline.sources.read import read_splits, schema_of
from tests.pipeline.logs import T0, Log, batches, rows

MIB = 1024 * 1024


def offsets(path: Path, **options: str) -> list[int]:
    return [row["offset"] for row in rows(path, **options)]


def tasks(path: Path, **options: str) -> list[list[plan.Split]]:
    return plan.plan(parse({"path": str(path), **options}))


def pairs(count: int) -> list[tuple[bytes, bytes]]:
    return [(b"k%d" % number, b"v%d" % number) for number in range(count)]


@pytest.fixture
def three(tmp_path: Path) -> Log:
    """Batches of 12 records, at offsets 0, 12 and 24."""
    log = Log(tmp_path, "orders", 0)
    for _ in range(3):
        log.append(pairs(12))
    return log


def test_a_torn_last_batch_is_the_end(three: Log, tmp_path: Path):
    """PL12: cut after 40 of its bytes in the active segment: everything before it, and one notice."""
    content = three.path.read_bytes()
    three.path.write_bytes(content[: three.positions[2] + 40])

    assert offsets(tmp_path) == list(range(24))
    assert [sentence.partition(" ends")[0] for sentence in notices(path=str(tmp_path))] == [str(three.path)]
    assert rows(tmp_path, records="problems") == []


def test_the_same_cut_in_an_earlier_segment_is_an_error(three: Log, tmp_path: Path):
    """PL12: naming file and position."""
    path, position = three.path, three.positions[2]
    path.write_bytes(path.read_bytes()[: position + 40])
    three.roll()
    three.append(pairs(3))

    with pytest.raises(
        CorruptBatch, match=rf"{path}, position {position}, offset 24: incomplete last batch of a segment"
    ) as caught:
        offsets(tmp_path)
    assert caught.value.position == position
    assert offsets(tmp_path, onCorrupt="skip") == [*range(24), 36, 37, 38]


def test_a_flipped_byte_is_an_error_or_skipped(three: Log, tmp_path: Path):
    """PL13: batch 2 of 3; `skip` gives all other rows, and says what is missing."""
    content = bytearray(three.path.read_bytes())
    content[three.positions[1] + 70] ^= 1
    three.path.write_bytes(content)

    with pytest.raises(CorruptBatch, match="offset 12: CRC mismatch"):
        offsets(tmp_path)
    assert offsets(tmp_path, onCorrupt="skip") == [*range(12), *range(24, 36)]
    (problem,) = rows(tmp_path, records="problems")
    assert (problem["first_offset"], problem["last_offset"], problem["kind"]) == (12, 23, "skipped")
    assert (problem["topic"], problem["partition"], problem["file"]) == ("orders", 0, str(three.path))


@pytest.mark.parametrize("field", ["length", "magic", "base_offset"])
def test_a_wrong_header_loses_its_batch_only(field: str, three: Log, tmp_path: Path):
    """Where the length field cannot be believed, reading goes on at the next whole batch."""
    content, at = bytearray(three.path.read_bytes()), three.positions[1]
    if field == "length":
        struct.pack_into(">i", content, at + 8, 1 << 29)
    elif field == "magic":
        content[at + 16] = 7
    else:
        struct.pack_into(">q", content, at, -5)
    three.path.write_bytes(content)

    with pytest.raises(CorruptBatch, match=f"position {at}"):
        offsets(tmp_path)
    assert offsets(tmp_path, onCorrupt="skip") == [*range(12), *range(24, 36)]


def test_old_message_formats_are_named(three: Log, tmp_path: Path):
    content = bytearray(three.path.read_bytes())
    content[three.positions[1] + 16] = 1
    three.path.write_bytes(content)

    with pytest.raises(CorruptBatch, match="message format v1, convert with Kafka"):
        offsets(tmp_path)


def test_a_preallocated_file_ends_at_its_zeros(three: Log, tmp_path: Path):
    three.path.write_bytes(three.path.read_bytes() + bytes(6 * MIB))
    assert offsets(tmp_path) == list(range(36))
    three.roll()
    three.append(pairs(2))
    assert offsets(tmp_path) == list(range(38))


def big_log(root: Path, size_bytes: int, batch_bytes: int = 1000) -> Log:
    log = Log(root, "orders", 0)
    data = bytearray(log.append([(b"k", bytes(batch_bytes))]))
    step, count = len(data), size_bytes // len(data)
    with log.path.open("ab") as file:
        for offset in range(1, count):
            struct.pack_into(">q", data, 0, offset)
            log.index.append((offset, offset * step))
            file.write(data)
    log.next_offset = count
    return log


@pytest.mark.parametrize("index", ["index", "no index", "zero index"])
def test_a_segment_is_cut_into_tasks(index: str, tmp_path: Path):
    """PL14: no offset twice or missing, with an index, without one, and with a pre-sized one."""
    log = big_log(tmp_path, 12 * MIB)
    if index == "index":
        log.write_index()
    elif index == "zero index":
        (log.folder / f"{0:020d}.index").write_bytes(bytes(10 * MIB))

    found = tasks(tmp_path, splitBytes="4m")

    assert 3 <= len(found) <= 4
    splits = [split for task in found for split in task]
    assert [split.end_offset for split in splits[:-1]] == [split.start_offset for split in splits[1:]]
    assert all(len(task) == 1 for task in found)
    assert offsets(tmp_path, splitBytes="4m") == list(range(log.next_offset))


@pytest.mark.slow
def test_a_hundred_megabytes_are_three_or_four_tasks(tmp_path: Path):
    """PL14, at its own size."""
    log = big_log(tmp_path, 100 * 1000 * 1000, 60_000)
    log.write_index()

    assert 3 <= len(tasks(tmp_path)) <= 4
    assert offsets(tmp_path) == list(range(log.next_offset))


def test_small_partitions_share_tasks(tmp_path: Path):
    """PL15: 50 partitions of which 47 are empty."""
    for partition in range(50):
        log = Log(tmp_path, "orders", partition)
        if partition % 20 == 0:
            log.append(pairs(3))

    assert len(tasks(tmp_path)) <= 4
    assert len(offsets(tmp_path)) == 9


def test_closed_segments_that_end_too_early_are_not_opened(tmp_path: Path):
    """PL16: time indexes end at 10:00, 11:00, 12:00, and 11:30 is asked for."""
    log, hour = Log(tmp_path, "orders", 0), 3_600_000
    for number in range(3):
        log.append(pairs(2), timestamps=[T0 + (9 + number) * hour, T0 + (10 + number) * hour])
        log.write_time_index(T0 + (10 + number) * hour)
        log.roll()

    since = str(T0 + 11 * hour + hour // 2)
    assert [split.file[-8:] for task in tasks(tmp_path, startingTimestamp=since) for split in task] == ["0004.log"]
    assert offsets(tmp_path, startingTimestamp=since) == [5]
    assert offsets(tmp_path, startingTimestamp=since, endingTimestamp=str(T0 + 12 * hour)) == []


def read(found: list[list[plan.Split]], **options: str) -> list[int]:
    command = parse({"path": "planned already", **options})
    return [row["offset"] for task in found for batch in read_splits(task, command) for row in batch.to_pylist()]


def test_a_segment_swapped_between_plan_and_read(tmp_path: Path):
    """PL17: the cleaner merges two segments into one; the read finds its offsets there, none twice."""
    log = Log(tmp_path, "orders", 0)
    kept: list[bytes] = []
    for first in (0, 20):
        kept.append(log.append([(b"a", bytes(20_000))]))
        log.append([(b"b", bytes(20_000))] * 18)
        kept.append(log.append([(b"c", bytes(20_000))]))
        log.roll()
        assert log.next_offset == first + 20
    log.append(pairs(2))
    found = tasks(tmp_path, splitBytes="200k")
    assert len([split for task in found for split in task]) >= 5

    first, second = sorted(log.folder.glob("*.log"))[:2]
    for old in (first, second):
        old.rename(old.with_name(old.name + ".deleted"))
        old.with_suffix(".index").unlink()
    first.write_bytes(b"".join(kept))

    assert read(found) == [0, 19, 20, 39, 40, 41]


def test_a_vanished_folder_is_an_error(three: Log, tmp_path: Path):
    found = tasks(tmp_path)
    shutil.rmtree(three.folder)
    with pytest.raises(DataError, match="orders-0 cannot be read any more"):
        read(found)


def test_files_in_passing_are_ignored_and_a_replacement_counts(tmp_path: Path):
    """`.deleted`, `.cleaned`, `-delete`, `-stray`; a complete `.swap` takes the place of what it covers."""
    log = Log(tmp_path, "orders", 0)
    log.append(pairs(3))
    whole = log.path.read_bytes()
    log.roll()
    log.append(pairs(3))
    second = log.path.read_bytes()
    log.roll()
    log.append(pairs(1))
    for name in ("orders-1.0123456789abcdef0123456789abcdef-delete", "orders-2.x-stray"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020d}.log").write_bytes(whole)
    (log.folder / f"{9:020d}.log.deleted").write_bytes(whole)
    (tmp_path / ".lock").write_text("")

    assert offsets(tmp_path) == list(range(7))
    (log.folder / f"{0:020d}.log.swap").write_bytes(whole + second)
    assert offsets(tmp_path) == list(range(7))
    files = [split.file for task in tasks(tmp_path) for split in task]
    assert [file.rpartition("/")[2] for file in files] == [f"{0:020d}.log.swap", f"{6:020d}.log"]


def test_the_bounds_of_a_read(tmp_path: Path):
    for partition in range(4):
        log = Log(tmp_path, "orders", partition)
        for _ in range(5):
            log.append(pairs(10))
        log.write_index()

    assert len(offsets(tmp_path, partitions="0,2-3")) == 150
    assert offsets(tmp_path, partitions="1", startingOffsets='{"orders":{"1":37}}') == list(range(37, 50))
    assert offsets(tmp_path, partitions="1", endingOffsets='{"orders":{"1":12}}') == list(range(12))
    assert offsets(tmp_path, startingOffsets="latest") == []
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 1 25\n")
    assert offsets(tmp_path, partitions="1", upTo="highWatermark") == list(range(25))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 1 5\n")
    assert offsets(tmp_path, partitions="1", upTo="highWatermark") == list(range(5, 25))


def test_topics_are_chosen_by_name_or_pattern(tmp_path: Path):
    for topic in ("a", "ab", "__cluster_metadata", "__consumer_offsets"):
        Log(tmp_path, topic, 0).append([(b"k", b"v")])

    def topics(**options: str) -> set[str]:
        return {row["topic"] for row in rows(tmp_path, **options)}

    assert topics() == {"a", "ab", "__consumer_offsets"}
    assert topics(topic="a, __cluster_metadata") == {"a", "__cluster_metadata"}
    assert topics(topicPattern="a.") == {"ab"}
    assert len(rows(tmp_path, records="group")) == 1
    assert len(offsets(tmp_path / "ab-0")) == 1


def test_replicas_are_read_once(tmp_path: Path):
    """PL35: the same partition in two directories: both, or the one whose log reaches furthest."""
    one, two = Log(tmp_path / "one", "orders", 0), Log(tmp_path / "two", "orders", 0)
    for log in (one, two):
        log.append(pairs(3))
    two.append(pairs(3))
    both = f"{tmp_path / 'one'},{tmp_path / 'two'}"

    assert plan.overlapping(log_dir.scan(both)) == [("orders", 0)]
    assert sorted(row["offset"] for row in rows(Path(both))) == [0, 0, 1, 1, 2, 2, 3, 4, 5]
    assert offsets(Path(both), dedupeReplicas="true") == list(range(6))


def test_an_option_is_stated_once():
    """Its name stands in the table; again only where options are held against each other or a value against it."""
    source = Path(options_module.__file__).read_text()
    times = Counter(node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    held = {"path", "bootstrap", "topic", "topicPattern", "records", "endingOffsets"}
    names = {*options_module.KNOWN, *options_module.KNOWN_TO_KAFKA}
    assert held < names
    assert {name: times[name] for name in names - held if times[name] != 1} == {}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"topics": "a"}, r"unknown option 'topics'; did you mean 'topic'\?"),
        ({"splitbyte": "3"}, "did you mean 'splitBytes'"),
        ({"topic": "a", "topicPattern": "b"}, "exclude each other"),
        ({"topicPattern": "("}, "no regular expression"),
        ({"partitions": "1-"}, "must look like 0,3-7"),
        ({"records": "rows"}, "raw, group, batch"),
        ({"startingOffsets": "17"}, "earliest, latest or JSON"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"startingTimestamp": "yesterday"}, "ISO 8601 or epoch"),
        ({"onCorrupt": "ignore"}, "error, skip"),
        ({"splitBytes": "0"}, "above 0"),
        ({"columns": "offset,ofset"}, "columns names 'ofset'; there are key, value"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], says: str, tmp_path: Path):
    with pytest.raises(UsageError, match=says):
        schema_of(parse({"path": str(tmp_path), **options}))


def test_only_the_columns_that_are_asked_for(three: Log, tmp_path: Path):
    """What is not handed over costs nothing."""
    found = rows(tmp_path, columns="offset, file", includeSource="true", partitions="0")
    assert found[0] == {"offset": 0, "file": str(three.path)}
    assert len(found) == 36


def test_paths_that_are_no_log_directory_are_named(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("")
    for path, says in (
        (tmp_path / "none", "does not exist"),
        (tmp_path / "notes.txt", "is a file"),
        (tmp_path, "no <topic>-<partition> folder in it, only notes.txt"),
        ("ftp://cluster/logs", "neither a local path nor one of s3, s3a,"),
    ):
        with pytest.raises(UsageError, match=says):
            log_dir.scan(str(path))
    with pytest.raises(UsageError, match="'path' is required"):
        parse({})


def test_moments_are_read_as_written():
    for text in ("2023-11-14T22:13:20Z", "2023-11-14T22:13:20", "2023-11-14T23:13:20+01:00", str(T0)):
        assert parse({"path": "x", "startingTimestamp": text}).starting_timestamp == T0


def test_batch_headers(tmp_path: Path):
    """`records=batch`: control batches too, nothing decompressed."""
    log = Log(tmp_path, "orders", 0)
    log.append(pairs(3), compression=3)
    log.append(pairs(2), producer_id=7, transactional=True)
    log.marker(7, aborted=False)

    found = rows(tmp_path, records="batch")

    assert [(row["base_offset"], row["last_offset"], row["record_count"]) for row in found] == [
        *((0, 2, 3), (3, 4, 2), (5, 5, 1)),
    ]
    assert [(row["compression"], row["producer_id"]) for row in found] == [("lz4", None), ("none", 7), ("none", 7)]
    assert [(row["is_transactional"], row["is_control"]) for row in found] == [
        *((False, False), (True, False), (True, True)),
    ]
    assert [row["position"] for row in found] == log.positions
    assert sum(row["size_bytes"] for row in found) == log.path.stat().st_size


def test_a_clock_that_steps_back_changes_no_order(tmp_path: Path):
    """PL36: rows come by offset, with the time that the record says."""
    log = Log(tmp_path, "orders", 0)
    log.append(pairs(3), timestamps=[T0, T0 - 5000, T0 + 1])

    found = rows(tmp_path)
    assert [row["offset"] for row in found] == [0, 1, 2]
    assert [round(row["timestamp"].timestamp() * 1000) - T0 for row in found] == [0, -5000, 1]


def test_memory_is_bounded_by_the_batch_and_not_by_the_file(tmp_path: Path):
    """A task holds one chunk: Arrow batches of a 40 MiB file stay small, and come one by one."""
    big_log(tmp_path, 40 * MIB)
    sizes = [batch.nbytes for batch in batches(tmp_path, splitBytes="1g")]

    assert len(sizes) >= 9
    assert max(sizes) < 6 * MIB
    iterator: Any = read_splits(tasks(tmp_path, splitBytes="1g")[0], parse({"path": str(tmp_path)}))
    assert next(iterator).num_rows < 5000


def test_a_swap_is_noticed_when_the_read_begins_in_the_middle(tmp_path: Path):
    """PL17, with a start offset that an index entry finds."""
    log = Log(tmp_path, "orders", 0)
    for _ in range(30):
        log.append([(b"a", bytes(700))])
    log.roll()
    log.append(pairs(1))
    found = tasks(tmp_path, startingOffsets='{"orders":{"0":20}}')
    assert found[0][0].position > 0 and found[0][0].base_offset == 19
    first = min(log.folder.glob("*.log"))
    kept = Log(tmp_path / "other", "orders", 0, base_offset=25)
    first.unlink()
    first.write_bytes(kept.append([(b"c", b"x")]))

    assert read(found) == [25, 30]


def test_what_follows_damage_is_found_however_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Longer than the window that is searched at once, batches across its end included; and no index."""
    monkeypatch.setattr(segment_reader, "_SEARCH_BYTES", 4096)
    log = Log(tmp_path, "orders", 0)
    for size in (10, 30_000, 1500, 10):
        log.append([(b"k", bytes(size))])
    content = bytearray(log.path.read_bytes())
    struct.pack_into(">i", content, log.positions[1] + 8, 1 << 28)
    log.path.write_bytes(content)

    assert offsets(tmp_path, onCorrupt="skip") == [0, 2, 3]
    (problem,) = rows(tmp_path, records="problems")
    assert (problem["first_offset"], problem["last_offset"]) == (1, 1)
