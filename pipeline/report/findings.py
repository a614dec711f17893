"""What lag, stuck partitions and resets say is wrong with a group: pure functions of rows, for any Kafka.

Together with those of the ledger (`coordinator.why.findings`) they are the findings of the page. A group of one member
that was started and stopped is no warning: whoever runs it knows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from coordinator.why.terms import plural
from pipeline.report.data import Row
from pipeline.report.drawing import span
from pipeline.report.rebalance_figures import look_of

BEHIND_S = 300.0
"""Records that waited longer are a finding."""
WARNING, NOTE = "warning", "note"


def of_rows(
    groups: Sequence[Row],
    membership: Iterable[Row],
    rebalances: Iterable[Row],
    stuck: Iterable[Row],
    resets: Iterable[Row],
    told: Iterable[Row],
) -> list[Row]:
    """(group_id, rule, weight, text, first_at, last_at null) of these groups; `told`: what the ledger's rules said."""
    said = {(row["group_id"], row["rule"]) for row in told}
    spans, steps, halted, moved = (_by_group(rows) for rows in (membership, rebalances, stuck, resets))
    found: list[Row | None] = []
    for group in groups:
        name = group["group_id"]
        single = _is_single(spans[name], steps[name])
        found.append(_behind(group, spans[name], steps[name], single=single))
        found.append(_stuck(name, halted[name], single=single))
        # The ledger knows who it was.
        known = (name, "offsets_moved") in said
        found.append(_reset(name, [row for row in moved[name] if not (known and row["set_by"] == "outsider")]))
    return [one for one in found if one is not None]


def _behind(group: Row, spans: Sequence[Row], steps: Sequence[Row], *, single: bool) -> Row | None:
    """The oldest record waited for more than five minutes."""
    waited, messages, at = (group.get(f"worst_lag_{name}") for name in ("seconds", "messages", "at"))
    if at is None or not messages or (waited or 0) < BEHIND_S:
        return None
    owned = [row for row in spans if row["owned_from"] <= at and (row["owned_to"] is None or row["owned_to"] >= at)]
    now = group["lag_messages"]
    # What is known of the end is the sum of all partitions, any one of which may have all of it; and a group that keeps
    # up is behind by what was written since its last commit.
    several = (group.get("partitions") or 1) > 1
    caught_up = now is not None and now < messages / 20
    left = f"; {now or 0:,} {'in all partitions together ' if several else ''}at the end"
    after = "" if now is None else "; it has caught up" if caught_up else left
    why = _cause(at - timedelta(seconds=waited or 0), at, steps)
    where = " in one partition" if several else ""
    text = (
        f"was {plural(messages, 'message')} behind{where}, the oldest had waited {span((waited or 0) * 1000)}{after}. "
    )
    # Of groups that assign themselves nobody knows owners, and of a long history only the newest are told.
    told = any(row["owned_from"] <= at for row in spans)
    text += why or ("" if not told else "It had its partitions then" if owned else "Nobody owned its partitions then")
    weight = NOTE if single and not owned else WARNING
    return _finding(group["group_id"], "behind", weight, text.rstrip(". "), at - timedelta(seconds=waited or 0), at)


def _cause(since: datetime, until: datetime, steps: Sequence[Row]) -> str:
    """The rebalances from just before the wait to its end, in a sentence; empty for none."""
    near = [row for row in steps if since - timedelta(minutes=2) <= row["finished_at"] <= until]
    if not near:
        return ""
    wrong = [row for row in near if look_of(row).wrong]
    first = min(wrong or near, key=lambda row: row["finished_at"])
    who = ", ".join((first["left"] or first["joined"] or [])[:2])
    told = "" if first["source"] == "inferred" else f": {look_of(first).name}"
    names = f" ({who})" if who else ""
    return f"{plural(len(near), 'rebalance')} went with it, the first at {_clock(first['finished_at'])}{told}{names}"


def _stuck(name: str, rows: Sequence[Row], *, single: bool) -> Row | None:
    """Records wait, and nothing moves."""
    if not rows:
        return None
    words = {
        "no_owner": "nobody owns",
        "no_progress": "commits repeat the same offset of",
        "no_commits": "the owner does not commit",
    }
    by: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by[row["verdict"]].append(row)
    parts = []
    for verdict, mine in sorted(by.items(), key=lambda item: -len(item[1])):
        waiting = plural(sum(row["lag_messages"] for row in mine), "message waits", "messages wait")
        parts.append(f"{words.get(verdict, verdict)} {_named(mine)}, {waiting}")
    weight = NOTE if single and set(by) == {"no_owner"} else WARNING
    return _finding(name, "stuck", weight, "; ".join(parts), min(row["stuck_since"] for row in rows), None)


def _reset(name: str, rows: Sequence[Row]) -> Row | None:
    """Offsets were set, not read to."""
    told = [row for row in rows if row["kind"] != "removed"]
    if not told:
        return None
    worst = max(told, key=lambda row: abs(row["distance"]))
    who = {"owner": "its owner", "outsider": "nobody in the group (a tool)"}.get(worst["set_by"] or "", "somebody")
    client = f" {worst['client_id']}" if worst["client_id"] else ""
    what = "read again" if worst["kind"] == "back" else "skipped unread"
    text = (
        f"{worst['topic']}-{worst['partition']} was set {worst['kind']} from {worst['from_offset']:,} to "
        f"{worst['to_offset']:,} by {who}{client}: {plural(abs(worst['distance']), 'message')} {what}"
    )
    if len(told) > 1:
        text += f"; {len(told)} such changes in all"
    # A client's step back over a few records is what at-least-once looks like.
    weight = WARNING if worst["set_by"] == "outsider" or abs(worst["distance"]) > 1000 else NOTE
    return _finding(name, "reset", weight, text, *(pick(row["at"] for row in told) for pick in (min, max)))


def _is_single(spans: Sequence[Row], steps: Sequence[Row]) -> bool:
    """Whether there was never more than one member at a time."""
    counts = [row["members_after"] for row in steps] + [row["members_before"] or 0 for row in steps]
    return max(counts, default=0) <= 1 and len({row["member_id"] for row in spans if row["owned_to"] is None}) <= 1


def _finding(name: str, rule: str, weight: str, text: str, first: datetime | None, last: datetime | None) -> Row:
    return {"group_id": name, "rule": rule, "weight": weight, "text": text, "first_at": first, "last_at": last}


def _by_group(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["group_id"]].append(row)
    return found


def _named(rows: Sequence[Row]) -> str:
    names = [f"{row['topic']}-{row['partition']}" for row in rows]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _clock(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%H:%M:%S")
