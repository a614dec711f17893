"""Ships what is ordered: reads `orders`, writes `shipments`, commits what it has shipped."""

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def ship(bootstrap_servers: str) -> None:
    """Work until it is cancelled."""
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="shipping",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=50,
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, enable_idempotence=True, retry_backoff_ms=50)
    async with consumer, producer:
        async for order in consumer:
            await producer.send_and_wait("shipments", b"shipped " + (order.value or b""), key=order.key)
            await consumer.commit()
