"""Drives the rules of transactions as a partition leader and its partitions would, with a clock that is told to move.

    broker = Driver()
    pid, epoch = broker.init().pair
    broker.add("t-0")
    broker.end(commit=True)                 # answered, markers written, complete
    assert broker.state == "CompleteCommit"

Records are committed at once; `hold_appends()` leaves them on their way until `release_appends()`, and
`fail_appends(error)` has the next ones refused. Markers are written at once too: `hold_markers()` keeps them from it
until `release_markers()`, and `marker_errors` says what a partition answers instead.

Partitions take data (`write`) and markers as a log does: an epoch below the last is refused, and a marker of version 2
needs a higher epoch than that of an open transaction.

After every input it is checked that the transaction keeps its invariants, that no request is answered twice, that every
move is allowed, that no client is given an epoch past the last, and that what the shard holds is what the committed
records say.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from coordinator.outcome import Appended, AppendFailed, CancelTimer, Input, SetTimer
from coordinator.transactions import inputs
from coordinator.transactions.events import KINDS, TransactionEvent
from coordinator.transactions.inputs import TakeProducerId, WriteMarkers
from coordinator.transactions.shard import TransactionShard
from coordinator.transactions.transaction import (
    COMPLETED,
    LARGEST_EPOCH,
    PREPARED,
    REACHED_FROM,
    RESTING,
    Transaction,
    TransactionState,
)
from coordinator.transactions.transitions import from_record
from coordinator.transactions.view import TransactionOutcome, TransactionSettings
from protocol.errors import ErrorCode
from protocol.records import transaction_records
from tests.coordinator.driver import Topics

TID = "tx"
TIMEOUT = 60_000
NONE = ErrorCode.NONE
# What a record of each version holds of a transaction.
DURABLE_V1 = [one.name for one in fields(Transaction)][
    : fields(Transaction).index(next(one for one in fields(Transaction) if one.name == "last_producer_epoch"))
]
DURABLE_V0 = [name for name in DURABLE_V1 if name not in ("previous_producer_id", "next_producer_id")]


@dataclass(eq=False)
class Request:
    """A request on its way: nothing is in `responses` until it is answered."""

    what: str
    responses: list[Any] = field(default_factory=list)
    lost: bool = False  # its connection is gone

    def answer(self, response: Any) -> None:
        assert getattr(response, "producer_epoch", 0) < LARGEST_EPOCH, (
            "a client was given the epoch that is for fencing"
        )
        self.responses.append(response)
        assert len(self.responses) == 1, f"{self.what} was answered twice"

    @property
    def response(self) -> Any:
        return self.responses[0] if self.responses else None

    @property
    def error(self) -> ErrorCode | None:
        """Of an answer that has one for all."""
        if self.response is None:
            return None
        if isinstance(self.response, dict):
            (code,) = set(self.response.values()) or {NONE}
            return code
        return ErrorCode(self.response.error_code)

    @property
    def pair(self) -> tuple[int, int]:
        """Producer id and epoch of an answer that went well."""
        assert self.error is NONE, self.error
        return self.response.producer_id, self.response.producer_epoch


@dataclass
class Written:
    """A marker that a partition holds."""

    producer_id: int
    epoch: int
    committed: bool
    version: int


@dataclass
class Entry:
    """What a partition knows of a producer id."""

    epoch: int = -1
    open: list[int] = field(default_factory=list)  # the data of the transaction that is open


def partition(name: str) -> tuple[str, int]:
    topic, _, index = name.rpartition("-")
    return topic, int(index)


class Driver:
    """One partition of `__transaction_state` in virtual time, and the partitions that markers go to."""

    def __init__(self, version: int = 2, *, topics: dict[str, int] | None = None, **settings: Any) -> None:
        self.now_ms = 1_000_000
        self.topics = Topics({"t": 4, "u": 1, "__consumer_offsets": 50} if topics is None else topics)
        self.shard = TransactionShard(TransactionSettings(transaction_version=version, **settings), self.topics)
        self.log: list[tuple[Any, Any, bytes | None]] = []  # (key, value, bytes of the value), committed
        self.markers: dict[tuple[str, int], list[Written]] = {}
        self.marker_errors: dict[tuple[str, int], ErrorCode] = {}
        self.lost_answers: set[tuple[str, int]] = set()  # the marker is written, and nobody hears of it
        self.strict_partitions = False  # as before KAFKA-19999: a marker that comes again is refused
        self.entries: dict[tuple[tuple[str, int], int], Entry] = {}
        self.fates: dict[int, bool] = {}  # of each piece of data: whether it was committed
        self.events: list[TransactionEvent] = []
        self.requests: list[Request] = []
        self.timers: dict[tuple[str, ...], SetTimer] = {}
        self.next_id = 1000
        self.ids_refused = False
        self._held: list[TransactionOutcome] | None = None
        self._held_markers: list[WriteMarkers] | None = None
        self._refusals: list[ErrorCode] = []

    # What there is

    @property
    def transaction(self) -> Transaction | None:
        return self.shard.states.get(TID)

    @property
    def live(self) -> Transaction:
        transaction = self.transaction
        assert transaction is not None, "there is no such transactional id"
        return transaction

    @property
    def state(self) -> str:
        return self.live.state.title

    @property
    def pair(self) -> tuple[int, int]:
        return self.live.producer_id, self.live.producer_epoch

    def statuses(self) -> list[str]:
        """The states that are in the log, in their order; a tombstone is `None`."""
        return [
            "None" if value is None else TransactionState(value.value.transaction_status).title
            for _, value, _ in self.log
        ]

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def last(self, kind: str) -> dict[str, Any]:
        return dict(next(event for event in reversed(self.events) if event.kind == kind).facts)

    # Requests

    def init(self, pair: tuple[int, int] = (-1, -1), *, version: int = 5, **more: Any) -> Request:
        request = self._request("init")
        timeout_ms = more.pop("timeout_ms", TIMEOUT)
        tid = more.pop("tid", TID)
        return self._feed(inputs.InitProducerId(tid, timeout_ms, *pair, version, request, "c", "/h", **more), request)

    def add(self, *names: str, pair: tuple[int, int] | None = None, client_version: int = 2, tid: str = TID) -> Request:
        request = self._request("add")
        wanted = frozenset(map(partition, names))
        return self._feed(
            inputs.AddPartitions(tid, *(pair or self._own()), wanted, client_version, request, "c", "/h"), request
        )

    def verify(self, *names: str, pair: tuple[int, int] | None = None, tid: str = TID) -> Request:
        request = self._request("verify")
        wanted = frozenset(map(partition, names))
        return self._feed(inputs.VerifyPartitions(tid, *(pair or self._own()), wanted, request), request)

    def end(self, *, commit: bool, pair: tuple[int, int] | None = None, version: int = 5, tid: str = TID) -> Request:
        request = self._request("end")
        return self._feed(
            inputs.EndTransaction(tid, *(pair or self._own()), commit, version, request, "c", "/h"), request
        )

    def describe(self, tid: str = TID) -> Any:
        request = self._request("describe")
        return self._feed(inputs.DescribeTransaction(tid, request), request).response

    def open(self, *names: str, version: int = 5) -> tuple[int, int]:
        """A producer with a transaction open on these partitions; its id and epoch."""
        pair = self.init(version=version).pair
        assert self.add(*(names or ("t-0",)), client_version=2 if version >= 5 else 0).error is NONE
        return pair

    def _own(self) -> tuple[int, int]:
        return self.pair if self.transaction else (-1, -1)

    def _request(self, what: str) -> Request:
        request = Request(what)
        self.requests.append(request)
        return request

    def _feed(self, event: Input, request: Request) -> Request:
        self.feed(event)
        return request

    # Time and failures

    def advance(self, ms: int) -> None:
        """Move the clock; timers fire in the order of their deadlines."""
        until_ms = self.now_ms + ms
        while self.timers:
            key, timer = min(self.timers.items(), key=lambda item: item[1].deadline_ms)
            if timer.deadline_ms > until_ms:
                break
            del self.timers[key]
            self.now_ms = max(self.now_ms, timer.deadline_ms)
            self.feed(timer.then)
        self.now_ms = until_ms

    def hold_appends(self) -> None:
        self._held = []

    def release_appends(self, error: ErrorCode = NONE) -> None:
        """What was on its way is committed; or, with an error, refused."""
        held, self._held = self._held or [], None
        for outcome in held:
            self._settle(outcome, error)

    def fail_appends(self, *errors: ErrorCode) -> None:
        self._refusals += errors

    @property
    def log_is_free(self) -> bool:
        """Whether nothing is on its way to it."""
        return self._held is None

    def all_is_well(self) -> None:
        """Nothing fails any more, and what was held goes on."""
        self._refusals.clear()
        self.marker_errors.clear()
        self.lost_answers.clear()
        self.ids_refused = False
        self.release_appends()
        self.release_markers()

    def hold_markers(self) -> None:
        if self._held_markers is None:
            self._held_markers = []

    def release_markers(self) -> None:
        held, self._held_markers = self._held_markers or [], None
        for work in held:
            self._write_markers(work)

    def restart(self, *, version: int | None = None) -> None:
        """SIGKILL, and a new process on the same log: what was on its way is lost, with everything in memory."""
        settings = self.shard.settings
        if version is not None:
            settings = TransactionSettings(version, settings.max_timeout_ms, settings.id_expiration_ms)
        self.shard = TransactionShard(settings, self.topics)
        self.timers.clear()
        if self._held is not None:
            self._held = []
        if self._held_markers is not None:
            self._held_markers = []
        self.shard.states.update(self.folded())
        for request in self.requests:
            request.lost = True
        for tid in list(self.shard.states):
            self.feed(inputs.TransactionLoaded(tid))

    def rewrite(self, **changes: Any) -> None:
        """Another broker wrote the last record like this; its log is loaded."""
        key, value, _ = self.log[-1]
        for name, new in changes.items():
            setattr(value.value, name, new)
        self.log[-1] = (key, value, transaction_records.encode_value(value))
        self.restart()

    def settings(self, **changes: Any) -> None:
        now = self.shard.settings
        self.shard.settings = TransactionSettings(
            **{one.name: changes.get(one.name, getattr(now, one.name)) for one in fields(TransactionSettings)}
        )

    # The leader

    def feed(self, event: Input) -> None:
        """One input, and all that follows from it."""
        before = self.shard.states.get(event.key)
        copy = repr(before)
        outcome = self.shard.handle(event, self.now_ms)
        assert isinstance(event, (inputs.TransactionInput, Appended, AppendFailed))
        assert repr(before) == copy, f"{event} was changed in place"
        if not isinstance(event, inputs.Unload):  # the log goes on without this process
            self._check_move(event, before, outcome.after)
        self.shard.install(event.key, outcome)
        for timer in outcome.timers:
            if isinstance(timer, CancelTimer):
                self.timers.pop(timer.key, None)
            else:
                self.timers[timer.key] = timer
        assert bool(outcome.records) == (outcome.token is not None)
        if not outcome.records:
            self._finish(outcome)
        elif self._held is not None:
            self._held.append(outcome)
        else:
            self._settle(outcome, self._refusals.pop(0) if self._refusals else NONE)
        if not isinstance(event, inputs.Unload):
            self.check()

    def _settle(self, outcome: TransactionOutcome, error: ErrorCode) -> None:
        assert outcome.token is not None
        ((key, value),) = outcome.records
        if error in (NONE, ErrorCode.REQUEST_TIMED_OUT):
            data = None if value is None else transaction_records.encode_value(value)
            self.log.append((key, value, data))
        if error is NONE:
            self._finish(outcome)
            if outcome.token.resumes:
                self.feed(Appended(key.transactional_id, outcome.token))
        else:
            self.feed(AppendFailed(key.transactional_id, outcome.token, error))

    def _finish(self, outcome: TransactionOutcome) -> None:
        for reply in outcome.replies:
            reply.to.answer(reply.response)
        for event in outcome.events:
            assert event.kind in KINDS
            self.events.append(event)
        for work in outcome.work:
            if isinstance(work, TakeProducerId):
                if self.ids_refused:
                    work.event.fresh_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
                else:
                    work.event.fresh_id = self.next_id
                    self.next_id += 1
                self.feed(work.event)
            elif isinstance(work, WriteMarkers):
                if self._held_markers is not None:
                    self._held_markers.append(work)
                else:
                    self._write_markers(work)

    def write(self, name: str, pair: tuple[int, int], data: int) -> bool:
        """Data of an open transaction; False when the partition has seen a higher epoch."""
        entry = self.entries.setdefault((partition(name), pair[0]), Entry())
        if pair[1] < entry.epoch:
            return False
        entry.epoch = pair[1]
        entry.open.append(data)
        return True

    def _write_markers(self, work: WriteMarkers) -> None:
        errors = {one: self._write_marker(one, work) for one in sorted(work.partitions)}
        self.feed(inputs.MarkersWritten(work.transactional_id, work.producer_id, work.producer_epoch, errors))

    def _write_marker(self, one: tuple[str, int], work: WriteMarkers) -> ErrorCode:
        count = self.topics.partition_count(one[0])
        if count is None or one[1] >= count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if one in self.marker_errors:
            return self.marker_errors[one]
        entry = self.entries.setdefault((one, work.producer_id), Entry())
        epoch = work.producer_epoch
        needs_higher = work.transaction_version >= 2 and (entry.open or self.strict_partitions)
        if epoch < entry.epoch or (epoch == entry.epoch and needs_higher):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.markers.setdefault(one, []).append(
            Written(work.producer_id, epoch, work.committed, work.transaction_version)
        )
        self.fates.update(dict.fromkeys(entry.open, work.committed))
        entry.epoch, entry.open = epoch, []
        if one in self.lost_answers:
            self.lost_answers.discard(one)
            return ErrorCode.NETWORK_EXCEPTION
        return NONE

    # What is always true

    def folded(self) -> dict[str, Transaction]:
        """The transactional ids, out of nothing but the bytes of the log."""
        found: dict[str, Transaction] = {}
        for key, _, data in self.log:
            value = transaction_records.decode_value(data)
            if value is None:
                found.pop(key.transactional_id, None)
            else:
                found[key.transactional_id] = from_record(key.transactional_id, value)
        return found

    def check(self) -> None:
        """The invariants, and that the shard is the fold of the log."""
        folded = self.folded()
        live = {tid: one for tid, one in self.shard.states.items() if one.producer_epoch >= 0}
        assert live.keys() == folded.keys()
        versions = {key.transactional_id: value.version for key, value, _ in self.log if value is not None}
        for tid, one in live.items():
            check_invariants(one)
            names = DURABLE_V1 if versions[tid] else DURABLE_V0
            assert [getattr(one, name) for name in names] == [getattr(folded[tid], name) for name in names]

    def _check_move(self, event: Input, before: Transaction | None, after: Transaction | None) -> None:
        if before is None or after is None:
            return
        if before.state is not after.state:
            assert isinstance(event, (Appended, AppendFailed)), "states change only by records"
            assert before.state in REACHED_FROM[after.state]
        if before.producer_id == after.producer_id:
            assert before.producer_epoch <= after.producer_epoch, "an epoch fell"
            assert after.producer_epoch - before.producer_epoch <= 1, "an epoch rose twice"
        else:
            assert before.producer_epoch >= LARGEST_EPOCH - 1, "a producer id was given up before its epochs were"


def check_invariants(one: Transaction) -> None:
    """Those of `coordinator.transactions.transaction`."""
    assert -1 <= one.producer_epoch <= LARGEST_EPOCH
    assert (one.start_ms == -1) == (one.state is TransactionState.EMPTY)
    assert one.unmarked <= one.partitions
    if one.state in RESTING:
        assert not one.partitions
    if one.state not in PREPARED:
        assert not one.unmarked
    else:
        # By the rules of KIP-890 the producer goes on after its abort, so there must be an id to go on with.
        is_last = one.producer_epoch == LARGEST_EPOCH and one.client_version == 2
        assert not is_last or one.next_producer_id != -1, "the last epoch has no successor"
    if one.state in COMPLETED:
        assert one.next_producer_id == -1
    if one.pending is not None:
        assert one.pending.pending is None
        assert one.state in REACHED_FROM[one.pending.state]
