"""What outcomes do: the records, replies, timers and events of one shard, and the log that they go to.

The records of all outcomes of one turn of the loop are collected in one batch, which is appended when the turn ends;
its records are then replayed into the shard, and the replies go out when it is committed. When there is a shard is said
by `broker.group_leader`.

Always true:
- a reply leaves after the records of its own outcome and of all outcomes before it are committed;
- outcomes take effect in the order of their inputs, and so do their answers;
- what the shard holds of offsets is what the records say that were appended;
- who has waited `offsets.commit.timeout.ms` for a commit is told so, and his records stay: they may be committed yet.

Source: Kafka's CoordinatorRuntime.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from broker.group_batches import REFUSALS, Call, GroupBatch, LeaderState, RecordEncoder, timed_out
from broker.group_silence import fill_in
from broker.logs import get_logger
from coordinator.classic.inputs import Heartbeat
from coordinator.offsets.inputs import CommitOffsets
from coordinator.outcome import Appended, AppendFailed, Outcome, Reply, SetTimer
from coordinator.shard import Shard
from protocol.errors import EncodeError, ErrorCode, KafkaError
from protocol.records.batch_encoder import encode_pairs
from protocol.records.batch_header import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.partitions import Partition
    from broker.runtime import Runtime
    from coordinator.events import GroupEvent
    from coordinator.outcome import Input
    from coordinator.view import GroupSettings, Topics

log = get_logger()

_LOOKS = 10  # in a commit timeout: nobody is told much too late, and no commit needs a timer of its own
_PULSES: frozenset[type[Input]] = frozenset({Heartbeat, CommitOffsets})


class GroupEffects(ABC):
    """A `Shard` and the partition of `__consumer_offsets` that its records go to. Only the event loop calls it.

    `publish` gets every event of every group, when its outcome is committed or refused.
    """

    __slots__ = (
        "_batches",
        "_encode",
        "_end_offset",
        "_look_ms",
        "_looks_on",
        "_now_ms",
        "_open",
        "_partition",
        "_publish",
        "_refusing",
        "_renew_timer",
        "_runtime",
        "_set_timer",
        "_settings",
        "_turn_asked",
        "_waiting",
        "batches_appended",
        "compression",
        "index",
        "records_appended",
        "shard",
        "state",
    )

    def __init__(
        self,
        runtime: Runtime,
        index: int,
        settings: GroupSettings,
        topics: Topics,
        publish: Callable[[GroupEvent], None],
        *,
        compression: int = 0,
        commit_timeout_ms: int = 5_000,
    ) -> None:
        self._runtime = runtime
        self._now_ms = runtime.now_ms
        self._set_timer = runtime.timers.set
        self._renew_timer = runtime.timers.renew
        self._settings = settings
        self._publish = publish
        self._encode = RecordEncoder().pairs
        self.index = index
        self.compression = compression
        self.state = LeaderState.LOADING
        self.shard = Shard(settings, topics)
        self._partition: Partition | None = None
        self._end_offset = 0  # where the next batch must go
        self._open: GroupBatch | None = None  # collects records until the turn ends
        self._batches: deque[GroupBatch] = deque()  # appended, not committed yet
        self._waiting: GroupBatch | None = None  # the youngest batch that is not committed: replies wait for it
        self._turn_asked = False
        self._looks_on = False  # a timer looks after `_batches`
        self._look_ms = max(commit_timeout_ms // _LOOKS, 1)
        self._refusing = False  # the last append was refused
        self.records_appended = 0  # since the start, for metrics
        self.batches_appended = 0

    @abstractmethod
    def load(self, partition: Partition) -> None:
        """Make the shard anew from the partition's log."""

    @abstractmethod
    def _fail(self, batch: GroupBatch | None = None) -> None:
        """The log failed with `batch` and all in flight: answer everybody. `load` goes on when it is repaired."""

    # -- inputs --------------------------------------------------------------------------------------------

    def submit(self, event: Input) -> None:
        """Handle one input; its answer goes to its `reply_to`, perhaps before this returns."""
        if self.state is not LeaderState.ACTIVE:
            self._refuse(event)
            return
        if event.reads_offsets and self._open is not None:
            self._write()
            if not self._serves():
                self._refuse(event)
                return
        self._act(event, event.group_id, self.shard.handle(event, self._now_ms()))

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call `callback` once all that was handled so far is committed or refused: for reads of the whole shard."""
        if self._waiting is None:
            callback()
        else:
            self._waiting.steps.append((None, "", Outcome(None, replies=(Reply(Call(callback), None),))))

    def _act(self, event: Input, group_id: str, outcome: Outcome) -> None:
        """Make an outcome happen: group, timers, records, replies and events."""
        shard = self.shard
        if shard.groups.get(group_id) is not outcome.group:
            shard.install(group_id, outcome)
        kind = type(event)
        # Between two heartbeats or commits a member may have been silent; after anything else it was waiting for us.
        set_timer = self._renew_timer if kind in _PULSES else self._set_timer
        for timer in outcome.timers:
            if type(timer) is SetTimer:
                set_timer(timer.key, timer.deadline_ms, partial(self._fired, timer.then, kind))
            else:
                self._runtime.timers.cancel(timer.key)
        if outcome.records and not self._stage(event, group_id, outcome):
            return
        waiting = self._waiting
        if waiting is not None:
            waiting.steps.append((event, group_id, outcome))
            return
        for reply in outcome.replies:
            reply.to.complete(reply.response)
        if outcome.events:
            for happened in outcome.events:
                self._publish(happened)

    def _finish(self, outcome: Outcome) -> None:
        for reply in outcome.replies:
            reply.to.complete(reply.response)
        for happened in outcome.events:
            self._publish(happened)

    def _serves(self) -> bool:
        return self.state is LeaderState.ACTIVE

    def _refuse(self, event: Input) -> None:
        reply = self.shard.unserved(event, REFUSALS[self.state])
        if reply is not None:
            reply.to.complete(reply.response)

    def _fired(self, event: Input, armed_by: type[Input]) -> None:
        """A timer is due. `armed_by`: the kind of input in whose name it was set."""
        fill_in(event, armed_by, self.shard.groups, self._runtime.timers, self._now_ms())
        self.submit(event)

    # -- records -------------------------------------------------------------------------------------------

    def _stage(self, event: Input, group_id: str, outcome: Outcome) -> bool:
        """Put the outcome's records into the open batch; False when they were refused, or divided."""
        if not self._serves():
            self._reject(event, group_id, outcome, ErrorCode.KAFKA_STORAGE_ERROR)
            return False
        assert self._partition is not None
        try:
            pairs, size = self._encode(outcome.records)
        except EncodeError as error:  # a name longer than a record can hold, which flexible requests can carry
            log.warning("group_record_not_encodable", group_id=group_id, error=str(error))
            self._reject(event, group_id, outcome, ErrorCode.RECORD_LIST_TOO_LARGE)
            return False
        limit = self._partition.settings.max_message_bytes
        if HEADER_BYTES + size > limit:
            self._too_large(event, group_id, outcome)
            return False
        batch = self._open
        if batch is not None and batch.size_bytes + size > limit:
            self._write()
            if not self._serves():
                self._reject(event, group_id, outcome, ErrorCode.KAFKA_STORAGE_ERROR)
                return False
            batch = self._open  # settling may have opened one, which is small
        if batch is None:
            batch = self._waiting = self._open = GroupBatch()
            if not self._turn_asked:
                self._turn_asked = True
                self._runtime.soon(self._end_turn)
        batch.pairs += pairs
        batch.records += outcome.records
        batch.size_bytes += size
        return True

    def _too_large(self, event: Input, group_id: str, outcome: Outcome) -> None:
        """No batch can hold the records: tombstones of a check are divided, everything else fails alone."""
        token, records = outcome.token, outcome.records
        if token is None or not token.divisible or len(records) < 2:
            self._reject(event, group_id, outcome, ErrorCode.RECORD_LIST_TOO_LARGE)
            return
        half = len(records) // 2
        self._act(event, group_id, Outcome(outcome.group, records[:half], token=token))
        self._act(event, group_id, Outcome(outcome.group, records[half:], events=outcome.events, token=token))

    def _end_turn(self) -> None:
        self._turn_asked = False
        if self._open is not None:
            self._write()

    def _write(self) -> None:
        """Append the open batch and replay it; settle it if that commits it."""
        batch, partition = self._open, self._partition
        assert batch is not None
        assert partition is not None
        self._open = None
        try:
            data = encode_pairs(batch.pairs, timestamp=self._now_ms(), compression=self.compression, base_sequence=0)
            offset = partition.append(data).base_offset
        except (KafkaError, OSError) as error:
            if not self._refusing:  # once for a full disk, not once for every batch that it refuses
                self._refusing = True
                log.error("group_records_refused", partition=self.index, error=str(error))
            if partition.error is not None:
                self._fail(batch)
                return
            self._waiting = self._batches[-1] if self._batches else None
            self._refused(batch, error.code if isinstance(error, KafkaError) else ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self._refusing = False
        if offset != self._end_offset:
            log.error("group_log_moved", partition=self.index, expected=self._end_offset, found=offset)
            self._fail(batch)
            self.load(partition)
            return
        replay = self.shard.replay
        for key, value in batch.records:
            replay(key, value, -1, offset)
            offset += 1
        self.batches_appended += 1
        self.records_appended += len(batch.records)
        self._end_offset = offset
        batch.last_offset = offset - 1
        if not self._batches and partition.high_watermark >= offset:
            self._waiting = None
            self._settle(batch)
        else:
            self._batches.append(batch)
            if not self._looks_on:
                self._looks_on = True
                self._look_again()
            partition.when_committed(batch.last_offset, partial(self._committed, batch))

    # -- waiting for too long ------------------------------------------------------------------------------

    def _look_again(self) -> None:
        self._set_timer(("commits", str(self.index)), self._now_ms() + self._look_ms, self._look)

    def _look(self) -> None:
        """Tell those whose records, or those before them, were not committed in time (a disk that hangs)."""
        if self._open is not None:
            self._write()
        told = 0
        for batch in list(self._batches):
            if self._open is not None or not self._batches:
                break  # what follows from the answers is to be written first; or the log has failed over it
            late = batch.overdue(_LOOKS)
            if late:
                self._time_out(late)
                told += len(late)
        if told:
            log.warning("group_records_not_committed_in_time", partition=self.index, answered=told)
        self._looks_on = bool(self._batches)
        if self._looks_on:
            self._look_again()

    def _time_out(self, late: list[tuple[Input, str, Outcome]]) -> None:
        # Their answers leave now, although the batches they belong to are still on their way.
        waiting, self._waiting = self._waiting, None
        for event, group_id, outcome in reversed(late):
            if outcome.records:
                self._reject(event, group_id, outcome, ErrorCode.REQUEST_TIMED_OUT)
        for event, group_id, outcome in late:
            if outcome.records:
                continue
            try:
                own = self.shard.unserved(event, timed_out(event))
                for reply in outcome.replies:
                    told = own if own is not None and reply.to is own.to else reply
                    told.to.complete(told.response)
                for happened in outcome.events:
                    self._publish(happened)
            except Exception:
                log.exception("group_step_failed", group_id=group_id)  # a bug: the others are answered all the same
        if self._waiting is None:
            self._waiting = waiting

    # -- what became of them -------------------------------------------------------------------------------

    def _committed(self, batch: GroupBatch, error: KafkaError | None) -> None:
        if not self._batches or self._batches[0] is not batch:
            return  # the shard was closed meanwhile, and everybody has an answer
        if error is not None:
            self._fail()
            return
        self._batches.popleft()
        if self._waiting is batch:
            self._waiting = None
        self._settle(batch)

    def _settle(self, batch: GroupBatch) -> None:
        """The batch is committed: answer everything that waited for it, in order."""
        for _, group_id, outcome in batch.steps:
            try:
                self._finish(outcome)
                token = outcome.token
                if token is not None and token.resumes and self._serves():
                    resumed = Appended(group_id, token)
                    self._act(resumed, group_id, self.shard.handle(resumed, self._now_ms()))
            except Exception:
                log.exception("group_step_failed", group_id=group_id)  # a bug: the others are answered all the same

    def _refused(self, batch: GroupBatch, error: ErrorCode) -> None:
        """The batch is not in the log: its outcomes are taken back, the last one first; then the others go on."""
        for event, group_id, outcome in reversed(batch.steps):
            if outcome.records and event is not None:
                self._reject(event, group_id, outcome, error)
        for event, group_id, outcome in batch.steps:
            if outcome.records:
                continue
            if event is not None and event.reads_offsets and not self._serves():
                self._refuse(event)  # it may have seen an offset that is lost
            elif self._waiting is not None:
                self._waiting.steps.append((event, group_id, outcome))  # batches before this one are not committed yet
            else:
                self._finish(outcome)

    def _reject(self, event: Input, group_id: str, outcome: Outcome, error: ErrorCode) -> None:
        """Drop the outcome's replies, and let its rule say what follows. What happened is told all the same."""
        for happened in outcome.events:
            self._publish(happened)
        if outcome.token is None:
            return
        try:
            failed = AppendFailed(group_id, outcome.token, error)
            self._act(failed, group_id, self.shard.handle(failed, self._now_ms()))
        except Exception:
            log.exception("group_step_failed", group_id=group_id)  # a bug: the others are answered all the same
