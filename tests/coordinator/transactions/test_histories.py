"""Random histories of one transactional id, two clients that fight for it, and everything that fails.

The driver checks after every input what is always true. In the end, when everything works again and all timeouts are
over:
- nothing is open anywhere, and the id rests: nothing that a client did holds anybody up for longer than its timeout;
- data of one transaction has one fate in all partitions, and that which its producer was told;
- no partition had to refuse a marker for good.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from coordinator.transactions.inputs import ExpireTransactionalId
from coordinator.transactions.transaction import RESTING
from protocol.errors import ErrorCode
from tests.coordinator.transactions.driver import TID, TIMEOUT, Driver, Request

NONE = ErrorCode.NONE
NAMES = ["t-0", "t-1", "u-0"]
PASSING = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}


REFUSALS = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.MESSAGE_TOO_LARGE]
STEPS = 80


@dataclass
class Work:
    """One transaction as its producer sees it."""

    data: list[int] = field(default_factory=list)
    told: bool | None = None  # what EndTxn was answered


@dataclass
class Client:
    """A producer: what it knows, and what it waits for."""

    new: bool  # speaks KIP-890
    pair: tuple[int, int] | None = None
    work: Work = field(default_factory=Work)
    wants: bool | None = None  # it has asked for this end, and not heard
    waiting: Request | None = None


class World:
    """Clients that follow the protocol, on a coordinator whose log and partitions fail."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        version = rng.choice([0, 1, 2, 2, 2])
        self.broker = Driver(version)
        self.clients = [Client(new=version > 0), Client(new=version > 0 and rng.random() < 0.5)]
        self.works: list[Work] = []
        self.count = 0
        self.broker.init()
        self.broker.rewrite(producer_epoch=rng.choice([0, 0, 32_762, 32_765, 32_766]))

    def play(self, steps: int) -> None:
        """So many things happen, then everything works again."""
        for _ in range(steps):
            self.rng.choice(
                [self.init, self.write, self.write, self.write, self.end, self.end, self.wait, self.fail, self.mend]
            )()
        self.end_well()

    # Clients

    def heard(self, client: Client) -> ErrorCode | None:
        """The error of the answer that the client waited for; None when it cannot act now."""
        request = client.waiting
        if request is None:
            return NONE
        if request.response is None:
            if request.lost:
                client.waiting = None  # it asks again
                return NONE
            return None
        client.waiting = None
        error = request.error
        assert error is not None
        if request.what == "init":
            if error is NONE:
                self.abandon(client)
                client.pair = request.pair
            elif error not in PASSING:
                client.pair = None
        elif request.what == "end":
            if error is NONE:
                client.work.told = client.wants
                client.wants = None
                self.works.append(client.work)
                client.work = Work()
                if client.new:
                    client.pair = request.pair
            elif error not in PASSING:
                self.abandon(client)
        elif error not in PASSING and error is not NONE:
            self.abandon(client)
        return error

    def abandon(self, client: Client) -> None:
        """It cannot go on: what it did has one fate, and it does not know which."""
        self.works.append(client.work)
        client.work, client.wants, client.pair = Work(), None, None

    def init(self) -> None:
        client = self.rng.choice(self.clients)
        if self.heard(client) is None or (client.pair is not None and self.rng.random() < 0.7):
            return
        known = client.pair if client.pair and self.rng.random() < 0.5 else (-1, -1)
        client.waiting = self.broker.init(known, version=5)
        self.heard(client)

    def write(self) -> None:
        client = self.rng.choice(self.clients)
        if self.heard(client) is None or client.pair is None or client.wants is not None:
            return
        pair, name = client.pair, self.rng.choice(NAMES)
        client.waiting = self.broker.add(name, pair=pair, client_version=2 if client.new else 0)
        if self.heard(client) is not NONE or client.pair is None:
            return
        # The partition asks before it opens a transaction, and nothing comes between its answer and the append.
        if self.broker.verify(name, pair=pair).error is NONE:
            self.count += 1
            if self.broker.write(name, pair, self.count):
                client.work.data.append(self.count)

    def end(self) -> None:
        client = self.rng.choice(self.clients)
        if self.heard(client) is None or client.pair is None:
            return
        if client.wants is None:
            client.wants = self.rng.random() < 0.6
        version = 5 if client.new else 3
        client.waiting = self.broker.end(commit=client.wants, pair=client.pair, version=version)
        self.heard(client)

    # The world

    def wait(self) -> None:
        self.broker.advance(self.rng.choice([1, 100, 1_000, 1_000, TIMEOUT + 1]))

    def fail(self) -> None:
        rng, broker = self.rng, self.broker
        topic, index = rng.choice(NAMES).split("-")
        match rng.randrange(9):
            case 0 | 1 if broker.log_is_free:
                broker.fail_appends(rng.choice(REFUSALS))
            case 2 if broker.log_is_free:
                broker.hold_appends()
            case 3:
                broker.hold_markers()
            case 4:
                broker.lost_answers.add((topic, int(index)))
            case 5:
                broker.marker_errors[topic, int(index)] = ErrorCode.KAFKA_STORAGE_ERROR
            case 6:
                broker.restart()
            case 7:
                broker.feed(ExpireTransactionalId(TID))
            case 8 if broker.shard.settings.transaction_version:
                broker.settings(transaction_version=rng.choice([1, 2]))

    def mend(self) -> None:
        self.broker.release_appends(self.rng.choice([NONE, NONE, ErrorCode.NOT_ENOUGH_REPLICAS]))
        self.broker.release_markers()
        self.broker.marker_errors.clear()

    def end_well(self) -> None:
        """Nothing fails any more, and time passes: then everything has an end, and the right one."""
        broker = self.broker
        broker.all_is_well()
        for _ in range(3):
            broker.advance(2 * TIMEOUT)
        for client in self.clients:
            self.heard(client)
            self.works.append(client.work)
        transaction = broker.transaction
        assert transaction is None or (transaction.state in RESTING and transaction.pending is None), "it hangs"
        open_still = {place: entry.open for place, entry in broker.entries.items() if entry.open}
        assert not open_still, "a partition is open for ever"
        for work in self.works:
            fates = {broker.fates[one] for one in work.data}
            assert len(fates) <= 1, "half of a transaction was committed"
            if work.told is not None:
                assert fates <= {work.told}, "a client was told what did not happen"
        assert "marker_abandoned" not in broker.kinds()


@pytest.mark.parametrize("seeds", [range(0, 150), range(150, 300)])
def test_whatever_happens_ends_well(seeds: range):
    """A history that does not is played again by its seed."""
    for seed in seeds:
        try:
            World(random.Random(seed)).play(STEPS)
        except Exception as error:
            error.add_note(f"World(random.Random({seed})).play({STEPS})")
            raise
