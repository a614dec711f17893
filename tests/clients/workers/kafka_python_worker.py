"""kafka-python as a scripted client: see `common`."""

import threading
import time

from common import PARTITIONS, Digest, emit, emit_reads, on_command, records, settings
from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def shown(offsets):
    """Offsets for an event."""
    return {str(tp.partition): offset.offset for tp, offset in offsets.items()}


class Group(AsyncConsumerRebalanceListener):
    """A consumer in a group that commits what it has read. The listener runs in the client's I/O thread."""

    def __init__(self, options):
        self.topic = options["topic"]
        self.commit_every_s = options["commit_every_ms"] / 1000
        self.position = {}
        self.consumer = KafkaConsumer(
            bootstrap_servers=options["bootstrap"],
            client_id=options["client_id"],
            group_id=options["group"],
            group_instance_id=options.get("instance_id"),
            partition_assignment_strategy=[ASSIGNORS[options["assignor"]]],
            session_timeout_ms=options["session_timeout_ms"],
            heartbeat_interval_ms=options["session_timeout_ms"] // 6,
            max_poll_interval_ms=options["rebalance_timeout_ms"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=1000,
            fetch_max_wait_ms=100,
            reconnect_backoff_max_ms=1000,
        )

    async def on_partitions_revoked(self, revoked):
        offsets = self.take()
        if offsets:
            emit("committing", offsets=shown(offsets))
            try:
                await self.consumer.commit_async(offsets)
            except KafkaError as error:
                emit("commit_failed", offsets=shown(offsets), error=type(error).__name__)
            else:
                emit("committed", offsets=shown(offsets))
        emit("revoked", partitions=sorted(tp.partition for tp in revoked))

    async def on_partitions_lost(self, lost):
        self.take()
        emit("revoked", partitions=sorted(tp.partition for tp in lost), lost=True)

    async def on_partitions_assigned(self, assigned):
        group = self.consumer.group_metadata()
        emit(
            "assigned",
            partitions=sorted(tp.partition for tp in assigned),
            generation=group.generation_id,
            member_id=group.member_id,
        )

    def take(self):
        offsets, self.position = self.position, {}
        return {tp: OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()}

    def commit(self):
        offsets = self.take()
        if not offsets:
            return
        emit("committing", offsets=shown(offsets))
        try:
            self.consumer.commit(offsets)
        except KafkaError as error:
            emit("commit_failed", offsets=shown(offsets), error=type(error).__name__)
        else:
            emit("committed", offsets=shown(offsets))

    def run(self, leaving, stalls=()):
        self.consumer.subscribe([self.topic], listener=self)
        # Its partitions are known before it joins: a leader of kafka-python 3.0.12 that learns of them afterwards joins
        # again, and where that takes longer than one short poll, forgets the answer and sends no heartbeat any more.
        while self.topic not in self.consumer._coordinator._metadata_snapshot:
            time.sleep(0.01)
        commit_at = time.monotonic() + self.commit_every_s
        while not leaving.is_set():
            if stalls:
                time.sleep(stalls.pop())
            try:
                batches = self.consumer.poll(timeout_ms=50)
            except KafkaError as error:
                if error.retriable:  # other clients try again by themselves
                    continue
                emit("fatal", error=type(error).__name__, message=repr(error), cause=repr(error.__cause__))
                break
            for tp, messages in batches.items():
                emit_reads([(tp.partition, [message.offset for message in messages])])
                self.position[tp] = messages[-1].offset + 1
            if time.monotonic() >= commit_at:
                self.commit()
                commit_at = time.monotonic() + self.commit_every_s
        self.commit()
        self.consumer.close()
        emit("left")


def produce(options):
    """Write the records to each topic, with the codec that belongs to it."""
    for topic, codec in options["topics"].items():
        producer = KafkaProducer(
            bootstrap_servers=options["bootstrap"],
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
        )
        sent = [
            producer.send(topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
            for partition, key, value, headers, timestamp_ms in records(options["count"])
        ]
        producer.flush(120)
        for future in sent:
            future.get(0)
        producer.close()
        emit("produced", topic=topic, count=options["count"])


def read(options):
    """Read each topic from the start, as many records as there should be, and print digests."""
    for topic in options["topics"]:
        consumer = KafkaConsumer(
            bootstrap_servers=options["bootstrap"], enable_auto_commit=False, auto_offset_reset="earliest"
        )
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        digests = [Digest() for _ in range(PARTITIONS)]
        left = options["count"]
        while left > 0:
            for tp, messages in consumer.poll(timeout_ms=1000, max_records=5000).items():
                left -= len(messages)
                for message in messages:
                    digests[tp.partition].add(message.key, message.value, message.headers, message.timestamp)
        consumer.close()
        emit("digest", topic=topic, partitions={n: [d.count, d.value()] for n, d in enumerate(digests)})


def main():
    options = settings()
    if options["mode"] == "group":
        leaving = threading.Event()
        stalls = []
        on_command(lambda word: stalls.append(options["stall_ms"] / 1000) if word == "stall" else leaving.set())
        Group(options).run(leaving, stalls)
    else:
        {"produce": produce, "read": read}[options["mode"]](options)


main()
