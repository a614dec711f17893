"""Why a transaction ended as it did, in words: of what `/transactions/ID` tells, or DescribeTransactions alone.

Everything here is a pure function of facts, in English, times in ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.why.terms import duration, host, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Facts = Mapping[str, Any]

_ENDED = "no transaction is open"


def heading(facts: Facts) -> str:
    """`transactional id pay-1: Ongoing, producer 4000 epoch 7 (billing at 10.0.0.7)`."""
    parts = [facts.get("state") or "not known any more"]
    if facts.get("producer_id") is not None:
        holder = _client(facts.get("client_id"), facts.get("client_host"))
        parts.append(
            f"producer {facts['producer_id']} epoch {facts['producer_epoch']}"
            + (f", held by {holder}" if holder else "")
        )
    return f"transactional id {facts['transactional_id']}: {', '.join(parts)}"


def now(facts: Facts, now_ms: int) -> str:
    """What it is doing at this moment, and what will become of it."""
    state = facts.get("state")
    start_ms, timeout_ms = facts.get("start_ms"), facts.get("timeout_ms") or 0
    if state == "Ongoing" and start_ms is not None:
        open_ms = now_ms - start_ms
        left_ms = timeout_ms - open_ms
        then = f"it is aborted in {duration(left_ms)} if nobody ends it" if left_ms > 0 else "its abort is due"
        if timeout_ms >= 2_147_483_647:
            then = "it has no timeout"
        return f"open for {duration(open_ms)}; {then}. Readers of committed records wait at {_partitions_of(facts)}."
    if state in ("PrepareCommit", "PrepareAbort"):
        what = "committed" if state == "PrepareCommit" else "aborted"
        since = facts.get("last_update_ms")
        waited = "" if since is None else f" since {duration(now_ms - since)}"
        return f"decided to be {what}{waited}; markers are missing in {_partitions_of(facts)}, where readers wait."
    return f"{_ENDED}."


def entry(facts: Facts) -> tuple[str, list[str]]:
    """One entry of its history: its sentence, and what belongs below it."""
    kind = facts["kind"]
    if kind == "transaction":
        return _transaction(facts), list(_below(facts))
    if kind == "loaded":
        was = "was open" if facts["state"] == "Ongoing" else f"was decided ({facts['state']})"
        return f"the broker started; a transaction {was} since {duration(facts['open_ms'])}", list(_below(facts))
    if kind == "was_aborted":
        opened = duration(facts["open_ms"])
        if facts["timed_out"]:
            timeout = duration(facts["timeout_ms"])
            return (
                f"aborted before the broker started: it was open for {opened}, longer than its timeout of {timeout}",
                [],
            )
        return f"aborted before the broker started, after {opened}; by whom is not in the log", []
    if kind == "request_refused":
        return _refused(facts), []
    if kind == "write_failed":
        return f"the change to {facts['state']} could not be written: {facts['error']}{_times(facts)}", []
    if kind == "expired":
        return f"forgotten: nobody had used it for {duration(facts['idle_ms'])} (transactional.id.expiration.ms)", []
    return str(kind), []


def _transaction(facts: Facts) -> str:
    outcome = "committed" if facts.get("committed") else "aborted"
    cause = facts.get("cause")
    by = _client(facts.get("client_id"), facts.get("client_host"))
    holder = _client(facts.get("holder_id"), facts.get("holder_host"))
    opened = duration(facts.get("open_ms"))
    if cause == "timed_out":
        whose = f" of {holder}" if holder else ""
        return (
            f"{outcome}: the transaction{whose} was open for {opened}, "
            f"longer than its timeout of {duration(facts['timeout_ms'])}"
        )
    if cause == "fenced":
        before = f"{holder} had one open" if holder and holder != by else "one was still open"
        again = "came back and took" if holder == by else "took"
        return f"{outcome}: {by or 'a new producer'} {again} the id over while {before}, for {opened}"
    if cause == "client":
        return f"{outcome} by {by or 'its producer'} after {opened}"
    return f"{outcome} as it had been decided before the broker started"


def _below(facts: Facts) -> Iterator[str]:
    open_ms, completed_ms = facts.get("open_ms"), facts.get("completed_at_ms")
    if facts.get("partition_count"):
        if completed_ms is not None and open_ms is not None:
            held = f"held readers back for {duration(open_ms + completed_ms - facts['at_ms'])}"
        elif completed_ms is None and facts["kind"] == "transaction":
            held = "still holds readers back"
        else:
            held = "held readers back"
        yield f"{held} in {_partitions_of(facts)}"
    delayed = facts.get("delayed")
    if delayed:
        told = ", ".join(f"{partition} ({error})" for partition, error in delayed.items())
        yield f"its end waited for the marker of {told}"
    for partition in facts.get("abandoned") or ():
        yield f"{partition} refused its marker for good: the producer has a newer epoch there"


def _refused(facts: Facts) -> str:
    by = _client(facts.get("client_id"), facts.get("client_host")) or "a producer"
    given, current = facts.get("given_epoch"), facts.get("producer_epoch")
    why = facts["error"]
    if why == "PRODUCER_FENCED" and given is not None and given != current:
        why += f": it came with epoch {given}, the id is at {current}"
    elif why == "INVALID_TXN_STATE":
        why += f" in {facts.get('state')}"
    return f"{by}: {facts['request']} refused{_times(facts)}, {why}"


def _times(facts: Facts) -> str:
    count = facts.get("count", 1)
    if count == 1:
        return ""
    return f" {count} times in {duration(facts['last_ms'] - facts['at_ms'])}"


def _client(client_id: str | None, client_host: str | None) -> str:
    where = host(client_host)
    if not client_id:
        return where
    return f"{client_id} ({where})" if where else client_id


def _partitions_of(facts: Facts) -> str:
    named = facts.get("partitions") or []
    count = facts.get("partition_count", len(named))
    more = count - len(named)
    if not named:
        return plural(count, "partition")
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")
