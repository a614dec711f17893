"""One member of the group `billing`: says what it owns, and reads it."""

import asyncio
import os
import signal
import socket

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")


class Say(ConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked: set) -> None:
        print(f"gave up {sorted(tp.partition for tp in revoked)}", flush=True)

    async def on_partitions_assigned(self, assigned: set) -> None:
        print(f"owns {sorted(tp.partition for tp in assigned)}", flush=True)


async def main() -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=BOOTSTRAP,
        group_id="billing",
        client_id=f"consumer-{socket.gethostname()[:6]}",  # so that `kohort why` has a name for it
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
    )
    consumer.subscribe(["orders"], listener=Say())
    await consumer.start()
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, done.set)

    async def read() -> None:
        async for record in consumer:
            if record.offset % 20 == 0:
                print(f"read partition {record.partition} offset {record.offset}: {record.value.decode()}", flush=True)

    reading = asyncio.create_task(read())
    await done.wait()
    reading.cancel()
    await consumer.stop()


asyncio.run(main())
