"""Faults of all kinds, chosen by a seed, while auditors watch the wire: `@chaos(seeds=range(50))`.

A seed is a list of faults, each for the n-th request of an API: the same seed has the same ones. What they meet depends
on what the program asks, so that one that asks the same gets the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from kohort.testing.errors import Refused

if TYPE_CHECKING:
    from types import TracebackType

    from kohort.testing.life import Life

F = TypeVar("F", bound=Callable[..., Any])
MARKER = "kohort_chaos"
KINDS = ("errors", "wire", "death", "power", "pause", "groups", "disk", "clock")
_FAULTS = (8, 16)
_LATER = 0.75  # the chance of each fault to be for a later request than the first, the second, ...

_LEADER = ("NOT_LEADER_OR_FOLLOWER",)
_MOVING = ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")
# API -> how often it is chosen, errors that a broker may well answer, whether a group is at stake.
_APIS: dict[str, tuple[int, tuple[str, ...], bool]] = {
    "Produce": (5, (*_LEADER, "NOT_ENOUGH_REPLICAS"), False),
    "Fetch": (3, _LEADER, False),
    "OffsetCommit": (5, (*_MOVING, "REBALANCE_IN_PROGRESS"), True),
    "Heartbeat": (3, ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"), True),
    "JoinGroup": (2, _MOVING, True),
    "SyncGroup": (2, ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"), True),
    "OffsetFetch": (1, ("NOT_COORDINATOR",), True),
    "ConsumerGroupHeartbeat": (3, ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"), True),
    "FindCoordinator": (1, ("COORDINATOR_NOT_AVAILABLE",), False),
    "ListOffsets": (1, _LEADER, False),
    "Metadata": (1, ("LEADER_NOT_AVAILABLE",), False),
    "InitProducerId": (1, ("COORDINATOR_LOAD_IN_PROGRESS",), False),
    "AddPartitionsToTxn": (1, ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS"), False),
    "TxnOffsetCommit": (2, ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"), True),
    "EndTxn": (2, ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"), False),
}
_GROUPS = ("rebalance", "expire", "lose_assignment", "move_coordinator")


def chaos(seeds: Iterable[int] | int = range(20), kinds: Iterable[str] = KINDS) -> Callable[[F], F]:
    """Run a pytest test once for each seed: its broker (`kohort`, or of `factories`) is under that seed's faults.

    It fails when the test does, or when an auditor has seen what must not be. `--kohort-seed N` runs that one again.
    """
    chosen = tuple(seeds) if isinstance(seeds, Iterable) else (seeds,)
    for seed in chosen:
        if not isinstance(seed, int):
            raise Refused(f"seeds={seeds!r}: it takes whole numbers, such as range(50)")
    marks = {"seeds": chosen, "kinds": _checked(kinds)}

    def decorate(function: F) -> F:
        import pytest  # noqa: PLC0415  a broker without pytest has no use for it

        marked: F = getattr(pytest.mark, MARKER)(**marks)(function)
        return marked

    return decorate


def _checked(kinds: Iterable[str]) -> tuple[str, ...]:
    chosen = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in chosen:
        if kind not in KINDS:
            raise Refused(f"there is no kind of fault {kind!r}: it takes some of {', '.join(KINDS)}")
    return chosen


def faults_of(seed: int, kinds: Iterable[str] = KINDS) -> list[dict[str, Any]]:
    """What a seed stands for: faults by the words of the control channel, and `told`, what each of them is."""
    chance = random.Random(seed)
    found = []
    apis = list(_APIS)
    weights = [_APIS[api][0] for api in apis]
    allowed = _checked(kinds)
    for _ in range(chance.randint(*_FAULTS)):
        (api,) = chance.choices(apis, weights)
        nth = 0
        while chance.random() < _LATER and nth < 12:
            nth += 1
        # Drawn whether they are allowed or not: what a seed does with few kinds is part of what it does with all.
        kind = chance.choice([one for one in KINDS if one != "groups" or _APIS[api][2]])
        words, told = _fault(chance, api, kind)
        if kind in allowed:
            found.append({"api": api, "skip": nth, "times": 1, **words, "told": f"{api} number {nth + 1}: {told}"})
    return found


def _fault(chance: random.Random, api: str, kind: str) -> tuple[dict[str, Any], str]:
    ms = chance.choice((20, 100, 400))
    when = chance.choice(("before", "after"))
    if kind == "errors":
        code = chance.choice(_APIS[api][1])
        return {"act": "error", "with": code}, f"answered {code}"
    if kind == "wire":
        return _on_the_wire(chance, ms)
    if kind in ("death", "power"):
        what = "kill" if kind == "death" else "power_cut"
        said = "before it was handled" if when == "before" else "handled, and not answered"
        return _disrupt(what, when=when), f"{said}: the broker {'was killed' if kind == 'death' else 'lost its power'}"
    if kind == "pause":
        return _disrupt("pause", ms=ms), f"the broker stood still for {ms} ms"
    if kind == "groups":
        what = chance.choice(_GROUPS)
        return _disrupt(what), f"{what} happened to its group"
    if kind == "disk":
        return _disrupt("disk_full", ms=ms), f"the disk was full for {ms} ms"
    seconds = chance.choice((20, 70))
    return _disrupt("shift", ms=seconds * 1_000), f"{seconds} s went by"


def _on_the_wire(chance: random.Random, ms: int) -> tuple[dict[str, Any], str]:
    what = chance.choice(("delay", "disconnect", "disconnect", "silence", "throttle"))
    if what == "disconnect":
        when = chance.choice(("before", "during", "after"))
        return {"act": what, "with": when}, f"its connection ended {when} the answer"
    if what == "silence":
        handled = chance.random() < 0.5
        said = "handled, and never answered" if handled else "never heard"
        return {"act": what, "with": {"ms": ms, "handled": handled}}, f"{said}; its connection ended after {ms} ms"
    return {
        "act": what,
        "with": ms,
    }, f"{'handled' if what == 'delay' else 'throttled for'} {ms} ms{' late' * (what == 'delay')}"


def _disrupt(what: str, **how: Any) -> dict[str, Any]:
    return {"act": "disrupt", "with": {"what": what, **how}}


class Chaos:
    """One seed at work on a broker: from `begin` to `end`, or for a `with` statement."""

    def __init__(self, life: Life, seed: int, kinds: Iterable[str] = KINDS, *, fresh: bool = True) -> None:
        self._life = life
        self.seed = seed
        self._fresh = fresh
        self._faults = faults_of(seed, kinds)
        self._numbers: list[int] = []
        self._before: list[list[Any]] = [[] for _ in self._faults]  # what they have done in earlier lives
        self._findings: list[str] = []
        self.is_on = False

    def begin(self) -> Chaos:
        """From here on."""
        self._numbers = self._life.ask("chaos", faults=self._faults, fresh=self._fresh)
        self.is_on = True
        return self

    def end(self) -> None:
        """No more of it. Raises: AssertionError when an auditor has seen what must not be."""
        if not self.is_on:
            return
        self._life.ask("audit")
        self.stop()
        if self._findings:
            raise AssertionError(self.told())

    def stop(self) -> None:
        """No more of it, whatever has been seen."""
        if self.is_on:
            self.put_away()
            self.is_on = False
            for number in self._numbers:
                self._life.ask("remove_fault", number=number)

    def told(self) -> str:
        """What the seed has done so far."""
        done = [(at_ms, fault["told"], client) for fault, hits in self._hits() for at_ms, client in hits]
        lines = [f"chaos, seed {self.seed}, has done:"]
        began_ms = min((at_ms for at_ms, _, _ in done), default=0)
        for at_ms, what, client in sorted(done):
            lines.append(f"  +{(at_ms - began_ms) / 1_000:.2f} s  {what} (of {client or 'a client without id'})")
        if not done:
            lines.append("  nothing: its requests never came")
        if self._findings:
            lines += ["its auditors have seen:", *(f"  - {one}" for one in self._findings)]
        return "\n".join(lines)

    def _hits(self) -> list[tuple[dict[str, Any], list[Any]]]:
        now = self._state()["faults"] if self.is_on else [None] * len(self._faults)
        return [
            (fault, [*before, *(state["hit_log"] if state else [])])
            for fault, before, state in zip(self._faults, self._before, now, strict=True)
        ]

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._life.ask("hit_log", numbers=self._numbers)
        return state

    def put_away(self) -> None:
        """The broker is about to end, because its test says so."""
        state = self._state()
        for at, fault in enumerate(state["faults"]):
            self._before[at] += fault["hit_log"]
            self._faults[at] = {**self._faults[at], "times": fault["left"], "skip": fault["skip"]}
        self._findings += state["findings"]

    def put_back(self) -> None:
        """The broker is there again, and its auditors do not know what was before."""
        self._fresh = False
        self.begin()

    def __enter__(self) -> Chaos:
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.end()
        else:
            error.add_note(self.told())
            self.stop()
