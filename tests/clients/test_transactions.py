"""Transactions of unmodified clients: commit, abort, fencing, timeout, a crash in the middle, offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.clients import harness
from tests.clients.transactional import LIBRARIES, Fenced, Java, committed_offset, committed_values
from tests.support.broker_process import BrokerProcess, eventually
from tests.support.wire import Wire

Make = Callable[..., Any]


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def make(
    request: pytest.FixtureRequest, broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Make]:
    """A maker of producers; all are let go of in the end."""
    made: list[Any] = []
    base = tmp_path_factory.getbasetemp()
    Java.classes = base.parent if "popen" in base.name else base  # all test processes of a run share it

    def one(tid: str, **more: Any) -> Any:
        producer = request.param(broker.address, tid, **more)
        made.append(producer)
        return producer

    yield one
    for producer in made:
        producer.close()


def test_all_of_a_transaction_is_read_or_nothing(make: Make, broker: BrokerProcess, name: str):
    """TX72: commit, abort, and one more commit, over two partitions."""
    harness.create_topic(broker.address, name, 2)
    producer = make(name)
    for round_number, ends in enumerate([producer.commit, producer.abort, producer.commit]):
        producer.begin()
        producer.send(name, b"%d-a" % round_number, 0)
        producer.send(name, b"%d-b" % round_number, 1)
        ends()

    assert eventually(lambda: committed_values(broker.address, name, 9) == [b"0-a", b"2-a"])
    assert committed_values(broker.address, name, 9, partition=1) == [b"0-b", b"2-b"]


def test_nothing_is_read_before_the_end(make: Make, broker: BrokerProcess, name: str):
    """TX57."""
    harness.create_topic(broker.address, name, 1)
    producer = make(name)
    producer.begin()
    producer.send(name, b"a")

    assert committed_values(broker.address, name, 9) == []

    producer.commit()
    assert eventually(lambda: committed_values(broker.address, name, 9) == [b"a"])


def test_a_second_instance_shuts_the_first_out(make: Make, broker: BrokerProcess, name: str):
    """TX22, TX23: the first one's transaction is aborted, and it can do nothing more."""
    harness.create_topic(broker.address, name, 1)
    zombie = make(name)
    zombie.begin()
    zombie.send(name, b"zombie")

    second = make(name)
    second.begin()
    second.send(name, b"second")
    second.commit()

    with pytest.raises(Fenced):
        zombie.commit()
    assert eventually(lambda: committed_values(broker.address, name, 9) == [b"second"])


def test_a_process_that_dies_holds_nobody_up_for_longer_than_its_timeout(make: Make, broker: BrokerProcess, name: str):
    """TX36, TX73: aborted, and what comes after it is read."""
    harness.create_topic(broker.address, name, 1)
    producer = make(name, timeout_ms=1_500)
    producer.begin()
    producer.send(name, b"lost")
    other = make(name + "-other")
    other.begin()
    other.send(name, b"kept")
    other.commit()

    assert eventually(lambda: committed_values(broker.address, name, 9) == [b"kept"], deadline_s=30)


def test_offsets_count_with_the_transaction(make: Make, broker: BrokerProcess, name: str):
    """TX71, TX72, TX76: committed with it, dropped with it."""
    harness.create_topic(broker.address, name, 1)
    producer = make(name)
    for offset, ends in [(7, producer.commit), (9, producer.abort)]:
        producer.begin()
        producer.send(name, b"x")
        producer.send_offset(name, name, offset)
        ends()

        assert eventually(lambda: committed_offset(broker.address, name, name) == 7)


def test_java_and_franz_go_get_a_new_epoch_with_each_end_and_the_others_keep_theirs(
    make: Make, broker: BrokerProcess, name: str
):
    """TX43: KIP-890, transaction version 2, for who asks for it."""
    harness.create_topic(broker.address, name, 1)
    producer = make(name)

    def epoch_after_a_commit() -> int:
        producer.begin()
        producer.send(name, b"x")
        producer.commit()
        with Wire(broker.address) as wire:
            (found,) = wire.call(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states
        return found.producer_epoch

    first = epoch_after_a_commit()
    assert epoch_after_a_commit() - first == (producer.name in ("java", "franz"))
