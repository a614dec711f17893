"""Requests that come while markers may be on their way: CONCURRENT_TRANSACTIONS some times, then the answer.

Kafka promises no time for its markers, so how often is not compared; that nothing else comes before is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.registry import APIS
from tests.reference.judge.catalog import scenario
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_data import records, topic
from tests.reference.judge.scenarios_transactions import (
    TIMEOUT_MS,
    Pair,
    add,
    described,
    end,
    fresh,
    read,
    settled,
    write,
)
from tests.support.broker_process import eventually

CONCURRENT = 51
MANY = 20  # partitions: their markers take a while


def error_code(answer: Any) -> int:
    return int(answer.error_code)


def at_last(s: Script, request: Any, version: int, code: Callable[[Any], int] = error_code) -> Any:
    """The first answer that is not CONCURRENT_TRANSACTIONS, as a note."""

    def answered() -> Any:
        answer = s.observer().call(request, version)
        return None if code(answer) == CONCURRENT else answer

    answer = eventually(answered, what="an answer other than CONCURRENT_TRANSACTIONS")
    s.note(APIS[request.API_KEY].name, s.names.plain(answer, version))
    return answer


def ending(who: tuple[str, Pair], *, commit: bool) -> EndTxnRequest:
    tid, (pid, epoch) = who
    return EndTxnRequest(transactional_id=tid, producer_id=pid, producer_epoch=epoch, committed=commit)


def filled(s: Script, t: str, who: tuple[str, Pair], sequence: int = 0) -> None:
    """A transaction in all partitions, with data in one."""
    add(s, 3, *who, (t, list(range(MANY))))
    write(s, 9, *who, t, sequence, b"%d" % sequence)


@scenario("TX30-TX44-Patience-ends")
def ends_again(s: Script) -> None:
    """The same end again at once, and the other one."""
    t = topic(s, partitions=MANY)
    for v in (3, 5):
        who = fresh(s, f"v{v}")
        for sequence, other in enumerate((False, True)):
            filled(s, t, who, sequence if v < 5 else 0)
            pair = end(s, v, *who, commit=True)
            at_last(s, ending(who, commit=not other), v)
            at_last(s, ending(who, commit=other), v)
            who = who[0], pair
        settled(s, who[0])
    read(s, t)


@scenario("TX31-Patience-next")
def next_one(s: Script) -> None:
    """The next transaction is begun at once, and its sequence goes on."""
    t = topic(s, partitions=MANY)
    tid, (pid, epoch) = who = fresh(s)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=tid,
        v3_and_below_producer_id=pid,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=t, partitions=[0])],
    )
    filled(s, t, who)
    for sequence in (1, 2):
        end(s, 3, *who, commit=True)
        at_last(s, request, 3, _added)
        write(s, 9, *who, t, sequence, b"%d" % sequence)
    described(s, tid)
    end(s, 3, *who, commit=False)
    settled(s, tid)
    read(s, t)


def _added(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


@scenario("TX32-Patience-pipelined")
def pipelined(s: Script) -> None:
    """Two ends and a new producer behind one another: the first end is right, and the others or CONCURRENT."""
    t = topic(s, partitions=MANY)
    tid, pair = who = fresh(s)
    filled(s, t, who)
    wire = s.observer()
    new = InitProducerIdRequest(
        transactional_id=tid, transaction_timeout_ms=TIMEOUT_MS, producer_id=pair[0], producer_epoch=pair[1]
    )
    for request, version in ((ending(who, commit=True), 3), (ending(who, commit=True), 3), (new, 4)):
        wire.send(request, version)
    codes = [wire.receive().error_code for _ in range(3)]
    s.note("pipelined", (codes[0], all(code in (0, CONCURRENT) for code in codes[1:])))
    at_last(s, new, 4)
    settled(s, tid)
    read(s, t)


@scenario("TX48-Patience-produce")
def produced_at_once(s: Script) -> None:
    """A batch of the next transaction, right behind the end of the one before: it waits, or is to come again."""
    t = topic(s, partitions=MANY)
    tid, pair = fresh(s)
    filled(s, t, (tid, pair))
    for commit in (True, False, True):
        pair = end(s, 5, tid, pair, commit=commit)
        data = records(b"x", producer_id=pair[0], producer_epoch=pair[1], base_sequence=0, transactional=True)
        request = ProduceRequest(
            transactional_id=tid,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name=t, partition_data=[PartitionProduceData(index=0, records=data)])],
        )
        at_last(s, request, 12, lambda answer: answer.responses[0].partition_responses[0].error_code)
    described(s, tid)
    end(s, 5, tid, pair, commit=True)
    settled(s, tid)
    read(s, t)
