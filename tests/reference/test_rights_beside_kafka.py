"""Rights that hold, are taken away and are asked for: Kohort and Apache Kafka come to the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.reference.beside import codes
from tests.reference.talk import CLOSED, metadata, talk
from tests.reference.test_log_in_beside_kafka import scram
from tests.support.broker_process import eventually
from tests.support.data_plane import batch
from tests.support.wire import Wire

if TYPE_CHECKING:
    from tests.reference.beside import Side

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]

TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE = 2, 3, 4, 6, 7, 8
DENY, ALLOW = 2, 3
ANYTHING = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
            "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}  # fmt: skip


def acl(permission: int, operation: int, name: str = "orders", kind: int = TOPIC, **more: Any) -> AclCreation:
    """For alice, of a literal name, from everywhere, unless `more` says otherwise."""
    usual = {"resource_pattern_type": LITERAL, "principal": "User:alice", "host": "*"}
    return AclCreation(
        resource_type=kind, resource_name=name, operation=operation, permission_type=permission, **{**usual, **more}
    )


def ask(side: Side, request: Any, version: int) -> Any:
    """Of a super user."""
    with Wire(side.broker.address) as wire:
        return wire.call(request, version)


def there(side: Side, *topics: str) -> None:
    """Topics of one partition, which may be there already."""
    with Wire(side.broker.address) as wire:
        for topic in topics:
            wire.create_topic(topic, 1)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics])

        def led() -> bool:
            found = wire.call(asked, 9).topics
            return all(not one.error_code and one.partitions[0].leader_id >= 0 for one in found)

        eventually(led, what=f"leaders of {topics}")


def give(side: Side, *acls: AclCreation) -> None:
    """These and no others; Kafka's broker hears of them a little later than it answers."""
    ask(side, DeleteAclsRequest(filters=[DeleteAclsFilter(**ANYTHING)]), 3)

    def count() -> int:
        return sum(len(one.acls) for one in ask(side, DescribeAclsRequest(**ANYTHING), 3).resources)

    eventually(lambda: not count(), what="no ACL")
    if acls:
        made = ask(side, CreateAclsRequest(creations=list(acls)), 3)
        assert {one.error_code for one in made.results} == {0}
        eventually(lambda: count() == len(acls), what="all of them")


SETS: dict[str, tuple[AclCreation, ...]] = {
    "SE36 nothing": (),
    **{f"SE36 ALLOW {one}": (acl(ALLOW, one),) for one in (READ, WRITE, DELETE, ALTER, 10, 11, ALL)},
    "SE36 ALLOW ALL, DENY READ": (acl(ALLOW, ALL), acl(DENY, READ)),
    "SE36 ALLOW READ, DENY DESCRIBE": (acl(ALLOW, READ), acl(DENY, DESCRIBE)),
    "SE36 ALLOW ALL, DENY ALL": (acl(ALLOW, ALL), acl(DENY, ALL)),
    "SE36 DENY ALL to who may everything": (acl(DENY, ALL, principal="User:ANONYMOUS"),),
    "SE37 DENY on a prefix": (acl(ALLOW, ALL), acl(DENY, WRITE, "ord", resource_pattern_type=PREFIXED)),
    "SE37 DENY on another prefix": (acl(ALLOW, ALL), acl(DENY, WRITE, "ort", resource_pattern_type=PREFIXED)),
    "SE37 DENY on *": (acl(ALLOW, ALL), acl(DENY, WRITE, "*")),
    "SE37 DENY to everybody": (acl(ALLOW, ALL), acl(DENY, WRITE, principal="User:*")),
    "SE37 DENY from here": (acl(ALLOW, ALL), acl(DENY, WRITE, host="127.0.0.1")),
    "SE37 DENY from elsewhere": (acl(ALLOW, ALL), acl(DENY, WRITE, host="127.0.0.2")),
    "SE37 ALLOW on a prefix": (acl(ALLOW, READ, "ord", resource_pattern_type=PREFIXED), acl(ALLOW, WRITE, "*")),
    **{f"SE40 from {host}": (acl(ALLOW, READ, host=host),)
       for host in ("127.0.0.1", "127.0.0.2", "127.0.0.0/8", "localhost", "::1", "127.0.0.4/30", "::/0")},
    "SE40 from ::ffff:127.0.0.1": (acl(ALLOW, READ, host="::ffff:127.0.0.1"),),
    "SE46 of groups and the cluster": (
        acl(ALLOW, READ, "g", GROUP), acl(ALLOW, ALTER, "kafka-cluster", CLUSTER),
        acl(ALLOW, DESCRIBE, "kafka-cluster", CLUSTER),
    ),
    "SE46 all of them": (
        acl(ALLOW, ALL, "g", GROUP), acl(ALLOW, ALL, "kafka-cluster", CLUSTER), acl(ALLOW, ALL),
    ),
}  # fmt: skip
OURS = {"SE40 from ::ffff:127.0.0.1"}
"""Hosts are compared as addresses here, and as text by Kafka (docs/securing.md)."""


def test_operations_that_are_told_to_be_allowed_are_kafkas(sides: tuple[Side, Side]) -> None:
    """SE36, SE37, SE40, SE46: of a topic, a group and the cluster, under each set of ACLs."""
    told: list[dict[str, Any]] = []
    for side in sides:
        there(side, "orders")
        found = {}
        for name, acls in SETS.items():
            give(side, *acls)
            asked = MetadataRequest(
                topics=[MetadataRequestTopic(name="orders")], include_topic_authorized_operations=True
            )
            found[name] = [
                *((one.error_code, one.topic_authorized_operations) for one in side.wire.call(asked, 9).topics),
                *(
                    (one.error_code, one.authorized_operations)
                    for one in side.wire.call(
                        DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 5
                    ).groups
                ),
                side.wire.call(
                    DescribeClusterRequest(include_cluster_authorized_operations=True), 0
                ).cluster_authorized_operations,
                ask(side, asked, 9).topics[0].topic_authorized_operations,
                side.wire.call(MetadataRequest(topics=[]), 9).cluster_authorized_operations,
            ]
        told.append(found)
    ours, theirs = told
    assert {name for name in SETS if ours[name] != theirs[name]} == OURS
    assert ours["SE36 ALLOW 3"][0] == (0, 264)
    assert ours["SE46 all of them"][0] == (0, 3576)


def test_what_may_not_be_described_is_left_out_of_lists_as_by_kafka(sides: tuple[Side, Side]) -> None:
    """SE42: all topics, groups and transactions, without an error."""
    told = []
    for side in sides:
        there(side, "seen", "unseen")
        for name in ("seen", "unseen"):
            with Wire(side.broker.address) as wire:
                eventually(lambda wire=wire, name=name: wire.coordinator_error(name) == 0, what="a coordinator")
                assert wire.commit(name, name, {0: 1}) == {0}
                find = FindCoordinatorRequest(key=name, key_type=1)
                eventually(lambda wire=wire, find=find: not wire.call(find, 1).error_code, what="a coordinator")
                begin = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
                eventually(lambda wire=wire, begin=begin: not wire.call(begin, 2).error_code, what="a transaction's id")
        found = []
        for kinds in ((), (TOPIC,), (GROUP,), (TRANSACTION,), (TOPIC, GROUP, TRANSACTION)):
            give(side, *(acl(ALLOW, DESCRIBE, "seen", kind) for kind in kinds))
            topics = side.wire.call(MetadataRequest(topics=None), 9)
            groups = side.wire.call(ListGroupsRequest(), 4)
            transactions = side.wire.call(ListTransactionsRequest(), 0)
            found.append(
                (
                    sorted(one.name for one in topics.topics),
                    (groups.error_code, sorted(one.group_id for one in groups.groups)),
                    (
                        transactions.error_code,
                        sorted(one.transactional_id for one in transactions.transaction_states),
                    ),
                )
            )
        told.append(found)
    assert told[0] == told[1]
    assert told[0][0] == ([], (0, []), (0, []))
    assert told[0][-1] == (["seen"], (0, ["seen"]), (0, ["seen"]))


def _about(name: str) -> dict[str, tuple[Any, int]]:
    """Requests that name a topic, each with its version."""
    records = PartitionProduceData(index=0, records=batch(b"v"))
    fetched = FetchTopic(topic=name, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=9)])
    return {
        "Metadata": (MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True), 12),
        "Produce": (
            ProduceRequest(acks=1, timeout_ms=500, topic_data=[TopicProduceData(name=name, partition_data=[records])]),
            9,
        ),
        "Fetch": (FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=9, topics=[fetched]), 11),
        "ListOffsets": (
            ListOffsetsRequest(
                topics=[ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
            ),
            7,
        ),
        "DeleteTopics": (DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=500), 6),
        "DescribeConfigs": (
            DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=TOPIC, resource_name=name)]),
            4,
        ),
    }


def test_who_may_not_see_a_name_is_told_the_same_whether_it_is_there_as_by_kafka(sides: tuple[Side, Side]) -> None:
    """SE43: six APIs, a topic that is there and one that is not."""
    told = []
    for side in sides:
        there(side, "orders")
        give(side)
        seen, unseen = (
            {api: side.wire.call(*request) for api, request in _about(name).items()} for name in ("orders", "nobody")
        )
        for api, answer in seen.items():
            one, other = (re.sub(r"orders|nobody|0x[0-9a-f]+", "", str(each)) for each in (answer, unseen[api]))
            assert one == other
        told.append({api: list(codes(answer)) for api, answer in seen.items()})
    assert told[0] == told[1]


def _fetched(side: Side) -> FetchRequest:
    """What comes next to `orders`, for up to ten seconds."""
    with Wire(side.broker.address) as wire:
        end = wire.end_offsets("orders", [0])[0][1]
    partition = FetchPartition(partition=0, fetch_offset=end, partition_max_bytes=1_000)
    return FetchRequest(
        max_wait_ms=10_000, min_bytes=1, max_bytes=1_000, topics=[FetchTopic(topic="orders", partitions=[partition])]
    )


def test_a_right_that_is_taken_away_is_gone_with_the_next_request_as_with_kafka(sides: tuple[Side, Side]) -> None:
    """SE45: of who has a fetch that waits. Kafka lets that one through; here it is refused."""
    told = []
    for side in sides:
        there(side, "orders")
        give(side, acl(ALLOW, READ), acl(ALLOW, WRITE))
        produce, version = _about("orders")["Produce"]
        first = side.wire.call(produce, version)
        side.wire.send(_fetched(side), 11)
        give(side)
        ask(side, produce, version)
        parked = side.wire.receive()
        after = [side.wire.call(produce, version), side.wire.call(*_about("orders")["Fetch"])]
        told.append(
            (
                parked.responses[0].partitions[0].error_code,
                [one.responses[0].partition_responses[0].error_code for one in (first, after[0])],
                after[1].responses[0].partitions[0].error_code,
            )
        )
    ours, theirs = told
    assert ours == (29, [0, 29], 29)
    assert theirs == (0, [0, 29], 29)


def test_a_user_who_is_gone_is_served_until_the_connection_ends_as_by_kafka(sides: tuple[Side, Side]) -> None:
    """SE22: and cannot log in again."""
    told = []
    for side in sides:
        side.keep("leaver", "alice-secret")
        eventually(lambda side=side: talk(side.sasl, scram("leaver"))[-1] == "answered", what="who is known")

        def removed(_: bytes, side: Side = side) -> bytes:
            gone = ScramCredentialDeletion(name="leaver", mechanism=1)
            ask(side, AlterUserScramCredentialsRequest(deletions=[gone]), 0)
            eventually(lambda: talk(side.sasl, scram("leaver"))[-1] == CLOSED, what="who is not known")
            asked = metadata().said
            assert isinstance(asked, bytes)
            return asked

        told.append(talk(side.sasl, [*scram("leaver"), metadata()._replace(said=removed), metadata()]))
    assert told[0] == told[1]
    assert told[0][-3:] == ["answered"] * 3
