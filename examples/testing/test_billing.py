import pytest
from billing import Billing


@pytest.fixture
def till(kohort):
    kohort.create_topic("orders")
    till = Billing(kohort.bootstrap_servers, "till-1")
    yield till
    till.close()


def bill(till, count):
    while count:
        count -= till.work()


def test_an_order_is_billed(kohort, till):
    kohort.produce("orders", "a book")
    bill(till, 1)
    kohort.assert_produced("invoices", "for a book", committed=True)
    assert kohort.group("billing").committed() == {("orders", 0): 1}


def test_a_transaction_that_fails_is_billed_again_and_counts_once(kohort, till):
    kohort.faults.on("TxnOffsetCommit", group="billing").error("UNKNOWN_MEMBER_ID")
    kohort.produce("orders", "a book")
    bill(till, 1)
    kohort.assert_produced("invoices", "for a book", committed=True)


def test_a_till_that_hangs_loses_its_transaction_and_its_partitions(kohort, till):
    kohort.produce("orders", "a book")
    order = till.consumer.poll(10)
    till.producer.begin_transaction()
    till.producer.produce("invoices", b"for " + order.value())
    till.producer.flush()

    kohort.clock.shift("2 min")

    kohort.assert_produced("invoices", committed=True)
    other = Billing(kohort.bootstrap_servers, "till-2")
    bill(other, 1)
    kohort.assert_produced("invoices", "for a book", committed=True)
    other.close()
