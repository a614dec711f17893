"""What `kohort why` prints: one line a rebalance, the newest first, with what followed below it; then the findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from coordinator.why import cause_words, inferred_departures, terms, timeline, words
from coordinator.why.findings import LIVE_RULES
from coordinator.why.gaps import GAP
from coordinator.why.verdicts import traces_of
from coordinator.why.window import Window

if TYPE_CHECKING:
    from cli.why_reading import Told
    from coordinator.why.window import Finding

_GONE = {"left": "left", "silent": "fell silent"}
"""By what is inferred of it; of most who are gone nothing is."""
Row = tuple[str, str, str, str, list[str]]
"""When, generations, how long, why, lines below it."""


def lines(told: Told, now_ms: int, *, verbose: bool = False) -> Iterator[str]:
    """Everything, line by line."""
    yield heading(told, now_ms)
    if told.inferred:
        if told.files is None:
            yield "there is no rebalance ledger: this is no Kohort, it is turned off, or its topic was deleted."
        yield "Inferred from the records of __consumer_offsets that compaction has left, which do not say why:"
    elif told.every and (last := told.ends_with_gap) is not None:
        yield f"the ledger ends at {_when(last, now_ms)}: it was turned off, or another broker leads the group now."
        yield "What came later is inferred from the generations in __consumer_offsets, which do not say why."
    if told.in_progress is not None:
        yield words.in_progress(told.in_progress)
    yield ""
    rows = list(_rows(told, now_ms, verbose=verbose))
    if not rows:
        yield "no rebalance is told" + (" of that time" if told.every else "")
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(3)]
    margin = " " * (sum(widths) + 6)
    for when, generations, took, why, below in rows:
        yield f"{when:<{widths[0]}}  {generations:<{widths[1]}}  {took:<{widths[2]}}  {why}".rstrip()
        for line in below:
            yield margin + line
    found = told.findings(now_ms)
    if found:
        yield ""
        yield "findings"
        for one in found:
            yield f"  {'!' if one['severity'] == 'warning' else '-'} {one['says']}{_span(one, now_ms)}"
    if not (told.http_answered or told.inferred or told.files or told.until_ms is not None) and told.members:
        yield ""
        yield "Not looked at, since no broker answers HTTP here (--http HOST:PORT): " + ", ".join(sorted(LIVE_RULES))


def heading(told: Told, now_ms: int) -> str:
    """`group payments: Stable, generation 8, 3 members, 12 partitions, range (eager)`."""
    last = Window(told.every, {}, now_ms).last_stable or {}
    ended = [record for record in told.every if record["kind"] == "rebalance_ended"]
    parts = [told.state or ("unknown state" if told.files is None else f"by the files in {told.files}")]
    newest = next((record for record in reversed(told.every) if record.get("generation")), {})
    if newest:
        noun = "epoch" if newest.get("group_type") == "consumer" else "generation"
        parts.append(f"{noun} {newest['generation']}")
    if told.members is not None:
        parts.append(terms.plural(told.members, "member"))
    if told.members and ended and last:
        if last.get("partitions_total") is not None:
            parts.append(terms.plural(last["partitions_total"], "partition"))
        if last.get("protocol"):
            told_mode = last.get("mode", "unknown") != "unknown" and last.get("group_type") != "consumer"
            parts.append(last["protocol"] + (f" ({last['mode']})" if told_mode else ""))
    if told.lag:
        old = f", the first of them {terms.duration(told.lag_s * 1_000)} old" if told.lag_s is not None else ""
        parts.append(f"{terms.plural(told.lag, 'record')} behind{old}")
    return f"group {told.group_id}: {', '.join(parts)}"


def _rows(told: Told, now_ms: int, *, verbose: bool) -> Iterator[Row]:
    ended = {record["rebalance_id"] for record in told.every if record["kind"] == "rebalance_ended"}
    records = words.folded(sorted(told.records, key=lambda record: int(record["at_ms"])))
    traces, reads = traces_of(told.known), timeline.reads_of(told.known)
    others = 0
    for record in reversed(records):
        kind = record["kind"]
        if kind not in ("rebalance_began", "rebalance_ended", GAP) and words.event(record) is not None:
            others += 1
            if others > told.last:
                continue
        if kind == "rebalance_ended":
            yield _rebalance(record, traces, reads, now_ms, verbose=verbose)
        elif kind == "rebalance_began":
            if record["rebalance_id"] not in ended:
                at_ms = record["at_ms"]
                why = cause_words.cause(record.get("cause"))
                going = "has not ended"
                if record["rebalance_id"] in told.ended_later:
                    going = "ended after that time"
                elif told.in_progress:
                    # As the line above says it, by the broker's own clock.
                    going = f"goes on since {terms.duration(told.in_progress.get('for_ms', now_ms - at_ms))}"
                yield _when(at_ms, now_ms), f"{record['from_generation']} -> ", "-", why, [going]
        elif kind == GAP:
            yield _when(record["until_ms"] or now_ms, now_ms), "", "-", _gap(record, now_ms), []
        else:
            text = words.event(record)
            if text is not None:
                mark = " (inferred)" if record.get("source") == "inferred" else ""
                yield _when(record["at_ms"], now_ms), "", "-", text + mark, []
    if others > told.last:
        yield "", "", "", f"and {others - told.last:,} more that were no rebalances: --last N shows N", []


def _gap(record: Mapping[str, Any], now_ms: int) -> str:
    noun = "epochs" if record.get("group_type") == "consumer" else "generations"
    span = f"{noun} {record['from_generation']} to {record['to_generation']}"
    if record["until_ms"] is None:
        return f"nobody has written the ledger since {_when(record['from_ms'], now_ms)}: {span} are inferred"
    began, took = _when(record["from_ms"], now_ms), terms.duration(record["until_ms"] - record["from_ms"])
    return f"nobody wrote the ledger for {took} from {began} on: {span} are inferred as far as records are left"


def _rebalance(
    record: Mapping[str, Any],
    traces: Mapping[str, list[Mapping[str, Any]]],
    reads: Mapping[str, Mapping[str, Any]],
    now_ms: int,
    *,
    verbose: bool,
) -> Row:
    at_ms = record.get("ended_at_ms") or record["at_ms"]
    inferred = record.get("source") == "inferred"
    why = _inferred(record) if inferred else words.causes(record)
    below = [] if inferred else list(timeline.followed(record, traces, reads, now_ms=now_ms))
    if inferred:
        below += [
            f"{terms.who(one, with_host=False)}: {inferred_departures.verdict(one)[1]}"
            for one in (record.get("departures") or ())
        ][: timeline.VERDICTS_MAX]
    if verbose:
        below += _details(record)
    return _when(at_ms, now_ms), timeline.generations(record), terms.duration(record.get("duration_ms")), why, below


def _inferred(record: Mapping[str, Any]) -> str:
    """Who came and who went, which is all that two generations say."""
    said = {how: [] for how in ("joined", *_GONE.values(), "is gone", "replaced")}  # type: dict[str, list[str]]
    gone = {one["member_id"]: inferred_departures.verdict(one)[0] for one in record.get("departures") or ()}
    for member in record["members"]:
        how = member["change"]
        if how == "left":
            how = _GONE.get(gone.get(member["member_id"], ""), "is gone")
        if how in said:
            said[how].append(terms.who(member))
    parts = [
        f"{', '.join(names)} {'are gone' if how == 'is gone' and len(names) > 1 else how}"
        for how, names in said.items()
        if names
    ]
    before = record.get("from_generation")
    missing = record["to_generation"] - before - 1 if before is not None else 0
    if missing > 0:
        parts.append(f"{terms.plural(missing, 'generation')} between left no record")
    parts = parts or ["the same members"]
    moved, total = record.get("partitions_moved"), record.get("partitions_total")
    if moved is not None and total:
        parts.append(f"{moved:,} of {terms.plural(total, 'partition')} moved" if moved else "nothing moved")
    paused = record.get("paused")
    if paused:
        parts.append(f"commits of {paused['topic']}-{paused['partition']} paused for {terms.duration(paused['ms'])}")
    return "; ".join(parts) + " (inferred)"


def _details(record: Mapping[str, Any]) -> Iterator[str]:
    for name in ("join_ms", "assign_ms", "sync_ms"):
        if record.get(name) is not None:
            yield f"{name.removesuffix('_ms')} {terms.duration(record[name])}"
    shared = terms.namesakes(record)
    for member in record.get("members") or ():
        parts = [f"{terms.who(member, shared=shared)} {member['change']}"]
        if member.get("joined_after_ms") is not None:
            parts.append(f"joined after {terms.duration(member['joined_after_ms'])}")
        if member.get("synced_after_ms") is not None:
            parts.append(f"synced after {terms.duration(member['synced_after_ms'])}")
        for name in ("partitions", "gained", "lost"):
            if member.get(name):
                told = ", ".join(f"{topic} {numbers}" for topic, numbers in member[name].items())
                parts.append(f"{'owns' if name == 'partitions' else name} {told}")
        yield "  " + "; ".join(parts)
    for topic, partition, before, after in record.get("moves") or ():
        yield f"  {topic}-{partition} moved from {before or 'nobody'} to {after or 'nobody'}"
    if record.get("moves_truncated"):
        yield f"  and {terms.plural(record['moves_truncated'], 'move')} more"
    if record.get("members_truncated"):
        yield f"  and {terms.plural(record['members_truncated'], 'member')} more"


def _span(one: Finding, now_ms: int) -> str:
    """When it was, of what is over; nothing of what is so now."""
    first_ms, last_ms = one.get("first_at_ms"), one.get("last_at_ms")
    if first_ms is None or last_ms is None or last_ms >= now_ms:
        return ""
    first, last = _when(first_ms, now_ms), _when(last_ms, now_ms)
    return f" ({first})" if first == last else f" ({first} to {last})"


def _when(at_ms: int, now_ms: int) -> str:
    """In the zone of the machine; the day only when it is another."""
    moment, now = datetime.fromtimestamp(at_ms / 1_000), datetime.fromtimestamp(now_ms / 1_000)
    return moment.strftime("%H:%M:%S") if moment.date() == now.date() else moment.strftime("%Y-%m-%d %H:%M:%S")
