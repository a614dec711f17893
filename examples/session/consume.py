"""Read as a member of a group: consume.py TOPIC GROUP NAME [BROKER]. Says what it is given, reads and commits."""

import asyncio
import contextlib
import logging
import sys

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError


class Says(ConsumerRebalanceListener):
    """Prints what a rebalance takes and gives."""

    def __init__(self, name: str) -> None:
        self.name = name

    def on_partitions_revoked(self, revoked: set) -> None:
        """Before a rebalance."""

    def on_partitions_assigned(self, assigned: set) -> None:
        """After one."""
        print(f"{self.name}: has partitions {sorted(tp.partition for tp in assigned)}", flush=True)


async def main(topic: str, group: str, name: str, broker: str = "127.0.0.1:9092") -> None:
    """Read until interrupted; commit after every batch, and try again when the broker is away."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker,
        client_id=name,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        metadata_max_age_ms=2000,  # a topic that is created later is noticed after so long
    )
    consumer.subscribe([topic], listener=Says(name))
    await consumer.start()
    count = 0
    try:
        while True:
            batches = await consumer.getmany(timeout_ms=500)
            if batches:
                count += sum(map(len, batches.values()))
                await commit(consumer, name)
                print(f"{name}: {count} records read and committed", flush=True)
    finally:
        await consumer.stop()
        print(f"{name}: left", flush=True)


async def commit(consumer: AIOKafkaConsumer, name: str) -> None:
    """Commit what was read; while the broker is away, say so and try again."""
    while True:
        try:
            return await consumer.commit()
        except KafkaError as error:
            print(f"{name}: commit not acknowledged ({type(error).__name__}), again", flush=True)
            await asyncio.sleep(1)


if __name__ == "__main__":
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it complains ten times a second while a broker is away
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
