"""Metadata, topics, configs and cluster: what clients are answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from broker.broker import Endpoint
from broker.catalogue.config_changes import BrokerConfigs
from broker.config.settings import Settings
from broker.handlers import altered_configs, cluster, configs, metadata, topics
from broker.handlers.context import Deferred, RequestContext
from broker.handlers.gathering import IN_FLIGHT_MAX
from protocol.errors import ErrorCode
from protocol.messages import alter_configs as replaced
from protocol.messages import alter_partition_reassignments as reassign
from protocol.messages import create_partitions as grow
from protocol.messages import create_topics as create
from protocol.messages import delete_topics as delete
from protocol.messages import describe_configs as describe
from protocol.messages import describe_topic_partitions as partitions
from protocol.messages import incremental_alter_configs as incremental
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.types import ZERO_UUID
from tests.support.catalogue_fixture import CatalogueDriver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Desk:
    """Handlers over a real catalogue in virtual time."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.settings = Settings({key.replace("_", "."): value for key, value in settings.items()})
        self.driver = CatalogueDriver(directory)
        self.driver.catalogue.broker_configs = BrokerConfigs(1, Settings.definitions, dict(settings))
        online = SimpleNamespace(disks=SimpleNamespace(offline={}), is_offline=lambda *_: False)
        self.broker: Any = SimpleNamespace(
            partitions=online,
            runtime=self.driver.runtime,
            settings=self.settings,
            catalogue=self.driver.catalogue,
            authorizer=None,
            node_id=1,
            cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
            endpoint=lambda listener: Endpoint(listener, "127.0.0.1", 9092),
        )

    def ask(self, handler: Callable[..., Any], request: Any, version: int) -> Any:
        """The answer, checked to be encodable in this version."""
        answer = handler(self.broker, RequestContext(version=version), request)
        if isinstance(answer, Deferred):
            self.driver.runtime.turn()
            assert answer.done
            answer = answer.response
        answer.encode(version)
        return answer

    def metadata(self, *names: str, version: int = 12, create: bool = True) -> list[Any]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create
        )
        return self.ask(metadata.metadata, request, version).topics


def test_metadata_distinguishes_no_list_from_an_empty_one(tmp_path: Path) -> None:
    """v1+: null is all topics, empty is brokers only; v0 has no null and means all by empty."""
    desk = Desk(tmp_path)
    desk.driver.create("b")
    desk.driver.create("a", 2)
    for version in range(1, 14):
        assert desk.ask(metadata.metadata, MetadataRequest(topics=[]), version).topics == []
        everything = desk.ask(metadata.metadata, MetadataRequest(topics=None), version)
        assert [topic.name for topic in everything.topics] == ["a", "b"]
        assert [broker.node_id for broker in everything.brokers] == [everything.controller_id] == [1]
    assert len(desk.ask(metadata.metadata, MetadataRequest(topics=[]), 0).topics) == 2


def test_metadata_creates_a_topic_inline(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (topic,) = desk.metadata("fresh")
    assert topic.error_code == ErrorCode.NONE
    assert topic.topic_id != ZERO_UUID
    assert [(p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [(1, [1], [1])]


def test_metadata_creates_nothing_where_client_or_broker_forbid(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (topic,) = desk.metadata("fresh", create=False)
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    desk.broker.settings = Settings({"auto.create.topics.enable": "false"})
    (topic,) = desk.metadata("fresh")
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(desk.driver.catalogue.image) == 0


def test_metadata_refuses_illegal_names_and_makes_their_neighbours(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    answers = desk.metadata("..", "good", "a/b", "x" * 250)
    assert [topic.error_code for topic in answers] == [17, 0, 17, 17]


def test_metadata_by_id(tmp_path: Path) -> None:
    """From v12 by id, with a null name or Java's empty one; an unknown id keeps the null name; v10-11 refuse ids."""
    desk = Desk(tmp_path)
    made = desk.driver.create("t").value
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(topic_id=made.topic_id, name=None),
            MetadataRequestTopic(topic_id=b"\x07" * 16, name=""),
        ]
    )
    known, unknown = desk.ask(metadata.metadata, request, 12).topics
    assert (known.name, known.error_code) == ("t", 0)
    assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
    refused = desk.ask(metadata.metadata, request, 11).topics
    assert {topic.error_code for topic in refused} == {ErrorCode.INVALID_REQUEST}


def test_the_offsets_topic_is_made_with_its_own_shape(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (topic,) = desk.metadata("__consumer_offsets")
    assert topic.is_internal
    assert len(topic.partitions) == 50
    assert desk.driver.catalogue.image.topic("__consumer_offsets").configs == {  # type: ignore[union-attr]
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


def test_authorized_operations_are_told_only_when_asked_for(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.driver.create("t")
    silent = desk.ask(metadata.metadata, MetadataRequest(topics=None), 8)
    asked = MetadataRequest(
        topics=None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    told = desk.ask(metadata.metadata, asked, 8)
    assert silent.cluster_authorized_operations == silent.topics[0].topic_authorized_operations == -2147483648
    assert told.cluster_authorized_operations > 0
    assert told.topics[0].topic_authorized_operations > 0


def test_describe_topic_partitions_goes_on_from_its_cursor(tmp_path: Path) -> None:
    """Sorted by name, never more partitions than the limit, nothing twice and nothing left out."""
    desk = Desk(tmp_path)
    for name, count in (("b", 3), ("a", 2), ("c", 4)):
        desk.driver.create(name, count)
    for limit in range(1, 11):
        seen: list[tuple[str, int]] = []
        cursor = None
        while True:
            request = partitions.DescribeTopicPartitionsRequest(
                topics=[], response_partition_limit=limit, cursor=cursor
            )
            answer = desk.ask(metadata.describe_topic_partitions, request, 0)
            page = [(topic.name, p.partition_index) for topic in answer.topics for p in topic.partitions]
            assert len(page) <= limit
            seen += page
            cursor = answer.next_cursor
            if cursor is None:
                break
        assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), *(("c", p) for p in range(4))]


def test_describe_topic_partitions_names_the_unknown(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    request = partitions.DescribeTopicPartitionsRequest(topics=[partitions.TopicRequest(name="nope")])
    (topic,) = desk.ask(metadata.describe_topic_partitions, request, 0).topics
    assert (topic.name, topic.error_code) == ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert topic.topic_authorized_operations > 0  # what could be done with it, as Kafka tells


def test_describe_topic_partitions_refuses_a_cursor_before_the_first_partition(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.driver.create("t")
    request = partitions.DescribeTopicPartitionsRequest(
        topics=[partitions.TopicRequest(name="t")], cursor=partitions.Cursor(topic_name="t", partition_index=-1)
    )
    (topic,) = desk.ask(metadata.describe_topic_partitions, request, 0).topics
    assert (topic.error_code, topic.partitions) == (ErrorCode.INVALID_REQUEST, [])


def wish(name: str, **more: Any) -> create.CreatableTopic:
    return create.CreatableTopic(name=name, **{"num_partitions": -1, "replication_factor": -1, **more})


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topics_answers_each_and_says_how_it_was_made(tmp_path: Path, version: int) -> None:
    desk = Desk(tmp_path)
    request = create.CreateTopicsRequest(
        topics=[
            wish("t", num_partitions=3, configs=[create.CreatableTopicConfig(name="retention.ms", value="77")]),
            wish("bad name"),
            wish("twice"),
            wish("twice"),
        ],
        timeout_ms=0,
    )
    made, bad, twice = desk.ask(topics.create_topics, request, version).topics
    assert (made.error_code, made.error_message, made.num_partitions, made.replication_factor) == (0, None, 3, 1)
    assert made.topic_id == desk.driver.catalogue.image.topic_id("t")
    assert {c.name: (c.value, c.config_source) for c in made.configs}["retention.ms"] == ("77", 1)
    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert twice.error_code == ErrorCode.INVALID_REQUEST
    assert desk.driver.catalogue.image.names() == ("t",)


def test_create_topics_with_validate_only_tells_and_makes_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    request = create.CreateTopicsRequest(topics=[wish("t", num_partitions=2)], validate_only=True)
    (told,) = desk.ask(topics.create_topics, request, 7).topics
    assert (told.error_code, told.num_partitions) == (0, 2)
    assert told.topic_id != ZERO_UUID, "as Kafka: the id that it would have had"
    assert len(desk.driver.catalogue.image) == 0


def test_delete_topics_by_name_and_by_id(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    first, second = desk.driver.create("a").value, desk.driver.create("b").value
    (gone,) = desk.ask(topics.delete_topics, delete.DeleteTopicsRequest(topic_names=["a"]), 5).responses
    assert (gone.name, gone.error_code) == ("a", 0)
    request = delete.DeleteTopicsRequest(
        topics=[
            delete.DeleteTopicState(name=None, topic_id=second.topic_id),
            delete.DeleteTopicState(name=None, topic_id=first.topic_id),
            delete.DeleteTopicState(name="nope"),
            delete.DeleteTopicState(name="b", topic_id=second.topic_id),
            delete.DeleteTopicState(name=None),
        ]
    )
    answers = desk.ask(topics.delete_topics, request, 6).responses
    assert [answer.error_code for answer in answers] == [0, 100, 3, 42, 42]
    assert (answers[0].name, answers[0].topic_id) == ("b", second.topic_id)


def test_a_topic_that_is_to_be_deleted_by_name_and_by_id_stays(tmp_path: Path) -> None:
    """One answer says so, in either order, as Kafka's."""
    desk = Desk(tmp_path)
    both = desk.driver.create("t").value
    states = [delete.DeleteTopicState(name=None, topic_id=both.topic_id), delete.DeleteTopicState(name="t")]
    for asked in (states, states[::-1]):
        (answer,) = desk.ask(topics.delete_topics, delete.DeleteTopicsRequest(topics=asked), 6).responses
        assert (answer.name, answer.topic_id, answer.error_code) == ("t", both.topic_id, 42)
    assert desk.driver.catalogue.image.topic("t") is not None


def test_create_partitions_has_one_result_per_topic_on_success_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.driver.create("t")
    request = grow.CreatePartitionsRequest(
        topics=[
            grow.CreatePartitionsTopic(name="t", count=3, assignments=None),
            grow.CreatePartitionsTopic(name="u", count=3, assignments=None),
        ]
    )
    answers = desk.ask(topics.create_partitions, request, 3).results
    assert [(answer.name, answer.error_code) for answer in answers] == [("t", 0), ("u", 3)]
    assert desk.driver.catalogue.image.partition_count("t") == 3


def test_the_offsets_topic_does_not_grow_since_its_groups_would_not_be_found_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.driver.create("__consumer_offsets", 2)
    request = grow.CreatePartitionsRequest(
        topics=[grow.CreatePartitionsTopic(name="__consumer_offsets", count=3, assignments=None)]
    )
    (answer,) = desk.ask(topics.create_partitions, request, 3).results
    assert answer.error_code == 37
    assert desk.driver.catalogue.image.partition_count("__consumer_offsets") == 2


def entries(desk: Desk, kind: int, name: str, version: int = 4, **more: Any) -> dict[str, Any]:
    resource = describe.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=more.pop("keys", None)
    )
    request = describe.DescribeConfigsRequest(resources=[resource], **more)
    (result,) = desk.ask(configs.describe_configs, request, version).results
    assert result.error_code == 0, result.error_message
    return {entry.name: entry for entry in result.configs}


def test_topics_of_one_answer_keep_their_own_configs(tmp_path: Path) -> None:
    """What is worked out once for topics with the same overrides is told of those alone, and of the keys asked for."""
    desk = Desk(tmp_path)
    for name, overrides in (("a", {}), ("b", {"retention.ms": "7"}), ("c", {})):
        desk.driver.create(name, configs=overrides)
    resources = [
        describe.DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=keys)
        for name, keys in (("a", None), ("b", None), ("c", ["retention.ms"]), ("c", None), ("b", ["retention.ms"]))
    ]
    results = desk.ask(configs.describe_configs, describe.DescribeConfigsRequest(resources=resources), 4).results
    assert [len(result.configs) for result in results] == [37, 37, 1, 37, 1]
    told = [next(entry for entry in result.configs if entry.name == "retention.ms") for result in results]
    assert [(entry.value, entry.config_source) for entry in told] == [
        ("604800000", 5),
        ("7", 1),
        ("604800000", 5),
        ("604800000", 5),
        ("7", 1),
    ]


def test_a_fresh_topic_lists_every_key_with_its_default(tmp_path: Path) -> None:
    """kafka-python's suite: retention.bytes is "-1", LONG, source 5, not read only, without synonyms."""
    desk = Desk(tmp_path)
    desk.driver.create("t")
    resource = describe.DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    (result,) = desk.ask(configs.describe_configs, describe.DescribeConfigsRequest(resources=[resource]), 4).results
    assert (result.error_code, result.error_message) == (0, "")
    told = entries(desk, 2, "t")
    assert len(told) == 37
    assert {entry.config_source for entry in told.values()} == {5}
    kept = told["retention.bytes"]
    assert (kept.value, kept.config_type, kept.read_only, kept.synonyms) == ("-1", 5, False, [])


def test_an_override_stands_before_the_brokers_value_and_the_default(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.driver.catalogue.broker_configs = BrokerConfigs(1, Settings.definitions, {"log.retention.hours": "1"})
    desk.driver.create("t", configs={"retention.ms": "5"})
    entry = entries(desk, 2, "t", keys=["retention.ms"], include_synonyms=True)["retention.ms"]
    assert (entry.value, entry.config_source) == ("5", 1)
    assert [(s.name, s.value, s.source) for s in entry.synonyms] == [("retention.ms", "5", 1)]
    desk.driver.create("u")
    entry = entries(desk, 2, "u", keys=["retention.ms"])["retention.ms"]
    assert (entry.value, entry.config_source) == ("3600000", 5), "Kafka looks for log.retention.ms first"
    desk.driver.catalogue.broker_configs = BrokerConfigs(1, Settings.definitions, {"log.retention.ms": "7"})
    entry = entries(desk, 2, "u", keys=["retention.ms"], include_synonyms=True)["retention.ms"]
    assert (entry.value, entry.config_source) == ("7", 4)
    assert [(s.name, s.value, s.source) for s in entry.synonyms] == [
        ("log.retention.ms", "7", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_the_broker_lists_its_settings(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.driver.catalogue.broker_configs = BrokerConfigs(
        1, Settings.definitions, {"advertised.listeners": "PLAINTEXT://127.0.0.1:9092"}
    )
    told = entries(desk, 4, "1")
    assert (told["advertised.listeners"].config_source, told["advertised.listeners"].read_only) == (4, True)
    assert told["advertised.listeners"].config_type in (2, 7)
    assert entries(desk, 4, "") == {}


@pytest.mark.parametrize(("kind", "name", "error"), [(2, "nope", 3), (4, "7", 42), (8, "7", 42)])
def test_configs_of_what_is_not_there(tmp_path: Path, kind: int, name: str, error: int) -> None:
    desk = Desk(tmp_path)
    resource = describe.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = describe.DescribeConfigsRequest(resources=[resource])
    (result,) = desk.ask(configs.describe_configs, request, 4).results
    assert (result.error_code, result.configs) == (error, [])


def test_incremental_alter_configs_answers_each_resource(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.driver.create("t")

    def resource(name: str, key: str, value: str) -> incremental.AlterConfigsResource:
        config = incremental.AlterableConfig(name=key, config_operation=0, value=value)
        return incremental.AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])

    request = incremental.IncrementalAlterConfigsRequest(
        resources=[resource("t", "retention.ms", "9"), resource("u", "retention.ms", "9")]
    )
    answers = desk.ask(altered_configs.incremental_alter_configs, request, 1).responses
    assert [(answer.resource_name, answer.error_code) for answer in answers] == [("t", 0), ("u", 3)]
    assert entries(desk, 2, "t")["retention.ms"].value == "9"


def test_describe_cluster_knows_brokers_and_no_controllers(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    told = desk.ask(cluster.describe_cluster, DescribeClusterRequest(), 2)
    assert (told.cluster_id, told.controller_id, [b.broker_id for b in told.brokers]) == (
        "MkU3OEVBNTcwNTJENDM2Qg",
        1,
        [1],
    )
    for kind, error in ((2, 114), (3, 115)):
        refused = desk.ask(cluster.describe_cluster, DescribeClusterRequest(endpoint_type=kind), 1)
        assert (refused.error_code, refused.endpoint_type) == (error, 1)  # what this is, not what was asked


def test_elections_and_reassignments_of_one_node(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.driver.create("t")
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0, 5])])
    (result,) = desk.ask(cluster.elect_leaders, request, 2).replica_election_results
    assert [one.error_code for one in result.partition_result] == [84, 3]
    assert result.partition_result[1].error_message == "No such partition as t-5"
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="u", partitions=[0])])
    (result,) = desk.ask(cluster.elect_leaders, request, 2).replica_election_results
    assert [one.error_message for one in result.partition_result] == ["No such topic as u"]
    asked = [(0, [1]), (0, [2]), (0, None), (9, [1])]
    wishes = [reassign.ReassignablePartition(partition_index=p, replicas=r) for p, r in asked]
    moved = reassign.AlterPartitionReassignmentsRequest(
        topics=[reassign.ReassignableTopic(name="t", partitions=wishes)]
    )
    (told,) = desk.ask(cluster.alter_partition_reassignments, moved, 1).responses
    assert [one.error_code for one in told.partitions] == [0, 39, 85, 3]


def test_the_metadata_topic_cannot_be_created(tmp_path: Path) -> None:
    """Seen from Kafka 4.3.1: 42, where other illegal names get 17."""
    desk = Desk(tmp_path)
    request = create.CreateTopicsRequest(topics=[wish("__cluster_metadata"), wish("..")])
    told = desk.ask(topics.create_topics, request, 7).topics
    assert [one.error_code for one in told] == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_TOPIC_EXCEPTION]


@pytest.mark.parametrize("version", [5, 6])
def test_a_topic_that_is_to_be_deleted_twice_is_refused_once(tmp_path: Path, version: int) -> None:
    """Seen from Kafka 4.3.1."""
    desk = Desk(tmp_path)
    desk.driver.create("t")
    request = delete.DeleteTopicsRequest(
        topic_names=["t", "t"], topics=[delete.DeleteTopicState(name="t"), delete.DeleteTopicState(name="t")]
    )
    (told,) = desk.ask(topics.delete_topics, request, version).responses
    assert (told.name, told.error_code) == ("t", ErrorCode.INVALID_REQUEST)
    assert desk.driver.catalogue.image.names() == ("t",)


def test_metadata_tells_a_topic_once(tmp_path: Path) -> None:
    """Seen from Kafka 4.3.1."""
    desk = Desk(tmp_path)
    desk.driver.create("t")
    assert [topic.name for topic in desk.metadata("t", "u", "t", create=False)] == ["t", "u"]


def test_a_cursor_on_a_topic_that_is_not_asked_for_is_refused(tmp_path: Path) -> None:
    """Seen from Kafka 4.3.1: 42 on each topic."""
    desk = Desk(tmp_path)
    desk.driver.create("a")
    request = partitions.DescribeTopicPartitionsRequest(
        topics=[partitions.TopicRequest(name="a")], cursor=partitions.Cursor(topic_name="aa", partition_index=1)
    )
    told = desk.ask(metadata.describe_topic_partitions, request, 0)
    assert [(topic.name, topic.error_code) for topic in told.topics] == [("a", 42)]
    assert told.next_cursor is None


@pytest.mark.parametrize("name", ["", "a b", "x" * 250])
def test_configs_of_a_name_that_no_topic_can_have(tmp_path: Path, name: str) -> None:
    """Seen from Kafka 4.3.1: 17, not 3."""
    desk = Desk(tmp_path)
    resource = describe.DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
    (result,) = desk.ask(configs.describe_configs, describe.DescribeConfigsRequest(resources=[resource]), 4).results
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("resource", "change", "error"),
    [
        ((2, ""), ("retention.ms", 0, "1"), ErrorCode.INVALID_REQUEST),  # no defaults for all topics
        ((2, "t"), ("nobody.knows", 1, None), ErrorCode.NONE),  # deleting what is not there
        ((2, "t"), ("nobody.knows", 0, "1"), ErrorCode.INVALID_CONFIG),
        ((2, "t"), ("cleanup.policy", 2, ""), ErrorCode.INVALID_CONFIG),  # appending an empty entry
        ((2, "t"), ("cleanup.policy", 2, "compact,"), ErrorCode.NONE),  # Java drops what is empty at the end
        ((4, ""), ("message.max.bytes", 0, "many"), ErrorCode.INVALID_REQUEST),
        ((4, ""), ("nobody.knows", 1, None), ErrorCode.NONE),
    ],
)
def test_what_kafka_answers_to_odd_config_changes(tmp_path: Path, resource: Any, change: Any, error: int) -> None:
    """Seen from Kafka 4.3.1."""
    desk = Desk(tmp_path)
    desk.driver.create("t")
    name, operation, value = change
    config = incremental.AlterableConfig(name=name, config_operation=operation, value=value)
    one = incremental.AlterConfigsResource(resource_type=resource[0], resource_name=resource[1], configs=[config])
    request = incremental.IncrementalAlterConfigsRequest(resources=[one])
    (answer,) = desk.ask(altered_configs.incremental_alter_configs, request, 1).responses
    assert answer.error_code == error


def test_a_config_that_has_retired_since_can_be_deleted(tmp_path: Path) -> None:
    """A directory of Kafka 3's may hold `message.format.version`; it must not be there for ever."""
    desk = Desk(tmp_path)
    desk.driver.create("t")
    state = desk.driver.catalogue.state
    state.configs[2, "t"] = {"message.format.version": "3.0", "retention.ms": "5"}
    config = incremental.AlterableConfig(name="message.format.version", config_operation=1, value=None)
    one = incremental.AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    request = incremental.IncrementalAlterConfigsRequest(resources=[one])
    (answer,) = desk.ask(altered_configs.incremental_alter_configs, request, 1).responses
    assert answer.error_code == ErrorCode.NONE
    assert state.configs[2, "t"] == {"retention.ms": "5"}


def test_an_election_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    """Seen from Kafka 4.3.1: 42, on top and on each partition."""
    desk = Desk(tmp_path)
    desk.driver.create("t")
    asked = ElectLeadersRequest(election_type=5, topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    told = desk.ask(cluster.elect_leaders, asked, 2)
    assert told.error_code == ErrorCode.INVALID_REQUEST
    assert [one.error_code for one in told.replica_election_results[0].partition_result] == [42]


NAMES = [f"no topic {number}" for number in range(3 * IN_FLIGHT_MAX)]
WIDE: list[tuple[Callable[..., Any], Any, int]] = [
    (topics.create_topics, create.CreateTopicsRequest(topics=[create.CreatableTopic(name=name) for name in NAMES]), 5),
    (topics.delete_topics, delete.DeleteTopicsRequest(topic_names=NAMES), 4),
    (
        topics.create_partitions,
        grow.CreatePartitionsRequest(topics=[grow.CreatePartitionsTopic(name=name, count=2) for name in NAMES]),
        1,
    ),
    (
        metadata.metadata,
        MetadataRequest(topics=[MetadataRequestTopic(name=name.replace(" ", "-")) for name in NAMES]),
        4,
    ),
    (
        altered_configs.alter_configs,
        replaced.AlterConfigsRequest(
            resources=[replaced.AlterConfigsResource(resource_type=2, resource_name=name) for name in NAMES]
        ),
        1,
    ),
    (
        altered_configs.incremental_alter_configs,
        incremental.IncrementalAlterConfigsRequest(
            resources=[incremental.AlterConfigsResource(resource_type=2, resource_name=name) for name in NAMES]
        ),
        1,
    ),
]


@pytest.mark.parametrize(("handler", "request_", "version"), WIDE)
def test_a_request_of_many_topics_has_few_changes_on_their_way_and_none_after_its_client_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: Callable[..., Any], request_: Any, version: int
) -> None:
    """Each change is kept until it is durable: requests of a megabyte would fill a queue of millions."""
    desk = Desk(tmp_path)
    queue = desk.driver.catalogue.queue
    counts = {"begun": 0, "answered": 0, "most": 0}
    really_add = queue.add

    def add(plan: Any, answer: Callable[[Any], None]) -> None:
        def answered(result: Any) -> None:
            counts["answered"] += 1
            answer(result)

        counts["begun"] += 1
        counts["most"] = max(counts["most"], counts["begun"] - counts["answered"])
        really_add(plan, answered)

    monkeypatch.setattr(queue, "add", add)
    gone = handler(desk.broker, RequestContext(version=version), request_)
    gone.abandon()
    desk.driver.runtime.turn()
    assert counts["begun"] == counts["answered"] <= IN_FLIGHT_MAX

    desk.ask(handler, request_, version)
    assert counts["begun"] == counts["answered"] >= len(NAMES)
    assert counts["most"] == IN_FLIGHT_MAX
