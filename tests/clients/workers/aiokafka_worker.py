"""aiokafka as a scripted client: see `common`."""

import asyncio
import contextlib

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaConnectionError, KafkaError
from common import PARTITIONS, Digest, emit, emit_reads, on_command, records, settings

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Group(ConsumerRebalanceListener):
    """A consumer in a group that commits what it has read."""

    def __init__(self, options):
        self.topic = options["topic"]
        self.commit_every_s = options["commit_every_ms"] / 1000
        self.position = {}
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=options["bootstrap"],
            client_id=options["client_id"],
            group_id=options["group"],
            group_instance_id=options.get("instance_id"),
            partition_assignment_strategy=(ASSIGNORS[options["assignor"]],),
            session_timeout_ms=options["session_timeout_ms"],
            heartbeat_interval_ms=options["session_timeout_ms"] // 6,
            rebalance_timeout_ms=options["rebalance_timeout_ms"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=1000,
            fetch_max_wait_ms=100,
            **({"max_poll_interval_ms": options["rebalance_timeout_ms"]} if "stall_ms" in options else {}),
        )

    async def on_partitions_revoked(self, revoked):
        await self.commit()
        self.position.clear()
        emit("revoked", partitions=sorted(tp.partition for tp in revoked))

    async def on_partitions_assigned(self, assigned):
        coordinator = self.consumer._coordinator  # it has no public accessor
        emit(
            "assigned",
            partitions=sorted(tp.partition for tp in assigned),
            generation=coordinator.generation,
            member_id=coordinator.member_id,
        )

    async def commit(self):
        if not self.position:
            return
        offsets, self.position = self.position, {}
        shown = {str(tp.partition): offset for tp, offset in offsets.items()}
        emit("committing", offsets=shown)
        try:
            await self.consumer.commit(offsets)
        except KafkaError as error:
            emit("commit_failed", offsets=shown, error=type(error).__name__)
        else:
            emit("committed", offsets=shown)

    async def run(self, leaving, stalls=()):
        self.consumer.subscribe([self.topic], listener=self)
        # It asks each bootstrap server once; ours may be restarting just now.
        while not leaving.is_set():
            with contextlib.suppress(KafkaConnectionError):
                await self.consumer.start()
                break
            await asyncio.sleep(0.1)
        loop = asyncio.get_running_loop()
        commit_at = loop.time() + self.commit_every_s
        while not leaving.is_set():
            if stalls:
                await asyncio.sleep(stalls.pop())
            try:
                batches = await self.consumer.getmany(timeout_ms=50)
            except KafkaError as error:
                emit("fatal", error=type(error).__name__)
                break
            for tp, messages in batches.items():
                emit_reads([(tp.partition, [message.offset for message in messages])])
                self.position[tp] = messages[-1].offset + 1
            if loop.time() >= commit_at:
                await self.commit()
                commit_at = loop.time() + self.commit_every_s
        await self.commit()
        with contextlib.suppress(asyncio.CancelledError):  # aiokafka's own, where the broker is away just now
            await self.consumer.stop()
        emit("left")


async def produce(options):
    """Write the records to each topic, with the codec that belongs to it."""
    for topic, codec in options["topics"].items():
        producer = AIOKafkaProducer(
            bootstrap_servers=options["bootstrap"],
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
            linger_ms=5,
        )
        await producer.start()
        sent = []
        for partition, key, value, headers, timestamp_ms in records(options["count"]):
            sent.append(
                await producer.send(
                    topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
                )
            )
            if len(sent) >= 5000:
                await asyncio.gather(*sent)
                sent.clear()
        await asyncio.gather(*sent)
        await producer.stop()
        emit("produced", topic=topic, count=options["count"])


async def read(options):
    """Read each topic from the start, as many records as there should be, and print digests."""
    for topic in options["topics"]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=options["bootstrap"], enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await consumer.start()
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        digests = [Digest() for _ in range(PARTITIONS)]
        left = options["count"]
        while left > 0:
            for tp, messages in (await consumer.getmany(timeout_ms=1000)).items():
                left -= len(messages)
                for message in messages:
                    digests[tp.partition].add(message.key, message.value, message.headers, message.timestamp)
        await consumer.stop()
        emit("digest", topic=topic, partitions={n: [d.count, d.value()] for n, d in enumerate(digests)})


async def main():
    options = settings()
    if options["mode"] == "group":
        leaving = asyncio.Event()
        loop = asyncio.get_running_loop()
        stalls = []
        on_command(
            lambda word: (
                stalls.append(options["stall_ms"] / 1000) if word == "stall" else loop.call_soon_threadsafe(leaving.set)
            )
        )
        await Group(options).run(leaving, stalls)
    else:
        await {"produce": produce, "read": read}[options["mode"]](options)


asyncio.run(main())
