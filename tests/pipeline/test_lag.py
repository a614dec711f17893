"""Lag over time and now, and partitions that are stuck."""

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from pipeline.decode.schemas import BATCHES, GROUP_GENERATIONS, GROUP_RECORDS, RAW
from pipeline.jobs.lag import grid_moments
from pipeline.spans import span_ms
from pipeline.transformations import lag_now, lag_over_time, membership, offset_commits, stuck_partitions, worst_lag
from tests.pipeline.rows import at, batch, commit, frame, generation, member, shuffled

PARTITIONS = "topic string, partition int, log_start_offset bigint, log_end_offset bigint"


def commits(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    return offset_commits(frame(spark, GROUP_RECORDS, rows))


def one_a_second(count: int = 100) -> list[dict[str, Any]]:
    """A batch of one record each second from noon on."""
    return [batch(offset, offset, offset) for offset in range(count)]


def lags(df: DataFrame) -> list[tuple[Any, ...]]:
    rows = df.orderBy("topic", "partition", "at").selectExpr(
        f"(unix_millis(at) - {int(at(0).timestamp() * 1000)}) / 1000 AS s",
        *["committed_offset", "log_end_offset", "lag_messages", "lag_seconds", "data_lost"],
    )
    return [tuple(row) for row in rows.collect()]


def test_the_lag_of_now_is_a_point_though_all_is_younger_than_a_step(spark: SparkSession) -> None:
    """A point of the grid lies behind everything; and with one before the closing moment there are both."""
    positions, committed = frame(spark, BATCHES, one_a_second(20)), commits(spark, commit(1, 5, 3), commit(2, 15, 10))
    young = {"until": at(20), "closing": at(20)}
    assert lags(lag_over_time(committed, positions, **young)) == [(20, 10, 20, 10, 10.0, False)]
    assert lags(lag_over_time(committed, positions, until=at(20))) == []
    both = lags(lag_over_time(committed, positions, "7s", **young))
    until = at(20) + timedelta(microseconds=700)
    assert grid_moments(committed, None, until, 60_000)[-1] * 1000 <= until.timestamp() * 1_000_000
    assert [row[:4] for row in both] == [(7, 3, 8, 5), (14, 3, 15, 12), (20, 10, 20, 10)]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_pl23_lag_in_messages_and_seconds_on_the_grid(spark: SparkSession, ansi: str) -> None:
    """PL23: 100 records, one a second; 40 committed after a minute."""
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    expected = [(60, 40, 61, 21, 20.0, False), (120, 40, 100, 60, 80.0, False)]
    try:
        positions, committed = frame(spark, BATCHES, one_a_second()), commits(spark, commit(1, 60, 40))
        assert lags(lag_over_time(committed, positions)) == expected
        if ansi == "false":
            found = lag_over_time(shuffled(committed, 2), shuffled(positions, 7), every="1m")
            assert lags(found) == expected
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_the_lag_of_a_group_that_moved_to_another_log_partition_follows_it(spark: SparkSession) -> None:
    """The offsets topic got more partitions: offsets of two of its logs cannot be compared."""
    positions = frame(spark, BATCHES, one_a_second())
    moved = commits(spark, commit(900, 60, 40), commit(3, 90, 70, log_partition=30))
    assert [row[:4] for row in lags(lag_over_time(moved, positions))] == [(60, 40, 61, 21), (120, 70, 100, 30)]


def test_pl23_at_batch_grain_time_is_shared_out_and_exact_reads_the_record(spark: SparkSession) -> None:
    """One batch of 100 records whose first half was written in the first ten seconds."""
    positions = frame(spark, BATCHES, [batch(0, 99, 0, 99)])
    committed = commits(spark, commit(1, 60, 40))
    [_, second] = lags(lag_over_time(committed, positions))
    assert second == (120, 40, 100, 60, 80.0, False)
    raw = [
        {"topic": "orders", "partition": 0, "offset": n, "timestamp": at(n / 5 if n < 50 else n)} for n in range(100)
    ]
    [_, second] = lags(lag_over_time(committed, positions, records=frame(spark, RAW, raw)))
    assert second == (120, 40, 100, 60, 112.0, False)


def test_pl24_no_lag_no_log_and_lost_data(spark: SparkSession) -> None:
    """PL24."""
    at_end = commits(spark, commit(1, 60, 100))
    assert lags(lag_over_time(at_end, frame(spark, BATCHES, one_a_second())))[-1] == (120, 100, 100, 0, 0.0, False)

    elsewhere = frame(spark, BATCHES, [row | {"topic": "other"} for row in one_a_second()])
    assert lags(lag_over_time(at_end, elsewhere)) == [(60, 100, None, None, None, False)]

    late = frame(spark, BATCHES, [row for row in one_a_second() if row["base_offset"] >= 50])
    assert lags(lag_over_time(commits(spark, commit(1, 60, 40)), late)) == [
        (60, 40, 61, 11, 10.0, True),
        (120, 40, 100, 50, 70.0, True),
    ]


def test_a_tombstone_leaves_no_committed_offset_and_no_lag(spark: SparkSession) -> None:
    """The group's offset was deleted; the row says so from then on."""
    committed = commits(spark, commit(1, 60, 40), commit(2, 70, None), commit(3, 130, 50))
    found = lag_over_time(committed, frame(spark, BATCHES, one_a_second()))
    assert [(row[0], row[1], row[3]) for row in lags(found)] == [(60, 40, 21), (120, None, None), (180, 50, 50)]
    assert [row.idle_seconds for row in found.orderBy("at").collect()] == [0.0, 50.0, 50.0]


def test_a_gap_left_by_compaction_is_waited_for_by_the_record_behind_it(spark: SparkSession) -> None:
    """Offsets 10 to 29 are gone: the oldest record not consumed is 30."""
    positions = frame(spark, BATCHES, [batch(0, 9, 0), batch(30, 39, 30, 39)])
    found = lag_over_time(commits(spark, commit(1, 60, 15)), positions, until=at(60))
    assert lags(found) == [(60, 15, 40, 25, 30.0, False)]


def test_since_and_until_cut_the_grid_and_nothing_else(spark: SparkSession) -> None:
    """What was committed before `since` still counts."""
    positions = frame(spark, BATCHES, one_a_second(600))
    committed = commits(spark, commit(1, 60, 40), commit(2, 100, 90))
    whole = lag_over_time(committed, positions)
    cut = lag_over_time(committed, positions, since=at(150), until=at(301))
    assertDataFrameEqual(cut, whole.where(whole["at"].between(at(180), at(300))))
    assert cut.count() == 3


def test_a_clock_ahead_gives_no_negative_seconds(spark: SparkSession) -> None:
    """The producer's clock is an hour ahead: waited 0 s, not -3600."""
    positions = frame(spark, BATCHES, [batch(0, 9, 0), batch(10, 19, 3600, 50)])
    found = lag_over_time(commits(spark, commit(1, 60, 10)), positions, until=at(60))
    assert lags(found) == [(60, 10, 20, 10, 0.0, False)]


def test_now_needs_only_the_log_ends(spark: SparkSession) -> None:
    """As ListOffsets gives them; without the topic's records nobody knows for how long."""
    ends = spark.createDataFrame([("orders", 0, 0, 100), ("orders", 1, 0, 5)], PARTITIONS)
    committed = commits(
        spark, commit(1, 10, 30), commit(2, 20, 40), commit(3, 20, 5, partition=1), commit(4, 20, None, partition=2)
    )
    assert lags(lag_now(committed, ends, at(90))) == [(90, 40, 100, 60, None, False), (90, 5, 5, 0, 0.0, False)]
    timed = lag_now(committed, ends, at(90), positions=frame(spark, BATCHES, one_a_second()))
    assert lags(timed)[0] == (90, 40, 100, 60, 50.0, False)


def test_spans_are_written_as_people_do() -> None:
    """And nothing else is one."""
    assert [span_ms(text) for text in ("1m", "90s", "1 minute", "2h", "500ms", "7d", 5)] == [
        *(60_000, 90_000, 60_000, 7_200_000, 500, 604_800_000, 5)
    ]
    for wrong in ("", "m", "1 month", "-1m", "0s"):
        with pytest.raises(ValueError, match="no span"):
            span_ms(wrong)


def stuck(spark: SparkSession, rows: list[dict[str, Any]], *generations: dict[str, Any], **more: Any) -> list[Any]:
    owners = membership(frame(spark, GROUP_GENERATIONS, generations))
    positions = frame(spark, BATCHES, more.pop("positions", one_a_second(1200)))
    found = stuck_partitions(commits(spark, *rows), positions, owners, **more)
    return found.orderBy("partition").collect()


def test_a_partition_without_progress_is_stuck_and_the_verdict_says_how(spark: SparkSession) -> None:
    """Twenty minutes of records; offset 40 is the last that was committed, at 60 s."""
    owner = generation(1, 0, 1, member("a", [0]))
    [row] = stuck(spark, [commit(1, 30, 20), commit(2, 60, 40)], owner)
    assert (row.verdict, row.committed_offset, row.commits_since) == ("no_commits", 40, 0)
    assert (row.log_end_offset, row.lag_messages, row.owner_member_id) == (1200, 1160, "a")
    again = [commit(n, n * 60, 40) for n in range(1, 18)]
    [row] = stuck(spark, again, owner)
    assert (row.verdict, row.commits_since) == ("no_progress", 16)
    positions = frame(spark, BATCHES, one_a_second(1200))
    nobody = membership(frame(spark, GROUP_GENERATIONS, []))
    for partitions in (1, 7):
        committed = shuffled(commits(spark, commit(1, 30, 20), commit(2, 60, 40)), partitions)
        [row] = stuck_partitions(committed, shuffled(positions, partitions), nobody).collect()
        assert (row.verdict, row.owner_member_id, row.owner_client_host) == ("no_owner", None, None)


def test_a_group_at_the_log_end_is_not_stuck_until_records_have_waited(spark: SparkSession) -> None:
    """Idle for an hour, then five minutes of records: five minutes, not an hour."""
    old = [batch(0, 39, 0, 39)]
    fresh = [*old, *[batch(40 + n, 40 + n, 3600 + n) for n in range(300)]]
    assert stuck(spark, [commit(1, 60, 40)], positions=fresh) == []
    [row] = stuck(spark, [commit(1, 60, 40)], positions=fresh, lasting="4m")
    assert row.stuck_since.timestamp() == at(3600).timestamp()
    assert stuck(spark, [commit(1, 60, 40)], positions=old, until=at(3600)) == []


def test_what_stands_still_is_looked_at_as_of_the_newest_record_of_any_kind(spark: SparkSession) -> None:
    """Ten minutes pass in which nobody commits or writes; only some group's generation is logged."""
    old = [batch(0, 99, 0, 99)]
    assert stuck(spark, [commit(1, 60, 40)], positions=old) == []
    records = frame(spark, GROUP_RECORDS, [commit(1, 60, 40), commit(2, 760, None) | {"record_type": "group_metadata"}])
    [row] = stuck(spark, [commit(1, 60, 40)], positions=old, records=records)
    assert row.verdict == "no_owner"


def test_moving_groups_and_deleted_offsets_are_not_stuck(spark: SparkSession) -> None:
    """Progress within the span, or nobody left who should make any."""
    assert stuck(spark, [commit(1, 60, 40), commit(2, 900, 41)]) == []
    assert stuck(spark, [commit(1, 60, 40), commit(2, 70, None)]) == []


def test_an_owner_that_never_committed_is_stuck_when_records_came_after_it(spark: SparkSession) -> None:
    """Partition 1 is owned, and nothing of it was ever committed."""
    owner = generation(1, 100, 1, member("a", [0, 1]))
    positions = [*one_a_second(1200), *[row | {"partition": 1} for row in one_a_second(1200)]]
    [row] = stuck(spark, [commit(1, 1190, 1180)], owner, positions=positions)
    assert (row.partition, row.committed_offset, row.lag_messages, row.verdict) == (1, None, 1200, "no_commits")


def test_the_worst_moment_of_a_group_is_before_it_commits_again(spark: SparkSession) -> None:
    """An outage that is over: 80 records and 80 s behind when it came back, nothing at the end."""
    positions = frame(spark, BATCHES, one_a_second())
    committed = commits(spark, commit(1, 9, 10), commit(2, 90, 91), commit(3, 100, 100))
    [row] = worst_lag(committed, positions).toArrow().to_pylist()
    [early] = worst_lag(committed, positions, until=at(50)).toArrow().to_pylist()
    [late] = worst_lag(committed, positions, since=at(95)).toArrow().to_pylist()
    columns = ("worst_lag_messages", "worst_lag_at", "worst_lag_seconds")
    assert [row[name] for name in columns] == [81, at(90), 80.0]
    assert [early[name] for name in columns] == [41, at(50), 40.0]
    assert late["worst_lag_messages"] == 9
