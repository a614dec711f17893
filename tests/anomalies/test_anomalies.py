"""Each check finds its anomaly, planted in a small history, and nothing in a history that a log may give."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest

from tests.anomalies.cycles import strongly_connected
from tests.anomalies.finding import anomalies
from tests.anomalies.history import Fate, Operation, Polled, Sent

P, Q = ("p", 0), ("q", 0)
COMMITTED, ABORTED, UNKNOWN = Fate.COMMITTED, Fate.ABORTED, Fate.UNKNOWN


def wrote(
    at: int, *sent: tuple[Any, ...], fate: Fate = COMMITTED, process: str = "writer", commit_at: int | None = None
) -> Operation:
    """A transaction that sent these (partition, value, offset), and asked for its end at `commit_at` (`at` + 1)."""
    return Operation(process, at, fate, tuple(Sent(*one) for one in sent), commit_asked_at=commit_at or at + 1)


def read(at: int, *polled: tuple[Any, ...], process: str = "reader", **facts: Any) -> Operation:
    """A poll of these (partition, offset, value)."""
    return Operation(
        process, at, facts.pop("fate", COMMITTED), polled=tuple(Polled(*one, at) for one in polled), **facts
    )


def names(*operations: Operation, **facts: Any) -> list[str]:
    return [found.name for found in anomalies(operations, **facts)]


def test_a_history_that_a_log_may_give() -> None:
    """Interleaved transactions, one aborted, one of unknown fate that was seen, a consumer moved back, a plain send."""
    assert not names(
        wrote(0, (P, b"a", 0), (P, b"c", 2)),
        wrote(1, (P, b"b", 1), (Q, b"x", 0), process="other", commit_at=5),
        wrote(6, (P, b"aborted", 5), fate=ABORTED),
        wrote(8, (P, b"maybe"), fate=UNKNOWN),
        Operation("plain", 9, COMMITTED, (Sent(P, b"d", 8),)),
        read(10, (P, 0, b"a"), (P, 1, b"b"), (Q, 0, b"x"), (P, 2, b"c")),
        read(11, (P, 7, b"maybe"), (P, 8, b"d")),
        read(12, (P, 2, b"c"), repositioned=frozenset({P})),
        read(13, (P, 7, b"maybe")),
        read_to={P: 9, Q: 1},
    )


def test_inconsistent_offsets() -> None:
    """Of two readers, or of a reader and the answer that the writer had."""
    assert "inconsistent offsets" in names(
        wrote(0, (P, b"a"), (P, b"b")), read(9, (P, 0, b"a")), read(10, (P, 0, b"b"), process="2")
    )
    assert "inconsistent offsets" in names(wrote(0, (P, b"a", 0), (P, b"b", 1)), read(9, (P, 0, b"b"), (P, 1, b"a")))


def test_duplicate() -> None:
    assert "duplicate" in names(wrote(0, (P, b"a", 0)), read(9, (P, 0, b"a"), (P, 1, b"a")))
    assert "duplicate" in names(wrote(0, (P, b"a", 0)), read(9, (P, 1, b"a")))


def test_lost_write() -> None:
    """Readers went past it, or read everything and it was never anywhere."""
    assert names(wrote(0, (P, b"a", 0), (P, b"b", 1)), read(9, (P, 1, b"b"))) == ["lost write"]
    assert names(wrote(0, (P, b"a", 0), (P, b"b", 1)), read(9, (P, 0, b"a"))) == []
    assert names(wrote(0, (P, b"a", 0), (P, b"b", 1)), read(9, (P, 0, b"a")), read_to={P: 2}) == ["lost write"]
    assert names(wrote(0, (P, b"a")), read_to={P: 0}) == ["lost write"]
    assert names(wrote(0, (P, b"a"), fate=UNKNOWN), wrote(2, (P, b"b"), fate=ABORTED), read_to={P: 0}) == []


def test_aborted_read() -> None:
    assert names(wrote(0, (P, b"a", 0), fate=ABORTED), read(9, (P, 0, b"a"))) == ["aborted read"]


def test_read_before_commit() -> None:
    """By another client, or by the transaction itself."""
    assert names(wrote(0, (P, b"a", 0), commit_at=10), read(9, (P, 0, b"a"))) == ["read before commit"]
    own = Operation("self", 0, COMMITTED, (Sent(P, b"a", 0),), (Polled(P, 0, b"a", 5),), commit_asked_at=10)
    assert "read before commit" in names(own)
    assert names(wrote(0, (P, b"a", 0), commit_at=8), read(9, (P, 0, b"a"))) == []


def test_read_of_nothing() -> None:
    assert names(read(9, (P, 0, b"a"))) == ["read of nothing"]


def test_poll_skip() -> None:
    """Within one poll, or from one to the next; not where the consumer was moved, and not over what was aborted."""
    writes = wrote(0, (P, b"a", 0), (P, b"b", 1), (P, b"c", 2))
    all_of_it = read(8, (P, 0, b"a"), (P, 1, b"b"), (P, 2, b"c"), process="all")
    assert names(writes, all_of_it, read(9, (P, 0, b"a"), (P, 2, b"c"))) == ["poll skip"]
    assert names(writes, all_of_it, read(9, (P, 0, b"a")), read(10, (P, 2, b"c"))) == ["poll skip"]
    assert not names(writes, all_of_it, read(9, (P, 0, b"a")), read(10, (P, 2, b"c"), repositioned=frozenset({P})))
    gap = (wrote(0, (P, b"a", 0)), wrote(2, (P, b"b", 1), fate=ABORTED), wrote(4, (P, b"c", 3)))
    assert not names(*gap, read(9, (P, 0, b"a"), (P, 3, b"c")))


def test_nonmonotonic_poll() -> None:
    writes = wrote(0, (P, b"a", 0), (P, b"b", 1))
    assert names(writes, read(9, (P, 0, b"a"), (P, 1, b"b"), (P, 0, b"a"))) == ["nonmonotonic poll"]
    assert names(writes, read(9, (P, 0, b"a"), (P, 1, b"b")), read(10, (P, 1, b"b"))) == ["nonmonotonic poll"]


def test_nonmonotonic_send() -> None:
    """Within one transaction, and from one to the next; not of two clients."""
    assert names(wrote(0, (P, b"a", 1), (P, b"b", 0))) == ["nonmonotonic send"]
    assert names(wrote(0, (P, b"a", 1)), wrote(2, (P, b"b", 0))) == ["nonmonotonic send"]
    assert not names(wrote(0, (P, b"a", 1)), wrote(2, (P, b"b", 0), process="other"))


def test_write_cycle() -> None:
    """G0: legal where transactions overlap, and not where they took turns."""
    cycle = (
        wrote(0, (P, b"a", 0), (Q, b"a", 1)),
        wrote(2, (P, b"b", 1), (Q, b"b", 0), process="other"),
    )
    assert not names(*cycle)
    found = names(*cycle, writers_take_turns=True)
    assert "write cycle (G0)" in found


def test_circular_information_flow() -> None:
    """G1c: each of two transactions got what the other wrote."""
    one = Operation("1", 0, COMMITTED, (Sent(P, b"a", 0),), (Polled(Q, 0, b"b", 5),), commit_asked_at=4)
    two = Operation("2", 1, COMMITTED, (Sent(Q, b"b", 0),), (Polled(P, 0, b"a", 6),), commit_asked_at=4)
    assert names(one, two) == ["circular information flow (G1c)"]
    after = Operation("2", 1, ABORTED, (), (Polled(P, 0, b"a", 6),))
    writer = wrote(2, (Q, b"b", 0), process="3")
    assert not names(one, after, writer)


def test_a_value_must_be_sent_once() -> None:
    with pytest.raises(ValueError, match="sent twice"):
        names(wrote(0, (P, b"a", 0)), wrote(2, (P, b"a", 1)))


@pytest.mark.parametrize("seed", range(50))
def test_components_are_what_reaching_each_other_says(seed: int) -> None:
    """Over random graphs, against the definition."""
    random = Random(seed)
    nodes = range(random.randrange(2, 12))
    edges = {node: {other for other in nodes if random.random() < 0.15} for node in nodes}
    reach = {node: set(following) for node, following in edges.items()}
    for middle in nodes:
        for node in nodes:
            if middle in reach[node]:
                reach[node] |= reach[middle]
    expected = {
        frozenset(other for other in reach[node] if node in reach[other]) for node in nodes if node in reach[node]
    }
    assert {frozenset(component) for component in strongly_connected(edges)} == expected


def a_log(random: Random) -> list[Operation]:
    """A history of a log in memory: writers that overlap, commits and aborts, readers up to the last stable offset."""
    clock = count()
    log: list[tuple[bytes, int | None]] = []  # value (a marker's is empty), number of its transaction
    fates: dict[int, Fate] = {}
    running: dict[str, tuple[int, int, list[Sent]]] = {}
    done: list[Operation] = []
    positions = dict.fromkeys(("r1", "r2"), 0)
    numbers = count()
    for _ in range(120):
        who = random.choice(("w1", "w2", "r1", "r2"))
        if who in positions:
            stable = min([sent[0].offset for _, _, sent in running.values() if sent], default=len(log))
            moved = random.random() < 0.1
            start = random.randrange(stable + 1) if moved else positions[who]
            end = random.randrange(start, stable + 1) if start <= stable else start
            at = next(clock)
            got = [
                Polled(P, offset, log[offset][0], at)
                for offset in range(start, end)
                if log[offset][0] and fates.get(log[offset][1] or 0) is COMMITTED
            ]
            positions[who] = end
            done.append(Operation(who, at, COMMITTED, (), tuple(got), repositioned=frozenset({P} if moved else ())))
        elif who not in running:
            running[who] = (next(numbers) + 1, next(clock), [])
        elif random.random() < 0.6:
            number, _, sent = running[who]
            sent.append(Sent(P, b"%s-%d-%d" % (who.encode(), number, len(sent)), len(log)))
            log.append((sent[-1].value, number))
        else:
            number, began, sent = running.pop(who)
            fate = fates[number] = random.choice((COMMITTED, ABORTED))
            asked = next(clock)
            log.append((b"", number))
            done.append(Operation(who, began, fate, tuple(sent), commit_asked_at=asked))
    return done


@pytest.mark.parametrize("seed", range(30))
def test_a_log_in_memory_is_found_to_be_sound(seed: int) -> None:
    assert not anomalies(a_log(Random(seed)))
