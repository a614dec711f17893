"""The worst client of each API: what it asks for, and the broker that it meets.

A megabyte of what the API allows: names without end, partitions without end, times that lie inside compressed batches.
"""

from collections.abc import Callable

from benchmarks.common import create_topic
from benchmarks.worst_of_admins import MEGABYTE, PARTITIONS, WIDE, Worst, names, worst_of_admins
from protocol.frames import encode_request
from protocol.messages import (
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from protocol.records.batch import Record, encode_batch
from tests.support.broker_process import BrokerProcess
from tests.support.wire import Wire

PACKED, BATCHES = "packed", 50
GROUPS = 2_000
_LZ4 = 3
_MIDDLE_MS = 1_700_000_000_000 + 30_000


def _partitions(each_bytes: int) -> range:
    """The partitions of the wide topic, and then some that it does not have."""
    return range(MEGABYTE // each_bytes)


def worst() -> dict[str, Callable[[], Worst]]:
    """By API: what its worst client asks for."""
    return {
        "Produce": lambda: (
            produce.ProduceRequest(
                acks=1,
                timeout_ms=1_000,
                topic_data=[
                    produce.TopicProduceData(
                        name=WIDE,
                        partition_data=[
                            produce.PartitionProduceData(index=index, records=b"") for index in _partitions(8)
                        ],
                    )
                ],
            ),
            7,
        ),
        "Fetch": lambda: (
            fetch.FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                topics=[
                    fetch.FetchTopic(
                        topic=WIDE,
                        partitions=[
                            fetch.FetchPartition(partition=index % PARTITIONS, fetch_offset=0, partition_max_bytes=1000)
                            for index in _partitions(28)
                        ],
                    )
                ],
            ),
            11,
        ),
        "ListOffsets": lambda: (_listed(WIDE, _partitions(16), -1), 7),
        "ListOffsets by time": lambda: (_listed(PACKED, range(BATCHES), _MIDDLE_MS), 7),
        "ListOffsets -3": lambda: (_listed(PACKED, range(BATCHES), -3), 7),
        "OffsetForLeaderEpoch": lambda: (
            offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                topics=[
                    offset_for_leader_epoch.OffsetForLeaderTopic(
                        topic=WIDE,
                        partitions=[
                            offset_for_leader_epoch.OffsetForLeaderPartition(partition=index, leader_epoch=0)
                            for index in _partitions(12)
                        ],
                    )
                ]
            ),
            3,
        ),
        "Metadata": lambda: (
            metadata.MetadataRequest(
                topics=[metadata.MetadataRequestTopic(name=name) for name in names("absent")],
                allow_auto_topic_creation=False,
            ),
            8,
        ),
        "Metadata that creates": lambda: (
            metadata.MetadataRequest(
                topics=[metadata.MetadataRequestTopic(name=name) for name in names("made", 6_000)]
            ),
            8,
        ),
        "Metadata of all": lambda: (metadata.MetadataRequest(topics=None), 8),
        "DescribeTopicPartitions": lambda: (
            describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name=name) for name in names("absent")]
            ),
            0,
        ),
        "OffsetCommit": lambda: (
            offset_commit.OffsetCommitRequest(
                group_id="hostile",
                member_id="",
                topics=[
                    offset_commit.OffsetCommitRequestTopic(
                        name=WIDE,
                        partitions=[
                            offset_commit.OffsetCommitRequestPartition(
                                partition_index=index % PARTITIONS, committed_offset=1, committed_metadata=""
                            )
                            for index in _partitions(18)
                        ],
                    )
                ],
            ),
            7,
        ),
        "OffsetFetch": lambda: (
            offset_fetch.OffsetFetchRequest(
                groups=[
                    offset_fetch.OffsetFetchRequestGroup(
                        group_id="crowded",
                        topics=[
                            offset_fetch.OffsetFetchRequestTopics(
                                name=WIDE, partition_indexes=[index % PARTITIONS for index in _partitions(4)]
                            )
                        ],
                    )
                ]
            ),
            8,
        ),
        "OffsetFetch of many": lambda: (
            offset_fetch.OffsetFetchRequest(
                groups=[offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None) for name in names("absent")]
            ),
            8,
        ),
        "OffsetDelete": lambda: (
            offset_delete.OffsetDeleteRequest(
                group_id="crowded",
                topics=[
                    offset_delete.OffsetDeleteRequestTopic(
                        name=WIDE,
                        partitions=[
                            offset_delete.OffsetDeleteRequestPartition(partition_index=PARTITIONS + index)
                            for index in _partitions(4)
                        ],
                    )
                ],
            ),
            0,
        ),
        "FindCoordinator": lambda: (
            find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=names("absent")),
            4,
        ),
        "JoinGroup": lambda: (
            join_group.JoinGroupRequest(
                group_id="hostile-join",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=[join_group.JoinGroupRequestProtocol(name=name, metadata=b"") for name in names("p")],
            ),
            5,
        ),
        "SyncGroup": lambda: (
            sync_group.SyncGroupRequest(
                group_id="hostile",
                generation_id=1,
                member_id="nobody",
                assignments=[
                    sync_group.SyncGroupRequestAssignment(member_id=name, assignment=b"") for name in names("m")
                ],
            ),
            3,
        ),
        "LeaveGroup": lambda: (
            leave_group.LeaveGroupRequest(
                group_id="crowded", members=[leave_group.MemberIdentity(member_id=name) for name in names("m")]
            ),
            3,
        ),
        "DescribeGroups": lambda: (describe_groups.DescribeGroupsRequest(groups=names("absent")), 5),
        "ListGroups": lambda: (list_groups.ListGroupsRequest(), 4),
        "DeleteGroups": lambda: (delete_groups.DeleteGroupsRequest(groups_names=names("absent")), 2),
        "CreateTopics": lambda: (
            create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(
                        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
                    )
                    for name in names("maybe", MEGABYTE // 2)
                ],
                timeout_ms=1_000,
                validate_only=True,
            ),
            4,
        ),
        "CreateTopics, one wide": lambda: (
            create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(
                        name="maybe", num_partitions=100_000, replication_factor=1, assignments=[], configs=[]
                    )
                ],
                timeout_ms=1_000,
                validate_only=True,
            ),
            4,
        ),
        "CreatePartitions": lambda: (
            create_partitions.CreatePartitionsRequest(
                topics=[
                    create_partitions.CreatePartitionsTopic(name=name, count=2, assignments=None)
                    for name in names("absent")
                ],
                timeout_ms=1_000,
                validate_only=True,
            ),
            1,
        ),
        "DeleteTopics": lambda: (
            delete_topics.DeleteTopicsRequest(topic_names=names("absent"), timeout_ms=1_000),
            5,
        ),
        "DeleteRecords": lambda: (
            delete_records.DeleteRecordsRequest(
                topics=[
                    delete_records.DeleteRecordsTopic(
                        name=WIDE,
                        partitions=[
                            delete_records.DeleteRecordsPartition(partition_index=index, offset=0)
                            for index in _partitions(12)
                        ],
                    )
                ],
                timeout_ms=1_000,
            ),
            1,
        ),
        "DescribeConfigs": lambda: (
            describe_configs.DescribeConfigsRequest(
                resources=[
                    describe_configs.DescribeConfigsResource(resource_type=2, resource_name=name)
                    for name in names("absent")
                ]
            ),
            2,
        ),
        "AlterConfigs": lambda: (
            alter_configs.AlterConfigsRequest(
                resources=[
                    alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=[])
                    for name in names("absent")
                ],
                validate_only=True,
            ),
            1,
        ),
        "IncrementalAlterConfigs": lambda: (
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[
                    incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=[])
                    for name in names("absent")
                ],
                validate_only=True,
            ),
            0,
        ),
        "DescribeLogDirs": lambda: (
            describe_log_dirs.DescribeLogDirsRequest(
                topics=[describe_log_dirs.DescribableLogDirTopic(topic=WIDE, partitions=list(range(MEGABYTE // 4)))]
            ),
            1,
        ),
        "AlterReplicaLogDirs": lambda: (
            alter_replica_log_dirs.AlterReplicaLogDirsRequest(
                dirs=[
                    alter_replica_log_dirs.AlterReplicaLogDir(
                        path="/nowhere",
                        topics=[
                            alter_replica_log_dirs.AlterReplicaLogDirTopic(name=WIDE, partitions=list(_partitions(4)))
                        ],
                    )
                ]
            ),
            1,
        ),
        "ElectLeaders": lambda: (
            elect_leaders.ElectLeadersRequest(
                election_type=0,
                topic_partitions=[elect_leaders.TopicPartitions(topic=WIDE, partitions=list(_partitions(4)))],
                timeout_ms=1_000,
            ),
            1,
        ),
        "AlterPartitionReassignments": lambda: (
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                timeout_ms=1_000,
                topics=[
                    alter_partition_reassignments.ReassignableTopic(
                        name=WIDE,
                        partitions=[
                            alter_partition_reassignments.ReassignablePartition(partition_index=index, replicas=None)
                            for index in _partitions(6)
                        ],
                    )
                ],
            ),
            0,
        ),
        "Heartbeat, thousands at once": lambda: (
            heartbeat.HeartbeatRequest(group_id="hostile", generation_id=1, member_id="nobody"),
            3,
        ),
        **worst_of_admins(),
    }


def _listed(topic: str, partitions: range, timestamp: int) -> list_offsets.ListOffsetsRequest:
    wanted = [list_offsets.ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in partitions]
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=wanted)]
    )


def frames_of(api: str) -> bytes:
    """What the worst client of this API sends at once."""
    request, version = worst()[api]()
    frame = encode_request(request, version, 1, "hostile")
    return frame * (MEGABYTE // 4 // len(frame)) if api.endswith("at once") else frame


def furnish(broker: BrokerProcess) -> None:
    """A wide topic, one of large compressed batches, many groups and one with many offsets."""
    create_topic(broker, WIDE, PARTITIONS)
    create_topic(broker, PACKED, BATCHES, retention_ms="-1")  # its records are of 2023
    records = [Record(at, 1_700_000_000_000 + at, b"k", b"x" * 100) for at in range(60_000)]
    packed = encode_batch(records, compression=_LZ4)
    with Wire(broker.address) as wire:
        for index in range(BATCHES):
            data = produce.TopicProduceData(
                name=PACKED, partition_data=[produce.PartitionProduceData(index=index, records=packed)]
            )
            answer = wire.call(produce.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 7)
            assert answer.responses[0].partition_responses[0].error_code == 0
        for number in range(GROUPS):
            wire.commit(f"group-{number}", WIDE, {0: 1})
        wire.commit("crowded", WIDE, dict.fromkeys(range(PARTITIONS), 1))
