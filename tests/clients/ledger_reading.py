"""The ledger as an ordinary client reads it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from cli.cluster import Cluster
from cli.why_reading import ledger_records
from protocol.records.ledger import LEDGER_TOPIC
from tests.support.broker_process import ROOT
from tests.support.closing import close_or_leave

Record = dict[str, Any]


def records(address: str, group_id: str, *kinds: str) -> list[Record]:
    """The group's records of these kinds (all without any), the oldest first."""
    cluster = Cluster(Namespace(bootstrap_server=address, timeout=10_000, command_config=None))
    topics, _ = cluster.describe_topics([LEDGER_TOPIC])
    found = ledger_records(cluster, group_id, len(topics[LEDGER_TOPIC].partitions))
    return [record for record in found if not kinds or record["kind"] in kinds]


def first_causes(address: str, group_id: str) -> list[tuple[str, str]]:
    """(trigger, client id) of everything that began."""
    return [
        (record["cause"]["trigger"], record["cause"]["client_id"])
        for record in records(address, group_id, "rebalance_began")
    ]


def why(address: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`kohort why` as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "kohort", "why", *words, "--bootstrap-server", address],
        cwd=ROOT, env={**os.environ, "TZ": "UTC"}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


class Member:
    """A librdkafka consumer in this process, polled by a thread until it is told to stall."""

    def __init__(self, address: str, group_id: str, client_id: str, topics: list[str], **settings: object) -> None:
        self.assignments: list[list[int]] = []
        self.client_id = client_id
        self._stop = threading.Event()
        self._stalled_until = 0.0
        self._subscribe: list[str] | None = None
        self._commit: TopicPartition | None = None
        config: dict[str, Any] = {
            "bootstrap.servers": address,
            "group.id": group_id,
            "client.id": client_id,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 300,
            "max.poll.interval.ms": 30_000,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
            "enable.auto.commit": False,
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self.consumer = Consumer({name: value for name, value in config.items() if value is not None})
        self.consumer.subscribe(topics, on_assign=self._assigned)
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _assigned(self, _: object, partitions: list[Any]) -> None:
        self.assignments.append(sorted(partition.partition for partition in partitions))

    def _poll(self) -> None:
        while not self._stop.is_set():
            if self._subscribe is not None:
                topics, self._subscribe = self._subscribe, None
                self.consumer.subscribe(topics, on_assign=self._assigned)
            if self._commit is not None:
                offset, self._commit = self._commit, None
                self.consumer.commit(offsets=[offset], asynchronous=True)
            if time.monotonic() >= self._stalled_until:
                self.consumer.poll(0.05)
            else:
                self._stop.wait(0.02)

    @property
    def owned(self) -> list[int]:
        """What it was given last."""
        return self.assignments[-1] if self.assignments else []

    def stall(self, seconds: float) -> float:
        """Work without polling for so long; return until when, ms since 1970."""
        self._stalled_until = time.monotonic() + seconds
        return (time.time() + seconds) * 1_000

    def subscribe(self, topics: list[str]) -> None:
        """Read other topics."""
        self._subscribe = topics

    def commit(self, offset: TopicPartition) -> None:
        """Have the thread that polls commit it: from another one librdkafka may wait for ever."""
        self._commit = offset

    @property
    def commits_asked(self) -> bool:
        """Whether nothing is left to be committed by its thread."""
        return self._commit is None

    def close(self) -> None:
        """Leave the group."""
        self._stop.set()
        self._thread.join(10)
        close_or_leave(self.consumer)


@contextmanager
def members(*made: Member) -> Iterator[tuple[Member, ...]]:
    """Closed at the end, if nobody did before."""
    try:
        yield made
    finally:
        for member in made:
            if not member._stop.is_set():
                member.close()
