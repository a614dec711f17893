"""`kohort transactions find-hanging` and `abort`: what holds readers up, and no coordinator will ever end.

Source: KIP-664; Kafka's TransactionsCommand.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from cli.errors import Failed, UsageError
from cli.transactions.asking import Asking
from cli.transactions.showing import show
from cli.wire import text_of
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    import argparse

_GRACE_MS = 5 * 60_000
_HOLDS_IT = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
_MARKERS_VERSION = 1


def find(options: argparse.Namespace) -> int:
    """Every transaction that is open for too long, unless its coordinator says that it is in it. Raises: Failed."""
    if options.partition is not None and options.topic is None:
        raise UsageError("--partition needs --topic")
    asking = Asking(options)
    counts = asking.cluster.partition_counts([options.topic]) if options.topic else asking.cluster.topics
    longest_ms = options.max_transaction_timeout * 60_000 + _GRACE_MS
    now_ms = int(time.time() * 1000)
    rows: list[dict[str, Any]] = []
    for topic, count in sorted(counts.items()):
        for partition in range(count) if options.partition is None else [options.partition]:
            for one in asking.producers(topic, partition):
                if one.current_txn_start_offset < 0 or now_ms - one.last_timestamp <= longest_ms:
                    continue
                if _is_known(asking, one.producer_id, topic, partition):
                    continue
                rows.append(
                    {
                        "Topic": topic,
                        "Partition": partition,
                        "ProducerId": one.producer_id,
                        "ProducerEpoch": one.producer_epoch,
                        "CoordinatorEpoch": one.coordinator_epoch,
                        "StartOffset": one.current_txn_start_offset,
                        "LastTimestamp": one.last_timestamp,
                        "Duration(min)": (now_ms - one.last_timestamp) // 60_000,
                    }
                )
    columns = ["Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset"]
    return show(options, rows, [*columns, "LastTimestamp", "Duration(min)"])


def _is_known(asking: Asking, producer_id: int, topic: str, partition: int) -> bool:
    for _, listed in asking.listed(ListTransactionsRequest(producer_id_filters=[producer_id])):
        _, one = asking.described(listed.transactional_id)
        inside = any(data.topic == topic and partition in data.partitions for data in one.topics)
        if one.producer_id == producer_id and one.transaction_state in _HOLDS_IT and inside:
            return True
    return False


def abort(options: argparse.Namespace) -> int:
    """Write an abort marker in the name of whoever has it open. Raises: Failed."""
    asking = Asking(options)
    topic, partition, offset = options.topic, options.partition, options.start_offset
    for one in asking.producers(topic, partition):
        if one.current_txn_start_offset == offset:
            break
    else:
        raise Failed(f"no transaction is open in {topic}-{partition} that begins at offset {offset}")
    marker = WritableTxnMarker(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=max(one.coordinator_epoch, 0),
    )
    answer = asking.ask(asking.leader(topic, partition), WriteTxnMarkersRequest(markers=[marker]), _MARKERS_VERSION)
    code = answer.markers[0].topics[0].partitions[0].error_code
    if code:
        raise Failed(f"{topic}-{partition}: {text_of(code)}")
    return 0
