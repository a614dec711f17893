"""The history of one seed: the whole broker and its clients, what goes wrong, the calm, and what must be true then.

    play("always", 17)

raises what is wrong; everything follows from the seed and the durability.
"""

from __future__ import annotations

import gc
import os
import random
import tempfile
from contextlib import suppress
from pathlib import Path

from broker.loop import logs, uuids
from broker.testbed.auditing.auditors import Everything, values
from broker.testbed.auditing.exchange import Exchange
from broker.testbed.auditing.owners import Owners
from coordinator.consumer.group import ConsumerState
from coordinator.group import GroupState
from tests.simulation.clients import Administrator, Producer
from tests.simulation.consumer import Consumer
from tests.simulation.cooperative import CooperativeConsumer
from tests.simulation.deleter import Deleter
from tests.simulation.epochs import EpochConsumer
from tests.simulation.scratch import Scratch
from tests.simulation.troubles import Troubles
from tests.simulation.world import World

DURABILITIES = ("os", "always")
EAGER = {"billing": ["orders"], "audit": ["orders", "refunds"]}
GROUPS = {**EAGER, "shared": ["orders", "refunds"]}  # the last rebalances cooperatively
TROUBLED_MS = 60_000
CALM_MS = 60_000


class Auditors(Everything):
    """With the one of groups of the consumer protocol."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = Owners()

    def arrived(self, exchange: Exchange) -> None:
        super().arrived(exchange)
        self.epochs.arrived(exchange)

    def answered(self, exchange: Exchange) -> None:
        super().answered(exchange)
        self.epochs.answered(exchange)


class History(Troubles):
    """One seed."""

    def __init__(self, seed: int, directory: Path, **settings: str) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.world = World(seed, directory, **settings)
        self.auditor = self.world.auditor = Auditors()
        self.consumers: dict[str, Consumer] = {}
        self.producers = [Producer(f"producer-{at}", seed, topic) for at, topic in enumerate(("orders", "refunds"))]
        self.admin = Administrator("admin", seed, {"orders": 3, "refunds": 1})
        self.scratch = Scratch("scratch", seed)
        self.deleter = Deleter("deleter", seed, tuple(GROUPS))
        self.pace_ms = self.random.choice([600, 2_000, 4_000])  # between two troubles, at most
        self.numbers = 0

    def play(self) -> None:
        """All of it."""
        world = self.world
        world.start_broker()
        world.spawn("admin", self.admin.life())
        while not self.admin.ready:
            world.run(100)
        for client in (*self.producers, self.scratch, self.deleter):
            world.spawn(client.name, client.life())
        for group in GROUPS:
            for _ in range(2):
                self.come(group)
            if group in EAGER:
                self.come(group, static=f"static-{group}")
        until_ms = world.now_ms + TROUBLED_MS
        while world.now_ms < until_ms:
            world.run(self.random.randrange(50, self.pace_ms))
            world.move_partitions()
            self.random.choice(self.TROUBLES)(self)
        self.calm()
        self.check()

    # What goes wrong

    def come(self, group: str | None = None, static: str | None = None) -> None:
        """One more member."""
        group = group or self.random.choice(list(GROUPS))
        self.numbers += 1
        name = f"{group}-{self.numbers}"
        kind = self.kind(group, static)
        self.consumers[name] = kind(name, self.seed, self.auditor, group, GROUPS[group], static)
        self.world.spawn(name, self.consumers[name].life())

    def kind(self, group: str, static: str | None) -> type[Consumer]:
        """By the seed one group speaks the consumer protocol, or one has members of both and changes between them."""
        if group == "shared":
            return EpochConsumer if self.seed % 3 == 1 else CooperativeConsumer
        if group == "audit" and self.seed % 3 == 2 and static is None:
            return self.random.choice((Consumer, EpochConsumer))
        return Consumer

    def one(self) -> Consumer | None:
        """A member that is alive."""
        alive = [consumer for name, consumer in self.consumers.items() if name in self.world.clients]
        return self.random.choice(alive) if alive else None

    def leave(self) -> None:
        """A dynamic member leaves; enough stay."""
        consumer = self.one()
        if consumer is not None and consumer.instance is None:
            consumer.stopping = True
            self.come(consumer.group)

    def die(self) -> None:
        """A member is killed, and another comes, under its instance id if it had one."""
        consumer = self.one()
        if consumer is not None:
            self.world.kill(consumer.name)
            self.come(consumer.group, consumer.instance)

    def freeze(self) -> None:
        """A member stands still for a while, or for longer than its session."""
        consumer = self.one()
        if consumer is not None:
            self.world.freeze(consumer.name, self.random.choice([500, 3_000, 9_000]))

    def cut(self) -> None:
        """Somebody's connection breaks."""
        name = self.random.choice(list(self.world.clients))
        self.world.cut(name)

    def double(self) -> None:
        """A second process comes with an instance id that is taken."""
        group = self.random.choice(list(EAGER))
        self.come(group, f"static-{group}")

    def nothing(self) -> None:
        """Time passes, or the one disk is full or gone."""
        if self.world.disks_fail_alone:
            self.refuse()

    TROUBLES = (
        come,
        leave,
        leave,
        die,
        die,
        freeze,
        freeze,
        cut,
        cut,
        double,
        Troubles.stop_broker,
        Troubles.kill_broker,
        Troubles.cut_power,
        Troubles.refuse,
        nothing,
    )

    # The end

    def calm(self) -> None:
        """Everything is well, and producers end."""
        for producer in self.producers:
            producer.stopping = True
        self.admin.stopping = self.scratch.stopping = self.deleter.stopping = True
        for client in (*self.producers, *self.consumers.values(), self.admin, self.scratch, self.deleter):
            client.impatience = 0.0
        self.world.run(5_000)
        for group in EAGER:
            # One more rebalance: before JoinGroup 9 a static member that takes its leader's place is not told
            # that it leads (KIP-814), and then nobody sees that a topic has grown.
            self.come(group)
        self.world.run(CALM_MS)

    def check(self) -> None:
        """Everything is there, everything was read, everybody has what is theirs."""
        world, auditor = self.world, self.auditor
        assert not [name for name in world.clients if name.startswith(("producer", "scratch"))], "they wait for ever"
        assert self.scratch.rounds > 0 and self.deleter.deleted > 0
        alive = [consumer for name, consumer in self.consumers.items() if name in world.clients]
        for group, topics in GROUPS.items():
            mine = [consumer for consumer in alive if consumer.group == group]
            live = world.broker.groups.leader_of(group).shard.states[group]
            assert live.state in (GroupState.STABLE, ConsumerState.STABLE), f"{group} is {live.state}"
            assert set(live.members) == {consumer.member_id for consumer in mine}
            for topic in topics:
                for index in range(self.admin.topics[topic]):
                    partition = world.broker.partitions.get(topic, index)
                    data = bytes(b"".join(partition.log.read(0, 1 << 30, copied=True).buffers))
                    found = dict(values(data))
                    auditor.log((topic, index), found)
                    assert len(set(found.values())) == len(found), f"{topic}-{index}: a record is there twice"
                    assert auditor.read[group, topic, index] == set(found), (
                        f"{group} has not read all of {topic}-{index}"
                    )
                    owners = [consumer for consumer in mine if (topic, index) in consumer.positions]
                    assert len(owners) == 1, f"{topic}-{index} belongs to {owners}"
                    if found:
                        assert owners[0].positions[topic, index] == max(found) + 1
                        assert max(found) + 1 in auditor.offsets((group, topic, index), 1 << 60)
        if self.seed % 3 == 1:  # where members of both kinds are drawn all may be of one
            assert auditor.counts["ConsumerGroupHeartbeat"] > 20
        said = world.log.getvalue()
        assert "Traceback" not in said, said
        for api in ("JoinGroup", "SyncGroup", "OffsetCommit", "OffsetFetch", "Produce", "Fetch", "DeleteGroups"):
            assert auditor.counts[api] > 5, f"{api}: {auditor.counts[api]}"


def play(durability: str, seed: int) -> None:
    """In a directory of its own. Raises: AssertionError, and what else goes wrong."""
    # Which files a power loss takes is for the simulated disk to say.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    real = uuids.urandom
    # Ids are chance too: the same seed is the same history.
    uuids.urandom = random.Random(seed).randbytes  # type: ignore[assignment]
    try:
        with tempfile.TemporaryDirectory(dir=memory) as made:
            _play(durability, seed, Path(made))
    except Exception as error:
        error.add_note(f"in history {durability}/{seed}; `make simulation SEEDS={seed}` plays it again")
        raise
    finally:
        uuids.urandom = real
        logs.configure()


def _play(durability: str, seed: int, directory: Path) -> None:
    history = History(seed, directory / "data", kohort__durability=durability)
    try:
        history.play()
    finally:
        history.world.end()
    del history
    gc.collect()
    assert descriptors(directory) == set(), "files of brokers that have ended are open"


def descriptors(directory: Path) -> set[str]:
    """The files below a directory that this process has open."""
    found = set()
    for link in Path("/dev/fd").iterdir():
        with suppress(OSError):  # the listing's own is closed by now
            found.add(str(link.readlink()))
    return {path for path in found if path.startswith(f"{directory.resolve()}/")}
