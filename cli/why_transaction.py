"""`kohort why --transaction ID`: who ended its transactions, who was shut out, and what held readers back.

The past is known to the broker that saw it, which tells it over HTTP. Of any other Kafka only the present is known, by
DescribeTransactions.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cli.errors import DONE
from cli.options import print_json
from cli.tables import plain

if TYPE_CHECKING:
    import argparse

    from cli.cluster import Cluster


def explain(options: argparse.Namespace, since_ms: int | None, until_ms: int | None, now_ms: int) -> int:
    """Ask, and print. Raises: UsageError, Failed (the id is unknown, the cluster does not answer)."""
    from cli import why_reading  # noqa: PLC0415  the client library, once the words make sense
    from cli.cluster import Cluster  # noqa: PLC0415
    from coordinator.why import transactions as words  # noqa: PLC0415

    if options.http is not None:
        why_reading.http_place(options.http)
    cluster = Cluster(options)
    told = why_reading.over_http(cluster, options.http, "transactions", options.transaction)
    if told is None or told.get("cluster_id") != cluster.cluster_id:
        told = described(cluster, options)
        if options.http is not None:
            print(f"kohort: --http {options.http}: no broker of this cluster tells of the id there", file=sys.stderr)
    history = [
        one
        for one in told.get("history") or ()
        if (since_ms is None or one["at_ms"] >= since_ms) and (until_ms is None or one["at_ms"] <= until_ms)
    ][-options.last :]
    if options.json:
        print_json({**told, "history": history})
        return DONE
    print(plain(words.heading(told)))
    print(plain(words.now(told, now_ms)))
    if "history" not in told:
        print("Only a Kohort tells what became of earlier transactions, over HTTP (--http HOST:PORT).")
        return DONE
    print()
    if not history:
        print("Since the broker started nothing was told of it but what its producer committed.")
    for one in reversed(history):
        sentence, below = words.entry(one)
        when = datetime.fromtimestamp(one["at_ms"] / 1_000).strftime("%Y-%m-%d %H:%M:%S")
        print(plain(f"{when}  {sentence}"))
        for line in below:
            print(plain(f"{'':21}{line}"))
    return DONE


def described(cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    """What the id's coordinator says of it now. Raises: Failed."""
    from cli.transactions.asking import Asking  # noqa: PLC0415
    from coordinator.transactions.events import named  # noqa: PLC0415

    _, one = Asking(options).described(options.transaction)
    partitions = named((topic.topic, partition) for topic in one.topics for partition in topic.partitions)
    start_ms = one.transaction_start_time_ms
    return {
        "cluster_id": cluster.cluster_id,
        "transactional_id": one.transactional_id,
        "state": one.transaction_state,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.transaction_timeout_ms,
        "start_ms": None if start_ms < 0 else start_ms,
        "partition_count": sum(len(topic.partitions) for topic in one.topics),
        "partitions": partitions,
    }
