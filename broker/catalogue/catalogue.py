"""Topics, configs, users, ACLs and ids of this node: the image that everybody reads, and what may be asked of it.

Each request is a plan for the catalogue's queue (`broker.catalogue.queue`), and is answered when the image shows it.

Always true: `image` and `configs` show nothing that a crash could take back; nobody is answered before the image shows
the change.

Source: Kafka's QuorumController.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.catalogue import acls, config_changes, features, quotas, topic_changes, users
from broker.catalogue.opening import Found, open_and_register
from broker.catalogue.queue import ChangeQueue
from broker.catalogue.requests import NotInThisRound, Pay, Result
from broker.catalogue.snapshot_writer import SnapshotPolicy
from broker.catalogue.topic_changes import Refused
from broker.catalogue.topics_image import Topic, TopicsImage
from broker.config import topic_configs
from protocol.errors import ErrorCode
from protocol.records import metadata_records as records
from storage.files import DISK, Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from broker.catalogue.cluster_state import ClusterState
    from broker.catalogue.config_changes import BrokerConfigs, ConfigChange
    from broker.catalogue.kept_records import KeptRecords
    from broker.catalogue.metadata_log import TornTail
    from broker.catalogue.topic_changes import NewTopic
    from broker.catalogue.topics_delta import TopicsDelta
    from broker.loop.runtime import Runtime
    from broker.security.scram import Shape
    from protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion
    from protocol.messages.create_acls import AclCreation
    from protocol.messages.update_features import FeatureUpdateKey
    from protocol.records.metadata_records import ClientQuotaRecord

PRODUCER_ID_BLOCK = 1_000


class Catalogue:
    """The image, what holds for each topic and user, and the requests; `queue` changes them."""

    def __init__(
        self,
        runtime: Runtime,
        directory: Path,
        *,
        placing: topic_changes.Placing,
        broker_configs: BrokerConfigs,
        new_uuid: Callable[[], bytes],
        snapshots: SnapshotPolicy = SnapshotPolicy(),  # noqa: B008  immutable
        disk: Disk = DISK,
    ) -> None:
        self.image = TopicsImage()
        self.configs: Mapping[tuple[int, str], Mapping[str, str]] = {}  # (resource type, name) -> overrides
        self.credentials: users.Credentials = {}  # of those who log in by SCRAM
        self.client_quotas: Sequence[ClientQuotaRecord] = ()
        self.features: Mapping[str, int] = {}  # the finalized levels, by name
        self.features_epoch = -1  # rises when they change
        self.broker_configs = broker_configs
        self.queue = ChangeQueue(runtime, directory, placing, self._publish, snapshots, disk)
        self._runtime = runtime
        self._directory = directory
        self._new_uuid = new_uuid
        self._disk = disk
        self._collisions: dict[str, str] = {}  # name with `.` read as `_` -> name
        self._effective: dict[str, tuple[Mapping[str, str], topic_configs.Effective]] = {}
        self._credentials_of: KeptRecords | None = None  # and after how many changes of them:
        self._scram_changes = 0
        self._usual: dict[str, Shape] = {}  # by mechanism

    # Opening ---------------------------------------------------------------------------------------------------

    def open(
        self, endpoints: Sequence[tuple[str, str, int]], found: Found, protocols: Mapping[str, int] | None = None
    ) -> TornTail | None:
        """Read the metadata log and register this start in it; `endpoints` are (listener, host, port).

        `protocols` are the numbers of the security protocols by listener, 0 where nothing is said.
        Returns what was cut from the log's end, if anything. Blocks; called before anything is served.
        Raises: CorruptFile, DirectoryRefused, StorageError.
        """
        opened = open_and_register(
            self._directory,
            self.queue.placing,
            endpoints,
            found,
            protocols=protocols or {},
            incarnation_id=self._new_uuid(),
            now_ms=self._runtime.now_ms(),
            disk=self._disk,
        )
        self.queue.take(opened)
        return opened.log.torn

    def _publish(self, image: TopicsImage, delta: TopicsDelta | None) -> None:
        """The queue has this, durable; without a delta all of it was read anew."""
        state, self.image = self.queue.state, image
        if self.features != state.features:
            self.features = dict(state.features)
            self.features_epoch = self.queue.log.next_offset
        self.configs = dict(state.configs)
        kept = state.kept
        if self._credentials_of is not kept or self._scram_changes != kept.scram_changes:
            self._credentials_of, self._scram_changes = kept, kept.scram_changes
            self.credentials = dict(kept.scram)
            self._usual = {}
        if delta is None or delta.rights:
            self.client_quotas = tuple(kept.quotas.values())
        self._collisions = {name.replace(".", "_"): name for name in image.names()}
        if delta is None or delta.broker_reconfigured:
            self._effective.clear()
        else:
            for topic in delta.deleted:
                self._effective.pop(topic.name, None)

    # Reading ---------------------------------------------------------------------------------------------------

    def effective_configs(self, topic: Topic) -> topic_configs.Effective:
        """What holds for a topic, its overrides over the broker's settings over the defaults; remembered."""
        known = self._effective.get(topic.name)
        if known is not None and known[0] is topic.configs:
            return known[1]
        made = topic_configs.effective(topic.configs, self.broker_configs.explicit(self.configs))
        self._effective[topic.name] = (topic.configs, made)
        return made

    def quorum(self) -> tuple[int, int, bytes | None]:
        """Of the metadata log: leader epoch, end offset, and the voter's directory id where voters have one."""
        voters = self.queue.quorum.voters
        return self.queue.log.leader_epoch, self.queue.log.next_offset, voters[0][1] if voters else None

    def scram_credential(self, user: str, mechanism: str) -> users.ScramCredential | None:
        """What a log-in of `user` is checked against; `mechanism` as SASL calls it, `SCRAM-SHA-256`."""
        return users.credential(self.credentials, user, mechanism)

    def usual_credential(self, mechanism: str) -> Shape:
        """What most users' credentials for it look like."""
        found = self._usual.get(mechanism)
        if found is None:
            found = self._usual[mechanism] = users.usual(self.credentials, mechanism)
        return found

    @property
    def state(self) -> ClusterState:
        """What plans see: ahead of the image while a round is written."""
        return self.queue.state

    @property
    def failed(self) -> str | None:
        """Why no change can be made now."""
        return self.queue.failed

    @property
    def broker_epoch(self) -> int:
        """Of this start."""
        return self.queue.broker_epoch

    # Requests --------------------------------------------------------------------------------------------------

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
            if wish.name in self.queue.deleted_names:
                raise NotInThisRound
            placing, topic_id = self.queue.placing, self._new_uuid()
            made = topic_changes.create_topic(state, placing, wish, topic_id=topic_id, collisions=self._collisions)
            count = sum(isinstance(record, records.PartitionRecord) for record in made)
            if pay is not None:
                pay(count)
            if validate_only:
                configs = {name: value for name, value in (wish.configs or {}).items() if value is not None}
                return [], Topic(wish.name, topic_id, (0,) * count, configs)
            self._collisions[wish.name.replace(".", "_")] = wish.name
            return made, (lambda: self.image.topic(wish.name))

        self.queue.add(plan, answer)

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
            self.queue.deleted_names.add(gone.name)
            self._collisions.pop(gone.name.replace(".", "_"), None)
            return made, gone

        self.queue.add(plan, answer)

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
            made = topic_changes.create_partitions(state, self.queue.placing, name, count, assignments)
            if pay is not None:
                pay(len(made))
            return ([] if validate_only else made), None

        self.queue.add(plan, answer)

    def move_partition(
        self, topic_id: bytes, partition: int, directory_id: bytes, answer: Callable[[Result], None]
    ) -> None:
        """Say of a partition that it lies in the log directory with this id."""
        self.queue.add(
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

        self.queue.add(plan, answer)

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

        self.queue.add(plan, answer)

    def alter_users(
        self,
        deletions: Sequence[ScramCredentialDeletion],
        upsertions: Sequence[ScramCredentialUpsertion],
        answer: Callable[[Result], None],
    ) -> None:
        """Change credentials of SCRAM users, what can be done in one batch; `Result.value`: see `users.alter`."""
        self.queue.add(lambda state: users.alter(state, deletions, upsertions), answer)

    def alter_quotas(
        self, wishes: Sequence[quotas.Alteration], answer: Callable[[Result], None], *, validate_only: bool = False
    ) -> None:
        """Change quotas, what can be done in one batch; `Result.value`: see `quotas.alter`."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            made, verdicts = quotas.alter(state, wishes)
            return ([] if validate_only else made), verdicts

        self.queue.add(plan, answer)

    def create_acls(self, wishes: Sequence[AclCreation], answer: Callable[[Result], None]) -> None:
        """Make ACLs that may be made, those that are not there already; all of them or, after a crash, none."""
        self.queue.add(lambda state: (acls.create(state, wishes, self._new_uuid), None), answer)

    def delete_acls(self, found: Sequence[acls.Acl], answer: Callable[[Result], None]) -> None:
        """Remove ACLs that were found."""
        self.queue.add(lambda state: (acls.delete(state, found), None), answer)

    def raise_feature(self, name: str, level: int, answer: Callable[[Result], None]) -> None:
        """Finalize a feature of the cluster at this level, unless it is there or above already."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            if state.features.get(name, 0) >= level:
                return [], None
            return [records.FeatureLevelRecord(name=name, feature_level=level)], None

        self.queue.add(plan, answer)

    def update_features(
        self, updates: Sequence[FeatureUpdateKey], answer: Callable[[Result], None], *, validate_only: bool = False
    ) -> None:
        """Finalize levels of features, all or none."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            made = features.update(state, self.queue.placing.node_id, updates)
            return ([] if validate_only else made), None

        self.queue.add(plan, answer)

    def unregister_broker(self, broker_id: int, answer: Callable[[Result], None]) -> None:
        """Forget the registration of a broker that is not this one."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            registered = state.kept.brokers.get(broker_id)
            if registered is None:
                error = ErrorCode.BROKER_ID_NOT_REGISTERED
                raise Refused(error, f"Broker ID {broker_id} is not currently registered")
            if broker_id == self.queue.placing.node_id:
                raise Refused(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is the one that answers")
            made = records.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=registered.broker_epoch)
            return [made], None

        self.queue.add(plan, answer)

    def allocate_producer_ids(self, answer: Callable[[Result], None]) -> None:
        """Take the next block of producer ids; `Result.value` is a `range`, never given out again."""

        def plan(state: ClusterState) -> tuple[list[Any], Any]:
            first = state.next_producer_id
            block = range(first, first + PRODUCER_ID_BLOCK)
            made = records.ProducerIdsRecord(
                broker_id=self.queue.placing.node_id, broker_epoch=self.queue.broker_epoch, next_producer_id=block.stop
            )
            return [made], block

        self.queue.add(plan, answer)
