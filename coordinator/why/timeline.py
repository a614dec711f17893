"""A group's timeline out of the ledger's records, the newest line first: what the pipeline's report tells, and below
each rebalance what `kohort why` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from coordinator.why import cause_words, words
from coordinator.why.terms import Facts, duration, namesakes, who
from coordinator.why.verdicts import DEPARTURES, traces_of, verdict

VERDICTS_MAX = 3


class Line(NamedTuple):
    """One line, and what stands below it; with the record that it is made of, and the verdicts below."""

    at_ms: int
    generations: str  # and `took_ms`: of rebalances
    took_ms: int | None
    says: str
    below: tuple[str, ...]
    record: Facts
    verdicts: tuple[tuple[str, str], ...] = ()  # kind, and of whom


def followed(
    record: Facts, traces: Mapping[str, list[Facts]], reads: Mapping[str, Facts], *, now_ms: int
) -> Iterator[str]:
    """What a rebalance led to: waits and moves, how long what moved went unread, what became of those who went."""
    if text := words.consequences(record):
        yield text
    if text := words.unread(reads.get(str(record.get("rebalance_id")))):
        yield text
    for one in _departures(record):
        yield f"{who(one, with_host=False, shared=namesakes(record))}: {verdict(one, traces, now_ms=now_ms)[1]}"


def _departures(record: Facts) -> list[Facts]:
    causes = [record.get("first_cause"), *(record.get("further_causes") or ())]
    return [each for each in causes if each and each.get("trigger") in DEPARTURES][:VERDICTS_MAX]


def reads_of(records: Sequence[Facts]) -> Mapping[str, Facts]:
    """How long went unread what each rebalance moved, by its id."""
    return {str(one.get("rebalance_id")): one for one in records if one.get("kind") == "partitions_read"}


def generations(record: Facts) -> str:
    """`5 -> 6`; without an end where there is none."""
    before = record.get("from_generation")
    same = record.get("outcome") in ("superseded", "interrupted") and record.get("to_generation") == before
    return f"{'?' if before is None else before} -> {'' if same else record.get('to_generation')}"


def timeline(records: Sequence[Facts], *, now_ms: int) -> list[Line]:
    """All that these records of a group tell; they are the oldest first."""
    traces, reads = traces_of(records), reads_of(records)
    ended = {one.get("rebalance_id") for one in records if one.get("kind") == "rebalance_ended"}
    found = []
    for record in words.folded(sorted(records, key=lambda one: int(one.get("at_ms") or 0))):
        at_ms, kind = int(record.get("at_ms") or 0), record.get("kind")
        if kind == "rebalance_ended":
            below = tuple(followed(record, traces, reads, now_ms=now_ms))
            at_ms, took_ms = int(record.get("ended_at_ms") or at_ms), record.get("duration_ms")
            judged = tuple((verdict(one, traces, now_ms=now_ms)[0], who(one)) for one in _departures(record))
            found.append(Line(at_ms, generations(record), took_ms, words.causes(record), below, record, judged))
        elif kind == "rebalance_began":
            if record.get("rebalance_id") not in ended:
                why = cause_words.cause(record.get("cause"))
                since = f"has not ended after {duration(max(now_ms - at_ms, 0))}"
                found.append(Line(at_ms, f"{record.get('from_generation')} -> ", None, why, (since,), record))
        elif (text := words.event(record)) is not None:
            found.append(Line(at_ms, "", None, text, (), record))
    return found[::-1]
