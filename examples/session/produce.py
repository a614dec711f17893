"""Write numbered records: produce.py TOPIC COUNT [BROKER]. The topic is created when it is not there."""

import asyncio
import sys

from aiokafka import AIOKafkaProducer


async def main(topic: str, count: str, broker: str = "127.0.0.1:9092") -> None:
    """Write `count` records and wait until every one is acknowledged."""
    async with AIOKafkaProducer(bootstrap_servers=broker, enable_idempotence=True) as producer:
        sent = [await producer.send(topic, key=b"%d" % n, value=b"order %d" % n) for n in range(int(count))]
        await asyncio.gather(*sent)
        print(f"{count} records acknowledged")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
