"""All group leaders of this node: who leads which group, and what befalls them together.

`__consumer_offsets` is made when somebody first looks for a coordinator. Its partitions are loaded before the listener
accepts, or when the topic appears; topics that are deleted take their committed offsets along.

Source: Kafka's GroupCoordinatorService.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from broker.group_batches import LeaderState
from broker.group_leader import GroupLeader
from broker.internal_topics import OFFSETS_TOPIC, new_topic
from broker.logs import get_logger
from broker.partitions.errors import PartitionFailed, PartitionLoading
from broker.partitions.table import RELOAD_AFTER_MS
from broker.placement import Placement
from broker.uuids import random_uuid_text
from coordinator.routing import partition_for
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode, KafkaError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.catalogue.catalogue import Catalogue
    from broker.catalogue.requests import Result
    from broker.catalogue.topics_delta import TopicsDelta
    from broker.partitions import Partition, Partitions
    from broker.runtime import Runtime
    from broker.settings import Settings
    from broker.topics_image import TopicsImage
    from coordinator.events import GroupEvent

log = get_logger()

_ROUTES_KEPT = 100_000
_RELOAD_AT_LEAST_EVERY_MS = 30_000
_PASSING = (StorageError, OSError, PartitionFailed, PartitionLoading)
# Told at level `debug` only. A thousand may join in one rebalance, whose own lines say who began it and how many took
# part, and a line costs more than the join itself; ten thousand groups may be loaded, which `groups_loaded` counts.
_ROUTINE = frozenset({"member_joined", "coordinator_loaded", "commit_refused"})
_STAGGER_MS = 200  # between the retention checks of two partitions, so that they do not all fall into one turn


class Groups:
    """The leaders of `__consumer_offsets`, by partition. A listener of the catalogue, after `Partitions`."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        catalogue: Catalogue,
        partitions: Partitions,
        *,
        new_uuid: Callable[[], str] | None = None,
        unclean: bool = False,
    ) -> None:
        self.placement = Placement(settings.node_id)
        self.leaders: list[GroupLeader] = []
        self.new_uuid = new_uuid or random_uuid_text
        self.event_listeners: list[Callable[[GroupEvent], None]] = [log_event]
        self.load_listeners: list[Callable[[GroupLeader], None]] = []
        """Called with each leader whose groups have been read from the log, before any event of theirs."""
        self.create_listeners: list[Callable[[], None]] = []
        """Called when `__consumer_offsets` is asked for: what is to be made together with it."""
        self._unclean = unclean
        self._runtime = runtime
        self._settings = settings
        self._group_settings = group_settings(settings)
        self._catalogue = catalogue
        self._partitions = partitions
        self._routes: dict[str, GroupLeader] = {}
        self._load_after_ms: dict[int, int] = {}  # how long the next try waits, by partition; after a failed one
        self._creating = False
        self.load_ms = 0  # how long the last loading of all partitions took
        # Answers for groups whose partition is not here, or while there is no `__consumer_offsets` at all.
        self._nobody = self._new_leader(-1)
        self._nobody.state = LeaderState.RESIGNED
        partitions.on_recovered.append(self._recovered)

    # -- routing -------------------------------------------------------------------------------------------

    def leader_of(self, group_id: str) -> GroupLeader:
        """The leader of the group's partition; one that refuses everything when that is not here."""
        leader = self._routes.get(group_id)
        if leader is None:
            if not self.leaders:
                return self._nobody
            if len(self._routes) >= _ROUTES_KEPT:
                self._routes.clear()
            leader = self._routes[group_id] = self.leaders[partition_for(group_id, len(self.leaders))]
        return leader

    def coordinator_of(self, group_id: str) -> int | None:
        """The node that coordinates the group; None while there is no `__consumer_offsets`, whose making is begun."""
        if not self.leaders:
            self._create_topic()
            return None
        return self.placement.leader_of(OFFSETS_TOPIC, partition_for(group_id, len(self.leaders)))

    def unloaded(self) -> int:
        """How many partitions' groups cannot be served."""
        return sum(1 for leader in self.leaders if leader.state is not LeaderState.ACTIVE)

    def _create_topic(self) -> None:
        if self._creating or self._catalogue.image.topic(OFFSETS_TOPIC) is not None:
            return
        self._creating = True
        self._catalogue.ensure_topic(new_topic(OFFSETS_TOPIC, self._settings), self._created)
        for listener in self.create_listeners:
            listener()

    def _created(self, result: Result) -> None:
        self._creating = False
        if result.error is not ErrorCode.NONE:
            log.error("offsets_topic_refused", error=result.error.name, reason=result.message)

    # -- taking over ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Load every group, before the listener accepts: some clients take "loading" for "nothing was committed"."""
        topic = self._catalogue.image.topic(OFFSETS_TOPIC)
        if topic is not None:
            self._lead(topic.partition_count)

    def _lead(self, partition_count: int) -> None:
        started_ms = self._runtime.now_ms()
        image = self._catalogue.image
        self.leaders = [self._new_leader(index) for index in range(partition_count)]
        self._routes.clear()
        collecting = gc.isenabled()
        # Millions of objects that all stay: the collector would look at them again and again, and find nothing.
        gc.disable()
        try:
            for leader in self.leaders:
                leader.shard.topics = image
                self._load(leader)
        finally:
            if collecting:
                gc.enable()
        gc.freeze()
        check_ms = self._settings.offsets_retention_check_interval_ms
        for leader in self.leaders:
            self._check_later(leader, check_ms + leader.index * _STAGGER_MS)
        groups = sum(len(leader.shard.groups) for leader in self.leaders)
        offsets = sum(len(table) for leader in self.leaders for table in leader.shard.offsets.values())
        took_ms = self.load_ms = self._runtime.now_ms() - started_ms
        log.info("groups_loaded", partitions=partition_count, groups=groups, offsets=offsets, took_ms=took_ms)

    def _load(self, leader: GroupLeader) -> None:
        try:
            partition = self._partitions.get(OFFSETS_TOPIC, leader.index)
        except (KafkaError, OSError) as error:
            leader.load_failed(error)
            return
        assert partition is not None
        leader.load(partition, self._settings.offsets_load_buffer_size)

    def _load_failed(self, leader: GroupLeader) -> None:
        """What the disk refused it may give later. A log that cannot be understood stays as it is: see `not_ready`."""
        if not isinstance(leader.load_error, _PASSING):
            return
        after_ms = self._load_after_ms.get(leader.index, RELOAD_AFTER_MS)
        self._load_after_ms[leader.index] = min(after_ms * 2, _RELOAD_AT_LEAST_EVERY_MS)

        def again() -> None:
            if self._is_waiting(leader):
                self._partitions.open_once_more(OFFSETS_TOPIC, leader.index, opened)

        def opened() -> None:
            if not self._is_waiting(leader):
                return
            try:
                partition = self._partitions.opened(OFFSETS_TOPIC, leader.index)
                if partition is None:
                    self._load_failed(leader)
                    return
                leader.shard.topics = self._catalogue.image
                leader.load(partition, self._settings.offsets_load_buffer_size)
            except Exception:
                log.exception("group_load_failed", partition=leader.index)
            if leader.state is LeaderState.ACTIVE:
                log.warning("group_load_made_up_for", partition=leader.index, groups=len(leader.shard.groups))

        self._runtime.timers.set(("load_groups", leader.index), self._runtime.now_ms() + after_ms, again)

    def _is_waiting(self, leader: GroupLeader) -> bool:
        there = leader.index < len(self.leaders) and self.leaders[leader.index] is leader
        return there and leader.state is LeaderState.FAILED

    @property
    def not_ready(self) -> str | None:
        """Why groups of some partition are not served; None when all are."""
        for leader in self.leaders:
            if leader.state is LeaderState.FAILED:
                return f"{OFFSETS_TOPIC}-{leader.index}: {leader.load_error or 'its log has failed'}"
        return None

    def _recovered(self, partition: Partition) -> None:
        """A partition's log was opened anew after a failure: its groups may have to be, too."""
        if partition.topic == OFFSETS_TOPIC and partition.index < len(self.leaders):
            leader = self.leaders[partition.index]
            leader.shard.topics = self._catalogue.image
            leader.recovered(partition, self._settings.offsets_load_buffer_size)

    def _new_leader(self, index: int) -> GroupLeader:
        leader = GroupLeader(
            self._runtime,
            index,
            self._group_settings,
            self._catalogue.image,
            self._publish_event,
            compression=self._settings.offsets_topic_compression_codec,
            commit_timeout_ms=self._settings.offsets_commit_timeout_ms,
        )
        leader.unclean = self._unclean
        leader.on_load = self._loaded
        leader.on_load_failed = self._load_failed
        return leader

    def _loaded(self, leader: GroupLeader) -> None:
        self._load_after_ms.pop(leader.index, None)
        for listener in self.load_listeners:
            listener(leader)

    def _publish_event(self, event: GroupEvent) -> None:
        for listener in self.event_listeners:
            try:
                listener(event)
            except Exception:
                log.exception("event_listener_failed", kind=event.kind, group_id=event.group_id)

    # -- from time to time ---------------------------------------------------------------------------------

    def _check_later(self, leader: GroupLeader, after_ms: int) -> None:
        def check() -> None:
            if leader.index < len(self.leaders) and self.leaders[leader.index] is leader:
                self._check_later(leader, self._settings.offsets_retention_check_interval_ms)
                leader.expire_offsets()

        self._runtime.timers.set(("expire_offsets", leader.index), self._runtime.now_ms() + after_ms, check)

    # -- what the catalogue tells --------------------------------------------------------------------------

    def prepare(self, delta: TopicsDelta) -> Any:
        """Nothing to make: the logs are the business of `Partitions`."""

    def publish(self, image: TopicsImage, delta: TopicsDelta, prepared: Any) -> None:  # `prepared`: nothing
        """Topics came or went."""
        for leader in self.leaders:
            leader.shard.topics = image
        deleted = {topic.name: topic.topic_id for topic in delta.deleted}
        if OFFSETS_TOPIC in deleted:
            self.close()
        elif deleted:
            for leader in self.leaders:
                leader.forget_topics(deleted)
        if any(topic.name == OFFSETS_TOPIC for topic in delta.created):
            topic = image.topic(OFFSETS_TOPIC)
            if topic is not None:
                self._lead(topic.partition_count)

    def discard(self, delta: TopicsDelta) -> None:
        """Nothing to throw away."""

    def discarded(self) -> None:
        """Nothing was thrown away."""

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what is open, and tell every member that waits to look for another coordinator."""
        leaders, self.leaders = self.leaders, []
        self._routes.clear()
        for leader in leaders:
            leader.close()
            self._runtime.timers.cancel(("expire_offsets", leader.index))


def group_settings(settings: Settings) -> GroupSettings:
    """What rules look at, out of the broker's settings."""
    return GroupSettings(
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        max_size=settings.group_max_size,
        offset_metadata_max_chars=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
    )


def log_event(event: GroupEvent) -> None:
    """One line for each thing that happened in a group."""
    tell = log.debug if event.kind in _ROUTINE else log.info
    facts = event.facts
    if event.kind == "offsets_changed":
        facts = {name: value for name, value in facts.items() if name != "offsets"}  # up to 200 of them
    tell(event.kind, group_id=event.group_id, generation=event.generation, **facts)
