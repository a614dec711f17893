"""Who fills the offsets log, and one row for each group."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from pipeline.decode.schemas import BATCHES, CONSUMER_GROUP_RECORDS, GROUP_GENERATIONS, GROUP_RECORDS
from pipeline.transformations import groups, growth, growth_partitions, lag_now, offset_commits, rebalances
from tests.pipeline.rows import at, batch, commit, consumer, frame, generation, member, shuffled
from tests.pipeline.test_rebalances import current, joining


def chatty_and_calm() -> list[dict[str, Any]]:
    """A minute: chatty commits 10 times a second on 6 partitions, each record; calm every 5 s."""
    rows = [commit(n, n / 60, 5000 + n // 6, group_id="chatty", partition=n % 6) for n in range(3600)]
    return rows + [commit(4000 + n, n * 5, 100 + (n // 6) * 50, group_id="calm") for n in range(12)]


def test_growth_by_the_minute(spark: SparkSession) -> None:
    """The same records in finer windows: sums stay, rates are of the minute."""
    records = frame(spark, GROUP_RECORDS, chatty_and_calm())
    minutes = [row for row in growth(records, "20 seconds").collect() if row.group_id == "chatty"]
    assert sum(row.commits for row in minutes) == 3600
    assert {(row.commits_per_second, row.bytes_per_day) for row in minutes if row.commits == 1200} == {
        (60.0, next(row.bytes for row in minutes if row.commits == 1200) * 3 * 1440)
    }


def test_pl25_the_group_that_commits_every_record_is_first_and_named(spark: SparkSession) -> None:
    """PL25."""
    records = frame(spark, GROUP_RECORDS, chatty_and_calm())
    first, second = growth(records).orderBy("share", ascending=False).collect()
    assert (first.group_id, first.verdict, first.commits, first.distinct_keys) == (
        "chatty",
        "commit_per_message",
        3600,
        6,
    )
    assert first.share > 0.9
    assert (first.commits_per_key, first.commits_per_second, first.bytes_per_day) == (600.0, 1.0, first.bytes * 24)
    assert (second.group_id, second.verdict) == ("calm", None)
    assert first.share + second.share == 1.0
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for partitions in (1, 7):
            assertDataFrameEqual(growth(shuffled(records, partitions)), growth(records))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_records_are_counted_by_kind_and_hour(spark: SparkSession) -> None:
    """Commits, tombstones and the rest add up; hours are apart."""
    rows = [commit(1, 1, 10), commit(2, 2, None), commit(3, 3600, 11)]
    rows += [
        commit(4, 5, None, record_type="group_metadata", topic=None, partition=None, tombstone=gone) for gone in (0, 1)
    ]
    found = growth(frame(spark, GROUP_RECORDS, [row | {"tombstone": bool(row["tombstone"])} for row in rows]))
    assert [
        (row.commits, row.tombstones, row.group_records, row.distinct_keys, row.share)
        for row in found.orderBy("window_start").collect()
    ] == [(1, 2, 1, 1, 1.0), (1, 0, 0, 1, 1.0)]


def test_a_log_partition_says_why_it_is_not_compacted(spark: SparkSession) -> None:
    """Each reason in turn."""
    log = {"topic": "__consumer_offsets", "partition": 7}
    closed = [batch(n * 10, n * 10 + 9, n, **log) for n in range(4)]
    active = batch(40, 49, 40, **(log | {"file": "40.log"}))
    records = frame(
        spark, GROUP_RECORDS, [commit(n, n, n, partition=n % 3) for n in range(49)] + [commit(49, 49, None)]
    )

    def row(rows: list[dict[str, Any]], first_dirty: int | None = None) -> Any:
        cleaning = spark.createDataFrame(
            [(7, first_dirty, 0)], "log_partition int, first_dirty_offset bigint, log_start_offset bigint"
        )
        [found] = growth_partitions(records, frame(spark, BATCHES, rows), cleaning).collect()
        return found

    [only] = growth_partitions(records, frame(spark, BATCHES, [active])).collect()
    assert only.blocked_by == "only the active segment"
    assert row([*closed, active]).blocked_by == "no clean checkpoint"
    assert row([*closed, active], 30).blocked_by == "ratio below threshold"
    due = row([*closed, active], 10)
    assert (due.blocked_by, due.size_bytes, due.segments, due.dirty_bytes, due.dirty_ratio) == (None, 500, 2, 300, 0.75)
    assert (due.log_start_offset, due.log_end_offset, due.live_keys, due.tombstones) == (0, 50, 2, 1)
    assert due.largest_group == "g"
    transaction = batch(50, 52, 50, **(log | {"producer_id": 5, "is_transactional": True, "file": "40.log"}))
    held = row([*closed, active, transaction | {"base_offset": 10, "last_offset": 10}], 10)
    assert held.blocked_by == "open transaction since 2026-03-01T12:00:50.000Z"
    assert held.open_transaction_from == 10
    marker = transaction | {"base_offset": 53, "last_offset": 53, "is_control": True}
    assert row([*closed, active, transaction, marker], 10).open_transaction_from is None


def summary(spark: SparkSession, rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    generations = frame(spark, GROUP_GENERATIONS, more.pop("generations", []))
    consumers = frame(spark, CONSUMER_GROUP_RECORDS, more.pop("consumers", []))
    records = frame(spark, GROUP_RECORDS, rows)
    found = groups(records, generations, consumers, rebalances(generations, None, consumers), **more)
    return {row.group_id: row for row in found.collect()}


def other(offset: int, logged: float, record_type: str, group_id: str, **more: Any) -> dict[str, Any]:
    return commit(offset, logged, 1, record_type=record_type, group_id=group_id, topic=None, partition=None,
                  committed_offset=None, key=record_type.encode(), **more)  # fmt: skip


def test_groups_are_what_is_left_of_them(spark: SparkSession) -> None:
    """A classic one at work, one of offsets only, one that is gone, and a share group."""
    generations = [generation(1, 1, 3, member("a", [0, 1])), generation(5, 60, 4, member("a", [0]), member("b", [1]))]
    generations += [generation(6, 6, 2, group_id="gone"), generation(8, 8, None, group_id="gone")]
    rows = [other(row["log_offset"], row["log_offset"], "group_metadata", row["group_id"]) for row in generations]
    rows += [commit(20, 90, 40), commit(21, 91, 7, topic="refunds"), commit(22, 92, 1, group_id="simple")]
    rows += [commit(23, 93, None, group_id="gone"), other(24, 94, "share_group_metadata", "shares")]
    ends = spark.createDataFrame(
        [("orders", 0, 0, 100)], "topic string, partition int, log_start_offset bigint, log_end_offset bigint"
    )
    lag = lag_now(offset_commits(frame(spark, GROUP_RECORDS, rows)), ends, at(100))
    found = summary(spark, rows, generations=generations, lag=lag)
    g = found["g"]
    assert (g.type, g.state, g.generation, g.members, g.topics, g.partitions) == ("classic", "Stable", 4, 2, 2, 3)
    assert (g.rebalances_24h, g.lag_messages, g.offsets_expire_at) == (1, 60, None)
    assert g.last_rebalance_at.timestamp() == at(60).timestamp()
    assert g.last_commit_at.timestamp() == at(91).timestamp()
    simple = found["simple"]
    assert (simple.type, simple.state, simple.members, simple.partitions) == ("offsets_only", "Empty", 0, 1)
    assert simple.offsets_expire_at.timestamp() == at(92 + 7 * 86400).timestamp()
    assert (found["gone"].type, found["gone"].state) == ("classic", "Removed")
    assert (found["shares"].type, found["shares"].state) == ("share", "Unknown")
    assert len(found) == 4


def test_an_empty_groups_offsets_go_after_it_has_been_empty_for_the_retention(spark: SparkSession) -> None:
    """KIP-211: the clock starts when the last member leaves, for offsets that are committed later too."""
    generations = [generation(1, 1, 3, member("a", [0])), generation(5, 600, 4, state_changed_at=at(600))]
    rows = [other(5, 600, "group_metadata", "g"), commit(21, 700, 4, partition=1)]
    g = summary(spark, rows, generations=generations, offsets_retention="1h")["g"]
    assert (g.state, g.members) == ("Empty", 0)
    assert g.offsets_expire_at.timestamp() == at(600 + 3600).timestamp()


def test_offsets_go_by_their_own_clock_where_no_member_left_or_a_client_said_when(spark: SparkSession) -> None:
    """A group that only ever committed; a record without the time of the state; an expiry of OffsetCommit 2 to 4."""
    simple = [generation(5, 600, 0, protocol_type=None)]
    old = [generation(5, 600, 4, state_changed_at=None)]
    for generations in (simple, old):
        rows = [other(5, 600, "group_metadata", "g"), commit(20, 90, 40)]
        g = summary(spark, rows, generations=generations, offsets_retention="1h")["g"]
        assert g.offsets_expire_at.timestamp() == at(90 + 3600).timestamp()
    rows = [other(5, 600, "group_metadata", "g"), commit(20, 90, 40, expires_at=at(95))]
    g = summary(spark, rows, generations=[generation(5, 600, 4)], offsets_retention="1h")["g"]
    assert g.offsets_expire_at.timestamp() == at(95).timestamp()


def test_a_consumer_group_is_stable_when_all_have_come_to_its_epoch(spark: SparkSession) -> None:
    """Assigning, Reconciling, Stable, Empty, as it happens. A first rebalance leads from epoch 1 to 2."""
    rows = [other(1, 1, "consumer_group_metadata", "k")]
    joined = joining(1, 1, "a", 2, a=[0, 1])
    steps = [
        (joined[:-1], "Assigning", 1),
        (joined, "Reconciling", 1),
        ([*joined, current(10, 2, "a", 2, 0, 1)], "Stable", 1),
    ]
    for consumers, state, members in steps:
        k = summary(spark, rows, consumers=consumers)["k"]
        assert (k.type, k.state, k.generation, k.members) == ("consumer", state, 2, members)
    assert (k.topics, k.partitions) == (1, 2)
    left = [
        consumer(20 + i, 9, kind, "a", gone=True)
        for i, kind in enumerate(("member_metadata", "current_member_assignment"))
    ]
    left += [consumer(25, 9, "metadata", group_epoch=3), consumer(26, 9, "target_assignment_member", "a", gone=True)]
    k = summary(spark, rows, consumers=[*joined, current(10, 2, "a", 2, 0, 1), *left])["k"]
    assert (k.state, k.generation, k.members, k.partitions) == ("Empty", 3, 0, 0)
