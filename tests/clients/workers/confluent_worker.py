"""confluent-kafka (librdkafka) as a scripted client: see `common`."""

import logging
import re
import threading
import time

from common import PARTITIONS, Digest, emit, emit_reads, on_command, records, settings
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

TOLD = re.compile(
    r"JoinGroup response: GenerationId (\d+)"
    r"|ConsumerGroupHeartbeat response received for member id .* with epoch (\d+)"
)


class Generation(logging.Handler):
    """The generation, or the member epoch of KIP-848, which librdkafka tells only in its log."""

    def __init__(self):
        super().__init__()
        self.number = None

    def emit(self, record):
        found = TOLD.search(record.getMessage())
        if found:
            self.number = int(found[1] or found[2])


class Group:
    """A consumer in a group that commits what it has read."""

    def __init__(self, options):
        self.topic = options["topic"]
        self.subscription = f"^{self.topic}$" if options.get("regex") else self.topic
        self.commit_every_s = options["commit_every_ms"] / 1000
        self.position = {}
        self.generation = Generation()
        logger = logging.getLogger("librdkafka")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self.generation)
        logger.propagate = False
        config = {
            "bootstrap.servers": options["bootstrap"],
            "client.id": options["client_id"],
            "group.id": options["group"],
            "partition.assignment.strategy": options["assignor"],
            "session.timeout.ms": options["session_timeout_ms"],
            "heartbeat.interval.ms": options["session_timeout_ms"] // 6,
            "max.poll.interval.ms": options["rebalance_timeout_ms"],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.max.ms": 1000,
            "debug": "cgrp,consumer",
        }
        if options.get("instance_id"):
            config["group.instance.id"] = options["instance_id"]
        if options["assignor"] == "consumer":
            # The new protocol: the broker says the rest.
            config["group.protocol"] = "consumer"
            for name in ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"):
                del config[name]
        self.cooperative = options["assignor"] in ("cooperative-sticky", "consumer")
        self.consumer = Consumer(config, logger=logger)

    def assigned(self, consumer, partitions):
        emit(
            "assigned",
            partitions=sorted(tp.partition for tp in partitions),
            generation=self.generation.number,
            member_id=consumer.memberid(),
        )

    def revoked(self, consumer, partitions):
        self.commit()
        for tp in partitions:
            self.position.pop(tp.partition, None)
        emit("revoked", partitions=sorted(tp.partition for tp in partitions))

    def lost(self, consumer, partitions):
        for tp in partitions:
            self.position.pop(tp.partition, None)
        emit("revoked", partitions=sorted(tp.partition for tp in partitions), lost=True)

    def commit(self):
        if not self.position:
            return
        offsets, self.position = self.position, {}
        emit("committing", offsets=offsets)
        try:
            answer = self.consumer.commit(
                offsets=[TopicPartition(self.topic, partition, offset) for partition, offset in offsets.items()],
                asynchronous=False,
            )
            errors = {tp.error.name() for tp in answer if tp.error}
        except KafkaException as error:
            errors = {error.args[0].name()}
        if errors:
            emit("commit_failed", offsets=offsets, error=" ".join(sorted(errors)))
            # Refused while the group rebalances: what is still owned is committed next time, else it never would be.
            self.position = {**offsets, **self.position}
        else:
            emit("committed", offsets=offsets)

    def run(self, leaving, stalls=()):
        self.consumer.subscribe([self.subscription], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost)
        commit_at = time.monotonic() + self.commit_every_s
        while not leaving.is_set():
            if stalls:
                emit("stalls")
                time.sleep(stalls.pop())
            batches = {}
            for message in self.consumer.consume(500, timeout=0.05):
                if message.error() is None:
                    batches.setdefault(message.partition(), []).append(message.offset())
                elif message.error().fatal():
                    emit("fatal", error=message.error().name())
                    leaving.set()
            emit_reads(batches.items())
            for partition, offsets in batches.items():
                self.position[partition] = offsets[-1] + 1
            if time.monotonic() >= commit_at:
                self.commit()
                commit_at = time.monotonic() + self.commit_every_s
        self.commit()
        self.consumer.close()
        emit("left")


def produce(options):
    """Write the records to each topic, with the codec that belongs to it."""
    failed = []

    def delivered(error, message):
        if error is not None:
            failed.append(error)

    for topic, codec in options["topics"].items():
        producer = Producer(
            {
                "bootstrap.servers": options["bootstrap"],
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 5,
            }
        )
        for partition, key, value, headers, timestamp_ms in records(options["count"]):
            while True:
                try:
                    producer.produce(
                        topic, value, key, partition, on_delivery=delivered, timestamp=timestamp_ms, headers=headers
                    )
                    break
                except BufferError:  # its queue is full: let it send
                    producer.poll(0.05)
            producer.poll(0)
        producer.flush(120)
        if failed:
            emit("fatal", error=str(failed[0]))
            return
        emit("produced", topic=topic, count=options["count"])


def read(options):
    """Read each topic from the start, as many records as there should be, and print digests."""
    for topic in options["topics"]:
        consumer = Consumer(
            {"bootstrap.servers": options["bootstrap"], "group.id": "reader", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        digests = [Digest() for _ in range(PARTITIONS)]
        left = options["count"]
        while left > 0:
            for message in consumer.consume(min(left, 5000), timeout=1):
                if message.error() is not None:
                    raise KafkaException(message.error())
                left -= 1
                digests[message.partition()].add(
                    message.key(), message.value(), message.headers() or [], message.timestamp()[1]
                )
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
