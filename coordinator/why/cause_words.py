"""Why a rebalance began, in words: one function a trigger (`coordinator.cause.TRIGGERS`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from coordinator.why.terms import NOBODY, Facts, Namesakes, duration, plural, quoted, who


def cause(facts: Facts | None, *, with_host: bool = True, shared: Namesakes | None = None) -> str:
    """What somebody did, or what happened to it."""
    if not facts:
        return "the cause is not known"
    name = who(facts, with_host=with_host, shared=shared)
    detail: Facts = facts.get("detail") or {}
    reason = facts.get("reason")
    tell = _CAUSES.get(str(facts.get("trigger")))
    if tell is None:
        return f"{name}: {facts.get('trigger')}" + (f": {quoted(reason)}" if reason else "")
    return tell(name, detail, reason)


def _joined(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} joined" + (f": {quoted(reason)}" if reason and reason != "not provided" else "")


def _left(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} left" + (f": {quoted(reason)}" if reason else "")


def _removed(name: str, detail: Facts, reason: str | None) -> str:
    by = who({"client_id": detail.get("by_client_id"), "client_host": detail.get("by_client_host")})
    return f"{name} was removed by {by}" + (f": {quoted(reason)}" if reason else "")


def _session(name: str, detail: Facts, reason: str | None) -> str:
    timeout_ms, silent_ms = detail.get("session_timeout_ms"), detail.get("last_heard_ms")
    if silent_ms is None:
        return f"{name} was silent for its session timeout of {duration(timeout_ms)}"
    last = f" since its {detail['last_api']}" if detail.get("last_api") else ""
    if timeout_ms is not None and abs(silent_ms - timeout_ms) < 1_000:
        return f"{name} was silent for {duration(silent_ms)}{last}, its session timeout"
    return f"{name} was silent for {duration(silent_ms)}{last}; its session timeout is {duration(timeout_ms)}"


def _join_timeout(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} did not rejoin within its rebalance timeout of {duration(detail.get('rebalance_timeout_ms'))}"


def _sync_timeout(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} joined and did not ask for its assignment for {duration(detail.get('waited_ms'))}"


def _poll_timeout(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} left: {quoted(reason or detail.get('text'))}"


def _subscription(name: str, detail: Facts, reason: str | None) -> str:
    parts = []
    if detail.get("topics_added"):
        parts.append("subscribed to " + _names(detail["topics_added"]))
    if detail.get("topics_removed"):
        parts.append("unsubscribed from " + _names(detail["topics_removed"]))
    if detail.get("protocols_changed"):
        before, after = detail["protocols_changed"]
        parts.append(f"offers other protocols: {', '.join(after)} instead of {', '.join(before)}")
    return f"{name} " + (" and ".join(parts) or "joined again with other metadata" + _because(reason))


def _partitions(name: str, detail: Facts, reason: str | None) -> str:
    topics = detail.get("topics") or {}
    told = [_counted(topic, before, now) for topic, (before, now) in topics.items()]
    told += [f"{topic} was deleted and made anew" for topic in detail.get("made_anew") or ()]
    if name == NOBODY:  # the coordinator saw it itself
        return ", ".join(told) or "topics that the group reads changed"
    return ", ".join(told) + f", which {name} saw" if told else f"{name} saw other partitions"


def _counted(topic: str, before: int, now: int) -> str:
    if not now:
        return f"{topic} was deleted"
    if not before:
        return f"{topic} was made, with {plural(now, 'partition')}"
    return f"{topic} has {plural(now, 'partition')} instead of {before}"


def _leader(name: str, detail: Facts, reason: str | None) -> str:
    return f"the leader {name} joined again" + _because(reason)


def _static(name: str, detail: Facts, reason: str | None) -> str:
    return f"{name} came back under a new member id and the group had to rebalance"


def _followup(name: str, detail: Facts, reason: str | None) -> str:
    return f"the second round of {detail.get('follows')}: {name} had given up what it had to"


def _append_failed(name: str, detail: Facts, reason: str | None) -> str:
    return f"the assignment could not be written ({detail.get('error')}), so all had to join again"


def _over_capacity(name: str, detail: Facts, reason: str | None) -> str:
    return f"the group has {detail.get('size')} members and may have {detail.get('limit')}"


def _restarted(name: str, detail: Facts, reason: str | None) -> str:
    if name == NOBODY:
        return "the broker had stopped in the middle of a rebalance, which went on"
    return f"the broker had stopped in the middle of a rebalance, and {name} joined again"


def _rebalance_timeout(name: str, detail: Facts, reason: str | None) -> str:
    text = f"{name} did not give up its partitions within its rebalance timeout"
    return f"{text} of {duration(detail.get('rebalance_timeout_ms'))}"


def _regex(name: str, detail: Facts, reason: str | None) -> str:
    if name != NOBODY:
        new = detail.get("new")
        return f"{name} subscribed to the pattern {new}" if new else f"{name} gave its pattern up"
    parts = []
    for regex, change in (detail.get("regexes") or {}).items():
        if change.get("added"):
            parts.append(f"{_names(change['added'][:3])} came to match {regex}")
        if change.get("removed"):
            parts.append(f"{_names(change['removed'][:3])} no longer matches {regex}")
    return "; ".join(parts) or "a pattern stands for other topics"


def _assignor(name: str, detail: Facts, reason: str | None) -> str:
    return f"the assignor is {detail.get('new')} instead of {detail.get('old')}, as most members prefer"


def _migrated(name: str, detail: Facts, reason: str | None) -> str:
    new = detail.get("new")
    tell = _CAUSES.get(str(detail.get("because")))
    own = {**detail, "old": detail.get("because_old"), "new": detail.get("because_new")}
    what = tell(name, own, reason) if tell is not None else name
    return f"{what}, and the group went over to the {new} protocol"


_CAUSES: Mapping[str, Callable[[str, Facts, str | None], str]] = {
    "member_joined": _joined,
    "member_left": _left,
    "member_removed": _removed,
    "session_expired": _session,
    "join_timeout": _join_timeout,
    "sync_timeout": _sync_timeout,
    "poll_timeout": _poll_timeout,
    "subscription_changed": _subscription,
    "partitions_changed": _partitions,
    "leader_rejoined": _leader,
    "static_replaced": _static,
    "cooperative_followup": _followup,
    "append_failed": _append_failed,
    "over_capacity": _over_capacity,
    "coordinator_restarted": _restarted,
    "rebalance_timeout": _rebalance_timeout,
    "regex_changed": _regex,
    "assignor_changed": _assignor,
    "migrated": _migrated,
}


def _because(reason: str | None) -> str:
    return f": {quoted(reason)}" if reason and reason != "not provided" else ""


def _names(topics: Sequence[str]) -> str:
    return ", ".join(f'"{topic}"' for topic in topics)
