"""A whole broker in virtual time, and what a transactional client asks of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.handlers.context import Deferred, RequestContext
from broker.handlers.dispatch import HANDLERS
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.describe_transactions import DescribedTransaction, DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import iterate_records, read_header
from tests.support.data_plane import batch
from tests.support.whole_broker import Whole

Pair = tuple[int, int]
TRANSACTION_KEYS = 1


class TransactionalWhole(Whole):
    """One life of a broker with topics, and clients that know what they were told."""

    def __init__(self, directory: Path, **settings: str) -> None:
        super().__init__(directory, **{"transaction__state__log__num__partitions": "3", **settings})

    def ask(self, request: Any, version: int) -> Any:
        """The answer, once there is nothing more to do; None while it waits for time to pass."""
        answer = self.send(request, version)
        for _ in range(20):
            if not isinstance(answer, Deferred):
                return answer
            if answer.done:
                return answer.response
            self.runtime.turn()
        return None

    def send(self, request: Any, version: int) -> Any:
        context = RequestContext(version=version, client_id="c")
        return HANDLERS[request.API_KEY](self.broker, context, request)

    def settle(self, turns: int = 20) -> None:
        for _ in range(turns):
            self.runtime.turn()

    def find(self, tid: str) -> ErrorCode:
        request = FindCoordinatorRequest(key_type=TRANSACTION_KEYS, key=tid)
        return ErrorCode(self.ask(request, 3).error_code)

    def init(self, tid: str, pair: Pair = (-1, -1), *, version: int = 5, timeout_ms: int = 60_000) -> Any:
        if self.find(tid):
            self.settle()
        return self.ask(
            InitProducerIdRequest(
                transactional_id=tid,
                transaction_timeout_ms=timeout_ms,
                producer_id=pair[0],
                producer_epoch=pair[1],
            ),
            version,
        )

    def pair(self, tid: str) -> Pair:
        """A new producer."""
        answer = self.init(tid)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def add(self, tid: str, pair: Pair, topic: str, *partitions: int, version: int = 3) -> list[ErrorCode]:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=tid,
                v3_and_below_producer_id=pair[0],
                v3_and_below_producer_epoch=pair[1],
                v3_and_below_topics=topics,
            )
            found = self.ask(request, version).results_by_topic_v3_and_below
        else:
            one = AddPartitionsToTxnTransaction(
                transactional_id=tid, producer_id=pair[0], producer_epoch=pair[1], topics=topics
            )
            response = self.ask(AddPartitionsToTxnRequest(transactions=[one]), version)
            found = response.results_by_transaction[0].topic_results
        return [ErrorCode(one.partition_error_code) for topic in found for one in topic.results_by_partition]

    def write(
        self, tid: str, pair: Pair, topic: str, value: bytes, *, sequence: int = 0, index: int = 0, version: int = 11
    ) -> ErrorCode:
        """One record in the producer's transaction."""
        request = self.produce_request(tid, pair, topic, value, sequence=sequence, index=index)
        return ErrorCode(self.ask(request, version).responses[0].partition_responses[0].error_code)

    def produce_request(
        self, tid: str, pair: Pair, topic: str, value: bytes, *, sequence: int = 0, index: int = 0
    ) -> ProduceRequest:
        data = batch(
            value,
            timestamp=self.runtime.now_ms(),
            producer_id=pair[0],
            producer_epoch=pair[1],
            base_sequence=sequence,
            transactional=True,
        )
        partition = PartitionProduceData(index=index, records=data)
        topics = [TopicProduceData(name=topic, partition_data=[partition])]
        return ProduceRequest(transactional_id=tid, acks=-1, timeout_ms=30_000, topic_data=topics)

    def end(self, tid: str, pair: Pair, *, commit: bool, version: int = 3, settle: bool = True) -> Any:
        request = EndTxnRequest(transactional_id=tid, producer_id=pair[0], producer_epoch=pair[1], committed=commit)
        answer = self.ask(request, version)
        if settle:
            self.settle()
        return answer

    def describe(self, tid: str) -> DescribedTransaction:
        response = self.ask(DescribeTransactionsRequest(transactional_ids=[tid]), 0)
        described: DescribedTransaction = response.transaction_states[0]
        return described

    def state(self, tid: str) -> str:
        described = self.describe(tid)
        return described.transaction_state or ErrorCode(described.error_code).name

    def committed_values(self, topic: str, index: int = 0) -> list[bytes | None]:
        """What a read_committed consumer gets from the whole of a partition."""
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)],
                )
            ],
        )
        answer = self.ask(request, 11).responses[0].partitions[0]
        assert answer.error_code == 0
        aborted = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions)
        data = b"".join(bytes(part) for part in answer.records or ())
        values: list[bytes | None] = []
        open_aborts: set[int] = set()
        position = 0
        while position < len(data):
            header = read_header(data, position)
            while aborted and aborted[0][0] <= header.base_offset:
                open_aborts.add(aborted.pop(0)[1])
            if header.is_control:
                open_aborts.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in open_aborts):
                values += [record.value for record in iterate_records(data, position)]
            position += header.length + 12
        return values
