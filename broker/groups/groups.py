"""All groups of this node: which leader serves which, and what happens to them together.

Topics that are deleted take the offsets that were committed for them along; offsets expire.

Source: Kafka's GroupCoordinatorService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from broker.catalogue.internal_topics import OFFSETS_TOPIC, new_topic
from broker.catalogue.topics_delta import TopicsListener
from broker.coordinators.leader import Leader
from broker.coordinators.leaders import Leaders
from broker.groups.consumer_configs import ConsumerGroupConfigs
from broker.groups.peers import Peers
from broker.groups.tenant import GroupTenant
from broker.groups.work import GroupWork
from broker.loop.logs import get_logger, say_in
from broker.loop.uuids import random_uuid_text
from coordinator.consumer.assignors import ASSIGNORS
from coordinator.offsets.inputs import ExpireOffsets, ForgetTopics
from coordinator.shard import Shard
from coordinator.view import GroupSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.catalogue.catalogue import Catalogue
    from broker.catalogue.requests import Result
    from broker.catalogue.topics_delta import TopicsDelta
    from broker.catalogue.topics_image import TopicsImage
    from broker.config.settings import Settings
    from broker.loop.runtime import Runtime
    from broker.partitions import Partitions
    from coordinator.events import GroupEvent

log = get_logger(__name__)

GroupLeader: TypeAlias = Leader[Shard]

# Told at level `debug` only. A thousand may join in one rebalance, whose own lines say who began it and how many took
# part, and a line costs more than the join itself; ten thousand groups may be loaded, which `groups_loaded` counts.
_ROUTINE = frozenset(
    {
        "member_joined",
        "coordinator_loaded",
        "commit_refused",
        "join_refused",
        "member_reconciled",
        "target_computed",
        "partitions_taken",
    }
)
_LONG = {"offsets_changed": "offsets", "partitions_taken": "partitions"}  # up to hundreds of them
_STAGGER_MS = 200  # between the retention checks of two partitions, so that they do not all fall into one turn


def _words(event: str, facts: Any) -> str | None:
    if "group_id" not in facts:
        return None
    from broker.groups.lines import sentence  # noqa: PLC0415  with the first line, as structlog

    return sentence(event, facts)


say_in(_words)

_BEFORE_MS = 30_000  # a client that heard nothing of this broker may have joined anew since


class Groups(TopicsListener):
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
        peers: Peers | None = None,
    ) -> None:
        self.new_uuid = new_uuid or random_uuid_text
        self.event_listeners: list[Callable[[GroupEvent], None]] = [log_event]
        self.load_listeners: list[Callable[[GroupLeader], None]] = []
        """Called with each leader whose groups have been read from the log, before any event of theirs."""
        self.create_listeners: list[Callable[[], None]] = []
        """Called when `__consumer_offsets` is asked for: what is to be made together with it."""
        self.peers = peers if peers is not None else Peers(runtime)
        self._runtime = runtime
        self._settings = settings
        self._catalogue = catalogue
        self._is_feature_raised = False
        self.consumer_settings = ConsumerGroupConfigs(settings, catalogue)
        work = GroupWork(runtime, ASSIGNORS, lambda result: self.leader_of(result.key).submit(result))
        self._led = led = Leaders(
            runtime,
            GroupTenant(
                group_settings(settings), self._publish_event, self.consumer_settings.of_group, work.begin, self._edge
            ),
            catalogue,
            partitions,
            topic=OFFSETS_TOPIC,
            new_topic=lambda: new_topic(OFFSETS_TOPIC, settings),
            node_id=settings.node_id,
            compression=settings.offsets_topic_compression_codec,
            commit_timeout_ms=settings.offsets_commit_timeout_ms,
            load_buffer_bytes=settings.offsets_load_buffer_size,
            unclean=unclean,
        )
        led.on_load = self._loaded
        led.on_led = self._all_loaded
        led.on_create = self._creating
        self.leader_of = led.leader_of
        self.coordinator_of = led.coordinator_of
        self.unloaded = led.unloaded
        self.open = led.open

    @property
    def leaders(self) -> list[GroupLeader]:
        """By partition; empty while there is no `__consumer_offsets`."""
        return self._led.all

    @property
    def load_ms(self) -> int:
        """How long the last loading of all groups took."""
        return self._led.load_ms

    @property
    def not_ready(self) -> str | None:
        """Why groups of some partition are not served; None when all are."""
        return self._led.not_ready

    # -- what happens to leaders and groups ----------------------------------------------------------------

    def _edge(self, group_id: str, member_id: str, silent_ms: int | None) -> Mapping[str, Any]:
        """What is to be seen of a silent member: its connections, and whether this broker stood still."""
        held_ms = self._runtime.held_ms_since(silent_ms) if silent_ms is not None else 0
        connection = self.peers.facts(group_id, member_id)
        seen: dict[str, Any] = {} if connection is None else {"connection": connection}
        if held_ms:
            seen["broker_held_ms"] = held_ms
        elif connection is not None and (connection.get("joined_again") or connection.get("state") == "closed"):
            seen["broker_held_before_ms"] = self._runtime.held_ms_since((silent_ms or 0) + _BEFORE_MS)
        return seen

    def _creating(self) -> None:
        for listener in self.create_listeners:
            listener()

    def _loaded(self, leader: GroupLeader) -> None:
        for listener in self.load_listeners:
            listener(leader)

    def _all_loaded(self) -> None:
        check_ms = self._settings.offsets_retention_check_interval_ms
        for leader in self.leaders:
            self._check_later(leader, check_ms + leader.index * _STAGGER_MS)
        groups = sum(len(leader.shard.states) for leader in self.leaders)
        offsets = sum(len(table) for leader in self.leaders for table in leader.shard.offsets.values())
        log.info("groups_loaded", partitions=len(self.leaders), groups=groups, offsets=offsets, took_ms=self.load_ms)

    def _publish_event(self, event: GroupEvent) -> None:
        if event.group_type == "consumer" and not self._is_feature_raised:
            # A cluster's first group of the new protocol. Before, older Kafkas could take over too.
            self._is_feature_raised = True
            self._catalogue.raise_feature("group.version", 1, _raised)
        for listener in self.event_listeners:
            try:
                listener(event)
            except Exception:
                log.exception("event_listener_failed", kind=event.kind, group_id=event.group_id)

    def _check_later(self, leader: GroupLeader, after_ms: int) -> None:
        def check() -> None:
            if self._led.is_current(leader):
                self._check_later(leader, self._settings.offsets_retention_check_interval_ms)
                expire_offsets(leader)

        self._runtime.timers.set(("expire_offsets", leader.index), self._runtime.now_ms() + after_ms, check)

    # -- what the catalogue tells --------------------------------------------------------------------------

    def publish(self, image: TopicsImage, delta: TopicsDelta, prepared: Any) -> None:  # `prepared`: nothing
        """Topics came or went."""
        self._led.publish(image, delta)
        for group_id in self.consumer_settings.changed():
            self.leader_of(group_id).shard.configured(group_id)
        deleted = {topic.name: topic.topic_id for topic in delta.deleted}
        if deleted and OFFSETS_TOPIC not in deleted:
            for leader in self.leaders:
                forget_topics(leader, deleted)

    def close(self) -> None:
        """Write what is open, and tell every member that waits to look for another coordinator."""
        for leader in self.leaders:
            self._runtime.timers.cancel(("expire_offsets", leader.index))
        self._led.close()


def _raised(result: Result) -> None:
    if result.error:
        log.error("group_version_refused", error=result.error.name, reason=result.message)


def expire_offsets(leader: GroupLeader) -> None:
    """The retention check. Its tombstones may go into several batches."""
    leader.submit_each(ExpireOffsets)


def forget_topics(leader: GroupLeader, topic_ids: dict[str, bytes]) -> None:
    """Topics were deleted (name -> the id that it had): what was committed for them goes."""
    leader.submit_each(lambda group_id: ForgetTopics(group_id, topic_ids))


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
    is_routine = event.kind in _ROUTINE
    if is_routine and not log.debugs:
        return  # before its facts are gathered: a rebalance of thousands has tens of thousands of these
    tell = log.debug if is_routine else log.info
    facts, long = event.facts, _LONG.get(event.kind)
    if long is not None:
        facts = {name: value for name, value in facts.items() if name != long}
    tell(event.kind, group_id=event.group_id, generation=event.generation, **facts)
