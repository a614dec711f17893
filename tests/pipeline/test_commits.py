"""Offset commits, where groups stand, and where they stood."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from pipeline.decode.schemas import BATCHES, GROUP_RECORDS, GROUP_SOURCE
from pipeline.transformations import committed_offsets, offset_commits, state_at, transactional_commits
from pipeline.transformations.commits import framed_bytes
from tests.pipeline.rows import at, batch, commit, frame, shuffled, table

STATE = "group_id string, topic string, partition int, committed_offset bigint, exact boolean"


def test_pl08_every_commit_is_a_row_and_the_state_follows_the_log(spark: SparkSession) -> None:
    """PL08: commits at log offsets 5 and 9 and a tombstone at 12."""
    records = frame(spark, GROUP_RECORDS, [commit(5, 5, 10), commit(9, 9, 20), commit(12, 12, None)])
    assert offset_commits(records).count() == 3
    assert state_at(records, at(12)).count() == 0
    assert state_at(records, None).count() == 0
    then = state_at(records, at(9)).select("group_id", "topic", "partition", "committed_offset", "exact")
    assertDataFrameEqual(then, table(spark, STATE, [("g", "orders", 0, 20, None)]))
    assert committed_offsets(offset_commits(records)).count() == 0


def test_pl26_a_state_before_the_cleaner_came_by_is_exact_and_one_behind_it_is_not(spark: SparkSession) -> None:
    """PL26: T lies between the commits of 10 and 20."""
    other = commit(2, 2, 5, partition=1)
    records = frame(spark, GROUP_RECORDS, [other, commit(5, 5, 10), commit(9, 9, 20)])
    columns = ["group_id", "topic", "partition", "committed_offset", "exact"]
    clean = spark.createDataFrame([(7, 0)], "log_partition int, first_dirty_offset bigint")
    expected = [("g", "orders", 0, 10, True), ("g", "orders", 1, 5, True)]
    assertDataFrameEqual(state_at(records, at(7), clean).select(columns), table(spark, STATE, expected))

    compacted = frame(spark, GROUP_RECORDS, [other, commit(9, 9, 20)])
    cleaned = spark.createDataFrame([(7, 10)], "log_partition int, first_dirty_offset bigint")
    assertDataFrameEqual(
        state_at(compacted, at(7), cleaned).select(columns), table(spark, STATE, [("g", "orders", 1, 5, False)])
    )


def test_pl36_state_follows_the_log_offset_where_a_clock_stepped_back(spark: SparkSession) -> None:
    """PL36: the commit at log offset 20 is stamped 5 s before the one at 19."""
    records = frame(spark, GROUP_RECORDS, [commit(19, 100, 1), commit(20, 95, 2)])
    for partitions in (1, 2, 7):
        [now] = committed_offsets(offset_commits(shuffled(records, partitions))).collect()
        assert now.committed_offset == 2
    # As of a moment between both stamps the later record cuts the log: all before it counts, whatever its stamp.
    [then] = state_at(records, at(97)).collect()
    assert then.committed_offset == 2


def test_a_group_in_two_log_partitions_stands_where_the_newer_one_says(spark: SparkSession) -> None:
    """The number of partitions of the offsets topic was changed: offsets of two logs cannot be compared."""
    records = frame(spark, GROUP_RECORDS, [commit(900, 1, 1), commit(3, 50, 2, log_partition=30)])
    [now] = committed_offsets(offset_commits(records)).collect()
    assert now.committed_offset == 2


def test_only_sound_commits_are_in_the_table(spark: SparkSession) -> None:
    """What could not be decoded is no commit, and no other type is."""
    rows = [commit(1, 1, 10), commit(2, 2, 11, problem="truncated at byte 17"), commit(3, 3, 1, record_type="unknown")]
    assert [row.log_offset for row in offset_commits(frame(spark, GROUP_RECORDS, rows)).collect()] == [1]


def test_what_became_of_commits_in_transactions(spark: SparkSession) -> None:
    """Producer 7 commits, aborts and has one open; 8 ends nothing, and nobody's marker is another's."""
    source = {"is_transactional": True, "file": "0.log", "position": 0}
    offsets = [(1, 7), (2, 8), (4, 7), (5, 7), (7, 7)]
    written = [commit(at_offset, at_offset, at_offset * 10, producer_id=pid, **source) for at_offset, pid in offsets]
    plain = commit(8, 8, 80, **source | {"is_transactional": False})
    records = frame(spark, pa.schema([*GROUP_RECORDS, *GROUP_SOURCE]), [*written, plain])
    marker = {"topic": "__consumer_offsets", "partition": 7, "producer_id": 7, "is_transactional": True}
    marker |= {"is_control": True}
    ends = [(3, "commit"), (6, "abort")]
    rows = [batch(offset, offset, offset, **marker | {"marker": word}) for offset, word in ends]
    elsewhere = batch(9, 9, 9, **marker | {"partition": 8, "marker": "commit"})

    found = transactional_commits(shuffled(records, 3), frame(spark, BATCHES, [*rows, elsewhere]))

    columns = "committed_offset bigint, outcome string, decided_at timestamp, marker_offset bigint"
    expected = [(10, "committed", at(3), 3), (20, "pending", None, None), (40, "aborted", at(6), 6)]
    expected += [(50, "aborted", at(6), 6), (70, "pending", None, None)]
    told = found.select("committed_offset", "outcome", "decided_at", "marker_offset")
    assertDataFrameEqual(told, table(spark, columns, expected))


@pytest.mark.parametrize(("key", "value", "framed"), [(17, 24, 48), (70, 24, 103), (17, 0, 24), (17, 9000, 9028)])
def test_framed_bytes_are_those_of_an_encoded_record(spark: SparkSession, key: int, value: int, framed: int) -> None:
    """Compared with what the batch encoder writes."""
    from protocol.records.batch import HEADER_BYTES, Record, encode_batch

    written = len(encode_batch([Record(0, 0, b"k" * key, b"v" * value or None)])) - HEADER_BYTES
    df = spark.createDataFrame([(key, value)], "key_bytes int, value_bytes int")
    [row] = df.select(framed_bytes().alias("framed")).collect()
    assert row.framed == written == framed
