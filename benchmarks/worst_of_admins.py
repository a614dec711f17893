"""The worst clients of the APIs of transactions, rights, users, configs and KIP-848: see `benchmarks.worst`."""

from collections.abc import Callable

from protocol.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_topics,
    delete_acls,
    describe_client_quotas,
    describe_producers,
    describe_quorum,
    describe_transactions,
    describe_user_scram_credentials,
    incremental_alter_configs,
    list_transactions,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from protocol.schema import Message

MEGABYTE = 1_000_000
WIDE, PARTITIONS = "wide", 2_000

Worst = tuple[Message, int]


def names(prefix: str, size: int = MEGABYTE) -> list[str]:
    """A megabyte of names that nobody has heard of."""
    return [f"{prefix}-{number}" for number in range(size // (len(prefix) + 8))]


def _acls_of(topics: list[str]) -> create_acls.CreateAclsRequest:
    """One on each of these topics."""
    return create_acls.CreateAclsRequest(
        creations=[
            create_acls.AclCreation(
                resource_type=2,
                resource_name=name,
                principal="User:hostile",
                host="*",
                operation=3,
                permission_type=3,
            )
            for name in topics
        ]
    )


def worst_of_admins() -> dict[str, Callable[[], Worst]]:
    """By API: what its worst client asks for."""
    return {
        "TxnOffsetCommit": lambda: (
            txn_offset_commit.TxnOffsetCommitRequest(
                transactional_id="hostile",
                group_id="hostile-txn",
                producer_id=1,
                topics=[
                    txn_offset_commit.TxnOffsetCommitRequestTopic(
                        name=WIDE,
                        partitions=[
                            txn_offset_commit.TxnOffsetCommitRequestPartition(
                                partition_index=index % PARTITIONS, committed_offset=1, committed_metadata=""
                            )
                            for index in range(MEGABYTE // 18)
                        ],
                    )
                ],
            ),
            3,
        ),
        "AddPartitionsToTxn": lambda: (
            add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="hostile",
                v3_and_below_producer_id=1,
                v3_and_below_topics=[
                    add_partitions_to_txn.AddPartitionsToTxnTopic(name=WIDE, partitions=list(range(MEGABYTE // 4)))
                ],
            ),
            3,
        ),
        "AddPartitionsToTxn that are there": lambda: (
            add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="hostile",
                v3_and_below_producer_id=1,
                v3_and_below_topics=[
                    add_partitions_to_txn.AddPartitionsToTxnTopic(
                        name=WIDE, partitions=[index % PARTITIONS for index in range(MEGABYTE // 4)]
                    )
                ],
            ),
            3,
        ),
        "WriteTxnMarkers": lambda: (
            write_txn_markers.WriteTxnMarkersRequest(
                markers=[
                    write_txn_markers.WritableTxnMarker(
                        producer_id=number,
                        topics=[
                            write_txn_markers.WritableTxnMarkerTopic(
                                name="absent", partition_indexes=list(range(MEGABYTE // 40))
                            )
                        ],
                    )
                    for number in range(10)
                ]
            ),
            1,
        ),
        "DescribeProducers": lambda: (
            describe_producers.DescribeProducersRequest(
                topics=[
                    describe_producers.DescribeProducersTopicRequest(
                        name=WIDE, partition_indexes=list(range(MEGABYTE // 4))
                    )
                ]
            ),
            0,
        ),
        "DescribeTransactions": lambda: (
            describe_transactions.DescribeTransactionsRequest(transactional_ids=names("absent")),
            0,
        ),
        "ListTransactions": lambda: (
            list_transactions.ListTransactionsRequest(state_filters=names("absent"), producer_id_filters=[]),
            0,
        ),
        "ConsumerGroupHeartbeat of many names": lambda: (
            consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id="hostile-names",
                member_id="somebody",
                rebalance_timeout_ms=10_000,
                subscribed_topic_names=names("absent"),
                topic_partitions=[],
            ),
            0,
        ),
        "ConsumerGroupHeartbeat of much owned": lambda: (
            consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id="hostile-owned",
                member_id="somebody",
                member_epoch=1,
                topic_partitions=[
                    consumer_group_heartbeat.TopicPartitions(topic_id=bytes(16), partitions=list(range(MEGABYTE // 4)))
                ],
            ),
            0,
        ),
        "ConsumerGroupDescribe": lambda: (
            consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=names("absent")),
            0,
        ),
        "CreateAcls": lambda: (_acls_of(names("t", 9_000)), 2),
        "CreateAcls, too many": lambda: (_acls_of(names("maybe", MEGABYTE // 3)), 2),
        "DeleteAcls": lambda: (
            delete_acls.DeleteAclsRequest(
                filters=[
                    delete_acls.DeleteAclsFilter(
                        resource_type_filter=2,
                        resource_name_filter=name,
                        principal_filter="User:nobody",
                        host_filter="*",
                        operation=3,
                        permission_type=3,
                    )
                    for name in names("absent", MEGABYTE // 3)
                ]
            ),
            2,
        ),
        "DescribeUserScramCredentials": lambda: (
            describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
                users=[describe_user_scram_credentials.UserName(name=name) for name in names("absent")]
            ),
            0,
        ),
        "AlterUserScramCredentials": lambda: (
            alter_user_scram_credentials.AlterUserScramCredentialsRequest(
                deletions=[
                    alter_user_scram_credentials.ScramCredentialDeletion(name=name, mechanism=1)
                    for name in names("absent")
                ],
                upsertions=[],
            ),
            0,
        ),
        "DescribeClientQuotas": lambda: (
            describe_client_quotas.DescribeClientQuotasRequest(
                components=[
                    describe_client_quotas.ComponentData(entity_type=name, match_type=2, match=None)
                    for name in names("user")
                ]
            ),
            1,
        ),
        "AlterClientQuotas": lambda: (
            alter_client_quotas.AlterClientQuotasRequest(
                entries=[
                    alter_client_quotas.EntryData(
                        entity=[alter_client_quotas.EntityData(entity_type="user", entity_name=name)],
                        ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=1e9)],
                    )
                    for name in names("absent", MEGABYTE // 4)
                ],
                validate_only=True,
            ),
            1,
        ),
        "DescribeQuorum": lambda: (
            describe_quorum.DescribeQuorumRequest(
                topics=[
                    describe_quorum.DescribeQuorumTopic(
                        topic_name="absent",
                        partitions=[
                            describe_quorum.DescribeQuorumPartition(partition_index=index)
                            for index in range(MEGABYTE // 5)
                        ],
                    )
                ]
            ),
            1,
        ),
        "UpdateFeatures": lambda: (
            update_features.UpdateFeaturesRequest(
                feature_updates=[
                    update_features.FeatureUpdateKey(feature=name, max_version_level=1) for name in names("absent")
                ]
            ),
            1,
        ),
        "CreateTopics of many configs": lambda: (
            create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(
                        name="maybe",
                        num_partitions=1,
                        replication_factor=1,
                        assignments=[],
                        configs=[create_topics.CreatableTopicConfig(name=name, value="1") for name in names("config")],
                    )
                ],
                timeout_ms=1_000,
                validate_only=True,
            ),
            4,
        ),
        "CreateTopics of many assignments": lambda: (
            create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(
                        name="maybe",
                        num_partitions=-1,
                        replication_factor=-1,
                        assignments=[
                            create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=[1])
                            for index in range(MEGABYTE // 12)
                        ],
                        configs=[],
                    )
                ],
                timeout_ms=1_000,
                validate_only=True,
            ),
            4,
        ),
        "AlterConfigs of one": lambda: (
            alter_configs.AlterConfigsRequest(
                resources=[
                    alter_configs.AlterConfigsResource(
                        resource_type=2,
                        resource_name=WIDE,
                        configs=[alter_configs.AlterableConfig(name=name, value="1") for name in names("config")],
                    )
                ],
                validate_only=True,
            ),
            1,
        ),
        "IncrementalAlterConfigs of one": lambda: (
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[
                    incremental_alter_configs.AlterConfigsResource(
                        resource_type=2,
                        resource_name=WIDE,
                        configs=[
                            incremental_alter_configs.AlterableConfig(name=name, config_operation=0, value="1")
                            for name in names("config")
                        ],
                    )
                ],
                validate_only=True,
            ),
            0,
        ),
    }
