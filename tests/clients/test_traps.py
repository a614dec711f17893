"""What single clients trip over, said on the wire (CL); also true of Apache Kafka."""

import itertools
import time

import confluent_kafka
import kafka
import kafka.admin
import pytest

from kohort.testing import Broker
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch_encoder import encode_batch
from protocol.records.batch_reader import Record
from tests.clients import harness
from tests.support.broker_process import BrokerProcess, Kohort, eventually
from tests.support.wire import Wire


@pytest.fixture
def wire(broker: BrokerProcess):
    with Wire(broker.address) as connection:
        yield connection


def batch(*values: bytes, **producer: int) -> bytes:
    """One record batch."""
    records = [Record(n, 1_700_000_000_000 + n, None, value, ()) for n, value in enumerate(values)]
    return bytes(encode_batch(records, **producer))


def produce(topic: str, records: bytes, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=records)]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def fetch(topic: str, offset: int, *, max_bytes: int = 1 << 20, wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def test_advertised_versions_keep_every_client_going(wire: Wire, broker: BrokerProcess):
    """CL16, CL21, CL22, CL01: no telemetry, InitProducerId to 5, Produce from 0, in v0 as well as in v4."""
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    versions = {api.api_key: (api.min_version, api.max_version) for api in wire.call(asked, 4).api_keys}

    assert not versions.keys() & {71, 72}
    assert versions[22] == (0, 5)
    assert versions[0][0] == 0
    again = wire.call(asked, 0)
    assert {api.api_key: (api.min_version, api.max_version) for api in again.api_keys} == versions
    for version in range(3):
        with Wire(broker.address) as old:
            head = b"\0\0" + version.to_bytes(2, "big") + b"\0\0\0\1\xff\xff"
            old.socket.sendall((len(head) + 10).to_bytes(4, "big") + head + bytes(10))
            assert old.socket.recv(1) == b"", "Produce 0 to 2 close the connection"


def test_empty_fetches_whole_batches_and_the_last_stable_offset(wire: Wire, name: str, broker: BrokerProcess):
    """CL02, CL03, CL04: no null, the whole batch that holds the offset whatever the limit, LSO filled in."""
    harness.create_topic(broker.address, name, 1)
    whole = batch(b"a" * 100, b"b" * 100, b"c" * 100)
    for _ in range(2):
        assert wire.call(produce(name, whole), 8).responses[0].partition_responses[0].error_code == 0

    found = wire.call(fetch(name, 4, max_bytes=1), 11).responses[0].partitions[0]
    assert int.from_bytes(bytes(found.records)[:8], "big") == 3, "the batch that holds offset 4 begins at 3"
    assert len(found.records) == len(whole)
    assert found.last_stable_offset == found.high_watermark == 6

    at_end = wire.call(fetch(name, 6), 11).responses[0].partitions[0]
    assert at_end.error_code == 0
    assert at_end.records is not None and len(at_end.records) == 0


def test_metadata_of_nothing_and_of_everything(wire: Wire, name: str, broker: BrokerProcess):
    """CL05: an empty list is the brokers alone; this node is listed and controls; a topic's id stays its own."""
    harness.create_topic(broker.address, name, 1)
    nobody = wire.call(MetadataRequest(topics=[]), 9)
    assert nobody.topics == []
    assert [(node.node_id, node.port) for node in nobody.brokers] == [(1, broker.port)]
    assert nobody.controller_id == 1
    assert name in {topic.name for topic in wire.call(MetadataRequest(topics=None), 9).topics}
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    ids = {wire.call(asked, version).topics[0].topic_id for version in (10, 12, 13)}
    assert len(ids) == 1
    assert ids != {bytes(16)}


def test_a_batch_sent_again_is_answered_with_its_first_offset(wire: Wire, name: str, broker: BrokerProcess):
    """CL13, TX02: the last five batches of an idempotent producer are remembered; nothing is there twice."""
    harness.create_topic(broker.address, name, 1)
    ask = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    # Apache Kafka's first answer is that it has no block of ids yet.
    answer = eventually(lambda: next((a for a in [wire.call(ask, 4)] if a.error_code == 0), None))
    batches = [batch(b"x", producer_id=answer.producer_id, producer_epoch=0, base_sequence=n) for n in range(5)]

    offsets = [
        wire.call(produce(name, records), 8).responses[0].partition_responses[0] for records in [*batches, *batches]
    ]

    assert [(p.error_code, p.base_offset) for p in offsets] == [(0, n) for n in [*range(5), *range(5)]]
    assert wire.end_offsets(name, [0])[0] == (0, 5)


def test_answers_leave_in_order_and_none_to_acks_0(wire: Wire, name: str, broker: BrokerProcess):
    """CL14, CL19: what follows a waiting fetch waits for it; a Produce without acks gets no answer."""
    harness.create_topic(broker.address, name, 1)
    began = time.monotonic()
    wire.send(fetch(name, 0, wait_ms=300), 11)
    wire.send(MetadataRequest(topics=[]), 9)
    assert len(wire.receive().responses[0].partitions[0].records) == 0
    assert time.monotonic() - began > 0.25
    assert wire.receive().controller_id == 1

    wire.send(produce(name, batch(b"unanswered"), acks=0), 8)
    wire._sent.pop()  # none is awaited
    assert wire.call(MetadataRequest(topics=[]), 9).controller_id == 1
    eventually(lambda: wire.end_offsets(name, [0])[0] == (0, 1))


def test_offsets_are_there_from_the_first_connection_on(start_broker, name: str):
    """CL20: no client is told that a coordinator is loading."""
    broker = start_broker({"num.partitions": 1})
    harness.create_topic(broker.address, name, 1)
    with Wire(broker.address) as wire:
        eventually(lambda: wire.coordinator_error(name) == 0, deadline_s=60)
        eventually(lambda: wire.commit(name, name, {0: 42}) == {0}, deadline_s=60)
    broker.restart(kill=True)
    with Wire(broker.address) as wire:
        told = wire.committed(name, name, [0])
        if isinstance(broker, Kohort):
            assert told == (0, {0: 42})
        else:
            eventually(lambda: wire.committed(name, name, [0]) == (0, {0: 42}), deadline_s=60)


@pytest.mark.parametrize("version", [(3, 9), (3, 0), (2, 4)])
def test_kafka_python_told_an_older_version_uses_its_own_table(broker: BrokerProcess, name: str, version: tuple):
    """CL18, CL07: it sends what a broker of that release offers, and that is served; a group forms."""
    harness.create_topic(broker.address, name, 1)
    producer = kafka.KafkaProducer(bootstrap_servers=broker.address, api_version=version)
    assert producer.send(name, b"x").get(20).offset == 0
    producer.close()
    consumer = kafka.KafkaConsumer(
        name,
        bootstrap_servers=broker.address,
        api_version=version,
        group_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    messages = eventually(lambda: list(itertools.chain(*consumer.poll(500).values())), deadline_s=60)
    assert [message.value for message in messages] == [b"x"]
    consumer.commit()
    consumer.close()
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.address, api_version=version)
    assert name in {group["group_id"] for group in admin.list_groups()}
    admin.close()


def test_a_consumer_of_the_new_protocol_is_told_that_it_is_switched_off(name: str, only_kohort: None):
    """CL23, K20: librdkafka fails for good instead of looking for a coordinator for ever.

    Kafka asks for the level of `group.version` too, which rises by itself here.
    """
    with Broker({"group.coordinator.rebalance.protocols": "classic"}, {name: 1}) as broker:
        settings = {**broker.config("librdkafka"), "group.id": name, "group.protocol": "consumer"}
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe([name])
        message = eventually(lambda: consumer.poll(0.5), deadline_s=60)
        consumer.close()
    assert message.error().code() == confluent_kafka.KafkaError._FATAL
    assert "ConsumerGroupHeartbeat" in message.error().str()
