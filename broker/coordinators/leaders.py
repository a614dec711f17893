"""All leaders of one coordinator's topic on this node: who serves which key, and what happens to them together.

The topic is made when somebody first looks for a coordinator. Its partitions are loaded before the listener accepts, or
when the topic appears; a partition whose log could not be read for a passing reason is loaded once that is over.

Source: Kafka's GroupCoordinatorService and TransactionCoordinator, which do the same beside each other.
"""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING, Generic

from broker.coordinators.batches import LeaderState
from broker.coordinators.leader import Leader
from broker.coordinators.placement import Placement
from broker.coordinators.tenant import ShardT
from broker.loop.logs import get_logger
from broker.partitions.errors import PartitionFailed, PartitionLoading
from broker.partitions.table import RELOAD_AFTER_MS
from coordinator.routing import partition_for
from protocol.errors import ErrorCode, KafkaError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.catalogue.catalogue import Catalogue
    from broker.catalogue.requests import Result
    from broker.catalogue.topic_changes import NewTopic
    from broker.catalogue.topics_delta import TopicsDelta
    from broker.catalogue.topics_image import TopicsImage
    from broker.coordinators.tenant import Tenant
    from broker.loop.runtime import Runtime
    from broker.partitions import Partition, Partitions

log = get_logger(__name__)

_ROUTES_KEPT = 100_000
_RELOAD_AT_LEAST_EVERY_MS = 30_000
_PASSING = (StorageError, OSError, PartitionFailed, PartitionLoading)


class Leaders(Generic[ShardT]):
    """The leaders of the partitions of `topic`. Told by its owner what the catalogue publishes, after `Partitions`.

    `new_topic` says how the topic is to be made.
    """

    def __init__(
        self,
        runtime: Runtime,
        tenant: Tenant[ShardT],
        catalogue: Catalogue,
        partitions: Partitions,
        *,
        topic: str,
        new_topic: Callable[[], NewTopic],
        node_id: int,
        compression: int = 0,
        commit_timeout_ms: int = 5_000,
        load_buffer_bytes: int = 5_242_880,
        unclean: bool = False,
    ) -> None:
        self.all: list[Leader[ShardT]] = []  # by partition; empty while there is no topic
        self.load_ms = 0  # how long the last loading of all partitions took
        self.on_load: Callable[[Leader[ShardT]], None] | None = None
        """Called with each leader whose shard has been read from the log, before any event of it."""
        self.on_led: Callable[[], None] | None = None
        """Called when there are leaders, loaded, where there were none."""
        self.on_create: Callable[[], None] | None = None
        """Called when the topic is being made: what is to be made together with it."""
        self._runtime = runtime
        self._tenant = tenant
        self._catalogue = catalogue
        self._partitions = partitions
        self._topic = topic
        self._new_topic = new_topic
        self._placement = Placement(node_id)
        self._compression = compression
        self._commit_timeout_ms = commit_timeout_ms
        self._load_buffer_bytes = load_buffer_bytes
        self._unclean = unclean
        self._routes: dict[str, Leader[ShardT]] = {}
        self._load_after_ms: dict[int, int] = {}  # how long the next try waits, by partition; after a failed one
        self._creating = False
        # Answers for keys whose partition is not here, or while there is no topic at all.
        self._nobody = self._new_leader(-1)
        self._nobody.state = LeaderState.RESIGNED
        partitions.on_recovered.append(self._recovered)
        partitions.on_offline.append(self._went_offline)

    # -- routing -------------------------------------------------------------------------------------------

    def leader_of(self, key: str) -> Leader[ShardT]:
        """The leader of the key's partition; one that refuses everything when that is not here."""
        leader = self._routes.get(key)
        if leader is None:
            if not self.all:
                return self._nobody
            if len(self._routes) >= _ROUTES_KEPT:
                self._routes.clear()
            leader = self._routes[key] = self.all[partition_for(key, len(self.all))]
        return leader

    def coordinator_of(self, key: str) -> int | None:
        """The node that coordinates the key; None while its disk is away, or no topic is there: it is made."""
        if not self.all:
            self._create_topic()
            return None
        index = partition_for(key, len(self.all))
        if self._partitions.is_offline(self._topic, index):
            return None
        return self._placement.leader_of(self._topic, index)

    def unloaded(self) -> int:
        """How many partitions cannot be served."""
        return sum(1 for leader in self.all if leader.state is not LeaderState.ACTIVE)

    @property
    def not_ready(self) -> str | None:
        """Why some partition is not served; None when all are."""
        for leader in self.all:
            if leader.state is LeaderState.FAILED:
                return f"{self._topic}-{leader.index}: {leader.load_error or 'its log has failed'}"
        return None

    def _create_topic(self) -> None:
        if self._creating or self._catalogue.image.topic(self._topic) is not None:
            return
        self._creating = True
        self._catalogue.ensure_topic(self._new_topic(), self._created)
        if self.on_create is not None:
            self.on_create()

    def _created(self, result: Result) -> None:
        self._creating = False
        if result.error is not ErrorCode.NONE:
            log.error(f"{self._tenant.noun}_topic_refused", error=result.error.name, reason=result.message)

    # -- taking over ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Load every partition, before the listener accepts: some clients take "loading" for "there is nothing"."""
        topic = self._catalogue.image.topic(self._topic)
        if topic is not None:
            self._lead(topic.partition_count)

    def _lead(self, partition_count: int) -> None:
        started_ms = self._runtime.now_ms()
        image = self._catalogue.image
        self.all = [self._new_leader(index) for index in range(partition_count)]
        self._routes.clear()
        collecting = gc.isenabled()
        # Millions of objects that all stay: the collector would look at them again and again, and find nothing.
        gc.disable()
        try:
            for leader in self.all:
                leader.shard.topics = image
                self._load(leader)
        finally:
            if collecting:
                gc.enable()
        gc.freeze()
        self.load_ms = self._runtime.now_ms() - started_ms
        if self.on_led is not None:
            self.on_led()

    def _load(self, leader: Leader[ShardT]) -> None:
        try:
            partition = self._partitions.get(self._topic, leader.index)
        except (KafkaError, OSError) as error:
            leader.load_failed(error)
            return
        assert partition is not None
        leader.load(partition, self._load_buffer_bytes)

    def _load_failed(self, leader: Leader[ShardT]) -> None:
        """What the disk refused it may give later. A log that cannot be understood stays as it is: see `not_ready`."""
        if not isinstance(leader.load_error, _PASSING):
            return
        noun = self._tenant.noun
        after_ms = self._load_after_ms.get(leader.index, RELOAD_AFTER_MS)
        self._load_after_ms[leader.index] = min(after_ms * 2, _RELOAD_AT_LEAST_EVERY_MS)
        again_ms = self._runtime.now_ms() + after_ms
        self._runtime.timers.set(("load", noun, leader.index), again_ms, partial(self._load_again, leader))

    def _load_again(self, leader: Leader[ShardT]) -> None:
        if self._is_waiting(leader):
            self._partitions.open_once_more(self._topic, leader.index, partial(self._load_opened, leader))

    def _load_opened(self, leader: Leader[ShardT]) -> None:
        if not self._is_waiting(leader):
            return
        noun = self._tenant.noun
        try:
            partition = self._partitions.opened(self._topic, leader.index)
            if partition is None:
                self._load_failed(leader)
                return
            if partition.error is not None:
                return  # it has failed meanwhile, and will be opened anew: see `_recovered`
            leader.shard.topics = self._catalogue.image
            leader.load(partition, self._load_buffer_bytes)
        except Exception:
            log.exception(f"{noun}_load_failed", partition=leader.index)
        if leader.state is LeaderState.ACTIVE:
            log.warning(f"{noun}_load_made_up_for", partition=leader.index, loaded=len(leader.shard.states))

    def is_current(self, leader: Leader[ShardT]) -> bool:
        """Whether the leader still leads its partition: the topic may have been deleted."""
        return leader.index < len(self.all) and self.all[leader.index] is leader

    def _is_waiting(self, leader: Leader[ShardT]) -> bool:
        return self.is_current(leader) and leader.state is LeaderState.FAILED

    def _recovered(self, partition: Partition) -> None:
        """A partition's log was opened anew after a failure: its shard may have to be, too."""
        if partition.topic == self._topic and partition.index < len(self.all):
            leader = self.all[partition.index]
            leader.shard.topics = self._catalogue.image
            leader.recovered(partition, self._load_buffer_bytes)

    def _went_offline(self, partition: Partition) -> None:
        """Somebody else would lead it now, were there another node: what needs no record is not served either."""
        if partition.topic == self._topic and partition.index < len(self.all):
            self.all[partition.index].fail()

    def _new_leader(self, index: int) -> Leader[ShardT]:
        leader = Leader(
            self._runtime,
            self._tenant,
            index,
            self._catalogue.image,
            compression=self._compression,
            commit_timeout_ms=self._commit_timeout_ms,
        )
        leader.unclean = self._unclean
        leader.on_load = self._loaded
        leader.on_load_failed = self._load_failed
        return leader

    def _loaded(self, leader: Leader[ShardT]) -> None:
        self._load_after_ms.pop(leader.index, None)
        self._runtime.timers.cancel(("load", self._tenant.noun, leader.index))
        if self.on_load is not None:
            self.on_load(leader)

    # -- what the catalogue tells --------------------------------------------------------------------------

    def publish(self, image: TopicsImage, delta: TopicsDelta) -> None:
        """Topics came or went; the coordinator's own may be among them."""
        for leader in self.all:
            leader.shard.topics = image
        if any(topic.name == self._topic for topic in delta.deleted):
            self.close()
        if any(topic.name == self._topic for topic in delta.created):
            topic = image.topic(self._topic)
            if topic is not None:
                self._lead(topic.partition_count)

    def close(self) -> None:
        """Write what is open, and tell everybody who waits to look for another coordinator."""
        leaders, self.all = self.all, []
        self._routes.clear()
        for leader in leaders:
            leader.close()
