"""The one queue through which topics and configs change, and the image that everybody reads.

A change is a plan: a function from the state to records, or a refusal. All plans that came up to now are carried out in
one round: records written and fsynced in a worker, folders made, the new image published, then everybody answered. A
plan sees the changes before it in the same round, so a second wish for a topic that is on its way finds it there and is
answered with it, when it is durable and served.

Always true:
- `image` shows nothing that a crash could take back;
- nobody is answered before the image shows the change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from broker import topic_configs
from broker.catalogue import config_changes, takeover, topic_changes
from broker.catalogue.cluster_state import TOPIC_RESOURCE, ClusterState, InconsistentMetadata
from broker.catalogue.metadata_log import MetadataLog
from broker.catalogue.topic_changes import NewTopic, Refused
from broker.topics_image import Topic, TopicsImage
from protocol.errors import ErrorCode, ProtocolError
from protocol.records import batch as record_batch
from protocol.records import control_records
from protocol.records import metadata_records as records
from storage.errors import CorruptFile, DirectoryRefused, StorageError
from storage.files import DISK, Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from broker.catalogue.config_changes import BrokerConfigs, ConfigChange
    from broker.catalogue.metadata_log import TornTail
    from broker.catalogue.snapshots import MetadataBatch
    from broker.runtime import Runtime

METADATA_VERSION = 21  # 3.9-IV0: what Kafka 3.9 to 4.3 all start on
PRODUCER_ID_BLOCK = 1_000
_BATCH_RECORDS = 10_000
_BATCH_BYTES = 7 * 1024 * 1024  # Kafka refuses a metadata batch above 8 MiB


@dataclass(slots=True)
class Result:
    """What became of one plan: refused with a code and a sentence, or done (code NONE) with a value."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    value: Any = None


@dataclass(frozen=True, slots=True)
class TopicsDelta:
    """How one image differs from the one before."""

    created: tuple[Topic, ...] = ()
    deleted: tuple[Topic, ...] = ()
    grown: tuple[tuple[Topic, Topic], ...] = ()  # (before, after)
    reconfigured: tuple[Topic, ...] = ()  # broker configs changed: every topic
    broker_reconfigured: bool = False


class TopicsListener(Protocol):
    """Somebody who keeps something per topic: the partitions' logs, the groups' offsets."""

    def prepare(self, delta: TopicsDelta) -> Any:
        """Make and open folders of what is created or grown. In a worker thread.

        The change is durable already: a folder that cannot be made is no refusal but a partition out of service.
        """

    def publish(self, image: TopicsImage, delta: TopicsDelta, prepared: Any) -> None:
        """The image is now this one. On the event loop."""

    def discard(self, delta: TopicsDelta) -> None:
        """Rename the folders of what was deleted, after `publish`. In a worker thread."""

    def discarded(self) -> None:
        """`discard` is done. On the event loop."""


@dataclass(slots=True)
class _Change:
    plan: Callable[[ClusterState], tuple[list[Any], Any]]
    answer: Callable[[Result], None]
    result: Result = field(default_factory=Result)


class _NotInThisRound(Exception):
    """The change needs what this round does to be finished, folders and answers included."""


class Catalogue:
    """Topics, configs and producer ids of this node."""

    def __init__(
        self,
        runtime: Runtime,
        directory: Path,
        *,
        placing: topic_changes.Placing,
        broker_configs: BrokerConfigs,
        new_uuid: Callable[[], bytes],
        disk: Disk = DISK,
    ) -> None:
        self.image = TopicsImage()
        self.state = ClusterState()
        self.placing = placing
        self.broker_configs = broker_configs
        self.broker_epoch = -1
        self.failed: str | None = None  # why no change can be made any more; for /readyz
        self.on_intruder: Callable[[str], None] = lambda _: None  # another process writes to the directory: end
        self._runtime = runtime
        self._directory = directory
        self._new_uuid = new_uuid
        self._disk = disk
        self._log: MetadataLog
        self._listeners: list[TopicsListener] = []
        self._queue: list[_Change] = []
        self._busy = False
        self._deleted_names: set[str] = set()  # by this round: their folders still lie in the way
        self._collisions: dict[str, str] = {}
        self._effective: dict[str, tuple[Mapping[str, str], topic_configs.Effective]] = {}

    # Opening ---------------------------------------------------------------------------------------------------

    def open(
        self,
        endpoints: Sequence[tuple[str, str, int]],
        *,
        clean: bool,
        log_epochs: Mapping[tuple[bytes, int], int] | None = None,
        stopped_at: int | None = None,
        has_folders: bool = False,
    ) -> TornTail | None:
        """Read the metadata log and register this start in it, durably; `endpoints` are (listener, host, port).

        After an unclean stop every partition gets a new leader epoch, so that offsets that were lost and written again
        can be told apart; one whose log has a higher epoch than the metadata gets the next one after that.
        `log_epochs` maps (topic id, partition) to the last epoch in its log. Returns what was cut from the log's end,
        if anything. After a clean stop nothing is: a log that lost its end since then, below the offset `stopped_at`
        that the stop knew of or in the middle of a batch, is refused. So is an empty one where partitions have folders.
        Blocks; called before anything is served.
        Raises: CorruptFile, DirectoryRefused, StorageError.
        """
        node_id = self.placing.node_id
        clean_stop = stopped_at is not None
        self._log, batches = MetadataLog.open(self._directory, node_id=node_id, disk=self._disk, may_cut=not clean_stop)
        if stopped_at is not None and self._log.next_offset <= stopped_at:
            why = f"it ends at offset {self._log.next_offset}, and the last clean stop knew of {stopped_at}"
            raise CorruptFile(self._log.folder, f"{why}; restore it from a copy")
        if has_folders and not batches and not self._log.formatted_with:
            why = "it holds nothing, and there are folders of partitions"
            raise CorruptFile(self._log.folder, f"{why}: restore it from a copy, or move the folders away")
        quorum = takeover.Quorum()
        self._replay(self._log.formatted_with, quorum, data=False)
        self._replay(batches, quorum)
        if "metadata.version" not in self.state.features:
            opening = takeover.bootstrap(self._directory, self._log.formatted_with, self.state, METADATA_VERSION)
        elif self.state.in_transaction:
            opening = [records.AbortTransactionRecord(reason="Controller failover")]
        else:
            opening = []
        for record in opening:
            self.state.apply(record)
        takeover.check(self.state, self.placing, quorum)
        self._whole_image()  # refuses what has holes while nothing is written yet
        now_ms = self._runtime.now_ms()
        leader_change = control_records.leader_change(node_id)
        self._log.begin_epoch(leader_change, now_ms=now_ms, kraft_version=quorum.kraft_version)
        self.broker_epoch = self._log.next_offset + len(opening)
        registration = self._registration(endpoints)
        leadership = takeover.leadership(self.state, self.placing, clean=clean, log_epochs=log_epochs or {})
        # A transaction must not begin inside the one that `opening` ends, nor take the registration's offset.
        if 1 + len(opening) + len(leadership) > _BATCH_RECORDS:
            self._write([*opening, registration], now_ms)
            self._write(leadership, now_ms)
        else:
            self._write([*opening, registration, *leadership], now_ms)
        self._log.sync()
        for record in (registration, *leadership):
            self.state.apply(record)
        self._publish_image(self._whole_image())
        return self._log.torn

    def _whole_image(self) -> TopicsImage:
        try:
            return self.state.image()
        except InconsistentMetadata as error:
            raise DirectoryRefused(f"{self._log.folder}: {error}") from error

    def _replay(
        self, batches: Iterable[MetadataBatch], quorum: takeover.Quorum | None = None, *, data: bool = True
    ) -> None:
        for batch in batches:
            try:
                for key, value in batch.values:
                    if batch.control:
                        if quorum is not None:
                            quorum.apply(key, value)
                    elif data:
                        self.state.apply(records.decode_frame(value))
            except (records.MetadataRecordError, InconsistentMetadata, ProtocolError) as error:
                raise DirectoryRefused(f"{self._log.folder}, batch at offset {batch.base_offset}: {error}") from error

    def _registration(self, endpoints: Sequence[tuple[str, str, int]]) -> Any:
        level = self.state.features.get("metadata.version", METADATA_VERSION)
        return records.RegisterBrokerRecord(
            broker_id=self.placing.node_id,
            is_migrating_zk_broker=False,
            incarnation_id=self._new_uuid(),
            broker_epoch=self.broker_epoch,
            end_points=[
                records.BrokerEndpoint(name=name, host=host, port=port, security_protocol=0)
                for name, host, port in endpoints
            ],
            features=[
                records.BrokerFeature(
                    name="metadata.version",
                    min_supported_version=7,
                    max_supported_version=max(METADATA_VERSION, level),
                )
            ],
            rack=None,
            # Only Kafka's next start reads it, and a fenced registration spares that start nine seconds.
            fenced=True,
            in_controlled_shutdown=False,
            log_dirs=[self.placing.directory_id],
        )

    # Reading ---------------------------------------------------------------------------------------------------

    def effective_configs(self, topic: Topic) -> topic_configs.Effective:
        """What holds for a topic, its overrides over the broker's settings over the defaults; remembered."""
        known = self._effective.get(topic.name)
        if known is not None and known[0] is topic.configs:
            return known[1]
        made = topic_configs.effective(topic.configs, self.broker_configs.explicit(self.state))
        self._effective[topic.name] = (topic.configs, made)
        return made

    @property
    def idle(self) -> bool:
        """Whether no change is on its way."""
        return not self._busy

    def listen(self, listener: TopicsListener) -> None:
        """Tell `listener` of every change from now on, in the order in which listeners came."""
        self._listeners.append(listener)

    # Changing --------------------------------------------------------------------------------------------------

    def create_topic(self, wish: NewTopic, answer: Callable[[Result], None], *, validate_only: bool = False) -> None:
        """Create a topic; `Result.value` is the `Topic` (with `validate_only`: what it would be)."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            if wish.name in self._deleted_names:
                raise _NotInThisRound
            topic_id = self._new_uuid()
            made = topic_changes.create_topic(state, self.placing, wish, topic_id=topic_id, collisions=self._collisions)
            if validate_only:
                count = sum(isinstance(record, records.PartitionRecord) for record in made)
                configs = {name: value for name, value in (wish.configs or {}).items() if value is not None}
                return [], Topic(wish.name, topic_id, (0,) * count, configs)
            self._collisions[wish.name.replace(".", "_")] = wish.name
            return made, (lambda: self.image.topic(wish.name))

        self._enqueue(plan, answer)

    def ensure_topic(self, wish: NewTopic, answer: Callable[[Result], None]) -> None:
        """Create a topic unless it is there or on its way; `Result.value` is the `Topic` either way."""

        def accept(result: Result) -> None:
            if result.error is ErrorCode.TOPIC_ALREADY_EXISTS:
                # It was on its way when we asked; by now the image shows it, unless it was deleted right after.
                topic = self.image.topic(wish.name)
                if topic is not None:
                    result = Result(value=topic)
            answer(result)

        self.create_topic(wish, accept)

    def delete_topic(
        self, answer: Callable[[Result], None], *, name: str | None = None, topic_id: bytes | None = None
    ) -> None:
        """Delete a topic by name or id; `Result.value` is the `Topic` that was."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            found, made = topic_changes.delete_topic(state, name=name, topic_id=topic_id)
            if self.image.topic_by_id(found) is None:
                raise _NotInThisRound  # made by it: whoever made it is to be told that it was there
            gone = state.topic_image(found)
            self._deleted_names.add(gone.name)
            self._collisions.pop(gone.name.replace(".", "_"), None)
            return made, gone

        self._enqueue(plan, answer)

    def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        answer: Callable[[Result], None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Grow a topic to `count` partitions."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            made = topic_changes.create_partitions(state, self.placing, name, count, assignments)
            return ([] if validate_only else made), None

        self._enqueue(plan, answer)

    def alter_configs(
        self,
        resource: tuple[int, str],
        changes: Sequence[ConfigChange],
        answer: Callable[[Result], None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change some configs of a (resource type, name)."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            made = config_changes.incremental(state, self.broker_configs, resource, changes)
            return ([] if validate_only else made), None

        self._enqueue(plan, answer)

    def replace_configs(
        self,
        resource: tuple[int, str],
        values: Mapping[str, str | None],
        answer: Callable[[Result], None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Make `values` all the overrides that a (resource type, name) has."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            made = config_changes.replace_all(state, self.broker_configs, resource, values)
            return ([] if validate_only else made), None

        self._enqueue(plan, answer)

    def allocate_producer_ids(self, answer: Callable[[Result], None]) -> None:
        """Take the next block of producer ids; `Result.value` is a `range`, never given out again."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            first = state.next_producer_id
            block = range(first, first + PRODUCER_ID_BLOCK)
            made = records.ProducerIdsRecord(
                broker_id=self.placing.node_id, broker_epoch=self.broker_epoch, next_producer_id=block.stop
            )
            return [made], block

        self._enqueue(plan, answer)

    # The queue -------------------------------------------------------------------------------------------------

    def _enqueue(self, plan: Callable[[ClusterState], tuple[list[Any], Any]], answer: Callable[[Result], None]) -> None:
        self._queue.append(_Change(plan, answer))
        if not self._busy:
            self._busy = True
            self._runtime.soon(self._begin_round)

    def _begin_round(self) -> None:
        queued, self._queue = self._queue, []
        changes: list[_Change] = []
        made: list[Any] = []
        self._deleted_names.clear()
        for at, change in enumerate(queued):
            if self.failed is not None:
                change.result = Result(ErrorCode.KAFKA_STORAGE_ERROR, self.failed)
                changes.append(change)
                continue
            try:
                planned, value = change.plan(self.state)
            except _NotInThisRound:
                self._queue = queued[at:]  # those after it too: changes happen in the order in which they came
                break
            except Refused as refusal:
                change.result = Result(refusal.code, str(refusal))
                changes.append(change)
                continue
            changes.append(change)
            change.result.value = value
            for record in planned:
                self.state.apply(record)
            made.extend(planned)
        if not made:
            self._end_round(changes)
            return
        delta, image = self._difference(made)
        now_ms = self._runtime.now_ms()

        def work() -> list[Any]:
            mark = self._log.mark()
            try:
                self._write(made, now_ms)
            except Exception:  # whatever it was: half of a transaction must not stay in the log
                if self._log.failed is None:
                    self._log.rewind(mark)
                raise
            self._log.sync()
            return [listener.prepare(delta) for listener in self._listeners]

        self._runtime.in_thread(
            work,
            lambda prepared: self._written(changes, delta, image, prepared),
            lambda error: self._refused(changes, error),
        )

    def _written(self, changes: list[_Change], delta: TopicsDelta, image: TopicsImage, prepared: list[Any]) -> None:
        self._publish_image(image)
        if delta.broker_reconfigured:
            self._effective.clear()
        for listener, made in zip(self._listeners, prepared, strict=True):
            listener.publish(image, delta, made)
        if not delta.deleted:
            self._end_round(changes)
            return

        def work() -> None:
            for listener in self._listeners:
                listener.discard(delta)

        def done(_: object) -> None:
            for listener in self._listeners:
                listener.discarded()
            self._end_round(changes)

        # A folder that could not be renamed is found at the next start by its topic id, and renamed then.
        self._runtime.in_thread(work, done, done)

    def _refused(self, changes: list[_Change], error: Exception) -> None:
        """The write failed: nothing of the round holds, so the state is read again from what is in the log."""
        for change in changes:
            if change.result.error is ErrorCode.NONE:
                change.result = Result(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if self._log.failed is not None:
            self.failed = str(error)
            if self._log.intruded:
                self.on_intruder(self.failed)
            self._end_round(changes)
            return
        try:
            self.state = ClusterState()
            reread, batches = MetadataLog.open(self._directory, node_id=self.placing.node_id, disk=self._disk)
            self._replay(batches)
            reread.leader_epoch = max(reread.leader_epoch, self._log.leader_epoch)
            self._log = reread
            self._publish_image(self._whole_image())
        except (StorageError, CorruptFile, DirectoryRefused) as failure:
            self.failed = f"the metadata log cannot be used: {failure}"
        self._end_round(changes)

    def _end_round(self, changes: list[_Change]) -> None:
        for change in changes:
            result = change.result
            if callable(result.value):
                result.value = result.value()
            change.answer(result)
        self._busy = bool(self._queue)
        if self._busy:
            self._runtime.soon(self._begin_round)

    def _publish_image(self, image: TopicsImage) -> None:
        self.image = image
        self._collisions = {name.replace(".", "_"): name for name in image.names()}

    def _write(self, made: Sequence[Any], now_ms: int) -> None:
        """Append records as one batch, or inside a metadata transaction when they are more than a batch holds."""
        level = self.state.features.get("metadata.version", METADATA_VERSION)
        frames = [records.encode_frame(record, metadata_version=level) for record in made]
        batches = list(_batches(frames))
        if len(batches) > 1:
            begin = records.encode_frame(records.BeginTransactionRecord(name="Kohort"), metadata_version=level)
            end = records.encode_frame(records.EndTransactionRecord(), metadata_version=level)
            batches = [[begin], *batches, [end]]
        for batch in batches:
            self._log.append([(None, frame) for frame in batch], now_ms=now_ms)

    def _difference(self, made: Sequence[Any]) -> tuple[TopicsDelta, TopicsImage]:
        """What a round's records change in the image, and the image with it."""
        touched: dict[str, None] = {}
        broker_changed = False
        for record in made:
            if isinstance(record, records.ConfigRecord):
                if record.resource_type == TOPIC_RESOURCE:
                    touched[record.resource_name] = None
                else:
                    broker_changed = True
            elif isinstance(record, records.TopicRecord):
                touched[record.name] = None
            elif isinstance(record, records.PartitionRecord) and record.topic_id in self.state.topics:
                touched[self.state.topics[record.topic_id].name] = None
            elif isinstance(record, records.RemoveTopicRecord):
                gone = self.image.topic_by_id(record.topic_id)
                if gone is not None:
                    touched[gone.name] = None
        created: list[Topic] = []
        deleted: list[Topic] = []
        grown: list[tuple[Topic, Topic]] = []
        reconfigured: list[Topic] = []
        changed: dict[str, Topic | None] = {}
        for name in touched:
            before = self.image.topic(name)
            topic_id = self.state.topic_ids.get(name)
            after = None if topic_id is None else self.state.topic_image(topic_id)
            if before is None and after is None:
                continue  # created and deleted in one round: its records cancel each other out
            changed[name] = after
            if before is not None and (after is None or after.topic_id != before.topic_id):
                deleted.append(before)
            if after is not None and (before is None or after.topic_id != before.topic_id):
                created.append(after)
            elif before is not None and after is not None:
                if after.partition_count != before.partition_count:
                    grown.append((before, after))
                if after.configs != before.configs:
                    reconfigured.append(after)
        image = self.image.with_changes(changed) if changed else self.image
        if broker_changed:
            reconfigured = list(image)
        return TopicsDelta(tuple(created), tuple(deleted), tuple(grown), tuple(reconfigured), broker_changed), image

    def close(self) -> None:
        """Nothing is open but a descriptor; every answered change is durable already."""
        self.failed = "the broker is stopping"


def _batches(frames: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The frames in groups that a batch can hold."""
    group: list[bytes] = []
    size_bytes = 0
    for frame in frames:
        size_bytes += record_batch.encoded_pair_bytes(None, frame)
        if group and (len(group) == _BATCH_RECORDS or size_bytes > _BATCH_BYTES):
            yield group
            group, size_bytes = [], record_batch.encoded_pair_bytes(None, frame)
        group.append(frame)
    if group:
        yield group
