"""Partitions that are moved from one log directory to another while they are served.

A copy is filled in a `-future` folder of the other directory, in threads, up to the high watermark; of one that a stop
has cut off, what was flushed counts. What is left is copied in one turn of the loop, and appends go to the copy from
there on; nothing more is committed until the copy is on the disk, the metadata log says that the partition lies there,
and the old folder is renamed to `-delete`, durably.

Always true: what was committed is in the one folder with the partition's plain name; where there is none, in the
`-future` folder of the directory that the metadata log names. A start goes by that (`adopt`).

Source: KIP-113, KIP-858; Kafka's ReplicaManager.alterReplicaLogDirs, ReplicaAlterLogDirsThread.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from broker.catalogue.listeners import Preparing
from broker.catalogue.topics_delta import TopicsListener
from broker.loop.logs import get_logger
from broker.partitions.move import PIECE_BYTES, Move, Step
from broker.partitions.move_folders import Key, flush_all, make, retire, take_name_later
from broker.partitions.move_pace import Pace
from broker.partitions.move_wishes import MoveRefused, checked
from broker.partitions.settings import tail_of
from protocol.errors import ErrorCode, KafkaError
from storage.errors import CorruptFile, StorageError
from storage.log import handover

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from broker.catalogue.requests import Result
    from broker.catalogue.topics_delta import TopicsDelta
    from broker.catalogue.topics_image import TopicsImage
    from broker.loop.runtime import Runtime
    from broker.partitions import Partition, Partitions
    from broker.partitions.cleaning import LogCleaning
    from storage.directory.log_directory import LogDirectory
    from storage.state.flush import FlushTicket

AT_A_TIME = 2
MOST_PREFERRED = 10_000
"""Partitions that are not there yet whose directory is remembered; the one named first is forgotten then."""
AGAIN_MS = 100
"""Until a partition is looked at again that could not be copied just now: it is loading, failed, or being cleaned."""
_REFUSALS = (StorageError, CorruptFile, OSError, ValueError, KafkaError)

log = get_logger(__name__)


class Moves(TopicsListener, Preparing):
    """The moves by partition; `record` has the metadata log say where one lies (`Catalogue.move_partition`)."""

    def __init__(
        self,
        runtime: Runtime,
        partitions: Partitions,
        directories: Sequence[LogDirectory],
        *,
        record: Callable[[bytes, int, bytes, Callable[[Result], None]], None],
        preferred: dict[Key, bytes],
        cordoned: Callable[[], Collection[Path]],
        bytes_per_second: Callable[[], int | None],
        new_uuid: Callable[[], bytes],
        remove_later: Callable[[list[Path]], None],
    ) -> None:
        self._runtime = runtime
        self._partitions = partitions
        self._by_path = {one.path: one for one in directories}
        self._by_id = {one.directory_id: one for one in directories}
        self._record = record
        self._preferred = preferred
        self._cordoned = cordoned
        self._pace = Pace(bytes_per_second)
        self._new_uuid = new_uuid
        self._remove_later = remove_later
        self._moves: dict[Key, Move] = {}
        self._after: dict[Key, list[Callable[[], None]]] = {}  # what was asked while a partition was handed over
        self._active: set[Key] = set()
        self._waiting: deque[Move] = deque()
        self._stopped = False
        self.ended = {"moved": 0, "failed": 0, "cancelled": 0}
        """How many have ended so."""
        self.cleaning: LogCleaning | None = None
        partitions.moving = self._moves
        partitions.copies = self._copies

    def resume(self, found: Sequence[Move]) -> None:
        """Go on with what an earlier life of the broker has begun."""
        for move in found:
            self._moves[move.key] = move
            self._runtime.soon(partial(self._go_on, move))

    def stop(self) -> None:
        """Begin nothing more; the next start goes on."""
        self._stopped = True

    def _copies(self) -> Iterator[tuple[Key, Path, int, int]]:
        for key, move in list(self._moves.items()):
            if move.copy is not None:
                partition = self._partitions.opened(*key)
                end = partition.log_end_offset if partition is not None else move.copy.log_end_offset
                yield key, move.to.path, move.copy.size_bytes, max(end - move.copy.log_end_offset, 0)
            elif move.folder is not None:
                yield key, move.to.path, 0, 0

    # -- what is asked for -----------------------------------------------------------------------------------

    def ask(self, key: Key, path: Path, answer: Callable[[ErrorCode], None]) -> None:
        """Have the partition lie in this directory; a move to another one ends. Answered when it has durably begun."""
        known = self._moves.get(key)
        if known is not None and known.step is Step.HANDING_OVER and known.to.path != path:
            self._after.setdefault(key, []).append(lambda: self.ask(key, path, answer))
            return
        try:
            to, partition = checked(key, path, self._partitions, self._by_path, self._cordoned())
        except MoveRefused as refusal:
            if refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._prefer(key, self._by_path[path])
            answer(refusal.code)
            return
        if known is not None and known.to is not to:
            self._end(known, "partition_move_cancelled")
            known = None
        if known is not None:
            if known.step is Step.CREATING:
                known.answers.append(answer)
            else:
                answer(ErrorCode.NONE)
        elif partition.log.directory.parent == path:
            answer(ErrorCode.NONE)
        elif self._partitions.disks.offline:
            answer(ErrorCode.KAFKA_STORAGE_ERROR)  # as in Kafka: a copy may lie where nobody can look
        else:
            move = Move(key, partition.topic_id, to, None)
            move.answers.append(answer)
            self._make(move)

    def _prefer(self, key: Key, to: LogDirectory) -> None:
        """Have it made there, while this process lives. Source: Kafka's LogManager.maybeUpdatePreferredLogDir."""
        self._preferred.pop(key, None)
        if len(self._preferred) == MOST_PREFERRED:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[key] = to.directory_id

    def _make(self, move: Move) -> None:
        key = move.key
        self._moves[key] = move

        def made(folder: Path) -> None:
            move.folder = folder
            if move.step is Step.OVER:
                self._discard(move.to, key, folder)
                move.say(ErrorCode.NONE)
                return
            move.step = Step.COPYING
            log.info("partition_move_began", topic=key[0], partition=key[1], to=str(move.to.path))
            move.say(ErrorCode.NONE)
            self._go_on(move)

        def failed(error: Exception) -> None:
            self._fail(move, error)
            move.say(ErrorCode.KAFKA_STORAGE_ERROR)

        self._runtime.in_thread(lambda: make(move.to, key, move.topic_id, self._new_uuid), made, failed)

    # -- copying -------------------------------------------------------------------------------------------

    def _go_on(self, move: Move) -> None:
        """Take the next step of a copy, or wait for one's turn."""
        if self._stopped or move.step is not Step.COPYING:
            return
        if move.key not in self._active:
            if len(self._active) >= AT_A_TIME:
                self._waiting.append(move)
                return
            self._active.add(move.key)
        try:
            partition = self._partitions.get(*move.key)
        except KafkaError:
            self._later(move)
            return
        if partition is None or partition.topic_id != move.topic_id:
            self._end(move, "partition_move_cancelled")
        elif partition.error is not None or (self.cleaning is not None and self.cleaning.is_on(partition)):
            self._later(move)
        elif move.copy is not None and move.source is not partition.log:
            self._begin_anew(move)  # loaded anew after a failure: it may have lost what was copied
        else:
            try:
                self._copy(move, partition)
            except _REFUSALS as error:
                self._fail(move, error)

    def _later(self, move: Move, wait_ms: int = AGAIN_MS) -> None:
        deadline_ms = self._runtime.now_ms() + wait_ms
        self._runtime.timers.set(("move", *move.key), deadline_ms, lambda: self._go_on(move))

    def _copy(self, move: Move, partition: Partition) -> None:
        """Raises: what `_REFUSALS` has."""
        now_ms = self._runtime.now_ms()
        source = partition.log
        if move.copy is None:
            first, config = handover.first_offset(source), source.config
            self._runtime.in_thread(
                lambda: move.open(source, first, config, now_ms),
                lambda useful: self._go_on(move) if useful else self._begin_anew(move),
                partial(self._fail, move),
            )
            return
        if wait_ms := self._pace.wait_ms(now_ms):
            self._later(move, wait_ms)
            return
        if move.is_near(self._pace.piece_bytes):
            if partition.is_being_written:
                partition.when_written(lambda: self._go_on(move))
            else:
                self._hand_over(move, partition)
            return
        piece = move.next_piece(partition, self._pace.piece_bytes(PIECE_BYTES))
        if piece is None:
            self._later(move)
        else:
            self._pace.copied(piece.end - piece.start)
            self._runtime.in_thread(
                lambda: move.copy_piece(piece, now_ms), lambda _: self._go_on(move), partial(self._fail, move)
            )

    def _begin_anew(self, move: Move) -> None:
        if move.step is Step.COPYING and not self._stopped:
            self._end(move, "partition_move_begun_anew")
            self._make(Move(move.key, move.topic_id, move.to, None))

    # -- handing over ----------------------------------------------------------------------------------------

    def _hand_over(self, move: Move, partition: Partition) -> None:
        """Raises: what `_REFUSALS` has, and then the source goes on."""
        assert move.copy is not None
        copy = move.copy
        self._pace.copied(move.copy_rest(self._runtime.now_ms()))
        ticket = handover.take_over(copy, partition.log, tail_of(partition.topic))
        partition.hand_over(copy)
        move.step = Step.HANDING_OVER
        self._runtime.in_thread(
            lambda: flush_all(copy, ticket),
            lambda _: self._flushed(move, partition, ticket),
            lambda error: self._take_back(move, partition, error),
        )

    def _flushed(self, move: Move, partition: Partition, ticket: FlushTicket) -> None:
        if move.step is not Step.HANDING_OVER or self._stopped:
            return
        try:
            partition.log.finish_flush(ticket)
        except StorageError as error:
            self._take_back(move, partition, error)
            return

        def recorded(result: Result) -> None:
            if result.error is not ErrorCode.NONE and move.step is Step.HANDING_OVER:
                self._take_back(move, partition, result.message or result.error.name)

        self._record(move.topic_id, move.key[1], move.to.directory_id, recorded)

    def _take_back(self, move: Move, partition: Partition, why: object) -> None:
        """What was appended since is refused; the source is loaded anew."""
        if move.step is Step.HANDING_OVER:
            partition.take_back(why)
            self._fail(move, why)

    def prepare(self, delta: TopicsDelta) -> dict[Key, Path | Exception]:
        """The metadata says where these lie now, durably: take the plain name from the old folders, durably too."""
        retired: dict[Key, Path | Exception] = {}
        for before, after in delta.moved:
            for index, (old, new) in enumerate(zip(before.directories, after.directories, strict=False)):
                key = after.name, index
                move = self._moves.get(key)
                if old == new or move is None or move.step is not Step.HANDING_OVER or move.to.directory_id != new:
                    continue
                retired[key] = self._retire(self._by_id[old], key)
        return retired

    def _retire(self, directory: LogDirectory, key: Key) -> Path | Exception:
        if self._stopped:
            return StorageError("is left to the next start:", directory.folder(*key))
        return retire(directory, key, self._new_uuid())

    def publish(self, image: TopicsImage, delta: TopicsDelta, retired: dict[Key, Path | Exception]) -> None:
        """The copies whose sources are out of the way get their names; those of deleted topics go."""
        if self._stopped:
            return
        made = {topic.name for topic in (*delta.created, *(after for _, after in delta.grown))}
        for key in [one for one in self._preferred if one[0] in made]:
            if key[1] < (image.partition_count(key[0]) or 0):
                del self._preferred[key]
        for topic in delta.deleted:
            for index in range(topic.partition_count):
                move = self._moves.get((topic.name, index))
                if move is not None and move.topic_id == topic.topic_id:
                    self._end(move, "partition_move_cancelled")
        before = {topic.name: topic for topic, _ in delta.moved}
        for key, result in retired.items():
            move = self._moves[key]
            partition = self._partitions.opened(*key)
            assert partition is not None
            if isinstance(result, Path):
                self._take_name(move, partition, result)
            else:
                # The source still has its name, so it counts: say so in the metadata too.
                self._take_back(move, partition, result)
                self._record_back(key, move.topic_id, before[key[0]].directories[key[1]])

    def _record_back(self, key: Key, topic_id: bytes, directory_id: bytes) -> None:
        """Have the metadata log say that the partition stayed, until it does: the log is looked for where it says."""

        def recorded(result: Result) -> None:
            partition = self._partitions.opened(*key)
            if result.error is ErrorCode.NONE or partition is None or partition.topic_id != topic_id:
                return
            deadline_ms = self._runtime.now_ms() + AGAIN_MS
            again = partial(self._record_back, key, topic_id, directory_id)
            self._runtime.timers.set(("moved back", *key), deadline_ms, again)

        if not self._stopped:
            self._record(topic_id, key[1], directory_id, recorded)

    def _take_name(self, move: Move, partition: Partition, retired: Path) -> None:
        key, to, folder = move.key, move.to, move.folder
        assert folder is not None
        assert move.copy is not None
        move.step = Step.OVER
        if move.source is not None:
            move.source.state.tail.clear()
        try:
            move.copy.state.relocate(to.rename_future(folder, *key))
        except OSError as error:
            # It counts all the same: no other folder has the name. It is renamed when the log is loaded anew.
            self._partitions.unmade[key] = partial(take_name_later, to, folder, key)
            partition.handed_over()
            partition.fail(StorageError("cannot rename", folder, error))
        else:
            partition.handed_over()
            self._runtime.in_thread(
                to.sync, lambda _: None, lambda error: log.error("folder_not_flushed", error=str(error))
            )
        if self.cleaning is not None:
            self.cleaning.moved(partition)
        self._remove_later([retired])
        self.ended["moved"] += 1
        log.info("partition_moved", topic=key[0], partition=key[1], to=str(to.path))
        self._forget(move)

    # -- the end -------------------------------------------------------------------------------------------

    def _fail(self, move: Move, why: object) -> None:
        if move.step is Step.OVER or self._stopped:
            return
        self.ended["failed"] += 1
        log.error("partition_move_failed", topic=move.key[0], partition=move.key[1], error=str(why))
        self._partitions.disks.suspect(move.to.path)
        if move.source is not None:
            self._partitions.disks.suspect(move.source.directory.parent)
        self._end(move, None)

    def _end(self, move: Move, event: str | None) -> None:
        """Leave the partition where it is; the copy is thrown away."""
        if event == "partition_move_cancelled":
            self.ended["cancelled"] += 1
        if event is not None:
            log.info(event, topic=move.key[0], partition=move.key[1], to=str(move.to.path))
        move.step, move.copy = Step.OVER, None
        if move.folder is not None:
            self._discard(move.to, move.key, move.folder)
        self._forget(move)

    def _discard(self, to: LogDirectory, key: Key, folder: Path) -> None:
        unique = self._new_uuid()
        self._runtime.in_thread(
            lambda: to.retire_future(folder, *key, unique=unique),
            lambda retired: self._remove_later([retired]),
            lambda error: log.error("folder_not_renamed", topic=key[0], partition=key[1], error=str(error)),
        )

    def _forget(self, move: Move) -> None:
        key = move.key
        if self._moves.get(key) is move:
            del self._moves[key]
        self._active.discard(key)
        for again in self._after.pop(key, ()):
            self._runtime.soon(again)
        while self._waiting and len(self._active) < AT_A_TIME:
            self._go_on(self._waiting.popleft())
