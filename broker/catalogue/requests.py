"""What may be asked of the catalogue: each request is a plan for its queue and an answer.

Source: Kafka's QuorumController.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.catalogue import acls, config_changes, features, quotas, topic_changes, users
from broker.catalogue.cluster_state import ClusterState
from broker.catalogue.topic_changes import Refused
from broker.catalogue.topics_image import Topic, TopicsImage
from protocol.errors import ErrorCode
from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.catalogue.config_changes import BrokerConfigs, ConfigChange
    from broker.catalogue.topic_changes import NewTopic
    from protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion
    from protocol.messages.create_acls import AclCreation
    from protocol.messages.update_features import FeatureUpdateKey

PRODUCER_ID_BLOCK = 1_000

Plan = Callable[[ClusterState], tuple[list[Any], Any]]
"""State -> the records of the change and the value of its answer. Raises: Refused, NotInThisRound."""

Pay = Callable[[int], None]
"""What is told of the partitions that a change makes or deletes, before it is made. Raises: Refused."""


@dataclass(slots=True)
class Result:
    """What became of one plan: refused with a code and a sentence, or done (code NONE) with a value."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    value: Any = None


class NotInThisRound(Exception):
    """The change needs what this round does to be finished, folders and answers included."""


class CatalogueRequests(ABC):
    """The requests; who inherits keeps the queue. Every answer comes when the image shows what was asked for."""

    image: TopicsImage
    placing: topic_changes.Placing
    broker_configs: BrokerConfigs
    broker_epoch: int
    _new_uuid: Callable[[], bytes]
    _deleted_names: set[str]  # by this round: their folders still lie in the way
    _collisions: dict[str, str]  # name with `.` read as `_` -> name

    @abstractmethod
    def _enqueue(self, plan: Plan, answer: Callable[[Result], None]) -> None:
        """Carry out `plan` in the next round."""

    def create_topic(
        self,
        wish: NewTopic,
        answer: Callable[[Result], None],
        *,
        validate_only: bool = False,
        pay: Pay | None = None,
    ) -> None:
        """Create a topic; `Result.value` is the `Topic` (with `validate_only`: what it would be)."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            if wish.name in self._deleted_names:
                raise NotInThisRound
            topic_id = self._new_uuid()
            made = topic_changes.create_topic(state, self.placing, wish, topic_id=topic_id, collisions=self._collisions)
            count = sum(isinstance(record, records.PartitionRecord) for record in made)
            if pay is not None:
                pay(count)
            if validate_only:
                configs = {name: value for name, value in (wish.configs or {}).items() if value is not None}
                return [], Topic(wish.name, topic_id, (0,) * count, configs)
            self._collisions[wish.name.replace(".", "_")] = wish.name
            return made, (lambda: self.image.topic(wish.name))

        self._enqueue(plan, answer)

    def ensure_topic(self, wish: NewTopic, answer: Callable[[Result], None], *, pay: Pay | None = None) -> None:
        """Create a topic unless it is there or on its way; `Result.value` is the `Topic` either way."""

        def accept(result: Result) -> None:
            if result.error is ErrorCode.TOPIC_ALREADY_EXISTS:
                # It was on its way when we asked; by now the image shows it, unless it was deleted right after.
                topic = self.image.topic(wish.name)
                if topic is not None:
                    result = Result(value=topic)
            answer(result)

        self.create_topic(wish, accept, pay=pay)

    def delete_topic(
        self,
        answer: Callable[[Result], None],
        *,
        name: str | None = None,
        topic_id: bytes | None = None,
        pay: Pay | None = None,
    ) -> None:
        """Delete a topic by name or id; `Result.value` is the `Topic` that was."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            found, made = topic_changes.delete_topic(state, name=name, topic_id=topic_id)
            if self.image.topic_by_id(found) is None:
                raise NotInThisRound  # made by it: whoever made it is to be told that it was there
            gone = state.topic_image(found)
            if pay is not None:
                pay(gone.partition_count)
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
        pay: Pay | None = None,
    ) -> None:
        """Grow a topic to `count` partitions."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            made = topic_changes.create_partitions(state, self.placing, name, count, assignments)
            if pay is not None:
                pay(len(made))
            return ([] if validate_only else made), None

        self._enqueue(plan, answer)

    def move_partition(
        self, topic_id: bytes, partition: int, directory_id: bytes, answer: Callable[[Result], None]
    ) -> None:
        """Say of a partition that it lies in the log directory with this id."""
        self._enqueue(
            lambda state: (topic_changes.move_partition(state, topic_id, partition, directory_id), None), answer
        )

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

    def alter_users(
        self,
        deletions: Sequence[ScramCredentialDeletion],
        upsertions: Sequence[ScramCredentialUpsertion],
        answer: Callable[[Result], None],
    ) -> None:
        """Change credentials of SCRAM users, what can be done in one batch; `Result.value`: see `users.alter`."""
        self._enqueue(lambda state: users.alter(state, deletions, upsertions), answer)

    def alter_quotas(
        self, wishes: Sequence[quotas.Alteration], answer: Callable[[Result], None], *, validate_only: bool = False
    ) -> None:
        """Change quotas, what can be done in one batch; `Result.value`: see `quotas.alter`."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            made, verdicts = quotas.alter(state, wishes)
            return ([] if validate_only else made), verdicts

        self._enqueue(plan, answer)

    def create_acls(self, wishes: Sequence[AclCreation], answer: Callable[[Result], None]) -> None:
        """Make ACLs that may be made, those that are not there already; all of them or, after a crash, none."""
        self._enqueue(lambda state: (acls.create(state, wishes, self._new_uuid), None), answer)

    def delete_acls(self, found: Sequence[acls.Acl], answer: Callable[[Result], None]) -> None:
        """Remove ACLs that were found."""
        self._enqueue(lambda state: (acls.delete(state, found), None), answer)

    def raise_feature(self, name: str, level: int, answer: Callable[[Result], None]) -> None:
        """Finalize a feature of the cluster at this level, unless it is there or above already."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            if state.features.get(name, 0) >= level:
                return [], None
            return [records.FeatureLevelRecord(name=name, feature_level=level)], None

        self._enqueue(plan, answer)

    def update_features(
        self, updates: Sequence[FeatureUpdateKey], answer: Callable[[Result], None], *, validate_only: bool = False
    ) -> None:
        """Finalize levels of features, all or none."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            made = features.update(state, self.placing.node_id, updates)
            return ([] if validate_only else made), None

        self._enqueue(plan, answer)

    def unregister_broker(self, broker_id: int, answer: Callable[[Result], None]) -> None:
        """Forget the registration of a broker that is not this one."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            registered = state.kept.brokers.get(broker_id)
            if registered is None:
                error = ErrorCode.BROKER_ID_NOT_REGISTERED
                raise Refused(error, f"Broker ID {broker_id} is not currently registered")
            if broker_id == self.placing.node_id:
                raise Refused(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is the one that answers")
            made = records.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=registered.broker_epoch)
            return [made], None

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
