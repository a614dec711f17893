"""The one queue through which topics and configs change.

A change is a plan: a function from the state to records, or a refusal. All plans that came up to now, a few hundred at
most, are carried out in one round: records written and fsynced in a worker, folders made, the new image published, then
everybody answered. A plan sees the changes before it in the same round, so a second wish for a topic that is on its way
finds it there and is answered with it, when it is durable and served.

While the log cannot be flushed, changes are refused and the image stays (docs/decisions/failed-fsync.md).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.catalogue.appending import append_change
from broker.catalogue.cluster_state import ClusterState
from broker.catalogue.listeners import Discarding, Preparing, Rereading
from broker.catalogue.opening import read_again
from broker.catalogue.requests import NotInThisRound, Plan, Result
from broker.catalogue.snapshot_writer import SnapshotPolicy, Snapshots
from broker.catalogue.topic_changes import Refused
from broker.catalogue.topics_delta import TopicsDelta, TopicsListener, difference
from broker.catalogue.topics_image import TopicsImage
from broker.loop.logs import get_logger
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from broker.catalogue.metadata_log import MetadataLog
    from broker.catalogue.opening import Opened
    from broker.catalogue.startup import Quorum
    from broker.catalogue.topic_changes import Placing
    from broker.loop.runtime import Runtime
    from storage.files import Disk

log = get_logger(__name__)

_CHANGES_A_ROUND = 256  # planned and answered without a pause, a few milliseconds; others have a turn between rounds
_RECORDS_A_STEP = 64
MEND_AFTER_MS = 1_000  # until a failed log is tried again, as often as it takes


@dataclass(slots=True)
class _Change:
    plan: Plan
    answer: Callable[[Result], None]
    result: Result = field(default_factory=Result)
    after_others: bool = False  # of its round, whose records it has seen


class ChangeQueue:
    """Plans in, images out: `publish` gets each image that is durable, before anybody is answered."""

    def __init__(
        self,
        runtime: Runtime,
        directory: Path,
        placing: Placing,
        publish: Callable[[TopicsImage, TopicsDelta | None], None],
        snapshots: SnapshotPolicy,
        disk: Disk,
    ) -> None:
        self.state = ClusterState()  # ahead of the image while a round is written: for plans, not for answers
        self.broker_epoch = -1
        self.failed: str | None = None  # why no change can be made now; for /readyz
        self.on_intruder: Callable[[str], None] = lambda _: None  # another process writes to the directory: end
        self.settle: Callable[[], None] = lambda: None  # what a deletion has left undone, before its record may go
        self.log: MetadataLog
        self.quorum: Quorum
        self.listeners: list[TopicsListener] = []
        """Told of every change, in the order in which they came."""
        self.deleted_names: set[str] = set()
        """By this round: their folders still lie in the way."""
        self._image = TopicsImage()
        self._publish = publish
        self._runtime = runtime
        self._directory = directory
        self.placing = placing
        self._disk = disk
        self._snapshots = Snapshots(snapshots, runtime.now_ms(), disk)
        self._queue: deque[_Change] = deque()
        self._busy = False
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether no change is on its way."""
        return not self._busy

    @property
    def sound(self) -> bool:
        """Whether the log on the disk is known to be what was answered; if not, the next start is after a crash."""
        return self.log.failed is None

    def close(self) -> None:
        """Nothing is open but a descriptor; every answered change is durable already."""
        self._closed = True
        self.failed = "the broker is stopping"

    def take(self, opened: Opened) -> None:
        """Go on from what was read."""
        self.log, self.state, self.broker_epoch = opened.log, opened.state, opened.broker_epoch
        self.quorum = opened.quorum
        self._show(opened.image, created=True)
        self._publish(opened.image, None)

    def _show(self, image: TopicsImage, *, created: bool) -> None:
        before, self._image = self._image, image
        if image is not before:
            image.as_of(self.log.next_offset, created=created)

    def add(self, plan: Plan, answer: Callable[[Result], None]) -> None:
        """Carry out `plan` in the next round. The answer comes when the image shows what was asked for."""
        self._queue.append(_Change(plan, answer))
        if not self._busy:
            self._busy = True
            self._runtime.soon(self._begin_round)

    def _begin_round(self) -> None:
        self.deleted_names.clear()
        changes: list[_Change] = []  # of this round, as far as they have been looked at
        self._runtime.in_slices(
            self._plan(changes),
            lambda made: self._write(changes, made),
            partial(self._bug, changes),
            owner=self,
        )

    def _bug(self, changes: list[_Change], error: Exception) -> None:
        """What was planned could not be applied: the state may show half of a change, of which nothing was written."""
        log.error("changes_failed", changes=len(changes), exc_info=error)
        self._refused(changes, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.message)

    def _plan(self, changes: list[_Change]) -> Generator[None, None, list[Any]]:
        """Carry the plans out on the state: those that are of this round, into `changes`; return their records."""
        made: list[Any] = []
        queue = self._queue
        for _ in range(min(len(queue), _CHANGES_A_ROUND)):  # what comes meanwhile is of the next round
            yield None
            change = queue.popleft()
            change.after_others = bool(made)
            if self.failed is not None:
                change.result = Result(ErrorCode.KAFKA_STORAGE_ERROR, self.failed)
                changes.append(change)
                continue
            try:
                planned, value = change.plan(self.state)
            except NotInThisRound:
                queue.appendleft(change)  # those after it wait too: changes happen in the order in which they came
                break
            except Refused as refusal:
                change.result = Result(refusal.code, str(refusal))
                changes.append(change)
                continue
            except Exception:  # a bug of one plan, which has changed nothing: others' changes go on
                log.exception("change_failed")
                change.result = Result(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.message)
                changes.append(change)
                continue
            changes.append(change)
            change.result.value = value
            for number, record in enumerate(planned, start=1):
                self.state.apply(record)
                if not number % _RECORDS_A_STEP:
                    yield None
            made.extend(planned)
        return made

    def _write(self, changes: list[_Change], made: list[Any]) -> None:
        if not made:
            self._end_round(changes)
            return
        try:
            delta, image = difference(made, self._image, self.state)
        except Exception as error:
            self._bug(changes, error)
            return
        now_ms = self._runtime.now_ms()

        def work() -> list[Any]:
            mark = self.log.mark()
            try:
                append_change(self.log, self.state, made, now_ms)
            except Exception:  # whatever it was: half of a transaction must not stay in the log
                if self.log.failed is None:
                    self.log.rewind(mark)
                raise
            self.log.sync()
            return [one.prepare(delta) if isinstance(one, Preparing) else None for one in self.listeners]

        self._runtime.in_thread(
            work,
            lambda prepared: self._written(changes, delta, image, prepared),
            lambda error: self._refused(changes, ErrorCode.KAFKA_STORAGE_ERROR, str(error)),
        )

    def _written(self, changes: list[_Change], delta: TopicsDelta, image: TopicsImage, prepared: list[Any]) -> None:
        self._show(image, created=bool(delta.created))
        _tell(self._publish, image, delta)
        for listener, made in zip(self.listeners, prepared, strict=True):
            _tell(listener.publish, image, delta, made)
        if not delta.deleted:
            self._end_round(changes)
            return
        discarding = [listener for listener in self.listeners if isinstance(listener, Discarding)]

        def work() -> None:
            for each in discarding:
                each.discard(delta)

        def done(_: object) -> None:
            for each in discarding:
                _tell(each.discarded)
            self._end_round(changes)

        # A folder that could not be renamed is found at the next start by its topic id, and renamed then.
        self._runtime.in_thread(work, done, done)

    def _refused(self, changes: list[_Change], code: ErrorCode, message: str) -> None:
        """Nothing of the round holds, so the state is read again from what is durable.

        What was refused behind other changes may have been refused because of them ("already exists"), and does not
        hold either: Kafka's QuorumController lets results without records wait for those it has seen, and fails them.
        """
        for change in changes:
            if change.result.error is ErrorCode.NONE or change.after_others:
                change.result = Result(code, message)
        self._read_again(lambda: self._end_round(changes))

    def _read_again(self, then: Callable[[], None]) -> None:
        """The log and the state as what is durable says, in a worker; no change is made until that has worked."""

        def done(opened: Opened) -> None:
            self.take(opened)
            for listener in self.listeners:
                if isinstance(listener, Rereading):
                    _tell(listener.reread, opened.state)
            if self.failed is not None and not self._closed:
                self.failed = None
                log.info("metadata_log_mended", next_offset=opened.log.next_offset)
            then()

        def failed(error: Exception) -> None:
            if not self._closed:
                if self.failed is None:
                    log.error("metadata_log_failed", error=str(error))
                self.failed = str(error)
                if self.log.intruded:
                    self.on_intruder(self.failed)
                else:
                    retry_ms = self._runtime.now_ms() + MEND_AFTER_MS
                    self._runtime.timers.set("catalogue", retry_ms, lambda: self._read_again(lambda: None))
            then()

        before = self.log
        self._runtime.in_thread(
            lambda: read_again(self._directory, self.placing, before, self.broker_epoch, self._disk), done, failed
        )

    def _end_round(self, changes: list[_Change]) -> None:
        for change in changes:
            result = change.result
            try:
                if callable(result.value):
                    result.value = result.value()
                change.answer(result)
            except Exception:  # a bug of who asked: others are answered, and the queue goes on
                log.exception("callback_failed", callback=repr(change.answer))
        if self.failed is None and self._snapshots.due(self.log, self._runtime.now_ms()):
            self._take_snapshot()
        else:
            self._go_on(pause=len(changes) >= _CHANGES_A_ROUND)

    def _go_on(self, *, pause: bool = False) -> None:
        self._busy = bool(self._queue)
        if self._busy:
            again = self._runtime.next_turn if pause else self._runtime.soon
            again(self._begin_round)

    def _take_snapshot(self) -> None:
        """Let a snapshot take the place of the log up to here; the next round waits for it, those who read do not."""
        now_ms = self._runtime.now_ms()

        def work() -> Path:
            self.settle()
            return self._snapshots.take(self.log, self.state, self.quorum, now_ms)

        def done(path: Path) -> None:
            self.state.removed_topic_ids.clear()
            log.info("metadata_snapshot_written", file=str(path))
            self._go_on()

        def failed(error: Exception) -> None:
            log.warning("metadata_snapshot_failed", error=str(error))
            self._snapshots.put_off(now_ms)
            if self.log.failed is None:
                self._go_on()
            else:
                self._read_again(self._go_on)

        self._busy = True
        self._runtime.in_thread(work, done, failed)


def _tell(listener: Callable[..., None], *what: object) -> None:
    """Of a change that is durable: a bug of one who is told keeps it from nobody else, and the queue goes on."""
    try:
        listener(*what)
    except Exception:
        log.exception("callback_failed", callback=repr(listener))
