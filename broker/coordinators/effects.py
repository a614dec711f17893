"""What outcomes do: the records, replies, timers, events and work of one shard, and the log that they go to.

The records of all outcomes of one turn of the loop are collected in one batch, which is appended when the turn ends;
its records are then replayed into the shard, and the replies go out when it is committed. When there is a shard is said
by `broker.coordinators.leader`.

Always true:
- a reply leaves after the records of its own outcome and of all outcomes before it are committed;
- outcomes take effect in the order of their inputs, and so do their answers;
- what the shard holds by its records is what the records say that were appended;
- a request whose commit takes longer than its timeout is answered with an error, and its records stay: they may yet
  be committed.

Source: Kafka's CoordinatorRuntime.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from broker.coordinators.batches import REFUSALS, Call, LeaderState, OutcomeBatch, RecordEncoder
from broker.coordinators.tenant import ShardT
from broker.loop.logs import get_logger
from coordinator.outcome import Appended, AppendFailed, Outcome, Reply, SetTimer
from protocol.errors import EncodeError, ErrorCode, KafkaError
from protocol.records.batch_encoder import encode_pairs
from protocol.records.batch_header import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.coordinators.tenant import Tenant
    from broker.loop.runtime import Runtime
    from broker.partitions import Marker, Partition
    from coordinator.outcome import Input

log = get_logger(__name__)

_LOOKS = 10  # in a commit timeout: nobody is told much too late, and no commit needs a timer of its own


class Effects(Generic[ShardT]):
    """A shard and the partition that its records go to. Only the event loop calls it.

    `on_failure(batch)` is called when the log failed with that batch (None: with one that was appended before) and all
    in flight; `on_moved(partition)` when somebody else has written to the log, so that the shard must be loaded anew.
    """

    __slots__ = (
        "_batches",
        "_encode",
        "_key_name",
        "_look_ms",
        "_looks_on",
        "_noun",
        "_now_ms",
        "_on_due",
        "_on_failure",
        "_on_moved",
        "_open",
        "_pulses",
        "_refusing",
        "_runtime",
        "_states",
        "_tenant",
        "_timers",
        "_turn_requested",
        "_waiting",
        "batches_appended",
        "compression",
        "end_offset",
        "index",
        "partition",
        "records_appended",
        "shard",
        "state",
    )

    def __init__(
        self,
        runtime: Runtime,
        tenant: Tenant[ShardT],
        index: int,
        shard: ShardT,
        *,
        compression: int,
        commit_timeout_ms: int,
        on_failure: Callable[[OutcomeBatch | None], None],
        on_moved: Callable[[Partition], None],
    ) -> None:
        self._runtime = runtime
        self._now_ms = runtime.clock_ms
        self._on_due = self._fired  # bound once: every heartbeat sets a timer
        self._timers = runtime.timers
        self._tenant = tenant
        self._noun = tenant.noun
        self._key_name = tenant.key_name
        self._pulses = tenant.pulses
        self._encode = RecordEncoder(tenant.encode_key, tenant.encode_value).pairs
        self._on_failure = on_failure
        self._on_moved = on_moved
        self.index = index
        self.compression = compression
        self.state = LeaderState.LOADING
        self.serve(shard)
        self.partition: Partition | None = None
        self.end_offset = 0  # where the next batch must go
        self._open: OutcomeBatch | None = None  # collects records until the turn ends
        self._batches: deque[OutcomeBatch] = deque()  # appended, not committed yet
        self._waiting: OutcomeBatch | None = None  # the youngest batch that is not committed: replies wait for it
        self._turn_requested = False
        self._looks_on = False  # a timer looks after the batches
        self._look_ms = -(-commit_timeout_ms // _LOOKS)  # so many take the timeout at least
        self._refusing = False  # the last append was refused
        self.records_appended = 0  # since the start, for metrics
        self.batches_appended = 0

    def serve(self, shard: ShardT) -> None:
        """Act on this shard's outcomes from now on."""
        self.shard = shard
        self._states: dict[str, Any] = shard.states

    @property
    def in_flight(self) -> bool:
        """Whether batches are appended and not yet committed."""
        return bool(self._batches)

    def write_open(self) -> None:
        """Append what is staged now, not when the turn ends."""
        if self._open is not None:
            self._write()

    def give_up(self, state: LeaderState, failed: OutcomeBatch | None = None) -> None:
        """Serve nobody any more: all that is in flight, `failed` last, is refused, and everybody answered."""
        self.state = state
        batches = [*self._batches, *(batch for batch in (self._open, failed) if batch is not None)]
        self._batches.clear()
        self._open = self._waiting = None
        for batch in batches:
            self._refused(batch, ErrorCode.KAFKA_STORAGE_ERROR)

    # -- inputs --------------------------------------------------------------------------------------------

    def submit(self, event: Input) -> None:
        """Handle one input; its answer goes to its `reply_to`, perhaps before this returns."""
        if self.state is not LeaderState.ACTIVE:
            self._refuse(event)
            return
        if self._open is not None and event.reads_appended:
            self._write()
            if not self.serves():
                self._refuse(event)
                return
        self.act(event, event.key, self.shard.handle(event, self._now_ms()))

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call `callback` once all that was handled so far is committed or refused: for reads of the whole shard."""
        if self._waiting is None:
            callback()
        else:
            self._waiting.steps.append((None, "", Outcome(None, replies=(Reply(Call(callback), None),))))

    def act(self, event: Input, key: str, outcome: Outcome[Any]) -> None:
        """Make an outcome happen: state, timers, records, replies, events and work."""
        if self._states.get(key) is not outcome.after:
            self.shard.install(key, outcome)
        kind, timers = type(event), self._timers
        for timer in outcome.timers:
            if type(timer) is not SetTimer:
                timers.cancel(timer.key)
            elif kind in self._pulses:
                # Between two heartbeats or commits a member may have been silent; after anything else it waited for us.
                timers.renew(timer.key, timer.deadline_ms, self._on_due, timer.then, kind)
            else:
                timers.set(timer.key, timer.deadline_ms, self._on_due, timer.then, kind)
        if outcome.records and not self._stage(event, key, outcome):
            return
        waiting = self._waiting
        if waiting is not None:
            waiting.steps.append((event, key, outcome))
            return
        for reply in outcome.replies:
            reply.to.complete(reply.response)
        if outcome.events or outcome.work:
            self._tell_and_begin(outcome)

    def _finish(self, outcome: Outcome[Any]) -> None:
        for reply in outcome.replies:
            reply.to.complete(reply.response)
        self._tell_and_begin(outcome)

    def _tell_and_begin(self, outcome: Outcome[Any]) -> None:
        self._tell(outcome)
        for work in outcome.work:
            self._tenant.begin(work)

    def _tell(self, outcome: Outcome[Any]) -> None:
        for happened in outcome.events:
            self._tenant.publish(happened)

    def serves(self) -> bool:
        """Whether inputs are handled."""
        return self.state is LeaderState.ACTIVE

    def _refuse(self, event: Input) -> None:
        reply = self.shard.unserved(event, REFUSALS[self.state])
        if reply is not None:
            reply.to.complete(reply.response)

    def _fired(self, event: Input, armed_by: type[Input]) -> None:
        """A timer is due. `armed_by`: the kind of input in whose name it was set."""
        self._tenant.fill_in(event, armed_by, self.shard, self._timers, self._now_ms())
        self.submit(event)

    # -- records -------------------------------------------------------------------------------------------

    def _stage(self, event: Input, key: str, outcome: Outcome[Any]) -> bool:
        """Put the outcome's records into the open batch; False when they were refused, or divided."""
        partition = self.partition
        if self.state is not LeaderState.ACTIVE or partition is None:
            self._reject(event, key, outcome, ErrorCode.KAFKA_STORAGE_ERROR)
            return False
        try:
            pairs, size = self._encode(outcome.records)
        except EncodeError as error:  # a name longer than a record can hold, which flexible requests can carry
            log.warning(f"{self._noun}_record_not_encodable", **{self._key_name: key}, error=str(error))
            self._reject(event, key, outcome, ErrorCode.RECORD_LIST_TOO_LARGE)
            return False
        limit = partition.settings.max_message_bytes
        if HEADER_BYTES + size > limit:
            self._too_large(event, key, outcome)
            return False
        batch = self._open
        while batch is not None and (batch.size_bytes + size > limit or batch.producer != outcome.producer):
            self._write()
            if not self.serves():
                self._reject(event, key, outcome, ErrorCode.KAFKA_STORAGE_ERROR)
                return False
            batch = self._open  # settling may have opened one
        if batch is None:
            batch = self._waiting = self._open = OutcomeBatch(outcome.producer)
            if not self._turn_requested:
                self._turn_requested = True
                self._runtime.soon(self._end_turn)
        batch.pairs += pairs
        batch.records += outcome.records
        batch.size_bytes += size
        return True

    def _too_large(self, event: Input, key: str, outcome: Outcome[Any]) -> None:
        """No batch can hold the records: tombstones of a check are divided, everything else fails alone."""
        token, records = outcome.token, outcome.records
        if token is None or not token.divisible or len(records) < 2:
            self._reject(event, key, outcome, ErrorCode.RECORD_LIST_TOO_LARGE)
            return
        half = len(records) // 2
        for part, events in ((records[:half], ()), (records[half:], outcome.events)):
            # It stays as it is by then: a part that was refused has perhaps brought back what went.
            self.act(event, key, Outcome(self._states.get(key), part, events=events, token=token))

    def _end_turn(self) -> None:
        self._turn_requested = False
        if self._open is not None:
            self._write()

    def _write(self) -> None:
        """Append the open batch and replay it; settle it if that commits it."""
        batch, partition = self._open, self.partition
        assert batch is not None
        assert partition is not None
        self._open = None
        try:
            data = self._bytes_of(batch)
            offset = partition.append(data).base_offset
        except (KafkaError, OSError) as error:
            if not self._refusing:  # once for a full disk, not once for every batch that it refuses
                self._refusing = True
                log.error(f"{self._noun}_records_refused", partition=self.index, error=str(error))
            if partition.error is not None:
                self._on_failure(batch)
                return
            self._waiting = self._batches[-1] if self._batches else None
            self._refused(batch, error.code if isinstance(error, KafkaError) else ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self._refusing = False
        self._in_log(batch, offset, partial(self._replay, batch))

    def _replay(self, batch: OutcomeBatch, offset: int) -> int:
        replay = self.shard.replay
        producer_id = -1 if batch.producer is None else batch.producer[0]
        for key, value in batch.records:
            replay(key, value, producer_id, offset)
            offset += 1
        self.batches_appended += 1
        self.records_appended += len(batch.records)
        return offset

    def append_marker(self, marker: Marker, apply: Callable[[], None], done: Callable[[ErrorCode], None]) -> None:
        """End a producer's transaction, in the order of everything else that happens here.

        `apply()` once the marker is in the log; replies to whoever comes later wait for it like for any batch.
        `done(NONE)` once it is committed, else `done(error)`: then it may be in the log or not.
        """
        self.write_open()
        partition = self.partition
        if not self.serves() or partition is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        batch = OutcomeBatch(ended=done)

        def applied(offset: int) -> int:
            apply()
            return offset + 1

        try:
            offset = partition.append_marker(marker, self._now_ms())
        except (KafkaError, OSError) as error:
            if partition.error is not None:
                self._on_failure(batch)
            else:
                done(error.code if isinstance(error, KafkaError) else ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self._in_log(batch, offset, applied)

    def _in_log(self, batch: OutcomeBatch, offset: int, apply: Callable[[int], int]) -> None:
        """The batch is in the log from `offset` on: apply it, and settle it if it is committed already."""
        partition = self.partition
        assert partition is not None
        if offset != self.end_offset:
            log.error(f"{self._noun}_log_moved", partition=self.index, expected=self.end_offset, found=offset)
            self._on_failure(batch)
            self._on_moved(partition)
            return
        self.end_offset = end = apply(offset)
        if not self._batches and partition.high_watermark >= end:
            self._waiting = None
            self._settle(batch)
        else:
            self._batches.append(batch)
            self._waiting = batch
            if not self._looks_on:
                self._looks_on = True
                self._look_again()
            partition.when_committed(end - 1, partial(self._committed, batch))

    def _bytes_of(self, batch: OutcomeBatch) -> bytearray:
        producer_id, producer_epoch = batch.producer or (-1, -1)
        return encode_pairs(
            batch.pairs,
            timestamp=self._now_ms(),
            compression=self.compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            transactional=batch.producer is not None,
        )

    # -- waiting for too long ------------------------------------------------------------------------------

    def _look_again(self) -> None:
        self._timers.set(("commits", self._noun, str(self.index)), self._now_ms() + self._look_ms, self._look)

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
            log.warning(f"{self._noun}_records_not_committed_in_time", partition=self.index, answered=told)
        self._looks_on = bool(self._batches)
        if self._looks_on:
            self._look_again()

    def _time_out(self, late: list[tuple[Input, str, Outcome[Any]]]) -> None:
        # Their answers leave now, although the batches they belong to are still on their way.
        waiting, self._waiting = self._waiting, None
        for event, key, outcome in late[::-1]:
            if outcome.records:
                self._reject(event, key, outcome, ErrorCode.REQUEST_TIMED_OUT)
        for event, key, outcome in late:
            if outcome.records:
                continue
            try:
                own = self.shard.unserved(event, self._tenant.timed_out(event))
                for reply in outcome.replies:
                    told = own if own is not None and reply.to is own.to else reply
                    told.to.complete(told.response)
                self._tell_and_begin(outcome)
            except Exception:
                self._bug(key)
        if self._waiting is None:
            self._waiting = waiting

    # -- what became of them -------------------------------------------------------------------------------

    def _committed(self, batch: OutcomeBatch, error: KafkaError | None) -> None:
        if not self._batches or self._batches[0] is not batch:
            return  # the shard was closed meanwhile, and everybody has an answer
        if error is not None:
            self._on_failure(None)
            return
        self._batches.popleft()
        if self._waiting is batch:
            self._waiting = None
        self._settle(batch)

    def _settle(self, batch: OutcomeBatch) -> None:
        """The batch is committed: answer everything that waited for it, in order."""
        if batch.ended is not None:
            batch.ended(ErrorCode.NONE)
        for _, key, outcome in batch.steps:
            try:
                for reply in outcome.replies:
                    reply.to.complete(reply.response)
                if outcome.events or outcome.work:
                    self._tell_and_begin(outcome)
                token = outcome.token
                if token is not None and token.resumes and self.serves():
                    resumed = Appended(key, token)
                    self.act(resumed, key, self.shard.handle(resumed, self._now_ms()))
            except Exception:
                self._bug(key)

    def _refused(self, batch: OutcomeBatch, error: ErrorCode) -> None:
        """The batch is not in the log: its outcomes are taken back, the last one first; then the others go on."""
        if batch.ended is not None:
            batch.ended(error)
        for event, key, outcome in batch.steps[::-1]:
            if outcome.records and event is not None:
                self._reject(event, key, outcome, error)
        undone = set[str]()
        for event, key, outcome in batch.steps:
            if outcome.records:
                if outcome.token is not None and outcome.token.undoes:
                    undone.add(key)
                continue
            if event is not None and event.reads_appended and not self.serves():
                self._refuse(event)  # it may have seen an offset that is lost
            elif event is not None and key in undone:
                for reply in self.shard.taken_back(event, outcome.replies, error):
                    reply.to.complete(reply.response)
                self._tell(outcome)
            elif self._waiting is not None:
                self._waiting.steps.append((event, key, outcome))  # batches before this one are not committed yet
            else:
                self._finish(outcome)

    def _reject(self, event: Input, key: str, outcome: Outcome[Any], error: ErrorCode) -> None:
        """Drop the outcome's replies, and let its rule say what follows. What happened is told all the same."""
        self._tell(outcome)
        if outcome.token is None:
            return
        try:
            failed = AppendFailed(key, outcome.token, error)
            self.act(failed, key, self.shard.handle(failed, self._now_ms()))
        except Exception:
            self._bug(key)

    def _bug(self, key: str) -> None:
        """One step went wrong in a way that nobody foresaw: the others are answered all the same."""
        log.exception(f"{self._noun}_step_failed", **{self._key_name: key})
