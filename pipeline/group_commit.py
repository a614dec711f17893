"""A streaming query as a consumer group: after each batch its end offsets are committed, so that its lag is seen.

    attached = group_commit.attach(query, bootstrap="localhost:9092", group_id="spark-orders")

Never of itself: a query that reads `__consumer_offsets` finds there what was committed for it, which is nothing new.

Never ahead of the sink: only what the checkpoint says is done is committed, so after a crash the group is at most one
batch behind, and `attach` (or `catch_up`, before the query is started) commits that batch first. Never in the way: a
commit that fails is logged, counted and made up for by the next one.

The source's own `commit(end)` would not do: Spark calls it one batch late, and not at all after the last batch.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from pyspark.sql.streaming.listener import StreamingQueryListener

from coordinator.routing import partition_for
from pipeline.errors import DataError, EnvironmentMissing
from pipeline.sources.access import Access, access
from pipeline.sources.fetch_client import await_coordinator, connect
from pipeline.sources.log_dir import GROUPS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql.streaming.query import StreamingQuery

Positions = dict[tuple[str, int], int]
"""(topic, partition) -> the offset to be read next."""

_log = logging.getLogger(__name__)
_FLAT = re.compile(r"(.+)-(\d+)")
_TIMEOUT_S = 20.0


class GroupRefused(DataError):
    """The group's coordinator would not take a commit."""


def positions(end_offset: str | None) -> Positions:
    """What a source's offset says, if it is one of Kafka's partitions: else nothing.

    `{"t":{"0":5}}` of Spark's own connector, `{"t-0":5}` of kohort-log and kohort-kafka.
    """
    try:
        value = json.loads(end_offset or "")
    except ValueError:
        return {}
    found: Positions = {}
    for name, inner in value.items() if isinstance(value, dict) else ():
        flat = _FLAT.fullmatch(name)
        if isinstance(inner, dict):
            found |= {(name, int(number)): int(offset) for number, offset in inner.items() if number.isdigit()}
        elif flat and isinstance(inner, int):
            found[flat[1], int(flat[2])] = inner
    return found


def last_batch(checkpoint: str | Path) -> tuple[int, Positions] | None:
    """The newest batch that a checkpoint calls done, and where it ended; None when there is none.

    Source: Spark's OffsetSeqLog and CommitLog, version 1.
    """
    root = Path(checkpoint)
    done = [int(file.name) for file in (root / "commits").glob("*") if file.name.isdigit()]
    if not done:
        return None
    batch = max(done)
    lines = (root / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    # A version, the batch's own facts, then an offset per source.
    return batch, _together(lines[2:])


def _together(ends: Iterable[str | None]) -> Positions:
    """Where a query stands whose sources end there: of a partition that two of them read, the lesser counts."""
    found: Positions = {}
    for end in ends:
        for place, offset in positions(end).items():
            found[place] = min(offset, found.get(place, offset))
    return found


def only_own(group_id: str, before: Positions, now: Positions, written: int) -> bool:
    """Whether all that was read since `before` are the group's own last commits, which left `written` records.

    They lie in the one partition of `__consumer_offsets` that is the group's. If others wrote there too, it grew more.
    """
    changed = {place: offset for place, offset in now.items() if before.get(place) != offset}
    own = GROUPS_TOPIC, partition_for(group_id, max(sum(topic == GROUPS_TOPIC for topic, _ in now), 1))
    return set(changed) <= {own} and changed.get(own, 0) - before.get(own, 0) <= written


def catch_up(
    checkpoint: str | Path,
    *,
    bootstrap: str,
    group_id: str,
    name: str = "spark",
    settings: Mapping[str, str] | None = None,
) -> int | None:
    """Commit the newest finished batch of a checkpoint; return its number. For before a query is started again.

    `settings`, here and below: of a client, as Kafka's tools take them (TLS, SASL). Raises: GroupRefused, UsageError.
    """
    last = last_batch(checkpoint)
    if last is None:
        return None
    client = _Client(access(bootstrap, settings), group_id)
    try:
        client.commit(last[1], f"spark:{name}:{last[0]}")
    finally:
        client.close()
    return last[0]


def offsets_of(bootstrap: str, group_id: str, *, settings: Mapping[str, str] | None = None) -> str:
    """What a group has committed, as the option `startingOffsets` of a source. Nothing is made by asking.

    Raises: GroupRefused, DataError.
    """
    from pipeline.sources.cluster import admin, topics  # noqa: PLC0415

    cluster = access(bootstrap, settings)
    known = topics(cluster, also=(GROUPS_TOPIC,))
    # Who may see its own group need not see the topic; that it may not be seen does not say that there are no offsets.
    if GROUPS_TOPIC not in known.seen | known.denied:
        return "{}"
    with connect(cluster) as connection:
        await_coordinator(connection, group_id)
    client = admin(cluster)
    from confluent_kafka import ConsumerGroupTopicPartitions  # noqa: PLC0415  admin() says so where it is missing

    requested = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)], request_timeout=_TIMEOUT_S)
    try:
        rows = requested[group_id].result(2 * _TIMEOUT_S).topic_partitions
    except Exception as error:
        raise GroupRefused(f"{bootstrap}: the offsets of group {group_id!r} cannot be read: {error}") from error
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        if row.offset >= 0:
            found.setdefault(row.topic, {})[str(row.partition)] = row.offset
    return json.dumps(found)


def attach(
    query: StreamingQuery, *, bootstrap: str, group_id: str, settings: Mapping[str, str] | None = None
) -> Attached:
    """Commit the end of each batch of a running query to a group, from now on.

    The newest batch that is done already is committed before this returns, if it can be.
    """
    attached = Attached(query, _Client(access(bootstrap, settings), group_id))
    query_session(query).streams.addListener(attached)
    attached.commit_checkpoint()
    return attached


class Attached(StreamingQueryListener):
    """A query with its group. `commits` and `failures` count; `detach()` ends it."""

    def __init__(self, query: StreamingQuery, client: _Client) -> None:
        self.commits = 0
        self.failures = 0
        self.last_error: str | None = None
        self._id, self._run = str(query.id), str(query.runId)
        self._name = query.name or str(query.id)
        self._client = client
        self._session = query_session(query)
        self._checkpoint = _checkpoint_of(query)
        self._committed: Positions = {}
        self._written = 0  # records of the last commit, which the query may come to read

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Nothing to do."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing new; a commit that failed is tried again."""
        if self.last_error is not None and str(event.runId) == self._run:
            self.commit_checkpoint()

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch is in the checkpoint's commit log: commit where it ended."""
        progress = event.progress
        if str(progress.runId) != self._run:
            return
        self._commit(_together(source.endOffset for source in progress.sources), progress.batchId)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing to do: every batch has been committed by now."""

    def commit_checkpoint(self) -> None:
        """Commit what the checkpoint calls done."""
        last = last_batch(self._checkpoint) if self._checkpoint is not None else None
        if last is not None:
            self._commit(last[1], last[0])

    def detach(self) -> None:
        """Stop committing. What is committed stays."""
        self._session.streams.removeListener(self)
        self._client.close()

    def _commit(self, found: Positions, batch: int) -> None:
        changed = {place: offset for place, offset in found.items() if self._committed.get(place) != offset}
        if not changed or (self._committed and only_own(self._client.group_id, self._committed, found, self._written)):
            return
        try:
            self._client.commit(changed, f"spark:{self._name}:{batch}")
        except GroupRefused as error:
            self.failures += 1
            self.last_error = str(error)
            _log.warning("group_commit_failed group_id=%s batch=%d error=%s", self._client.group_id, batch, error)
            return
        self._committed, self._written = found, len(changed)
        self.commits += 1
        self.last_error = None


class _Client:
    """Sends OffsetCommit with generation -1 and no member id, as a consumer without a subscription does."""

    def __init__(self, cluster: Access, group_id: str) -> None:
        try:
            from confluent_kafka import Consumer  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise EnvironmentMissing(
                "committing to a group needs confluent-kafka: pip install confluent-kafka"
            ) from error
        self.group_id = group_id
        settings = {**cluster.library(), "group.id": group_id, "enable.auto.commit": False}
        # Failures come back from the calls; what librdkafka logs besides would only say them again.
        self._consumer = Consumer({**settings, "log_level": 0, "socket.timeout.ms": int(_TIMEOUT_S * 1000)})

    def commit(self, found: Positions, metadata: str) -> None:
        """Raises: GroupRefused."""
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

        wanted = [TopicPartition(*place, offset, metadata) for place, offset in sorted(found.items())]
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            raise GroupRefused(self._words(error.args[0])) from error
        refused = next((one.error for one in done or () if one.error), None)
        if refused is not None:
            raise GroupRefused(self._words(refused))

    def _words(self, error: Any) -> str:
        if error.name() == "UNKNOWN_MEMBER_ID":
            return f"group {self.group_id} has active members; choose another group id"
        return f"{error.name()}: {error.str()}"

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()


def query_session(query: StreamingQuery) -> Any:
    """The session that a query runs in."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _checkpoint_of(query: StreamingQuery) -> Path | None:
    """Where a query keeps its checkpoint, if that is a local directory."""
    try:
        place = str(query._jsq.streamingQuery().resolvedCheckpointRoot())  # no public way from Python
    except Exception:
        return None
    parsed = urlparse(place)
    return Path(parsed.path) if parsed.scheme in ("", "file") else None
