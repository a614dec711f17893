"""The requests of `kohort transactions`, which the client library cannot send, each to the broker that it concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.cluster import Cluster, said
from cli.errors import Failed
from cli.wire import text_of, told
from protocol.errors import ErrorCode
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
    ProducerState,
)
from protocol.messages.describe_transactions import DescribedTransaction, DescribeTransactionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_transactions import ListedTransaction, ListTransactionsRequest

if TYPE_CHECKING:
    import argparse

    from protocol.schema import Message

_TRANSACTION = 1
_PATTERN_SINCE, _DURATION_SINCE = 2, 1


class Asking:
    """A cluster, asked over connections of our own. Raises: Failed for whatever goes wrong."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.cluster = Cluster(options)

    def ask(self, address: str, request: Message, version: int) -> Any:
        """The answer of one broker."""
        with self.cluster.wire(address) as wire:
            return wire.ask(request, version)

    def listed(self, request: ListTransactionsRequest) -> list[tuple[int, ListedTransaction]]:
        """What every broker coordinates, with the broker's id."""
        version = _PATTERN_SINCE if request.transactional_id_pattern else 0
        if request.duration_filter >= 0:
            version = max(version, _DURATION_SINCE)
        found = []
        for id_, address in sorted(self.cluster.brokers.items()):
            answer = self.ask(address, request, version)
            if answer.error_code:
                raise Failed(f"{address}: {text_of(answer.error_code)}")
            found += [(id_, one) for one in answer.transaction_states]
        return found

    def described(self, transactional_id: str) -> tuple[int, DescribedTransaction]:
        """The id's state, with the broker that coordinates it. Where no id ever was, nobody is asked for it: that would
        make `__transaction_state`."""
        if not self.cluster.ever_had_transactions:
            raise Failed(f"transactional id {transactional_id!r}: {text_of(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)}")
        found = self.cluster.ask(FindCoordinatorRequest(key_type=_TRANSACTION, key=transactional_id), 1)
        if found.error_code:
            raise Failed(f"the coordinator of {transactional_id!r}: {text_of(found.error_code)}")
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (one,) = self.ask(f"{found.host}:{found.port}", request, 0).transaction_states
        if one.error_code:
            raise Failed(f"transactional id {transactional_id!r}: {text_of(one.error_code)}")
        return found.node_id, one

    def leader(self, topic: str, partition: int) -> str:
        """The address of the partition's leader."""
        found, errors = self.cluster.describe_topics([topic])
        if errors:
            raise Failed(f"topic {topic}: {said(errors[topic])}")
        for one in found[topic].partitions:
            if one.id == partition:
                if one.leader is None:
                    raise Failed(f"{topic}-{partition} has no leader")
                return f"{one.leader.host}:{one.leader.port}"
        raise Failed(f"topic {topic} has no partition {partition}")

    def producers(self, topic: str, partition: int) -> list[ProducerState]:
        """Who writes to the partition."""
        wanted = DescribeProducersTopicRequest(name=topic, partition_indexes=[partition])
        answer = self.ask(self.leader(topic, partition), DescribeProducersRequest(topics=[wanted]), 0)
        one = answer.topics[0].partitions[0]
        if one.error_code:
            raise Failed(f"{topic}-{partition}: {told(one)}")
        found: list[ProducerState] = one.active_producers
        return found
