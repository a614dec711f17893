"""Findings about commits and committed offsets."""

from __future__ import annotations

from collections import Counter

from coordinator.why.terms import duration, plural
from coordinator.why.window import Facts, Finding, Window, finding, identity, name_of

COMMITS_PER_SECOND = 5
EXPIRES_WITHIN_MS = 24 * 60 * 60_000
# A commit in the log: batch and record framing, key and value without the names of group and topic.
_COMMIT_BYTES = 120
_DAY_S = 86_400
_FENCED = frozenset({"ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH"})


def commit_per_record(window: Window) -> Finding | None:
    """More than 5 commits a second for each partition."""
    per_second, partitions = window.live.get("commits_per_second"), window.live.get("partitions_total")
    if not per_second or not partitions or per_second / partitions <= COMMITS_PER_SECOND:
        return None
    day_bytes = int(per_second * _DAY_S * (_COMMIT_BYTES + len(str(window.live.get("group_id") or ""))))
    says = (
        f"{per_second:,.0f} commits a second for {plural(partitions, 'partition')}: as good as one per record, about "
        f"{day_bytes / 1e9:,.1f} GB a day of __consumer_offsets; commit once per poll"
    )
    facts = {"commits_per_second": per_second, "partitions": partitions, "bytes_per_day": day_bytes}
    return finding("commit_per_record", says, facts, window.now)


def refused_commits(window: Window) -> Finding | None:
    """Commits were refused: what they spoke of is read again, unless the member kept its partitions."""
    every = window.of_kind("commits_refused")
    members = _members(window)
    strangers = [record for record in every if record.get("member_id") == "" and identity(record) not in members]
    refused = [record for record in every if record not in strangers and not _reads_on(record, window)]
    told = refused or [record for record in every if record not in strangers] or strangers
    if not told:
        return None
    total = sum(int(record.get("count") or 1) for record in told)
    by = Counter(name_of([record]) for record in told)
    topics = sorted({topic for record in told for topic in record.get("topics") or ()})
    names = ", ".join(topics[:3]) + (", ..." if len(topics) > 3 else "")
    ended = window.ended
    nobody = bool(ended) and ended[-1].get("outcome") == "empty"
    again = "the second time by whoever comes: nobody is in the group" if nobody else "the second time by who reads on"
    says = (
        f"{plural(total, 'commit')} of {', '.join(name for name, _ in by.most_common(3))} "
        f"{'was' if total == 1 else 'were'} refused: "
    )
    if told == strangers:
        # Who left and commits with no member id was a member of that time, if it is told.
        other = "" if members else ", or one that left before"
        says += (
            f"it was no member then: a tool, or a consumer that assigns itself its partitions{other}; nothing was set"
        )
    elif refused:
        it, its = ("it", "its") if len(by) == 1 else ("they", "their")
        says += f"what {it} read of {names or f'{its} topics'} since {its} last good commit is processed twice, {again}"
    elif len(by) == 1:
        says += f"nothing is processed twice for it, since it kept what it reads of {names or 'its topics'} and went on"
    else:
        says += f"nothing is processed twice for it, since they kept what they read of {names or 'their topics'}"
    facts = {"count": total, "topics": topics, "errors": sorted({str(record.get("error")) for record in told})}
    return finding("refused_commits", says, {**facts, "twice": bool(refused)}, told, hint=not refused)


def _members(window: Window) -> set[tuple[str, str] | None]:
    """Everybody who is told to have been in the group."""
    there = [one for record in window.ended for one in record.get("members") or ()]
    return {identity(one) for one in (*there, *window.all_causes())}


def _reads_on(refused: Facts, window: Window) -> bool:
    """Whether the member went on from where it was: it speaks of a past generation, and has lost nothing since.

    With an eager protocol it begins again from its last commit, whatever it keeps.
    """
    spoke_of, group_at = refused.get("request_generation"), refused.get("generation")
    if refused.get("error") not in _FENCED or spoke_of is None or group_at is None:
        return False
    since = [one for one in window.ended if spoke_of < int(one.get("to_generation") or 0) <= group_at]
    return bool(since) and all(_kept(one, refused) for one in since)


def _kept(ended: Facts, refused: Facts) -> bool:
    if ended.get("group_type") != "consumer" and ended.get("mode") != "cooperative":
        return False
    mine = next((one for one in ended.get("members") or () if one.get("member_id") == refused.get("member_id")), None)
    if mine is None or mine.get("change") != "stayed" or mine.get("lost") is None:
        return False
    return not set(mine["lost"]) & set(refused.get("topics") or mine["lost"])


def offsets_expiring(window: Window) -> Finding | None:
    """The offsets of a group without members go within a day."""
    live = window.live
    since_ms, retention_ms = live.get("state_at_ms"), live.get("offsets_retention_ms")
    if live.get("state") != "Empty" or since_ms is None or retention_ms is None or not live.get("offsets"):
        return None
    left_ms = since_ms + retention_ms - window.now_ms
    if left_ms > EXPIRES_WITHIN_MS:
        return None
    when = f"in {duration(left_ms)}" if left_ms > 0 else "with the next check"
    says = f"nobody is in the group: its committed offsets expire {when}, after which it begins anew"
    facts = {"expires_at_ms": since_ms + retention_ms, "offsets": live["offsets"]}
    return finding("offsets_expiring", says, facts, window.now)


def offsets_moved(window: Window) -> Finding | None:
    """Somebody who is no member set or removed offsets."""
    moved = [record for record in window.of_kind("offsets_changed") if record.get("by") == "client"]
    if not moved:
        return None
    last = moved[-1]
    offsets = last.get("offsets") or ()
    count = len(offsets) + int(last.get("truncated") or 0)
    first = offsets[0] if offsets else {}
    shown = (
        f", {first['topic']}-{first['partition']} from {_said(first.get('from'))} to {_said(first.get('to'))}"
        if first
        else ""
    )
    says = f"{name_of([last])} changed the offsets of {plural(count, 'partition')}{shown}"
    if len(moved) > 1:
        says += f"; {len(moved)} such changes in all"
    facts = {"client_id": last.get("client_id"), "client_host": last.get("client_host"), "at_ms": last.get("at_ms")}
    return finding("offsets_moved", says, {**facts, "partitions": count}, moved)


def _said(offset: int | None) -> str:
    return "none" if offset is None else str(offset)
