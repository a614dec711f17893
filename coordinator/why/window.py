"""A group's records as the findings look at them: rebalances, causes and members of one window of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, TypeVar

from coordinator.why.terms import host, who

Facts = Mapping[str, Any]
Record = TypeVar("Record", bound=Facts)


JUDGED = 100
"""Rebalances that findings look at when nobody says how many: on the command line, over HTTP and in the pipeline."""

TRACED_AFTER_MS = 3_000
"""So long after a departure the broker looks at its connection: who closes in good order has closed it by then."""


def of_last_rebalances(records: Sequence[Record], count: int) -> Sequence[Record]:
    """The last so many rebalances, with what happened between them and since; `records` are the oldest first."""
    ended = [at for at, record in enumerate(records) if record["kind"] == "rebalance_ended"]
    # From behind the rebalance before on: its own lines belong to it.
    return records[ended[-count - 1] + 1 :] if len(ended) > count else records


class Finding(TypedDict):
    """What is wrong with a group (`severity`: `warning`), or could be better (`hint`)."""

    rule: str
    severity: str
    says: str
    facts: dict[str, Any]
    first_at_ms: int | None  # of what it is made of
    last_at_ms: int | None


def finding(rule: str, says: str, facts: dict[str, Any], of: Iterable[Facts], *, hint: bool = False) -> Finding:
    """One finding. `of`: the records, causes or moments (`at_ms`) that it is made of."""
    moments = [int(one["at_ms"]) for one in of if one.get("at_ms")]
    return {
        "rule": rule,
        "severity": "hint" if hint else "warning",
        "says": says,
        "facts": facts,
        "first_at_ms": min(moments, default=None),
        "last_at_ms": max(moments, default=None),
    }


class Window(NamedTuple):
    """Everything a rule may look at."""

    records: Sequence[Facts]  # of one group, the oldest first
    live: Facts  # the group as it is now; empty when that is not known
    now_ms: int

    def of_kind(self, kind: str) -> list[Facts]:
        """The records of one kind."""
        return [record for record in self.records if record.get("kind") == kind]

    @property
    def ended(self) -> list[Facts]:
        """Rebalances that came to an end, superseded ones left out: each chain counts once."""
        return [record for record in self.of_kind("rebalance_ended") if record.get("outcome") in ("stable", "empty")]

    @property
    def began(self) -> list[Facts]:
        """Every beginning."""
        return self.of_kind("rebalance_began")

    @property
    def last_stable(self) -> Facts | None:
        """The newest generation that is told with its members."""
        return next((record for record in reversed(self.ended) if record.get("outcome") == "stable"), None)

    def all_causes(self) -> list[Facts]:
        """First and further causes of everything that began, in order."""
        firsts = {record.get("rebalance_id"): record.get("cause") for record in self.began}
        found: list[Facts] = []
        for record in self.of_kind("rebalance_ended"):
            firsts.pop(record.get("rebalance_id"), None)
            found += [one for one in (record.get("first_cause"), *(record.get("further_causes") or ())) if one]
        found += [one for one in firsts.values() if one]
        return sorted(found, key=lambda one: one.get("at_ms") or 0)

    @property
    def now(self) -> list[Facts]:
        """What rules about the present are made of."""
        return [{"at_ms": self.now_ms}]

    def span_ms(self) -> int:
        """From the first record to now."""
        return self.now_ms - int(self.records[0].get("at_ms") or self.now_ms) if self.records else 0


def identity(facts: Facts) -> tuple[str, str] | None:
    """Who it is across restarts: the instance id, else client id and host. None when nobody is named."""
    if facts.get("instance_id"):
        return "instance", str(facts["instance_id"])
    if facts.get("client_id") is None:
        return None
    return str(facts["client_id"]), host(facts.get("client_host"))


def name_of(facts: Iterable[Facts]) -> str:
    """How people call it, out of records that name the same one."""
    return who(next(iter(facts)))
