"""One seeded history: members of one protocol, or of both, in one group; troubles for a while, then calm.

    play("classic/17")

raises `AssertionError`, with the seed in its notes, when an auditor finds something; everything follows from the seed.
"""

from __future__ import annotations

from coordinator.group import Group
from tests.simulation.shard.auditors import Auditor, held_by
from tests.simulation.shard.classic import ClassicMember
from tests.simulation.shard.clients import Client
from tests.simulation.shard.consumer import ConsumerMember
from tests.simulation.shard.migrating import MigratingMember, partitions_of
from tests.simulation.shard.world import GROUP, MOST, TOPICS, Clock, Leader

KINDS: dict[str, tuple[type[Client], ...]] = {
    "classic": (ClassicMember,),
    "consumer": (ConsumerMember,),
    "migrating": (MigratingMember, ConsumerMember),
}
POLICIES = ("bidirectional", "bidirectional", "upgrade", "downgrade")
TROUBLED_MS = 20_000
CONVERGES_MS = 20_000
QUIET_MS = 4_000


class History:
    """One seed: the name of a protocol, a slash, a number."""

    def __init__(self, seed: str) -> None:
        self.kinds = KINDS[seed.partition("/")[0]]
        self.clock = Clock(seed)
        self.random = self.clock.random
        interval_ms = self.random.choice((0, 0, 300, 1_000))
        counts = {topic: self.random.randint(2, 7) for topic in TOPICS}
        self.policy = POLICIES[0]
        if self.migrates:
            self.policy = self.random.choice(POLICIES)
            self.bias = 0.5  # how many of those who come are of the new protocol
        self.leader = Leader(self.clock, counts, interval_ms=interval_ms, policy=self.policy)
        if self.migrates:
            self.leader.decode = partitions_of
        self.mixed = self.random.random() < 0.5  # consumers: of one topic, or of two and not all of the same
        self.clients: list[Client] = []
        self.auditor = self.leader.listener = Auditor(self.leader, self.clients)
        self.numbers = 0
        self.calm = False
        self.pace_ms = self.random.choice((300, 1_000, 3_000))  # between two troubles, at most

    def play(self) -> None:
        """All of it."""
        for _ in range(self.random.randint(1, 3)):
            self.come()
        if self.random.random() < 0.5:
            self.come("i")
        end_ms = self.clock.now_ms + TROUBLED_MS
        troubles = self.random.sample(TROUBLES, self.random.randint(3, len(TROUBLES)))
        while self.clock.now_ms < end_ms:
            self.clock.run(self.random.randrange(10, self.pace_ms))
            self.random.choice(troubles)(self)
        self.be_calm()
        self.compare()

    @property
    def migrates(self) -> bool:
        """Whether members speak one protocol or the other."""
        return len(self.kinds) > 1

    @property
    def living(self) -> list[Client]:
        """Who is alive, and does more than to say so."""
        return [client for client in self.clients if client.alive and not client.hung]

    def one(self) -> Client | None:
        """Somebody who is alive."""
        living = self.living
        return self.random.choice(living) if living else None

    # Troubles

    def come(self, instance_id: str | None = None) -> None:
        """One more, within reason."""
        if len(self.living) >= 5:
            return
        self.numbers += 1
        kind = self.kinds[0]
        if self.migrates:
            if self.random.random() < 0.2:
                self.bias = self.random.choice((0.0, 0.3, 0.7, 1.0))
            kind = self.kinds[self.random.random() < self.bias]
        client = kind(self.clock, self.leader, f"m{self.numbers}", instance_id)
        if isinstance(client, ClassicMember):
            client.partitions = lambda: self.leader.topics.counts["t"]  # type: ignore[method-assign]
            client.version = 9 if self.numbers % 3 else 5
        if isinstance(client, ConsumerMember):
            client.prompt = self.calm
            client.assignor = self.random.choice((None, None, "range", "uniform"))
            if self.mixed:
                client.mixed, client.names = True, self.random.choice((TOPICS, TOPICS, TOPICS[:1], TOPICS[1:]))
        self.clients.append(client)
        client.start()

    def come_static(self) -> None:
        """With an instance id, which somebody may hold."""
        self.come(self.random.choice("ij"))

    def go(self) -> None:
        """In good order; a static member comes back."""
        client = self.one()
        if client is not None:
            client.leave()
            if client.instance_id is not None or len(self.living) < 2:
                self.come(client.instance_id)

    def fall(self) -> None:
        """Killed, and perhaps started again."""
        client = self.one()
        if client is not None:
            client.die()
            if client.instance_id is not None or self.random.random() < 0.5:
                self.come(client.instance_id)

    def freeze(self) -> None:
        """For a moment, or for longer than a session."""
        client = self.one()
        if client is not None:
            client.freeze(self.random.choice((300, 1_500, 2_500, 5_000)))

    def hang(self) -> None:
        """Somebody heartbeats on, and does nothing else that it is asked to do."""
        client = self.one()
        if client is not None:
            client.hung = True

    def cut(self) -> None:
        """A connection."""
        client = self.one()
        if client is not None:
            client.cut()

    def change(self) -> None:
        """Somebody joins again."""
        client = self.one()
        if client is not None:
            client.change()  # type: ignore[attr-defined]

    def crash(self) -> None:
        """The broker, for a moment."""
        if self.leader.up:
            self.compare()
            self.leader.crash()
            for client in self.living:
                client.cut()
            self.clock.after(self.random.choice((1, 50, 2_000)), self.leader.start)

    def refuse(self) -> None:
        """The disk refuses some batches."""
        self.leader.refuses = self.random.choice((1, 1, 3))

    def slow(self) -> None:
        """Commits take their time."""
        self.leader.slowness_ms = self.random.choice((0, 30, 300))

    def compact(self) -> None:
        """The log."""
        self.leader.compact()

    def grow(self) -> None:
        """More partitions."""
        topic = self.random.choice(TOPICS)
        if self.leader.topics.counts[topic] < MOST:
            self.leader.grow(topic)

    # Calm

    def be_calm(self) -> None:
        """Nothing goes wrong any more: everybody finds its place, and stays there."""
        self.leader.refuses = 0
        self.leader.slowness_ms = self.random.choice((0, 20))
        self.calm = True
        for client in self.living:
            client.thaw()
            if isinstance(client, ConsumerMember):
                client.prompt = True
        for client in self.clients:
            if client.hung:
                client.die()
        for instance_id in "ij":
            rivals = [client for client in self.living if client.instance_id == instance_id]
            if len(rivals) > 1:
                for client in rivals:
                    client.die()
                self.come(instance_id)
        # What a trouble has set going shows later: a session that is about to end, a heartbeat on its way.
        self.clock.run(2_000)
        for waited in range(0, CONVERGES_MS + 1, 500):
            if self.policy == "downgrade" and isinstance(self.leader.group, Group):
                for client in self.living:
                    if isinstance(client, ConsumerMember):
                        client.die()  # it would never be let in
                        self.clock.run(100)
            if not self.living:  # the last one was fenced
                self.come()
            problem = self.problem()
            if problem is None:
                break
            classic = isinstance(self.leader.group, Group)
            if problem.startswith("of ") and classic and waited % (CONVERGES_MS // 4) == 0 and waited:
                # A leader that is not told to lead, or that came back after its plan, does not look for partitions.
                self.change()
            assert waited < CONVERGES_MS, f"nothing has gone wrong for {CONVERGES_MS} ms, and still {problem}"
            self.clock.run(500)
        self.auditor.calm = True
        rebalances, committed = self.auditor.rebalances, sum(self.auditor.committed.values())
        self.clock.run(QUIET_MS)
        assert not self.auditor.errors, f"nothing goes wrong, and members are told {self.auditor.errors[:5]}"
        assert self.problem() is None, self.problem()
        assert self.auditor.rebalances == rebalances, "nothing goes wrong, and the group rebalances"
        assert sum(self.auditor.committed.values()) > committed, "nothing goes wrong, and nothing is committed"

    def problem(self) -> str | None:
        """What is not as it should be in the end."""
        if not self.leader.up:
            return "the leader is down"
        group = self.leader.group
        for client in self.living:
            problem = client.settled_with(group)
            if problem is not None:
                return problem
        protocols = {type(client) for client in self.living}
        if self.migrates and self.policy != "upgrade" and protocols == {MigratingMember} and type(group) is not Group:
            return "nobody speaks the new protocol, and the group does"
        ids = {client.member_id for client in self.living}
        if group.members.keys() != ids:
            return f"{set(group.members)} are members, and {ids} are alive"
        names = {name for client in self.living for name in getattr(client, "names", TOPICS[:1])}
        wanted = self.leader.topics.all_of(names)
        held = held_by(group, self.leader.decode)
        if held != wanted:
            return f"of {wanted} {held} are read"
        return None

    def compare(self) -> None:
        """Memory is what the log says, as far as nothing is on its way."""
        if self.leader.up and self.leader.settled:
            live, loaded = self.leader.shard, self.leader.loaded()
            self.auditor.compare(live.states.get(GROUP), loaded.states.get(GROUP))
            mine = {key: stored[:4] for key, stored in live.offsets.get(GROUP, {}).items()}
            assert mine == {key: stored[:4] for key, stored in loaded.offsets.get(GROUP, {}).items()}


TROUBLES = (
    History.come, History.come_static, History.go, History.fall, History.freeze, History.cut, History.change,
    History.crash, History.refuse, History.slow, History.compact, History.grow,
    History.hang,
)  # fmt: skip


def play(seed: str) -> None:
    """Raises: AssertionError."""
    try:
        History(seed).play()
    except Exception as error:
        error.add_note(f"in history {seed}; play it again with KOHORT_SHARD_HISTORIES={seed}")
        raise


def play_one(kind: str, seed: int) -> None:
    """The same, for `tests.simulation.long_run`."""
    play(f"{kind}/{seed}")
