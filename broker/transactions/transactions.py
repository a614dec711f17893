"""All transactional ids of this node: which leader serves which, and what happens to them together.

The leaders of `__transaction_state` are loaded after the groups, since markers of a transaction that was decided before
the start may go to `__consumer_offsets`.

Source: Kafka's TransactionCoordinator, TransactionStateManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from broker.catalogue.internal_topics import TRANSACTIONS_TOPIC, new_topic
from broker.catalogue.topics_delta import TopicsListener
from broker.coordinators.leader import Leader
from broker.coordinators.leaders import Leaders
from broker.loop.logs import get_logger
from broker.transactions.lines import log_event
from broker.transactions.tenant import TransactionTenant
from broker.transactions.work import TransactionWork
from coordinator.transactions.inputs import AddPartitions, ExpireTransactionalId, VerifyPartitions
from coordinator.transactions.shard import TransactionShard
from coordinator.transactions.view import TransactionSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from broker.catalogue.catalogue import Catalogue
    from broker.catalogue.producer_ids import ProducerIds
    from broker.catalogue.requests import Result
    from broker.catalogue.topics_delta import TopicsDelta
    from broker.catalogue.topics_image import TopicsImage
    from broker.config.settings import Settings
    from broker.loop.runtime import Runtime
    from broker.partitions import Markers, Partitions
    from broker.partitions.table import Key
    from coordinator.transactions.events import TransactionEvent
    from protocol.errors import ErrorCode

log = get_logger(__name__)

TransactionLeader: TypeAlias = Leader[TransactionShard]

FEATURE = "transaction.version"
NEWEST_LEVEL = 2
_STAGGER_MS = 200  # between the expiry checks of two partitions, so that they do not all fall into one turn


class Transactions(TopicsListener):
    """The leaders of `__transaction_state`, by partition. A listener of the catalogue, after `Groups`."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        catalogue: Catalogue,
        partitions: Partitions,
        markers: Markers,
        producer_ids: ProducerIds,
    ) -> None:
        self.event_listeners: list[Callable[[TransactionEvent], None]] = [log_event]
        self._runtime = runtime
        self._settings = settings
        self._catalogue = catalogue
        work = TransactionWork(runtime, markers, producer_ids, self.leader_of)
        self._tenant = TransactionTenant(self._rule_settings(), self._publish_event, work.begin)
        self._led = led = Leaders(
            runtime,
            self._tenant,
            catalogue,
            partitions,
            topic=TRANSACTIONS_TOPIC,
            new_topic=lambda: new_topic(TRANSACTIONS_TOPIC, settings),
            node_id=settings.node_id,
            commit_timeout_ms=settings.offsets_commit_timeout_ms,
            load_buffer_bytes=settings.transaction_state_log_load_buffer_size,
        )
        led.on_led = self._all_loaded
        led.on_create = self._creating
        self.coordinator_of = led.coordinator_of
        self.unloaded = led.unloaded
        self.open = led.open

    @property
    def leaders(self) -> list[TransactionLeader]:
        """By partition; empty while there is no `__transaction_state`."""
        return self._led.all

    @property
    def not_ready(self) -> str | None:
        """Why the ids of some partition are not served; None when all are."""
        return self._led.not_ready

    def leader_of(self, transactional_id: str) -> TransactionLeader:
        """The leader of the id's partition; one that refuses everything when that is not here."""
        return self._led.leader_of(transactional_id)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[Key],
        add: bool,
        done: Callable[[Mapping[Key, ErrorCode]], None],
    ) -> None:
        """Are these partitions in the open transaction of this producer? With `add` they are from now on.

        `done` is called once, perhaps before this returns, with an error for each partition.
        """
        wanted, answer = frozenset(partitions), _Answer(done)
        leader = self.leader_of(transactional_id)
        if add:
            leader.submit(AddPartitions(transactional_id, producer_id, producer_epoch, wanted, 2, answer))
        else:
            leader.submit(VerifyPartitions(transactional_id, producer_id, producer_epoch, wanted, answer))

    # -- what happens to leaders and ids -------------------------------------------------------------------

    def _creating(self) -> None:
        """A cluster's first transaction: from now on by the newest rules. Before, older Kafkas could take over too."""
        self._catalogue.raise_feature(FEATURE, NEWEST_LEVEL, _raised)

    def _rule_settings(self) -> TransactionSettings:
        return transaction_settings(self._settings, self._catalogue.features.get(FEATURE, 0))

    def _all_loaded(self) -> None:
        check_ms = self._settings.transaction_remove_expired_transaction_cleanup_interval_ms
        for leader in self.leaders:
            self._check_later(leader, check_ms + leader.index * _STAGGER_MS)
        ids = sum(len(leader.shard.states) for leader in self.leaders)
        log.info("transactions_loaded", partitions=len(self.leaders), transactional_ids=ids, took_ms=self._led.load_ms)

    def _check_later(self, leader: TransactionLeader, after_ms: int) -> None:
        def check() -> None:
            if self._led.is_current(leader):
                self._check_later(leader, self._settings.transaction_remove_expired_transaction_cleanup_interval_ms)
                leader.submit_each(ExpireTransactionalId)

        timer = ("expire_transactional_ids", leader.index)
        self._runtime.timers.set(timer, self._runtime.now_ms() + after_ms, check)

    def _publish_event(self, event: TransactionEvent) -> None:
        for listener in self.event_listeners:
            try:
                listener(event)
            except Exception:
                log.exception("event_listener_failed", kind=event.kind, transactional_id=event.key)

    # -- what the catalogue tells --------------------------------------------------------------------------

    def publish(self, image: TopicsImage, delta: TopicsDelta, prepared: Any) -> None:  # `prepared`: nothing
        """Topics came or went, or the level of the feature rose."""
        settings = self._rule_settings()
        if settings != self._tenant.settings:
            self._tenant.settings = settings
            for leader in self.leaders:
                leader.shard.settings = settings
        self._led.publish(image, delta)

    def close(self) -> None:
        """Write what is open, and tell everybody who waits to look for another coordinator."""
        for leader in self.leaders:
            self._runtime.timers.cancel(("expire_transactional_ids", leader.index))
        self._led.close()


def _raised(result: Result) -> None:
    if result.error:
        log.error("transaction_version_refused", error=result.error.name, reason=result.message)


class _Answer:
    """Where the answer to a partition's question goes."""

    __slots__ = ("_done",)

    def __init__(self, done: Callable[[Mapping[Key, ErrorCode]], None]) -> None:
        self._done = done

    def complete(self, errors: Mapping[Key, ErrorCode]) -> None:
        """Tell it."""
        self._done(errors)


def transaction_settings(settings: Settings, level: int) -> TransactionSettings:
    """What rules look at, out of the broker's settings and the cluster's feature level."""
    return TransactionSettings(
        transaction_version=level,
        max_timeout_ms=settings.transaction_max_timeout_ms,
        id_expiration_ms=settings.transactional_id_expiration_ms,
        two_phase_commit=settings.transaction_two_phase_commit_enable,
    )
