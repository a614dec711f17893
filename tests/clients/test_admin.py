"""The admin calls of the Python clients, and topics that a client's Metadata request creates (CT10, CT11)."""

import uuid
from collections.abc import Iterator

import aiokafka
import aiokafka.admin
import confluent_kafka as ck
import confluent_kafka.admin as ck_admin
import kafka
import kafka.admin
import kafka.errors
import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.support.broker_process import BrokerProcess, eventually

NO_ERROR = 0


def fill(broker: BrokerProcess, topic: str, count: int = 10, partition: int = 0) -> None:
    """Write `count` small records to one partition."""
    producer = ck.Producer({"bootstrap.servers": broker.address})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=1_700_000_000_000 + number)
    assert producer.flush(120) == 0


# ---------------------------------------------------------------- confluent-kafka


@pytest.fixture
def librdkafka(broker: BrokerProcess) -> ck_admin.AdminClient:
    return ck_admin.AdminClient({"bootstrap.servers": broker.address})


def done(futures: dict) -> list:
    """The results of an admin call, raised where one failed."""
    return [future.result(120) for future in futures.values()]


def error_of(futures: dict) -> str:
    """The name of the error of an admin call about one thing."""
    with pytest.raises(ck.KafkaException) as raised:
        done(futures)
    return raised.value.args[0].name()


def test_librdkafka_manages_topics(librdkafka: ck_admin.AdminClient, broker: BrokerProcess, name: str):
    """CT11, CL08, BI06: create, list, describe, grow and delete a topic; one bad topic does not stop its neighbour."""
    new = ck_admin.NewTopic(name, 3, 1, config={"cleanup.policy": "compact"})
    done(librdkafka.create_topics([new]))

    assert error_of(librdkafka.create_topics([new])) == "TOPIC_ALREADY_EXISTS"
    assert len(librdkafka.list_topics(name, 20).topics[name].partitions) == 3
    [described] = done(librdkafka.describe_topics(ck.TopicCollection([name])))
    assert [p.leader.id for p in described.partitions] == [1, 1, 1]
    assert str(described.topic_id) != str(ck.Uuid(0, 0))
    done(librdkafka.create_partitions([ck_admin.NewPartitions(name, 5)]))
    # Apache Kafka answers a moment before its own metadata shows them.
    eventually(lambda: len(librdkafka.list_topics(name, 20).topics[name].partitions) == 5)
    assert error_of(librdkafka.create_partitions([ck_admin.NewPartitions(name, 5)])) == "INVALID_PARTITIONS"

    both = librdkafka.create_topics([ck_admin.NewTopic(f"{name}-2", -1, -1), ck_admin.NewTopic("no/slash", 1, 1)])
    both[f"{name}-2"].result(120)
    assert both["no/slash"].exception(20).args[0].name() == "TOPIC_EXCEPTION"
    assert len(librdkafka.list_topics(f"{name}-2", 20).topics[f"{name}-2"].partitions) == 4

    done(librdkafka.delete_topics([name]))
    assert name not in librdkafka.list_topics(timeout=400).topics
    assert error_of(librdkafka.delete_topics([name])) == "UNKNOWN_TOPIC_OR_PART"
    assert error_of(librdkafka.create_topics([ck_admin.NewTopic(name, 1, 3)])) == "INVALID_REPLICATION_FACTOR"
    assert error_of(librdkafka.create_topics([ck_admin.NewTopic(name, 1, 1, config={"no": "1"})])) == "INVALID_CONFIG"


def test_librdkafka_describes_and_alters_configs(librdkafka: ck_admin.AdminClient, broker: BrokerProcess, name: str):
    """CT11, CL11: every key has a source and a default; a change shows, and can be taken back."""
    done(librdkafka.create_topics([ck_admin.NewTopic(name, 1, 1, config={"retention.ms": "1000"})]))
    resource = ck_admin.ConfigResource(ck_admin.ConfigResource.Type.TOPIC, name)

    [configs] = done(librdkafka.describe_configs([resource]))
    assert len(configs) > 20
    assert configs["retention.ms"].value == "1000"
    assert configs["retention.ms"].source == ck_admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert configs["cleanup.policy"].value == "delete"
    assert configs["cleanup.policy"].source == ck_admin.ConfigSource.DEFAULT_CONFIG.value

    entry = ck_admin.ConfigEntry("cleanup.policy", "compact", incremental_operation=ck_admin.AlterConfigOpType.APPEND)
    change = ck_admin.ConfigResource(ck_admin.ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    done(librdkafka.incremental_alter_configs([change]))
    assert done(librdkafka.describe_configs([resource]))[0]["cleanup.policy"].value == "delete,compact"

    entry = ck_admin.ConfigEntry("retention.ms", None, incremental_operation=ck_admin.AlterConfigOpType.DELETE)
    change = ck_admin.ConfigResource(ck_admin.ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    done(librdkafka.incremental_alter_configs([change]))
    after = done(librdkafka.describe_configs([resource]))[0]["retention.ms"]
    assert after.source != ck_admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value

    entry = ck_admin.ConfigEntry("retention.ms", "soon", incremental_operation=ck_admin.AlterConfigOpType.SET)
    change = ck_admin.ConfigResource(ck_admin.ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    assert error_of(librdkafka.incremental_alter_configs([change])) == "INVALID_CONFIG"

    [of_broker] = done(librdkafka.describe_configs([ck_admin.ConfigResource(ck_admin.ConfigResource.Type.BROKER, "1")]))
    assert of_broker["log.segment.bytes"].value == "1073741824"


def test_librdkafka_manages_groups(librdkafka: ck_admin.AdminClient, broker: BrokerProcess, name: str):
    """CT11, CL09: offsets without members, list with filters, describe, alter, delete offsets, delete the group."""
    done(librdkafka.create_topics([ck_admin.NewTopic(name, 2, 1)]))
    fill(broker, name)
    consumer = ck.Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([name])
    eventually(lambda: consumer.poll(0.2), deadline_s=60)

    stable = librdkafka.list_consumer_groups(states={ck.ConsumerGroupState.STABLE}).result(120)
    assert name in {group.group_id for group in stable.valid}
    [described] = done(librdkafka.describe_consumer_groups([name]))
    assert described.state == ck.ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    [member] = described.members
    assert {(tp.topic, tp.partition) for tp in member.assignment.topic_partitions} == {(name, 0), (name, 1)}
    assert error_of(librdkafka.delete_consumer_groups([name])) == "NON_EMPTY_GROUP"
    consumer.commit(offsets=[ck.TopicPartition(name, 0, 4, metadata="über ✓", leader_epoch=0)], asynchronous=False)
    consumer.close()

    stable = librdkafka.list_consumer_groups(states={ck.ConsumerGroupState.STABLE}).result(120)
    assert name not in {group.group_id for group in stable.valid}
    request = ck.ConsumerGroupTopicPartitions(name, [ck.TopicPartition(name, 0), ck.TopicPartition(name, 1)])
    [offsets] = done(librdkafka.list_consumer_group_offsets([request]))
    assert [(tp.partition, tp.offset, tp.metadata) for tp in offsets.topic_partitions] == [
        (0, 4, "über ✓"),
        (1, ck.OFFSET_INVALID, None),
    ]
    new = ck.ConsumerGroupTopicPartitions(name, [ck.TopicPartition(name, 1, 7, metadata="m")])
    done(librdkafka.alter_consumer_group_offsets([new]))
    [offsets] = done(librdkafka.list_consumer_group_offsets([ck.ConsumerGroupTopicPartitions(name)]))
    assert (1, 7, "m") in [(tp.partition, tp.offset, tp.metadata) for tp in offsets.topic_partitions]

    done(librdkafka.delete_consumer_groups([name]))
    assert name not in {group.group_id for group in librdkafka.list_consumer_groups().result(120).valid}
    assert error_of(librdkafka.delete_consumer_groups([name])) == "GROUP_ID_NOT_FOUND"


def test_librdkafka_looks_offsets_up_and_deletes_records(
    librdkafka: ck_admin.AdminClient, broker: BrokerProcess, name: str
):
    """CT11, CL10: earliest, latest, by time, the largest timestamp; records below an offset are gone."""
    done(librdkafka.create_topics([ck_admin.NewTopic(name, 1, 1)]))
    fill(broker, name, 10)
    spec = ck_admin.OffsetSpec

    def offset(which: ck_admin.OffsetSpec) -> int:
        return done(librdkafka.list_offsets({ck.TopicPartition(name, 0): which}))[0].offset

    assert offset(spec.earliest()) == 0
    assert offset(spec.latest()) == 10
    assert offset(spec.max_timestamp()) == 9
    assert offset(spec.for_timestamp(1_700_000_000_004)) == 4
    assert offset(spec.for_timestamp(1_800_000_000_000)) == -1

    [deleted] = done(librdkafka.delete_records([ck.TopicPartition(name, 0, 6)]))
    assert deleted.low_watermark == 6
    assert offset(spec.earliest()) == 6
    assert error_of(librdkafka.delete_records([ck.TopicPartition(name, 0, 11)])) == "OFFSET_OUT_OF_RANGE"

    cluster = librdkafka.describe_cluster().result(120)
    assert [node.id for node in cluster.nodes] == [1] == [cluster.controller.id]
    assert len(cluster.cluster_id) == 22


# ---------------------------------------------------------------- kafka-python


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[kafka.admin.KafkaAdminClient]:
    client = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.address)
    yield client
    client.close()


def test_kafka_python_manages_topics(admin: kafka.admin.KafkaAdminClient, broker: BrokerProcess, name: str):
    """CT11: topics, partitions, configs, records and cluster through kafka-python."""
    created = admin.create_topics({name: {"num_partitions": 2, "configs": {"max.message.bytes": "50000"}}})
    assert created["topics"][0]["error_code"] == NO_ERROR
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        admin.create_topics([name])
    assert name in [topic["name"] if isinstance(topic, dict) else topic for topic in admin.list_topics()]
    [topic] = admin.describe_topics([name])
    assert len(topic["partitions"]) == 2
    assert [p["replica_nodes"] for p in topic["partitions"]] == [[1], [1]]
    assert admin.describe_topic_partitions([name])["topics"][0]["name"] == name

    admin.create_partitions({name: 3})
    assert len(admin.describe_topics([name])[0]["partitions"]) == 3

    resource = kafka.admin.ConfigResource("topic", name)
    configs = admin.describe_configs([resource], config_filter="all")["topic"][name]
    assert configs["max.message.bytes"]["value"] == "50000"
    assert configs["retention.bytes"]["value"] == "-1"
    assert not configs["retention.bytes"]["read_only"]
    admin.alter_configs([kafka.admin.ConfigResource("topic", name, {"retention.ms": "1234567"})])
    assert admin.describe_configs([resource])["topic"][name]["retention.ms"]["value"] == "1234567"
    admin.alter_configs([kafka.admin.ConfigResource("topic", name, {"retention.ms": "7654321"})], incremental=False)
    assert admin.describe_configs([resource])["topic"][name]["retention.ms"]["value"] == "7654321"

    fill(broker, name, 10, partition=1)
    assert admin.delete_records({TopicPartition(name, 1): 3})[TopicPartition(name, 1)]["low_watermark"] == 3
    found = admin.list_partition_offsets({TopicPartition(name, 1): kafka.admin.OffsetSpec.LATEST})
    assert found[TopicPartition(name, 1)].offset == 10

    [of_broker] = admin.describe_log_dirs([name])
    [folder] = [d for d in of_broker["log_dirs"] if d["topics"]]
    assert folder["error_code"] == NO_ERROR
    sizes = {p["partition_index"]: p["partition_size"] for p in folder["topics"][0]["partitions"]}
    assert sizes[1] > 0 == sizes[0]

    cluster = admin.describe_cluster()
    assert [node["node_id"] if "node_id" in node else node["broker_id"] for node in cluster["brokers"]] == [1]
    assert admin.list_partition_reassignments() in ({}, [])

    admin.delete_topics([name])
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        admin.delete_topics([name])


def until_assigned(consumer: kafka.KafkaConsumer, topic: str) -> None:
    """Poll until it owns something. It knows the topic's partitions before it joins: see the worker of kafka-python."""
    eventually(lambda: topic in consumer._coordinator._metadata_snapshot)
    eventually(lambda: consumer.poll(100) or consumer.assignment(), deadline_s=60)


def test_kafka_python_manages_groups(admin: kafka.admin.KafkaAdminClient, broker: BrokerProcess, name: str):
    """CT11, O01, O15, O17: a group of offsets only, a live one, deletion of offsets and groups."""
    admin.create_topics({name: {"num_partitions": 2}, f"{name}-b": {"num_partitions": 1}}, wait_for_metadata=True)
    first, other = TopicPartition(name, 0), TopicPartition(f"{name}-b", 0)
    altered = admin.alter_group_offsets(
        name, {first: OffsetAndMetadata(5, "note", -1), other: OffsetAndMetadata(6, "", -1)}
    )
    assert {error.__name__ for error in altered.values()} == {"NoError"}
    [listed] = [group for group in admin.list_groups() if group["group_id"] == name]
    assert (listed["protocol_type"], listed["group_state"], listed["group_type"]) == ("", "Empty", "classic")
    offsets = admin.list_group_offsets([name])[name]
    assert (offsets[first].offset, offsets[first].metadata) == (5, "note")

    consumer = kafka.KafkaConsumer(name, bootstrap_servers=broker.address, group_id=name, enable_auto_commit=False)
    until_assigned(consumer, name)
    described = admin.describe_groups([name])[name]
    assert described["group_state"] == "Stable"
    assert described["protocol_type"] == "consumer"
    assert described["members"][0]["client_host"] in ("/127.0.0.1", "127.0.0.1")
    deleted = admin.delete_group_offsets(name, [first, other])
    assert (deleted[first].__name__, deleted[other].__name__) == ("GroupSubscribedToTopicError", "NoError")
    assert admin.delete_groups([name]) == {name: "NonEmptyGroupError"}
    consumer.close()

    assert admin.list_group_offsets([name])[name].keys() == {first}
    assert admin.delete_groups([name, f"{name}-none"]) == {name: "OK", f"{name}-none": "GroupIdNotFoundError"}
    assert admin.describe_groups([name])[name]["group_state"] == "Dead"


def test_kafka_python_removes_a_member(admin: kafka.admin.KafkaAdminClient, broker: BrokerProcess, name: str):
    """CT11, L04: an administrator removes a static member by its instance id."""
    admin.create_topics({name: {"num_partitions": 1}}, wait_for_metadata=True)
    consumer = kafka.KafkaConsumer(name, bootstrap_servers=broker.address, group_id=name, group_instance_id="i1")
    until_assigned(consumer, name)
    consumer.close()  # a static member does not leave
    assert len(admin.describe_groups([name])[name]["members"]) == 1

    admin.remove_group_members(name, [kafka.admin.MemberToRemove(group_instance_id="i1")])

    assert admin.describe_groups([name])[name]["group_state"] == "Empty"


# ---------------------------------------------------------------- aiokafka


async def test_aiokafka_manages_topics_and_groups(broker: BrokerProcess, name: str):
    """CT11, CL01, CL15: the oldest versions in use: topics, configs, records, groups and offsets."""
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=broker.address)
    await admin.start()
    try:
        created = await admin.create_topics([aiokafka.admin.NewTopic(name, 2, 1)])
        assert created.topic_errors == [(name, NO_ERROR, None)]
        assert name in await admin.list_topics()
        [topic] = await admin.describe_topics([name])
        assert len(topic["partitions"]) == 2
        assert [node["node_id"] for node in (await admin.describe_cluster())["brokers"]] == [1]
        await admin.create_partitions({name: aiokafka.admin.NewPartitions(3)})
        assert len((await admin.describe_topics([name]))[0]["partitions"]) == 3

        resource = aiokafka.admin.config_resource.ConfigResource("topic", name, {"retention.ms": "777"})
        [answer] = await admin.alter_configs([resource])
        assert answer.resources[0][0] == NO_ERROR
        resource = aiokafka.admin.config_resource.ConfigResource("topic", name)
        [answer] = await admin.describe_configs([resource])
        values = {entry[0]: entry[1] for entry in answer.resources[0][4]}
        assert values["retention.ms"] == "777"
        assert len(values) > 20

        fill(broker, name, 5)
        partition = aiokafka.TopicPartition(name, 0)
        answer = await admin.delete_records({partition: aiokafka.admin.RecordsToDelete(2)})
        assert answer == {partition: 2}

        consumer = aiokafka.AIOKafkaConsumer(
            name,
            bootstrap_servers=broker.address,
            group_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        assert (await consumer.getone()).offset == 2
        await consumer.commit({partition: (3, "meta")})
        assert (name, "consumer") in await admin.list_consumer_groups()
        [answer] = await admin.describe_consumer_groups([name])
        assert answer.groups[0][:4] == (NO_ERROR, name, "Stable", "consumer")
        await consumer.stop()
        offsets = await admin.list_consumer_group_offsets(name)
        assert offsets[partition] == aiokafka.structs.OffsetAndMetadata(3, "meta")

        await admin.delete_topics([name])
        assert name not in await admin.list_topics()
    finally:
        await admin.close()


# ---------------------------------------------------------------- topics that metadata creates


async def test_a_topic_is_created_by_the_metadata_request_of_each_client(broker: BrokerProcess):
    """CT10, CL06: each client just produces to a topic that is not there; it gets `num.partitions` partitions."""
    names = {client: f"auto-{client}-{uuid.uuid4().hex[:8]}" for client in ("aiokafka", "confluent", "kafka_python")}

    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.address)
    await producer.start()
    assert (await producer.send_and_wait(names["aiokafka"], b"x")).offset == 0
    await producer.stop()
    fill(broker, names["confluent"], 1)
    kafka_python = kafka.KafkaProducer(bootstrap_servers=broker.address)
    assert kafka_python.send(names["kafka_python"], b"x").get(20).offset == 0
    kafka_python.close()

    topics = ck_admin.AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=400).topics
    assert {client: len(topics[topic].partitions) for client, topic in names.items()} == dict.fromkeys(names, 4)


async def test_log_append_time_and_size_limits_reach_the_clients(broker: BrokerProcess, name: str):
    """CL12: LogAppendTime is told to producer and consumer; too large a message and one without key are refused."""
    admin = ck_admin.AdminClient({"bootstrap.servers": broker.address})
    config = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "5000", "cleanup.policy": "compact"}
    done(admin.create_topics([ck_admin.NewTopic(name, 1, 1, config=config)]))
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.address)
    await producer.start()
    sent = await producer.send_and_wait(name, b"x", key=b"k", timestamp_ms=1)
    assert sent.timestamp_type == 1
    assert sent.timestamp > 1_700_000_000_000
    with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
        await producer.send_and_wait(name, b"x" * 6000, key=b"k")
    with pytest.raises(aiokafka.errors.KafkaError):
        await producer.send_and_wait(name, b"x")
    await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.address)
    await consumer.start()
    consumer.assign([aiokafka.TopicPartition(name, 0)])
    await consumer.seek_to_beginning()
    message = await consumer.getone()
    assert (message.timestamp_type, message.timestamp) == (1, sent.timestamp)
    assert await consumer.end_offsets([aiokafka.TopicPartition(name, 0)]) == {aiokafka.TopicPartition(name, 0): 1}
    await consumer.stop()
