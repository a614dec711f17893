import pytest
from labels import labelling

pytestmark = pytest.mark.asyncio


async def test_every_order_has_a_label(kohort):
    kohort.create_topic("orders")
    kohort.produce("orders", "a book", "a lamp")
    async with labelling(**kohort.config("faststream")) as service:
        await service.start()
        await kohort.aassert_produced("labels", "a book, with care", "a lamp, with care", within=20)
        await kohort.group("labels").await_committed("orders", 2, within=20)


async def test_labels_are_written_while_their_group_rebalances(kohort):
    kohort.create_topic("orders")
    async with labelling(**kohort.config("faststream")) as service:
        await service.start()
        group = kohort.group("labels")
        await group.await_stable(members=1, within=20)
        group.rebalance()
        kohort.produce("orders", "a book")
        await kohort.aassert_produced("labels", "a book, with care", within=20)
