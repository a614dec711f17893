"""A live Apache Kafka with its default settings, as the pipeline's first users have it: no ledger, nothing of ours."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from pipeline import command_line, group_commit
from pipeline.jobs import stream_tables
from pipeline.jobs.inputs import Inputs
from pipeline.sources import log_ends
from pipeline.sources.access import access
from pipeline.transformations.keys import PAIR
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.pipeline.test_cli import run
from tests.support.broker_process import Kafka, eventually
from tests.support.wire import Wire

__all__ = ["run"]
pytestmark = pytest.mark.slow
LONG = pytest.mark.long
NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._WAIT_COORD,
    KafkaError._TIMED_OUT,
}


def create(kafka: Kafka, topic: str, partitions: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)


def produce(kafka: Kafka, topic: str, count: int, partitions: int = 3) -> None:
    producer = Producer({"bootstrap.servers": kafka.address})
    for number in range(count):
        producer.produce(topic, b"v%d" % number, partition=number % partitions)
    assert producer.flush(60) == 0


def commit(kafka: Kafka, group: str, topic: str, *offsets: int) -> None:
    settings = {"bootstrap.servers": kafka.address, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer(settings)
    wanted = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]

    def taken() -> bool:
        try:
            consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            # The first group of all: the topic of groups is being made.
            assert error.args[0].code() in NOT_YET, error
            return False
        return True

    eventually(taken, deadline_s=120, every_s=0.2)
    consumer.close()


def topics(kafka: Kafka) -> set[str]:
    return set(AdminClient({"bootstrap.servers": kafka.address}).list_topics(timeout=300).topics)


@pytest.fixture(scope="module")
def orders(kafka: Kafka) -> Kafka:
    """300 records in three partitions, of which group `readers` has read 10, 20 and 30."""
    create(kafka, "orders")
    produce(kafka, "orders", 300)
    commit(kafka, "readers", "orders", 10, 20, 30)
    # The lag over time is looked at on whole seconds: there has to be one since the commits.
    committed_s = time.time()
    eventually(lambda: time.time() > committed_s + 2, deadline_s=10)
    return kafka


@pytest.mark.parametrize("verb", [pytest.param("groups", marks=LONG), "rebalances", pytest.param("report", marks=LONG)])
def test_verbs_that_look_for_a_ledger_work_where_there_is_none_and_make_none(
    verb: str, run: Any, orders: Kafka, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes, no record of the topics is sent for it, and the cluster has the topics that it had."""
    before = topics(orders)
    read = Inputs.batches
    monkeypatch.setattr(Inputs, "batches", lambda inputs, names: read(inputs, names) if not names else names[0].fail())
    words = ["--to", tmp_path / "report.html"] if verb == "report" else ["--format", "json"]
    code, out, err = run(verb, "--from", orders.address, "--group", "readers", *words)
    assert code == 0, err
    if verb == "groups":
        [row] = map(json.loads, out.splitlines())
        assert (row["group_id"], row["lag_messages"]) == ("readers", 90 + 80 + 70)
    if verb == "report":
        page = (tmp_path / "report.html").read_text()
        assert "lag-messages" in page
        assert "<dt>worst lag</dt><dd>90</dd>" in page
    assert topics(orders) == before


@pytest.mark.parametrize(
    "options",
    [
        {"topic": "nothing-yet"},
        {"topic": "orders", "startingOffsets": "latest"},
        {"topic": "orders", "startingTimestamp": str(round(time.time() * 1000) + 86_400_000)},
        {"topic": "nothing-yet", "records": "batch"},
    ],
)
def test_a_batch_read_of_nothing_has_no_rows(options: dict[str, str], spark: SparkSession, orders: Kafka) -> None:
    """An empty topic, its end, a moment that has not come: a frame without rows."""
    if "nothing-yet" not in topics(orders):
        create(orders, "nothing-yet")
    rows = spark.read.format("kohort-kafka").options(bootstrap=orders.address, **options).load()
    assert rows.count() == 0


def test_kafkas_own_metadata_log_is_decoded(spark: SparkSession, orders: Kafka) -> None:
    """Every record of it, those without fields too: Kafka writes NoOpRecord all the time."""
    from pipeline import decode

    raw = spark.read.format("kohort-log").options(path=str(orders.data), topic="__cluster_metadata").load()
    rows = decode.metadata_records(raw).select("record_type", "problem", "fields", "topic").collect()
    assert {row.problem for row in rows} == {None}
    assert {"no_op_record", "begin_transaction_record", "end_transaction_record"} <= {row.record_type for row in rows}
    assert "orders" in {row.topic for row in rows if row.record_type == "topic_record"}
    assert {row.fields for row in rows if row.record_type == "no_op_record"} == {"{}"}


@LONG
def test_lag_of_topics_made_later_and_of_internal_ones_is_told_as_it_is(
    spark: SparkSession, orders: Kafka, tmp_path: Path
) -> None:
    """A stream goes on as topics come; a log that it does not see has no lag, rather than none to speak of."""
    words = ["--to", str(tmp_path / "to"), "--checkpoint", str(tmp_path / "checkpoint"), "--every", "1s"]
    asking = command_line.read(["lag", "--from", orders.address, "--stream", *words, "--watermark", "1s"])
    commit(orders, "before", "orders", 1)
    told: dict[tuple[str, str, int], list[Any]] = {}

    def write(frame: Any, _: int) -> None:
        for row in frame.orderBy("at").collect():
            told.setdefault(tuple(row[name] for name in PAIR), []).append(row)

    with Inputs(spark, asking) as inputs:
        job = stream_tables.job(inputs, write)
        writer = job.frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(job.each).trigger(processingTime="100 milliseconds").start()
        try:
            query.processAllAvailable()
            create(orders, "made-later", 1)
            produce(orders, "made-later", 30, 1)
            commit(orders, "later", "made-later", 10)
            commit(orders, "watcher", "__consumer_offsets", *([0] * 50))

            def both_told() -> bool:
                commit(orders, "clock", "orders", 1)  # time goes on with commits
                query.processAllAvailable()
                return ("later", "made-later", 0) in told and any(group == "watcher" for group, _, _ in told)

            eventually(both_told, deadline_s=180, what="rows of both groups")
        finally:
            query.stop()
    last = {pair: rows[-1] for pair, rows in told.items()}
    assert (last["later", "made-later", 0].log_end_offset, last["later", "made-later", 0].lag_messages) == (30, 20)
    of_watcher = [row.lag_messages for (group, _, _), row in last.items() if group == "watcher"]
    assert max(of_watcher) > 0, "the log of __consumer_offsets that holds these commits is not empty"


def test_a_stream_that_commits_to_a_group_does_not_feed_itself(
    spark: SparkSession, orders: Kafka, tmp_path: Path
) -> None:
    """Its own commits lie in the topic that it reads: on a broker where nobody else does anything it comes to rest."""
    words = ["--to", str(tmp_path / "to"), "--checkpoint", str(tmp_path / "checkpoint"), "--as-group", "itself"]
    asking = command_line.read(["commits", "--from", orders.address, "--stream", *words])
    rows: list[Any] = []
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "500")
    with Inputs(spark, asking) as inputs:
        job = stream_tables.job(inputs, lambda frame, _: rows.extend(frame.collect()))
        writer = job.frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(job.each).trigger(processingTime="100 milliseconds").start()
        attached = group_commit.attach(query, bootstrap=orders.address, group_id="itself")
        try:
            eventually(lambda: attached.commits, deadline_s=120, what="a commit")
            idle = IdleTimes()
            spark.streams.addListener(idle)
            eventually(lambda: idle.count >= 3 or query.exception(), deadline_s=60, what="a stream at rest")
            at_rest = attached.commits
            commit(orders, "somebody", "orders", 77)
            eventually(lambda: attached.commits > at_rest, deadline_s=60, what="a commit for what somebody else did")
            count = idle.count
            eventually(lambda: idle.count >= count + 3, deadline_s=60, what="a stream at rest again")
            spark.streams.removeListener(idle)
        finally:
            query.stop()
            attached.detach()
            spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    assert query.exception() is None
    assert "itself" not in {row.group_id for row in rows}
    assert ("somebody", 77) in {(row.group_id, row.committed_offset) for row in rows}
    stands = json.loads(group_commit.offsets_of(orders.address, "itself"))["__consumer_offsets"]
    assert len(stands) == 50


class IdleTimes(StreamingQueryListener):
    """How often Spark said that nothing was new, one after the other."""

    def __init__(self) -> None:
        self.count = 0

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's name
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if event.progress.numInputRows:
            self.count = 0

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.count += 1

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


@LONG
def test_two_copies_of_a_partition_count_once(run: Any, orders: Kafka, tmp_path: Path) -> None:
    """As of two brokers' directories, one of which has more: the lag of each partition once, up to what is agreed."""
    create(orders, "copied", 1)
    produce(orders, "copied", 20, 1)
    commit(orders, "copiers", "copied", 5)
    mark = orders.data / "replication-offset-checkpoint"

    def copy(place: Path) -> None:
        place.mkdir()
        for folder in [*orders.data.glob("__consumer_offsets-*"), orders.data / "copied-0"]:
            shutil.copytree(folder, place / folder.name)
        # As a broker notes it from time to time: what it had then.
        (place / mark.name).write_text("0\n1\ncopied 0 15\n")

    copy(tmp_path / "one")
    produce(orders, "copied", 10, 1)
    copy(tmp_path / "two")
    words = ["--now", "--group", "copiers", "--format", "json"]
    code, out, err = run("lag", "--from", f"{tmp_path / 'one'},{tmp_path / 'two'}", *words)
    assert code == 0, err
    [row] = map(json.loads, out.splitlines())
    assert (row["log_end_offset"], row["lag_messages"]) == (20, 15)
    (tmp_path / "two" / mark.name).write_text("0\n1\ncopied 0 27\n")
    code, out, err = run("groups", "--from", f"{tmp_path / 'one'},{tmp_path / 'two'}", *words[1:])
    assert code == 0, err
    [row] = map(json.loads, out.splitlines())
    assert (row["group_id"], row["lag_messages"]) == ("copiers", 22)


class Member:
    """A member of a KIP-848 group that does what it is told, heartbeat by heartbeat."""

    def __init__(self, kafka: Kafka, group: str, name: str, topic: str) -> None:
        self.wire = Wire(kafka.address)
        self.group, self.name, self.topic = group, name, topic
        self.epoch = 0
        self.owned: list[TopicPartitions] = []

    def heartbeat(self, epoch: int | None = None, *, take: bool = True) -> int:
        """Say where it is; with `take` it makes the partitions its own that it is given. Returns its epoch."""
        joins = self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.name,
            member_epoch=self.epoch if epoch is None else epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=[self.topic] if joins else None,
            topic_partitions=None if epoch is not None else self.owned,
        )
        answer = self.wire.call(request, 1)
        assert not answer.error_code, answer
        self.epoch = answer.member_epoch
        if take and answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions
        return self.epoch

    def count(self) -> int:
        """How many partitions are its own."""
        return sum(len(topic.partitions) for topic in self.owned)

    def leave(self) -> None:
        self.heartbeat(-1)
        self.wire.close()


def test_a_consumer_group_is_not_looked_at_between_records_that_were_written_as_one(run: Any, orders: Kafka) -> None:
    """A goes before it has given up what B is to have: that epoch is never reached, and nobody may say that it was."""
    create(orders, "nine", 9)
    a, b = (Member(orders, "modern", name, "nine") for name in ("a", "b"))
    eventually(lambda: a.heartbeat() and a.count() == 9, what="all partitions for A", every_s=0.1)
    first = a.epoch
    b.heartbeat()
    eventually(lambda: b.heartbeat() == first + 1, what="a target with B in it", every_s=0.1)
    assert a.heartbeat(take=False) == first
    a.leave()
    eventually(lambda: b.heartbeat() == first + 2 and b.count() == 9, what="all partitions for B", every_s=0.1)
    # Spark may take longer than its session would last.
    b.leave()
    code, out, err = run("rebalances", "--from", orders.address, "--group", "modern", "--format", "json")
    assert code == 0, err
    names = ("source", "from_generation", "to_generation", "missing_generations", "members_before", "members_after")
    names += ("joined", "left", "partitions_total", "partitions_moved")
    told = [tuple(json.loads(line)[name] for name in names) for line in out.splitlines()]
    # Before that, at most the epoch in which the topic came to be known.
    assert sorted(row for row in told if row[2] > first) == [
        ("epoch", first, first + 2, 1, 1, 1, ["b"], ["a"], 9, 9),
        ("epoch", first + 2, first + 3, 0, 1, 0, [], ["b"], 0, 9),
    ]
    assert len(told) <= first + 1
    code, out, err = run("groups", "--from", orders.address, "--group", "modern", "--format", "json")
    assert code == 0, err
    [row] = map(json.loads, out.splitlines())
    found = (row["type"], row["state"], row["generation"], row["members"])
    assert found == ("consumer", "Empty", first + 3, 0)


def test_the_lag_of_the_past_is_asked_for_and_no_topic_is_read(run: Any, orders: Kafka) -> None:
    """Records of ten minutes, one a second: at each grid point the end is where it was, and nothing is fetched."""
    create(orders, "timed", 1)
    now = round(time.time() * 1000) // 60_000 * 60_000
    producer = Producer({"bootstrap.servers": orders.address})
    for second in range(600):
        producer.produce("timed", b"v", partition=0, timestamp=now - 600_000 + second * 1000)
    assert producer.flush(60) == 0
    commit(orders, "in-time", "timed", 250)
    moments = [now - 600_000 + minute * 60_000 for minute in range(11)]
    found, untold = log_ends.growth(access(orders.address), ["timed"], moments)
    assert untold == set()
    assert [(one.base_offset, one.last_offset, one.base_ms, one.max_ms) for one in found] == [
        (0, 0, moments[0], moments[0]),
        *[(1 + 60 * n, 60 + 60 * n, moments[n], moments[n + 1]) for n in range(9)],
        (541, 599, moments[9], moments[10]),
    ]
    # The commit is younger than a step: the last point is this moment.
    code, out, err = run("lag", "--from", orders.address, "--group", "in-time", "--every", "1h", "--format", "json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows
    assert {(row["committed_offset"], row["log_end_offset"], row["lag_messages"]) for row in rows} == {(250, 600, 350)}

    # Where somebody's clock is ahead, what is behind is not lost.
    producer.produce("timed", b"v", partition=0, timestamp=now + 1_800_000)
    assert producer.flush(60) == 0
    _, untold = log_ends.growth(access(orders.address), ["timed"], moments)
    assert untold == {"timed"}


def test_an_idle_log_costs_as_many_questions_as_it_has_changes() -> None:
    """Of a thousand moments with one change the ends are found by halving."""
    line = log_ends._Line({0: 0, 999: 10}, [(0, 999)])
    asked_for = 0
    while (at := line.next()) is not None:
        line.learn(10 if at >= 700 else 0)
        asked_for += 1
    assert asked_for <= 11
    assert sorted(at for at, end in line.ends.items() if end == 10)[0] == 700
