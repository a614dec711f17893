"""What tools ask of the cluster as a whole: features, the quorum, brokers, what has configs, delegation tokens."""

from __future__ import annotations

from protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from protocol.messages.describe_quorum import DescribeQuorumPartition, DescribeQuorumRequest, DescribeQuorumTopic
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_admin import settled
from tests.reference.judge.scenarios_data import topic

UP, DOWN_IF_SAFE, DOWN = 1, 2, 3


@each_version("UpdateFeatures", range(3), since="4.3.1")
def features(s: Script, v: int) -> None:
    """Nothing that lasts is changed: the cluster is everybody's."""

    def update(*wishes: tuple[str, int, int], validate_only: bool = False) -> None:
        s.client().call(
            UpdateFeaturesRequest(
                feature_updates=[
                    FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
                    for name, level, kind in wishes
                ],
                validate_only=validate_only,
            ),
            v,
        )

    update()
    update(("no.such.feature", 1, UP))
    update(("group.version", -1, UP))
    update(("group.version", 2, UP))
    update(("transaction.version", 0, UP), ("no.such.feature", 1, UP))
    update(("metadata.version", 6, DOWN))
    update(("metadata.version", 99, UP))
    if v >= 1:
        update(("group.version", 1, 0))
        update(("group.version", 1, 9))
        update(("group.version", 1, UP), validate_only=True)
        update(("metadata.version", 7, DOWN_IF_SAFE), validate_only=True)
        update(("metadata.version", 7, DOWN), validate_only=True)


@each_version("DescribeQuorum", range(3))
def quorum(s: Script, v: int) -> None:
    def describe(*topics: tuple[str, list[int]]) -> None:
        s.client().call(
            DescribeQuorumRequest(
                topics=[
                    DescribeQuorumTopic(
                        topic_name=name,
                        partitions=[DescribeQuorumPartition(partition_index=one) for one in indexes],
                    )
                    for name, indexes in topics
                ]
            ),
            v,
        )

    asked = DescribeQuorumTopic(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumPartition(partition_index=0)]
    )
    answer = s.client().wire.call(DescribeQuorumRequest(topics=[asked]), v)
    (partition,) = answer.topics[0].partitions
    (voter,) = partition.current_voters
    s.note("leads", (partition.leader_id, voter.replica_id, partition.leader_epoch > 0, partition.observers))
    s.note("ends", voter.log_end_offset >= partition.high_watermark > 0)
    s.note("voter", (voter.replica_directory_id, voter.last_fetch_timestamp > 0, voter.last_caught_up_timestamp > 0))
    s.note("messages", (answer.error_message, partition.error_message))
    s.note("nodes", [(node.node_id, len(node.listeners)) for node in answer.nodes])
    describe(("__cluster_metadata", [1]))
    describe((topic(s), [0]))
    describe(("__cluster_metadata", [0]), ("other", [0]))
    describe()


@each_version("UnregisterBroker", range(1))
def unregister(s: Script, v: int) -> None:
    """Only brokers that nobody knows."""
    for broker_id in (7, -1):
        s.client().call(UnregisterBrokerRequest(broker_id=broker_id), v)


@each_version("ListConfigResources", range(2))
def resources(s: Script, v: int) -> None:
    topic(s)
    for kinds in ([], [16], [4, 8], [2], [32], [64], [0], [4, 1]) if v else ([],):
        s.client().call(ListConfigResourcesRequest(resource_types=kinds), v)


@each_version("DelegationTokens", range(1, 4))
def tokens(s: Script, v: int) -> None:
    """On a connection without a name all of it is refused."""
    c = s.client()
    c.call(CreateDelegationTokenRequest(max_lifetime_ms=1000), v)
    renewers = [CreatableRenewers(principal_type="User", principal_name="x")]
    c.call(
        CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="y", renewers=renewers, max_lifetime_ms=-1
        ),
        v,
    )
    c.call(DescribeDelegationTokenRequest(owners=None), v)
    c.call(DescribeDelegationTokenRequest(owners=[]), v)
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="x")
    c.call(DescribeDelegationTokenRequest(owners=[owner]), v)
    if v < 3:
        c.call(RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1), v)
        c.call(ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1), v)


@scenario("ClientMetrics-configs")
def _(s: Script) -> None:
    """A subscription is made, told, changed and taken away; what it cannot be."""
    c, name = s.client(), s.name("subscription")

    def alter(name: str, *changes: tuple[str, int, str | None]) -> None:
        configs = [AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
        resource = AlterConfigsResource(resource_type=16, resource_name=name, configs=configs)
        c.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)

    def describe(name: str) -> None:
        settled(s)
        resource = DescribeConfigsResource(resource_type=16, resource_name=name, configuration_keys=None)
        c.call(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)

    alter(name, ("metrics", 0, "org.apache.kafka.producer."), ("match", 0, "client_id=nobody"))
    describe(name)
    alter(name, ("interval.ms", 0, "100"), ("metrics", 2, "org.apache.kafka.consumer."))
    describe(name)
    for key, value in (
        ("interval.ms", "99"),
        ("interval.ms", "3600001"),
        ("match", "client_id"),
        ("match", "colour=red"),
        ("match", "client_id=("),
        ("no.such.key", "1"),
    ):
        alter(name, (key, 0, value))
    alter("", ("metrics", 0, "x"))
    describe("")
    describe(s.name("other"))
    alter(name, ("metrics", 1, None), ("match", 1, None), ("interval.ms", 1, None))
    describe(name)


@scenario("ClientMetrics-telemetry")
def _(s: Script) -> None:
    """A client asks what to push without a subscription, and pushes all the same."""
    c = s.client()
    answer = c.wire.call(GetTelemetrySubscriptionsRequest(), 0)
    s.note("asked", (answer.error_code, answer.push_interval_ms, answer.telemetry_max_bytes, answer.requested_metrics))
    s.note("codecs", (answer.accepted_compression_types, answer.delta_temporality))
    mine = answer.client_instance_id
    c.call(GetTelemetrySubscriptionsRequest(client_instance_id=mine), 0)
    for id_, subscription_id, codec, size in (
        (bytes(16), 0, 0, 1),
        (mine, answer.subscription_id + 1, 0, 1),
        (mine, answer.subscription_id, 0, 1),
    ):
        c.call(
            PushTelemetryRequest(
                client_instance_id=id_, subscription_id=subscription_id, compression_type=codec, metrics=b"x" * size
            ),
            0,
        )
    end = PushTelemetryRequest(client_instance_id=mine, subscription_id=answer.subscription_id, terminating=True)
    c.call(end, 0)
    c.call(end, 0)
