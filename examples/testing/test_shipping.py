import asyncio
from contextlib import asynccontextmanager

import pytest
from shipping import ship

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def shipping(broker):
    service = asyncio.create_task(ship(broker.bootstrap_servers))
    try:
        yield
    finally:
        service.cancel()
        await asyncio.wait([service])


async def test_every_order_is_shipped(kohort):
    kohort.create_topic("orders", partitions=3)
    kohort.produce("orders", "a book", "a lamp", key="ann")
    async with shipping(kohort):
        await kohort.aassert_produced("shipments", ("ann", "shipped a book"), ("ann", "shipped a lamp"), within=20)
        await kohort.group("shipping").await_stable(members=1)


async def test_a_shipment_whose_acknowledgement_is_lost_is_written_once(kohort):
    kohort.produce("orders", "a book")
    kohort.faults.on("Produce", topic="shipments").disconnect("during")
    async with shipping(kohort):
        await kohort.group("shipping").await_committed("orders", 1, within=20)
    kohort.assert_produced("shipments", "shipped a book")


async def test_orders_are_shipped_after_a_crash_of_the_broker(kohort):
    kohort.produce("orders", "a book")
    async with shipping(kohort):
        await kohort.group("shipping").await_committed("orders", 1, within=20)
        kohort.kill()
        kohort.start()
        kohort.produce("orders", "a lamp")
        await kohort.aassert_produced("shipments", "shipped a book", "shipped a lamp", within=30)
