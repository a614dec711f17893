"""Each check of `tests/anomalies` finds what a fault of a whole broker did to its clients."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path

import pytest

from broker.loop import logs
from protocol.messages.produce import ProduceRequest
from tests.anomalies.finding import anomalies
from tests.anomalies.history import Fate, Operation, Partition, Sent
from tests.simulation.anomaly_faults import FAULTS
from tests.simulation.disk import SimulatedDisk
from tests.simulation.test_transactions import INPUTS, History
from tests.simulation.transaction_faults import the_last_stable_offset_is_the_high_watermark
from tests.simulation.transactional import CommittedReader, Diary, TransactionalClient, TransactionalProducer, fetched
from tests.simulation.world import Process, Sleep

P, Q = INPUTS[:2]
LENGTH_MS = 15_000
VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("broker.loop.uuids.urandom", random.Random(1).randbytes)
    yield
    SimulatedDisk.uninstall()
    logs.configure()


class Scene(History):
    """Some clients, for some seconds; connections are cut."""

    def begin(self) -> None:
        self.world.start_broker()
        self.world.spawn("admin", self.admin.life())
        while not self.admin.ready:
            self.world.run(100)
        self.admin.stopping = True

    def show(self, *clients: TransactionalClient, cuts: bool = False) -> set[str]:
        """The names of what is found in the diary of these clients."""
        for client in clients:
            self.spawn(client)
        until_ms = self.world.now_ms + LENGTH_MS
        while self.world.now_ms < until_ms:
            self.world.run(20)
            if cuts and self.random.random() < 0.2:
                self.cut()
        for client in clients:
            client.stopping = True
        self.world.run(LENGTH_MS)
        return {one.name for one in anomalies(self.diary.operations, writers_take_turns=not cuts)}


@pytest.mark.parametrize("name", FAULTS)
def test_each_check_finds_the_fault_that_is_planted_for_it(name: str, tmp_path: Path) -> None:
    """In one of a few short histories; without the fault `test_transactions` finds nothing in longer ones."""
    for seed in range(10):
        with FAULTS[name]():
            scene = Scene(seed, tmp_path / str(seed) / "data")
            try:
                scene.begin()
                producers = [TransactionalProducer(one, seed, one, scene.diary, INPUTS) for one in ("a", "b")]
                reader = CommittedReader("reader", seed, scene.diary, INPUTS)
                found = scene.show(*producers, reader, cuts=True)
            finally:
                scene.world.end()
                SimulatedDisk.uninstall()
        if name in found:
            return
    pytest.fail(f"10 histories do not show it: {name}")


class Gossip(TransactionalClient):
    """Each transaction writes to one partition and then reads what the other's wrote to theirs."""

    def __init__(self, name: str, diary: Diary, own: Partition, other: Partition) -> None:
        super().__init__(name, 1, name, diary)
        self.own, self.other, self.position = own, other, 0

    def transact(self) -> Process:
        draft = self.begin()
        yield from self.add([self.own])
        yield from self.send(self.own, [b"%s-%d" % (self.name.encode(), self.count)])
        yield Sleep(200)
        draft.polled, self.position = yield from fetched(self, self.other, self.position)
        yield from self.end(commit=True)


@pytest.mark.parametrize("faulty", [True, False])
def test_information_that_flows_in_a_circle_is_found(faulty: bool, tmp_path: Path) -> None:
    """G1c: two transactions that each get what the other has not committed yet."""
    with the_last_stable_offset_is_the_high_watermark() if faulty else nullcontext():
        scene = Scene(1, tmp_path / "data")
        try:
            scene.begin()
            found = scene.show(Gossip("a", scene.diary, P, Q), Gossip("b", scene.diary, Q, P), cuts=True)
        finally:
            scene.world.end()
    assert ("circular information flow (G1c)" in found) is faulty


class Old(TransactionalClient):
    """A client from before KIP-890, whose epoch stays from one transaction to the next."""

    def __init__(self, name: str, diary: Diary) -> None:
        for seed in count():
            super().__init__(name, seed, name, diary)
            if not self.newest:
                return

    def both(self) -> Process:
        """A transaction over both partitions."""
        self.begin()
        yield from self.add([P, Q])
        for partition in (P, Q):
            yield from self.send(partition, [b"%s-%d" % (self.name.encode(), self.count)])
        yield from self.end(commit=True)


class Hasty(Old):
    """Commits while a batch is on its way, which comes when others have written behind its transaction."""

    def __init__(self, name: str, diary: Diary, other: Old) -> None:
        super().__init__(name, diary)
        self.other = other

    def life(self) -> Process:
        yield from self.begin_anew()
        draft = self.begin()
        yield from self.add([P, Q])
        yield from self.send(P, [b"early"])
        late: ProduceRequest = self.batch(Q, [b"late"])
        draft.sent.append(Sent(Q, b"late"))
        yield from self.end(commit=True)

        yield from self.other.begin_anew()
        yield from self.other.both()

        answer, _ = yield from self.patiently(late)
        if not answer.responses[0].partition_responses[0].error_code:
            self.sequences[Q] = 1
        yield from self.both()
        for partition in (P, Q):
            before, position = -1, 0
            while before < position:
                before, begun_at = position, self.diary.now()
                got, position = yield from fetched(self, partition, before)
                self.diary.operations.append(Operation(self.name, begun_at, Fate.COMMITTED, polled=tuple(got)))


@pytest.mark.parametrize("faulty", [True, False])
def test_writes_that_lie_before_each_other_are_found(faulty: bool, tmp_path: Path) -> None:
    """G0: the transactions took turns, but a late batch of the first one lies behind the second's (no verification)."""
    scene = Scene(1, tmp_path / "data", **({VERIFICATION.replace(".", "__"): "false"} if faulty else {}))
    try:
        scene.begin()
        hasty = Hasty("hasty", scene.diary, Old("other", scene.diary))
        found = scene.show(hasty)
    finally:
        scene.world.end()
    assert ("write cycle (G0)" in found) is faulty
    assert bool(found) is faulty
