"""Transactions in every state on one broker, and what must become of each on the one that takes its files over.

The states between EndTxn's answer and its last marker last for milliseconds. They are made by cutting what was written
after the moment in question off the files of a broker that was killed: each file is only appended to, so that is what
the files held then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from coordinator.routing import partition_for
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.records.batch import BatchHeader, iterate_headers, iterate_records
from protocol.records.transaction_records import TransactionLogKey, decode_key, decode_value
from tests.clients.transactional import Confluent, Fenced, Franz, Java, committed_offset
from tests.reference import graduation as g
from tests.support.broker_process import BrokerProcess, eventually
from tests.support.wire import Wire

INTERNAL_PARTITIONS = 50  # of `__transaction_state` and `__consumer_offsets`
PREPARED, COMPLETE = (2, 3), (4, 5)
LEFT_ALONE_MS = 8_000  # the timeout of a transaction whose producer is gone
MOST_LIBRARIES = (Franz, Confluent)  # transactions of version 2, and of version 0
TRANSACTION_KEYS = 1

IsIt = Callable[[bytes, int, BatchHeader], bool]


@dataclass
class Case:
    """One transactional id, its group of the same name, and two partitions of its own."""

    kind: str
    library: Any
    name: str
    partition: int
    producer: Any = None


KINDS = ("empty", "open", "taken", "committed", "aborted")
PREPARED_KINDS = ("commit decided", "abort decided", "one marker of two")


class Handover:
    """All of them on one broker; then on the next one."""

    def __init__(self, topic: str, *, prepared: bool) -> None:
        self.topic = topic
        used: set[int] = set()
        kinds = (*KINDS, *(PREPARED_KINDS if prepared else ()), "left")  # that one last: its time runs
        wanted: list[tuple[str, Any]] = [("open", Java)]
        wanted += [(kind, library) for kind in kinds for library in MOST_LIBRARIES]
        self.cases = [
            Case(kind, library, _name_of_its_own(f"{topic}-{kind.replace(' ', '-')}-{library.name}", used), 2 * number)
            for number, (kind, library) in enumerate(wanted)
        ]

    def play(self, broker: BrokerProcess) -> None:
        """Bring each id into its state. Those of `PREPARED_KINDS` still have to be cut."""
        g.create(broker.address, self.topic, 2 * len(self.cases))
        for case in self.cases:
            timeout_ms = LEFT_ALONE_MS if case.kind == "left" else 600_000
            case.producer = case.library(broker.address, case.name, timeout_ms=timeout_ms)
            if case.kind == "empty":
                continue
            case.producer.begin()
            case.producer.send(self.topic, b"first", case.partition)
            if case.kind == "open" or case.kind in PREPARED_KINDS:
                case.producer.send_offset(case.name, self.topic, 7)
            if case.kind in PREPARED_KINDS:
                case.producer.send(self.topic, b"second", case.partition + 1)
            if case.kind in ("committed", "commit decided", "one marker of two"):
                case.producer.commit()
            elif case.kind in ("aborted", "abort decided"):
                case.producer.abort()
            if case.kind == "left" or case.kind in PREPARED_KINDS:
                case.producer.close()
        done = {case.name: "Complete" for case in self.cases if case.kind in (*PREPARED_KINDS, "committed", "aborted")}
        eventually(lambda: all(state(broker, name).startswith(word) for name, word in done.items()))

    def cut(self, data: Path) -> None:
        """Take the files of a broker that was killed back to where the prepared ids had only been decided on."""
        for case in self.cases:
            if case.kind not in PREPARED_KINDS:
                continue
            number = partition_for(case.name, INTERNAL_PARTITIONS)
            _cut_last(
                data / f"__transaction_state-{number}", _is_in(case.name, COMPLETE), left=_is_in(case.name, PREPARED)
            )
            if case.kind != "one marker of two":
                _cut_last(data / f"{self.topic}-{case.partition}", _is_marker)
            _cut_last(data / f"{self.topic}-{case.partition + 1}", _is_marker)
            _cut_last(data / f"__consumer_offsets-{number}", _is_marker)

    def check(self, broker: BrokerProcess) -> None:
        """This broker finishes what was decided, ends what nobody ends, and goes on with all the others."""
        expected: dict[int, list[bytes]] = {}
        decided: dict[str, str] = {}
        for case in self.cases:
            expected |= {case.partition: [], case.partition + 1: []}
            match case.kind:
                case "commit decided" | "one marker of two":
                    expected |= {case.partition: [b"first"], case.partition + 1: [b"second"]}
                    decided[case.name] = "CompleteCommit"
                case "abort decided" | "left":
                    decided[case.name] = "CompleteAbort"
                case "empty" | "aborted":
                    self._transact(case)
                    expected[case.partition + 1] = [b"second"]
                case "committed":
                    self._transact(case)
                    expected |= {case.partition: [b"first"], case.partition + 1: [b"second"]}
                case "open":
                    case.producer.send(self.topic, b"second", case.partition + 1)
                    case.producer.commit()
                    expected |= {case.partition: [b"first"], case.partition + 1: [b"second"]}
                case "taken":
                    self._take(case, broker)
                    expected[case.partition + 1] = [b"second"]
        for name, wanted in decided.items():
            eventually(lambda name=name, wanted=wanted: state(broker, name) == wanted, what=f"{name}: {wanted}")
        eventually(lambda: committed(broker.address, self.topic, len(expected)) == expected, deadline_s=30)
        for case in self.cases:
            if case.kind == "open" or case.kind in PREPARED_KINDS:
                offset = -1001 if case.kind == "abort decided" else 7
                assert committed_offset(broker.address, case.name, self.topic) == offset, case
            case.producer.close()

    def _transact(self, case: Case) -> None:
        case.producer.begin()
        case.producer.send(self.topic, b"second", case.partition + 1)
        case.producer.commit()

    def _take(self, case: Case, broker: BrokerProcess) -> None:
        """A second instance shuts the first out, whose transaction is aborted."""
        zombie, case.producer = case.producer, case.library(broker.address, case.name)
        self._transact(case)
        with pytest.raises(Fenced):
            zombie.commit()
        zombie.close()


def state(broker: BrokerProcess, transactional_id: str) -> str:
    """What DescribeTransactions says of an id; nothing while its coordinator loads."""
    with Wire(broker.address) as wire:
        wire.call(FindCoordinatorRequest(key_type=TRANSACTION_KEYS, key=transactional_id), 3)
        (found,) = wire.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0).transaction_states
    return str(found.transaction_state)


def committed(address: str, topic: str, partitions: int) -> dict[int, list[bytes]]:
    """What a reader of committed records gets, by partition, up to where it cannot go on."""
    reader = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **g.QUIET,
        }
    )
    found: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
    ended: set[int] = set()

    def read_on() -> bool:
        for message in reader.consume(500, 0.1):
            error, partition = message.error(), message.partition() or 0
            if error is None:
                found[partition].append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
        return len(ended) == partitions

    try:
        reader.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        eventually(read_on)
        return found
    finally:
        reader.close()


def _name_of_its_own(start: str, used: set[int]) -> str:
    """A name whose partition of the internal topics no other has."""
    for number in range(10_000):
        name = f"{start}-{number}"
        partition = partition_for(name, INTERNAL_PARTITIONS)
        if partition not in used:
            used.add(partition)
            return name
    raise AssertionError("more names than partitions")


def _is_in(transactional_id: str, states: tuple[int, ...]) -> IsIt:
    def does(data: bytes, position: int, _: BatchHeader) -> bool:
        (record,) = iterate_records(data, position)
        value = decode_value(record.value)
        of_it = decode_key(record.key) == TransactionLogKey(transactional_id)
        return of_it and value is not None and value.value.transaction_status in states

    return does


def _is_marker(_: bytes, __: int, header: BatchHeader) -> bool:
    return header.is_control


def _is_data(_: bytes, __: int, header: BatchHeader) -> bool:
    return header.is_transactional and not header.is_control


def _cut_last(folder: Path, is_it: IsIt, left: IsIt = _is_data) -> None:
    """Cut the last batch off a partition; it, and the one before it, must be what they are taken for."""
    newest = max(folder.glob("*.log"))
    data = newest.read_bytes()
    (before, header_before), (position, header) = list(iterate_headers(data))[-2:]
    assert is_it(data, position, header), f"the last batch of {folder.name} is another"
    assert left(data, before, header_before), f"the batch before the last of {folder.name} is another"
    with newest.open("r+b") as file:
        file.truncate(position)
