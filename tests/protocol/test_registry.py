"""What is served and advertised is tier T1, exactly."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

from protocol.api_keys import ApiKey, api_name
from protocol.registry import APIS
from tests.support.java import NEWEST, jars_of_kafka

# Key, name, first and last version served: the table of tier T1, 68, which is refused aloud, and those of transactions.
T1 = """
0 Produce 3-13                  21 DeleteRecords 0-2
1 Fetch 4-18                    22 InitProducerId 0-5
2 ListOffsets 1-11              23 OffsetForLeaderEpoch 2-4
3 Metadata 0-13                 32 DescribeConfigs 1-4
8 OffsetCommit 2-10             33 AlterConfigs 0-2
9 OffsetFetch 1-10              35 DescribeLogDirs 1-5
10 FindCoordinator 0-6          36 SaslAuthenticate 0-2
11 JoinGroup 0-9                37 CreatePartitions 0-3
12 Heartbeat 0-4                42 DeleteGroups 0-3
13 LeaveGroup 0-5               43 ElectLeaders 0-2
14 SyncGroup 0-5                44 IncrementalAlterConfigs 0-1
15 DescribeGroups 0-6           45 AlterPartitionReassignments 0-1
16 ListGroups 0-5               46 ListPartitionReassignments 0-0
17 SaslHandshake 0-1            47 OffsetDelete 0-0
18 ApiVersions 0-5              60 DescribeCluster 0-2
19 CreateTopics 2-7             68 ConsumerGroupHeartbeat 0-1
20 DeleteTopics 1-6             69 ConsumerGroupDescribe 0-1
75 DescribeTopicPartitions 0-0
34 AlterReplicaLogDirs 1-2
24 AddPartitionsToTxn 0-5       28 TxnOffsetCommit 0-6
25 AddOffsetsToTxn 0-4          61 DescribeProducers 0-0
26 EndTxn 0-5                   65 DescribeTransactions 0-0
27 WriteTxnMarkers 1-2          66 ListTransactions 0-2
29 DescribeAcls 1-3            30 CreateAcls 1-3
31 DeleteAcls 1-3
48 DescribeClientQuotas 0-1       49 AlterClientQuotas 0-1
50 DescribeUserScramCredentials 0-0  51 AlterUserScramCredentials 0-0
38 CreateDelegationToken 1-3
39 RenewDelegationToken 1-2
40 ExpireDelegationToken 1-2
41 DescribeDelegationToken 1-3
55 DescribeQuorum 0-2
57 UpdateFeatures 0-2
64 UnregisterBroker 0-0
71 GetTelemetrySubscriptions 0-0
72 PushTelemetry 0-0
74 ListConfigResources 0-1
"""


def table() -> dict[int, tuple[str, tuple[int, int]]]:
    words = T1.split()
    rows = zip(words[0::3], words[1::3], words[2::3], strict=True)
    return {int(key): (name, tuple(map(int, span.split("-")))) for key, name, span in rows}


def test_served_versions_are_tier_t1() -> None:
    """Neither more nor less: clients use the highest version that they are offered."""
    assert {key: (api.name, api.served) for key, api in APIS.items()} == table()


def test_produce_is_advertised_from_0_and_everything_else_as_served() -> None:
    """Old librdkafka compresses only if Produce 0 is offered."""
    differing = {api.name: api.advertised for api in APIS.values() if api.advertised != api.served}

    assert differing == {"Produce": (0, 13)}


def test_entries_are_in_the_order_of_their_keys_and_agree_with_their_messages() -> None:
    """Key and flexibility are the same for a request and its response, and every served version is declared."""
    assert list(APIS) == sorted(APIS)
    for key, api in APIS.items():
        assert key == api.key == api.request.API_KEY == api.response.API_KEY == ApiKey(key)
        assert api.request.VERSIONS == api.response.VERSIONS
        assert api.request.FLEXIBLE_FROM == api.response.FLEXIBLE_FROM
        assert api.request.VERSIONS[0] <= api.served[0] <= api.served[1] <= api.request.VERSIONS[1]
        assert api.key.name.replace("_", "").lower() == api.name.lower()


def test_log_lines_have_names_for_all_of_kafkas_apis() -> None:
    """Served or not: what a client keeps sending is told by its name."""
    (jar,) = Path(jars_of_kafka(NEWEST)).glob("kafka-clients-[0-9]*.jar")
    classes = re.compile(r"org/apache/kafka/common/message/(\w+)RequestData\.class")
    of_kafka = {match[1] for name in ZipFile(jar).namelist() if (match := classes.fullmatch(name))}
    assert len(of_kafka) > 80
    assert of_kafka <= {api_name(key) for key in ApiKey}
    assert api_name(max(ApiKey) + 1) == "unknown"
