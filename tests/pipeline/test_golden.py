"""What Kafka 3.9.2, Kafka 4.3.1 and Kohort wrote under real clients, against what those clients said."""

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline import oracle
from tests.pipeline.capture import DIRECTORIES, unpack


@pytest.fixture(params=DIRECTORIES)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, oracle.LogDirectory, dict[str, Any]]:
    directory, said = unpack(request.param, tmp_path)
    return request.param, oracle.LogDirectory(directory), said


def test_the_oracle_finds_what_the_clients_said(golden: tuple[str, oracle.LogDirectory, dict[str, Any]]):
    """Committed offsets, log ends, generations and owners, deleted groups, aborted commits."""
    name, directory, said = golden
    rows = oracle.group_records(directory.records(committed=True))

    assert [row for row in rows if row["problem"]] == []
    state: dict[str, dict[str, dict[str, int]]] = {}
    for row in oracle.state_at(rows, said["stopped_at_ms"], {}):
        of_topic = state.setdefault(row["group_id"], {}).setdefault(row["topic"], {})
        of_topic[str(row["partition"])] = row["committed_offset"]
    assert state == {group: topics for group, topics in said["committed"].items() if topics}
    ends = {str(log.partition): log.log_end_offset for log in directory.of("orders")}
    assert ends == said["written"]

    generations = oracle.group_generations(rows)
    owners = {
        (row["group_id"], row["generation"], member["member_id"]): sorted(
            part["partition"] for part in member["assigned"] if part["topic"] == "orders"
        )
        for row in generations
        for member in row["members"]
    }
    told = {
        (group, generation, member): partitions
        for group, entries in said["owners"].items()
        for generation, member, partitions in entries
    }
    if "compacted" in name:
        assert told.items() & owners.items() or not owners
    else:
        assert {place: owners[place] for place in told} == told
        acknowledged = {
            (group, partition, offset) for group, pairs in said["acknowledged"].items() for partition, offset in pairs
        }
        commits = {(row["group_id"], row["partition"], row["committed_offset"]) for row in oracle.offset_commits(rows)}
        assert acknowledged <= commits
        assert not {row for row in commits if row[2] in said["aborted"]}


def test_the_golden_directories_cover_what_they_are_for():
    """Under 200 kB together."""
    folder = Path(__file__).parent / "golden"
    assert {file.name for file in folder.iterdir()} == {f"{name}.tar.xz" for name in DIRECTORIES}
    assert sum(file.stat().st_size for file in folder.iterdir()) < 200_000


def test_compacted_directories_have_gaps_and_a_checkpoint(tmp_path: Path):
    """Else they would prove nothing about compaction."""
    for name in DIRECTORIES:
        logs = oracle.LogDirectory(unpack(name, tmp_path)[0]).of("__consumer_offsets")
        gaps = sum(log.log_end_offset - log.log_start_offset - sum(b.record_count for b in log.batches) for log in logs)
        dirty = [log.first_dirty_offset for log in logs if log.first_dirty_offset]
        assert (gaps > 20, bool(dirty)) == (("compacted" in name),) * 2, (name, gaps, dirty)
        codecs = {batch.compression for log in logs for batch in log.batches} - {"none"}
        assert codecs == ({name.rsplit("-", 1)[1]} if "compacted" in name else set()), (name, codecs)
