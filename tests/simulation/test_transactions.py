"""Transactions in virtual time: producers of both generations, processors, read_committed readers, and all that fails.

Processes die, stand still and are replaced under their transactional id; connections break; the broker is stopped,
killed and (durability `always`) loses its power; its disk refuses for a while. What clients saw is looked at for every
anomaly that `tests/anomalies` knows; in the end no transaction is open anywhere, and what went through a processor is
there exactly once. TX72, TX73, TX81 to TX86. `make simulation SEEDS=17` plays that one again.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.loop import logs
from broker.testbed.auditing.auditors import Everything
from tests.anomalies.finding import anomalies
from tests.anomalies.history import Fate, Partition
from tests.simulation.clients import Administrator
from tests.simulation.disk import SimulatedDisk
from tests.simulation.history import descriptors
from tests.simulation.test_simulation import seeds
from tests.simulation.transaction_faults import FAULTS
from tests.simulation.transactional import (
    CommittedReader,
    Diary,
    Processor,
    TransactionalClient,
    TransactionalProducer,
    committed,
)
from tests.simulation.troubles import Troubles
from tests.simulation.world import World
from tests.storage.logs import all_bytes

TOPICS = {"orders": 2, "refunds": 1, "done": 1}
INPUTS: list[Partition] = [("orders", 0), ("orders", 1), ("refunds", 0)]
SOURCE, TARGET = INPUTS[0], ("done", 0)
TROUBLED_MS = 40_000
CALM_MS = 30_000
SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class Nobody(Everything):
    """The wire of these clients is judged by their diary."""

    def arrived(self, exchange: object) -> None:
        """Nothing to note."""

    def answered(self, exchange: object) -> None:
        """Nothing to note."""


class History(Troubles):
    """One seed."""

    def __init__(self, seed: int, directory: Path, **settings: str) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        directory.parent.mkdir(exist_ok=True)
        self.world = World(seed, directory, **{**{k.replace(".", "__"): v for k, v in SETTINGS.items()}, **settings})
        self.world.auditor = Nobody()
        self.diary = Diary()
        self.admin = Administrator("admin", seed, TOPICS)
        self.clients: dict[str, TransactionalClient] = {}
        self.numbers = 0

    def play(self) -> None:
        """All of it."""
        world = self.world
        world.start_broker()
        world.spawn("admin", self.admin.life())
        while not self.admin.ready:
            world.run(100)
        self.admin.stopping = True
        for transactional_id in ("a", "b", "processor"):
            self.come(transactional_id)
        for number in range(2):
            self.spawn(CommittedReader(f"reader-{number}", self.seed, self.diary, [*INPUTS, TARGET]))
        until_ms = world.now_ms + TROUBLED_MS
        while world.now_ms < until_ms:
            world.run(self.random.randrange(50, 3_000))
            world.move_partitions()
            self.random.choice(self.TROUBLES)(self)
        self.calm()
        self.check()

    def spawn(self, client: TransactionalClient) -> None:
        self.clients[client.name] = client
        self.world.spawn(client.name, client.life())

    def come(self, transactional_id: str) -> None:
        """A new process of this transactional id; whoever had it before is fenced."""
        self.numbers += 1
        name = f"{transactional_id}{self.numbers}"
        if transactional_id == "processor":
            self.spawn(Processor(name, self.seed, transactional_id, self.diary, SOURCE, TARGET))
        else:
            self.spawn(TransactionalProducer(name, self.seed, transactional_id, self.diary, INPUTS))

    def living(self) -> list[TransactionalClient]:
        return [
            client for name, client in self.clients.items() if name in self.world.clients and client.transactional_id
        ]

    # What goes wrong

    def die(self) -> None:
        """A process is killed in the middle, and another takes its id, at once or when it has timed out."""
        if self.living():
            client = self.random.choice(self.living())
            self.world.kill(client.name)
            if self.random.random() < 0.3:
                self.world.run(8_000)
            self.come(client.transactional_id)

    def double(self) -> None:
        """A second process takes an id while the first goes on: that is a zombie now, and stops after what it does."""
        client = self.random.choice(self.living())
        client.stopping = True
        self.come(client.transactional_id)

    def freeze(self) -> None:
        if self.living():
            self.world.freeze(self.random.choice(self.living()).name, self.random.choice([500, 9_000]))

    def cut(self) -> None:
        self.world.cut(self.random.choice(list(self.world.clients)))

    TROUBLES = (
        die,
        die,
        double,
        freeze,
        cut,
        cut,
        Troubles.stop_broker,
        Troubles.kill_broker,
        Troubles.kill_broker,
        Troubles.cut_power,
        Troubles.refuse,
    )

    # The end

    def calm(self) -> None:
        """Everything is well: producers end, the others go on until they have read all there is."""
        for client in self.clients.values():
            client.impatience = 0.0
            if isinstance(client, TransactionalProducer):
                client.stopping = True
        self.world.run(CALM_MS)
        if not any(isinstance(client, Processor) and not client.stopping for client in self.living()):
            self.come("processor")
            self.world.run(CALM_MS)
        for client in self.clients.values():
            client.stopping = True
        self.world.run(CALM_MS)

    def check(self) -> None:
        """No anomaly, nothing open, everything processed exactly once."""
        assert not list(self.world.clients), f"they wait for ever: {list(self.world.clients)}"
        found: dict[Partition, dict[int, bytes]] = {}
        for place in [*INPUTS, TARGET]:
            partition = self.world.broker.partitions.get(*place)
            assert partition is not None
            open_ones = [
                entry.producer_id
                for entry in partition.log.producers.entries.values()
                if entry.transaction_first_offset >= 0
            ]
            assert not open_ones, f"{place}: the transactions of {open_ones} hang"
            end = partition.log_end_offset
            assert partition.last_stable_offset == end
            found[place] = dict(committed(all_bytes(partition.log), partition.log.aborted_transactions(0, end)))
        said = self.world.log.getvalue()
        assert "Traceback" not in said, said
        assert "marker_abandoned" not in said, "a partition refused a marker that was written again"
        wrong = anomalies(self.diary.operations)
        assert not wrong, wrong[:5]
        for operation in self.diary.operations:
            for sent in operation.sent:
                there = sent.value in found[sent.partition].values()
                assert there or operation.fate is not Fate.COMMITTED, f"{sent} was committed and is not there"
                assert not there or operation.fate is not Fate.ABORTED, f"{sent} was aborted and is there"
        taken = [value.split(b" by ")[0] for value in found[TARGET].values()]
        assert taken == list(found[SOURCE].values()), "not each once, in order"
        assert min(self.diary.ended[Fate.COMMITTED], self.diary.ended[Fate.ABORTED]) > 3, self.diary.ended


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    SimulatedDisk.uninstall()
    logs.configure()


@pytest.mark.parametrize("durability", ["os", "always"])
@pytest.mark.parametrize("seed", seeds())
def test_whatever_happens_transactions_are_whole(
    seed: int, durability: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TX72, TX73, TX81, TX82, TX83, TX84, TX85, TX86: no anomaly, nothing hangs, everything exactly once."""
    monkeypatch.setattr("broker.loop.uuids.urandom", random.Random(seed).randbytes)
    history = History(seed, tmp_path / "data", kohort__durability=durability)
    try:
        history.play()
    finally:
        history.world.end()
    del history
    gc.collect()
    assert descriptors(tmp_path) == set(), "files of brokers that have ended are open"


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one of a few histories; each would pass without it."""
    fault = FAULTS[name]
    for seed in range(20):
        monkeypatch.setattr("broker.loop.uuids.urandom", random.Random(seed).randbytes)
        try:
            with fault.build_in():
                History(seed, tmp_path / str(seed) / "data", **fault.settings).play()
        except AssertionError:
            return
        finally:
            SimulatedDisk.uninstall()
    pytest.fail(f"20 histories do not show it: {name}")
