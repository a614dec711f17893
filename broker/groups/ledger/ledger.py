"""Writes the rebalance ledger: events of groups become records of `__kohort_rebalances`, after the replies have left.

Never in the way: an event is put aside where it happens; records are made, encoded and appended in a later turn of the
loop, a slice at a time. An append that fails is counted and logged once, and nothing waits for it or is tried again.

Always true: the records of one group stand in the order of its events; a loaded group's open rebalance is ended
(`interrupted`) before anything new is told of it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from broker.catalogue.internal_topics import LEDGER_TOPIC, OFFSETS_TOPIC, ledger_topic
from broker.groups.ledger import event_records, reading
from broker.groups.ledger.departures import Departures
from broker.groups.ledger.group_history import GroupHistory, follow
from broker.groups.ledger.refusals import Refusals
from broker.groups.ledger.shape import Record as LedgerRecord
from broker.groups.ledger.unread import Unread
from broker.loop.logs import get_logger
from broker.partitions.errors import PartitionLoading
from coordinator.events import CommitRefused, GroupRemoved, JoinRefused, PartitionsTaken
from coordinator.routing import partition_for
from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch_encoder import encode_batch
from protocol.records.batch_reader import Record
from protocol.records.errors import UnparsableRecord
from protocol.records.ledger import KIND_HEADER, decode_whole, encode_value
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from broker.catalogue.catalogue import Catalogue
    from broker.catalogue.requests import Result
    from broker.config.settings import Settings
    from broker.groups.groups import GroupLeader, Groups
    from broker.loop.runtime import Runtime
    from broker.partitions import Partition, Partitions
    from coordinator.events import GroupEvent
    from coordinator.view import AnyGroup
    from coordinator.why.verdicts import Verdict
    from coordinator.why.window import Finding

log = get_logger(__name__)

RETRY_MS = 100  # while the topic is being made, or its log recovered
BACKLOG_MAX = 20_000  # events that wait for that; more are dropped, and counted
_MEMBERS_A_STEP = 64  # told in records that are made and appended together
_BATCH_BYTES = 786_432  # below the topic's max.message.bytes
_TAIL_RECORDS = 5_000  # of a partition that are looked at after a start: an open rebalance is not older


class _GroupsLoaded:
    """A leader has read its groups from the log."""

    __slots__ = ("at_ms", "groups", "index")

    def __init__(self, index: int, groups: Mapping[str, AnyGroup], at_ms: int) -> None:
        self.index = index
        self.groups = groups
        self.at_ms = at_ms


class Ledger:
    """See the module. A listener of `Groups`; only the event loop calls it.

    `listeners` are told every record as it is made, whether or not it can be written. `errors` counts records that
    were not written.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        catalogue: Catalogue,
        partitions: Partitions,
        groups: Groups,
        cluster_id: str,
    ) -> None:
        self.enabled: bool = settings.kohort_ledger_enable
        self.listeners: list[Callable[[Mapping[str, Any]], None]] = []
        self.errors = 0
        self._runtime = runtime
        self._cluster_id = cluster_id
        self._catalogue = catalogue
        self._partitions = partitions
        self._groups = groups
        self._queue: deque[GroupEvent | _GroupsLoaded] = deque()
        self._write_due = False
        self._creating = False
        self._failing = False  # said so already
        self._histories: dict[int, dict[str, GroupHistory]] = {}  # by coordinator partition and group
        self._refusals = Refusals(runtime, self._put)
        self.unread = Unread(runtime, self._put)
        self._departures = Departures(runtime, groups.peers, self._put)
        groups.event_listeners.append(self.happened)
        groups.load_listeners.append(self.loaded)
        if self.enabled:
            partition_count = settings.offsets_topic_num_partitions
            groups.create_listeners.append(lambda: self._make_topic(partition_count))

    # -- what happens --------------------------------------------------------------------------------------

    def happened(self, event: GroupEvent) -> None:
        """Put an event aside."""
        if not (self.enabled or self.listeners):
            return
        self._departures.happened(event)
        if isinstance(event.what, (CommitRefused, JoinRefused)):
            self._refusals.add(event)
        elif isinstance(event.what, PartitionsTaken):
            self.unread.taken(event, event.what)
        elif event.what.recorded:
            self._put(event)

    def loaded(self, leader: GroupLeader) -> None:
        """A leader's groups were read from the log: rebalances that were going on are over."""
        if self.enabled and (leader.shard.states or leader.index in self._histories):
            self._put(_GroupsLoaded(leader.index, dict(leader.shard.states), self._runtime.now_ms()))

    def _put(self, item: GroupEvent | _GroupsLoaded) -> None:
        if len(self._queue) >= BACKLOG_MAX:
            self._failed(1, "too many wait to be written")
            return
        self._queue.append(item)
        if not self._write_due:
            self._write_due = True
            # Not in this turn: its answers leave first.
            self._runtime.last(self._later)

    def _later(self) -> None:
        self._runtime.next_turn(self._write)

    @property
    def is_written(self) -> bool:
        """Whether all that has happened is written."""
        return not self._queue

    # -- writing -------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write what waits, in slices."""
        self._runtime.in_slices(self._steps(), self._wrote, self._write_failed, owner=self)

    def _steps(self) -> Generator[None, None, None]:
        while self._queue and self._some_written():
            yield

    def _some_written(self) -> bool:
        """Write a few of those that wait; whether the others can be written now."""
        queue, weight = self._queue, 0
        staged: dict[int, list[Record]] = {}
        able = True
        while queue and weight < _MEMBERS_A_STEP:
            able = False
            if self.enabled and not self._topic_is_there():
                break
            item = queue[0]
            try:
                records = self._records(item)
            except PartitionLoading:
                break
            except StorageError as error:
                self._waits(str(error))
                break
            except Exception:
                log.exception("ledger_event_failed", item=repr(item)[:500])  # a bug: the next ones are written
                records = []
                self.errors += 1
            able = True
            queue.popleft()
            for record in records:
                weight += 1 + len(record.get("members", ())) if isinstance(record.get("members", ()), list) else 1
                self._tell(record)
                if self.enabled:
                    self._stage(staged, record)
        for index, batch in staged.items():
            self._append(index, batch)
        return able

    def _wrote(self, _: None) -> None:
        if self._queue:
            self._runtime.timers.set(("ledger",), self._runtime.now_ms() + RETRY_MS, self._write)
        else:
            self._write_due = False

    def _write_failed(self, _: Exception) -> None:
        log.exception("ledger_failed")
        self._wrote(None)

    def _records(self, item: GroupEvent | _GroupsLoaded) -> list[LedgerRecord]:
        """What an item becomes. Raises: PartitionLoading, StorageError, and nothing has changed."""
        if isinstance(item, _GroupsLoaded):
            return self._interrupted(item)
        index = self._index_of(item.group_id)
        histories = self._histories_of(index)
        history = histories.get(item.group_id) or GroupHistory()
        record = event_records.record_of(item, self._common(index), history)
        if isinstance(item.what, GroupRemoved):
            histories.pop(item.group_id, None)
        elif not history.is_blank:  # what is seen later of a group that is gone begins no new one
            histories[item.group_id] = history
        return [record]

    def _interrupted(self, loaded: _GroupsLoaded) -> list[LedgerRecord]:
        histories, topics = self._histories_of(loaded.index), self._catalogue.image
        records = []
        for group_id, history in list(histories.items()):
            group = loaded.groups.get(group_id)
            if history.open is not None:
                common = self._common(loaded.index)
                records.append(event_records.interrupted(history.open, group, topics, common, loaded.at_ms))
                began_at = int(history.open.get("from_generation", -1))
                if (now_at := event_records.reached(group, began_at)) > began_at:
                    history.generation = now_at
                history.open = None
            if group is None:
                del histories[group_id]
            else:
                history.loaded(group, topics)
        return records

    def _stage(self, staged: dict[int, list[Record]], record: LedgerRecord) -> None:
        index = self._partition_index(record["group_id"])
        batch = staged.setdefault(index, [])
        value, headers = encode_value(record), ((KIND_HEADER, record["kind"].encode()),)
        if batch and sum(len(staged_record.value or b"") for staged_record in batch) + len(value) > _BATCH_BYTES:
            self._append(index, batch)
            batch.clear()
        batch.append(Record(len(batch), record["at_ms"], record["group_id"].encode(), value, headers))

    def _append(self, index: int, records: list[Record]) -> None:
        try:
            partition = self._partitions.get(LEDGER_TOPIC, index)
            if partition is None:
                self._failed(len(records), "the topic was deleted")
                return
            partition.append(encode_batch(records))
        except (KafkaError, OSError) as error:
            self._failed(len(records), str(error))
        else:
            self._failing = False

    def _waits(self, why: str) -> None:
        """What was told before cannot be read, which the next records build on: they are written when it can."""
        if not self._failing:
            self._failing = True
            log.error("ledger_waits", records=len(self._queue), error=why)

    def _failed(self, count: int, why: str) -> None:
        self.errors += count
        if not self._failing:  # once for a full disk, not once for every record that it refuses
            self._failing = True
            log.error("ledger_not_written", records=count, error=why)

    def _tell(self, record: LedgerRecord) -> None:
        self.unread.on_ledger(record)
        for listener in self.listeners:
            try:
                listener(record)
            except Exception:
                log.exception("ledger_listener_failed", kind=record["kind"], group_id=record["group_id"])

    def _common(self, index: int) -> dict[str, Any]:
        return {
            "coordinator_partition": index,
            "broker_epoch": self._catalogue.broker_epoch,
            "cluster_id": self._cluster_id,
        }

    def _index_of(self, group_id: str) -> int:
        topic = self._catalogue.image.topic(OFFSETS_TOPIC)
        return partition_for(group_id, topic.partition_count) if topic is not None else 0

    def _partition_index(self, group_id: str) -> int:
        topic = self._catalogue.image.topic(LEDGER_TOPIC)
        return partition_for(group_id, topic.partition_count) if topic is not None else 0

    # -- the topic -----------------------------------------------------------------------------------------

    def _topic_is_there(self) -> bool:
        """Whether records can be written; if not, its making is begun."""
        if self._partitions.has(LEDGER_TOPIC, 0):
            return True
        if not self._creating:
            offsets = self._catalogue.image.topic(OFFSETS_TOPIC)
            if offsets is None:
                self._drop("there is no __consumer_offsets")
                return False
            self._make_topic(offsets.partition_count)
        return False

    def _make_topic(self, partition_count: int) -> None:
        self._creating = True
        self._catalogue.ensure_topic(ledger_topic(partition_count), self._created)

    def _created(self, result: Result) -> None:
        self._creating = False
        if result.error is not ErrorCode.NONE:
            self._drop(f"the topic cannot be made: {result.error.name} {result.message or ''}")

    def _drop(self, why: str) -> None:
        count = len(self._queue)
        self._queue.clear()
        if count:
            self._failed(count, why)

    # -- after a start -------------------------------------------------------------------------------------

    def _histories_of(self, index: int) -> dict[str, GroupHistory]:
        """What was told of the groups of a partition; read from the topic at the first question.

        Raises: PartitionLoading, StorageError.
        """
        histories = self._histories.get(index)
        if histories is None:
            histories = {}
            if self.enabled:
                self._read_tail(index, histories)
            self._histories[index] = histories
        return histories

    def _read_tail(self, index: int, histories: dict[str, GroupHistory]) -> None:
        try:
            partition = self._partitions.get(LEDGER_TOPIC, index)
        except PartitionLoading:
            raise
        except (KafkaError, OSError):
            return  # said when something is to be written
        if partition is None:
            return
        end = partition.log_end_offset
        newest: dict[tuple[bytes | None, bytes | None], Record] = {}
        for record in reading.between(partition, max(partition.log_start_offset, end - _TAIL_RECORDS), end):
            kind = next((value for name, value in record.headers if name == KIND_HEADER), None)
            if kind == b"rebalance_ended" and b'"outcome":"superseded"' in (record.value or b""):
                continue  # the one that took its place follows
            newest.pop((record.key, kind), None)
            newest[record.key, kind] = record
        # Of each group the newest of each kind, in the order in which they were written.
        for record in newest.values():
            try:
                follow(histories, decode_whole(record.value, self._cluster_id))
            except (UnparsableRecord, TypeError, ValueError):
                continue  # a client may write into the topic as well

    # -- reading -------------------------------------------------------------------------------------------

    def records(self, group_id: str, last: int = 10) -> list[dict[str, Any]]:
        """The group's records as they lie in the topic, the oldest first: those of its last `last` rebalances.

        Empty when there are none, or the topic is not there, or off. Raises: KafkaError (PartitionLoading,
        PartitionFailed, StorageError).
        """
        return reading.finished(self.records_in_steps(group_id, last))

    def records_in_steps(self, group_id: str, last: int = 10) -> reading.Steps[list[dict[str, Any]]]:
        """As `records`, for who must let others have their turn."""
        partition: Partition | None = None
        if self._partitions.has(LEDGER_TOPIC, 0):
            partition = self._partitions.get(LEDGER_TOPIC, self._partition_index(group_id))
        return (
            []
            if partition is None
            else (yield from reading.newest_in_steps(partition, group_id, last, self._cluster_id))
        )

    def in_progress(self, group_id: str) -> dict[str, Any] | None:
        """The rebalance that goes on, with who is missing and for how long (`coordinator.why.live`)."""
        from coordinator.why.live import in_progress  # noqa: PLC0415  for who asks why, as all of that room
        from coordinator.why.live_consumer import epoch_in_progress  # noqa: PLC0415

        shard, now_ms = self._groups.leader_of(group_id).shard, self._runtime.now_ms()
        consumer_group = shard.consumer_groups.get(group_id)
        if consumer_group is not None:
            return epoch_in_progress(consumer_group, now_ms)
        return in_progress(shard.groups.get(group_id), now_ms)

    def live(self, group_id: str) -> dict[str, Any] | None:
        """The group as it is now, with all that findings look at (`coordinator.why.live`); None when there is none.

        Raises: KafkaError, as `records`.
        """
        return reading.finished(self.live_in_steps(group_id))

    def live_in_steps(self, group_id: str) -> reading.Steps[dict[str, Any] | None]:
        """As `live`, for who must let others have their turn."""
        from coordinator.why.live import live_state  # noqa: PLC0415
        from coordinator.why.live_consumer import live_consumer_state  # noqa: PLC0415

        leader = self._groups.leader_of(group_id)
        group, consumer_group = leader.shard.groups.get(group_id), leader.shard.consumer_groups.get(group_id)
        if consumer_group is not None:
            settings = self._groups.consumer_settings.of_group(group_id)
            live = live_consumer_state(consumer_group, self._catalogue.image, settings)
        elif group is not None:
            live = live_state(group)
        else:
            return None
        live["offsets"] = len(leader.shard.offsets.get(group_id, ()))
        live["offsets_retention_ms"] = leader.shard.settings.offsets_retention_ms
        timers = self._runtime.timers
        for member in live["members"]:
            member["longest_gap_ms"] = timers.longest_rise_ms(("heartbeat", group_id, member["member_id"]))
        partition = self._partitions.get(OFFSETS_TOPIC, leader.index)
        if partition is not None:
            now_ms = self._runtime.now_ms()
            live["commits_per_second"] = yield from reading.commits_per_second(partition, group_id, now_ms)
        return live

    def findings(self, group_id: str, last: int = 50) -> list[Finding]:
        """What the last rebalances and the group as it is now say is wrong. Raises: as `records`."""
        return reading.finished(self.findings_in_steps(group_id, last))[0]

    def findings_in_steps(
        self, group_id: str, last: int = 50, *, since_ms: int = 0
    ) -> reading.Steps[tuple[list[Finding], list[Verdict]]]:
        """As `findings`, for who must let others have their turn; and what became of those who are gone."""
        from coordinator.why.findings import findings  # noqa: PLC0415
        from coordinator.why.verdicts import verdicts  # noqa: PLC0415

        records = yield from self.records_in_steps(group_id, last)
        records = [record for record in records if record["at_ms"] >= since_ms]
        live = yield from self.live_in_steps(group_id)
        now_ms = self._runtime.now_ms()
        return findings(records, live, now_ms=now_ms), verdicts(records, now_ms=now_ms)

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write all that waits, before the logs are closed."""
        self._refusals.close()
        self._runtime.timers.cancel(("ledger",))
        while self._queue:
            before = len(self._queue)
            self._some_written()
            if len(self._queue) == before:
                self._drop("the broker stops")
        self._runtime.timers.cancel(("ledger",))
