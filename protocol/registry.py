"""The APIs of the broker: their messages, which versions are served, and which are advertised.

Whether an API has a handler is said by the broker, not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from protocol.api_keys import ApiKey
    from protocol.schema import Message


@dataclass(frozen=True, slots=True)
class Api:
    """One API. Ranges of versions are inclusive."""

    request: type[Message]
    response: type[Message]
    served: tuple[int, int]  # any other version closes the connection, ApiVersions apart
    advertised: tuple[int, int]  # what an ApiVersions response lists

    @property
    def key(self) -> ApiKey:
        """Its number."""
        assert self.request.API_KEY is not None
        return self.request.API_KEY

    @property
    def name(self) -> str:
        """Its name as Kafka writes it, such as OffsetCommit."""
        return self.request.__name__.removesuffix("Request")


def _api(
    request: type[Message],
    response: type[Message],
    served: tuple[int, int],
    *,
    advertised: tuple[int, int] | None = None,
) -> Api:
    return Api(request, response, served, served if advertised is None else advertised)


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        # librdkafka before 2.11 compresses only when it is offered Produce 0; Kafka 4 offers and refuses it too.
        _api(ProduceRequest, ProduceResponse, (3, 13), advertised=(0, 13)),
        _api(FetchRequest, FetchResponse, (4, 18)),
        _api(ListOffsetsRequest, ListOffsetsResponse, (1, 11)),
        _api(MetadataRequest, MetadataResponse, (0, 13)),
        _api(OffsetCommitRequest, OffsetCommitResponse, (2, 10)),
        _api(OffsetFetchRequest, OffsetFetchResponse, (1, 10)),
        _api(FindCoordinatorRequest, FindCoordinatorResponse, (0, 6)),
        _api(JoinGroupRequest, JoinGroupResponse, (0, 9)),
        _api(HeartbeatRequest, HeartbeatResponse, (0, 4)),
        _api(LeaveGroupRequest, LeaveGroupResponse, (0, 5)),
        _api(SyncGroupRequest, SyncGroupResponse, (0, 5)),
        _api(DescribeGroupsRequest, DescribeGroupsResponse, (0, 6)),
        _api(ListGroupsRequest, ListGroupsResponse, (0, 5)),
        _api(SaslHandshakeRequest, SaslHandshakeResponse, (0, 1)),
        _api(ApiVersionsRequest, ApiVersionsResponse, (0, 5)),
        _api(CreateTopicsRequest, CreateTopicsResponse, (2, 7)),
        _api(DeleteTopicsRequest, DeleteTopicsResponse, (1, 6)),
        _api(DeleteRecordsRequest, DeleteRecordsResponse, (0, 2)),
        _api(InitProducerIdRequest, InitProducerIdResponse, (0, 5)),
        _api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, (2, 4)),
        _api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, (0, 5)),
        _api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, (0, 4)),
        _api(EndTxnRequest, EndTxnResponse, (0, 5)),
        _api(WriteTxnMarkersRequest, WriteTxnMarkersResponse, (1, 2)),
        _api(TxnOffsetCommitRequest, TxnOffsetCommitResponse, (0, 6)),
        _api(DescribeAclsRequest, DescribeAclsResponse, (1, 3)),
        _api(CreateAclsRequest, CreateAclsResponse, (1, 3)),
        _api(DeleteAclsRequest, DeleteAclsResponse, (1, 3)),
        _api(DescribeConfigsRequest, DescribeConfigsResponse, (1, 4)),
        _api(AlterConfigsRequest, AlterConfigsResponse, (0, 2)),
        _api(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, (1, 2)),
        _api(DescribeLogDirsRequest, DescribeLogDirsResponse, (1, 5)),
        _api(SaslAuthenticateRequest, SaslAuthenticateResponse, (0, 2)),
        _api(CreatePartitionsRequest, CreatePartitionsResponse, (0, 3)),
        _api(CreateDelegationTokenRequest, CreateDelegationTokenResponse, (1, 3)),
        _api(RenewDelegationTokenRequest, RenewDelegationTokenResponse, (1, 2)),
        _api(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, (1, 2)),
        _api(DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, (1, 3)),
        _api(DeleteGroupsRequest, DeleteGroupsResponse, (0, 3)),
        _api(ElectLeadersRequest, ElectLeadersResponse, (0, 2)),
        _api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, (0, 1)),
        _api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, (0, 1)),
        _api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, (0, 0)),
        _api(OffsetDeleteRequest, OffsetDeleteResponse, (0, 0)),
        _api(DescribeClientQuotasRequest, DescribeClientQuotasResponse, (0, 1)),
        _api(AlterClientQuotasRequest, AlterClientQuotasResponse, (0, 1)),
        _api(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, (0, 0)),
        _api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, (0, 0)),
        _api(DescribeQuorumRequest, DescribeQuorumResponse, (0, 2)),
        _api(UpdateFeaturesRequest, UpdateFeaturesResponse, (0, 2)),
        _api(DescribeClusterRequest, DescribeClusterResponse, (0, 2)),
        _api(DescribeProducersRequest, DescribeProducersResponse, (0, 0)),
        _api(UnregisterBrokerRequest, UnregisterBrokerResponse, (0, 0)),
        _api(DescribeTransactionsRequest, DescribeTransactionsResponse, (0, 0)),
        _api(ListTransactionsRequest, ListTransactionsResponse, (0, 2)),
        _api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, (0, 1)),
        _api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, (0, 1)),
        _api(GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, (0, 0)),
        _api(PushTelemetryRequest, PushTelemetryResponse, (0, 0)),
        _api(ListConfigResourcesRequest, ListConfigResourcesResponse, (0, 1)),
        _api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, (0, 0)),
    )
}
"""By key, in the order of keys."""
