"""Send a record every tenth of a second to `orders`, four partitions."""

import asyncio
import itertools
import os

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")


async def main() -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    try:
        await admin.create_topics([NewTopic("orders", num_partitions=4, replication_factor=1)])
    except TopicAlreadyExistsError:
        pass
    finally:
        await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, acks="all")
    await producer.start()
    try:
        for number in itertools.count():
            sent = await producer.send_and_wait("orders", b"order %d" % number, key=b"%d" % number)
            if number % 50 == 0:
                print(f"order {number} is in partition {sent.partition} at offset {sent.offset}", flush=True)
            await asyncio.sleep(0.1)
    finally:
        await producer.stop()


asyncio.run(main())
