"""`kohort transactions list`, `describe`, `describe-producers`. The columns are those of kafka-transactions.sh."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from cli.errors import UsageError
from cli.options import print_json
from cli.tables import print_table
from cli.transactions.asking import Asking
from protocol.messages.list_transactions import ListTransactionsRequest

if TYPE_CHECKING:
    import argparse


def list_transactions(options: argparse.Namespace) -> int:
    """Raises: Failed."""
    request = ListTransactionsRequest(
        duration_filter=options.running_longer_than_ms, transactional_id_pattern=options.transactional_id_pattern
    )
    rows = [
        {
            "TransactionalId": one.transactional_id,
            "Coordinator": broker,
            "ProducerId": one.producer_id,
            "TransactionState": one.transaction_state,
        }
        for broker, one in sorted(Asking(options).listed(request), key=lambda row: row[1].transactional_id)
    ]
    return show(options, rows, ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"])


def describe(options: argparse.Namespace) -> int:
    """Raises: Failed, UsageError."""
    ids = {id_ for id_ in (options.id, options.transactional_id) if id_}
    if len(ids) != 1:
        raise UsageError("name one transactional ID")
    coordinator, one = Asking(options).described(*ids)
    begun = one.transaction_start_time_ms
    row = {
        "CoordinatorId": coordinator,
        "TransactionalId": one.transactional_id,
        "ProducerId": one.producer_id,
        "ProducerEpoch": one.producer_epoch,
        "TransactionState": one.transaction_state,
        "TransactionTimeoutMs": one.transaction_timeout_ms,
        "CurrentTransactionStartTimeMs": None if begun < 0 else begun,
        "TransactionDurationMs": None if begun < 0 else int(time.time() * 1000) - begun,
        "TopicPartitions": ",".join(
            f"{topic.topic}-{partition}" for topic in one.topics for partition in sorted(topic.partitions)
        ),
    }
    return show(options, [row], list(row))


def describe_producers(options: argparse.Namespace) -> int:
    """Raises: Failed."""
    columns = [
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    ]
    rows = []
    for one in Asking(options).producers(options.topic, options.partition):
        open_from = one.current_txn_start_offset
        values = [
            one.producer_id,
            one.producer_epoch,
            one.coordinator_epoch,
            one.last_sequence,
            one.last_timestamp,
            None if open_from < 0 else open_from,
        ]
        rows.append(dict(zip(columns, values, strict=True)))
    return show(options, rows, columns)


def show(options: argparse.Namespace, rows: list[dict[str, Any]], columns: list[str]) -> int:
    """A table, or JSON."""
    if options.json:
        print_json(rows)
    else:
        print_table(columns, [[row[name] for name in columns] for row in rows])
    return 0
