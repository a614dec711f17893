"""Findings about rebalances: who causes them, who holds them up, what they cost."""

from __future__ import annotations

from collections import Counter

from coordinator.why.cause_words import cause
from coordinator.why.terms import duration, plural
from coordinator.why.verdicts import traces_of, verdict
from coordinator.why.window import Facts, Finding, Window, finding, identity, name_of
from coordinator.why.words import partition_count

STORM_REBALANCES = 5
STORM_MS = 5 * 60_000
SLOW_MS = 1_000
TIGHT_SHARE = 0.66
CHURN_RETURNS = 2
_LEAVING = frozenset({"member_left", "member_removed", "session_expired", "poll_timeout", "join_timeout"})
# Who is named in these saw what others did, or was only the first to be asked.
_NOT_ITS_DOING = frozenset({"partitions_changed", "coordinator_restarted", "append_failed", "over_capacity"})
_UNTOLD_MS = 3_000  # a member that is not heard of in that time is slow: the interval between heartbeats of all clients
_TRIGGER_NAMES = {
    "poll_timeout": "poll timeout",
    "session_expired": "session",
    "member_left": "left",
    "member_joined": "joined",
}


def repeat_offender(window: Window) -> Finding | None:
    """One client host or instance caused at least 3, and at least half, of the rebalances."""
    firsts = [record["cause"] for record in window.began if record.get("cause") and not _came_and_went_alone(record)]
    firsts = [one for one in firsts if one.get("trigger") != "cooperative_followup"]
    by: dict[tuple[str, str], list[Facts]] = {}
    for one in firsts:
        key = None if one.get("trigger") in _NOT_ITS_DOING else identity(one)
        if key is not None:
            by.setdefault(key, []).append(one)
    if not by:
        return None
    key, mine = max(by.items(), key=lambda item: len(item[1]))
    if len(mine) < 3 or len(mine) * 2 < len(firsts) or _names_everybody(window, key):
        return None
    triggers = Counter(str(one.get("trigger")) for one in mine)
    told = ", ".join(f"{_TRIGGER_NAMES.get(name, name)} {count}" for name, count in triggers.most_common())
    says = f"{name_of(mine)} was the cause of {len(mine)} of the last {plural(len(firsts), 'rebalance')} ({told})"
    if triggers["poll_timeout"] * 2 > len(mine):
        says += ": it takes longer between polls than max.poll.interval.ms allows"
    elif triggers["session_expired"] * 2 > len(mine):
        says += ": it dies or hangs, or its heartbeats do not get through"
    facts = {"client_id": mine[-1].get("client_id"), "client_host": mine[-1].get("client_host")}
    return finding(
        "repeat_offender", says, {**facts, "count": len(mine), "of": len(firsts), "triggers": dict(triggers)}, mine
    )


def _came_and_went_alone(record: Facts) -> bool:
    """A member that has the group to itself may start and stop: it is in nobody's way."""
    trigger, before = (record.get("cause") or {}).get("trigger"), record.get("members_before")
    return (trigger, before) in (("member_joined", 0), ("member_left", 1))


def _names_everybody(window: Window, key: tuple[str, str]) -> bool:
    """Whether all of several members go by this name, so that it says nothing."""
    there = [identity(member) for member in _there(window.last_stable or {})]
    return len(there) > 1 and set(there) == {key}


def _there(record: Facts) -> list[Facts]:
    """The members that a rebalance ended with."""
    members = record.get("members") or ()
    return [member for member in members if member.get("change") in ("joined", "stayed", "replaced")]


def slow_joiner(window: Window) -> Finding | None:
    """One member was waited for in at least half of the rebalances, over a second each time.

    A member that is alone holds nobody up. What passes until it is asked to, in the answer of its heartbeat, is not its
    slowness. The second round of a cooperative protocol is part of the first: who is slow is so in that.
    """
    ended = [record for record in window.ended if not record.get("initial_delay_ms") and len(_there(record)) != 1]
    ended = [one for one in ended if (one.get("first_cause") or {}).get("trigger") != "cooperative_followup"]
    by: dict[tuple[str, str], list[Facts]] = {}
    for record in ended:
        slowest = record.get("slowest_to_revoke") or record.get("slowest_to_join")
        key = identity(slowest) if slowest else None
        if slowest and key is not None and own_ms(slowest) > SLOW_MS:
            by.setdefault(key, []).append({**slowest, "at_ms": record.get("at_ms")})
    if not by:
        return None
    mine = max(by.values(), key=len)
    if len(mine) * 2 < len(ended):
        return None
    waited_ms = sum(own_ms(one) for one in mine)
    stopped_ms = sum(record.get("stopped_ms") or 0 for record in ended)
    still = f"; members stood still for {duration(stopped_ms)} of the last {duration(window.span_ms())}"
    says = (
        f"{duration(waited_ms)} were spent waiting for {name_of(mine)}, in {len(mine)} of "
        f"{plural(len(ended), 'rebalance')}{still if stopped_ms >= SLOW_MS else ''}: a rebalance takes as long as the "
        "slowest poll loop"
    )
    facts = {"client_id": mine[-1].get("client_id"), "client_host": mine[-1].get("client_host")}
    return finding("slow_joiner", says, {**facts, "waited_ms": waited_ms, "stopped_ms": stopped_ms}, mine)


def own_ms(waited_for: Facts) -> int:
    """How long a member took by itself, from when it was asked to join again, or to give up."""
    after_ms = int(waited_for["after_ms"])
    if "told_after_ms" not in waited_for:  # consumer groups count from there; older records do not know
        return after_ms
    told_ms = waited_for["told_after_ms"]
    return max(after_ms - (_UNTOLD_MS if told_ms is None else int(told_ms)), 0)


def storm(window: Window) -> Finding | None:
    """More than 5 rebalances within 5 minutes, beyond those of members that are restarted once each."""
    began = _without_restarts(window)
    for at in range(len(began) - STORM_REBALANCES):
        first, last = began[at], began[at + STORM_REBALANCES]
        if last["at_ms"] - first["at_ms"] <= STORM_MS:
            break
    else:
        return None
    chain = [record for record in began if first["at_ms"] <= record["at_ms"] <= first["at_ms"] + STORM_MS]
    ids = {record.get("rebalance_id") for record in chain}
    superseded = sum(
        record.get("outcome") == "superseded" and record.get("rebalance_id") in ids
        for record in window.of_kind("rebalance_ended")
    )
    says = (
        f"{plural(len(chain), 'rebalance')} within 5 min, {superseded} of them superseded by the next; it began when "
        f"{cause(first.get('cause'))}"
    )
    facts = {"at_ms": first["at_ms"], "count": len(chain), "superseded": superseded}
    return finding("storm", says, {**facts, "trigger": (first.get("cause") or {}).get("trigger")}, chain)


def _without_restarts(window: Window) -> list[Facts]:
    """Beginnings, but for one going and one coming of each member that was there: a deploy that rolls through them."""
    there: Counter[str] = Counter()
    for record in window.ended:
        there |= Counter(identity_of_client(member) for member in record.get("members") or ())
    going, coming = there.copy(), there.copy()
    left: list[Facts] = []
    for record in window.began:
        one = record.get("cause") or {}
        client, trigger = identity_of_client(one), one.get("trigger")
        budget = going if trigger in _LEAVING else coming if trigger in ("member_joined", "static_replaced") else None
        if trigger == "cooperative_followup":
            continue
        if budget is not None and budget[client] > 0:
            budget[client] -= 1
            continue
        left.append(record)
    return left


def identity_of_client(facts: Facts) -> str:
    """Who it is, wherever it runs: a pod comes back on another host."""
    return str(facts.get("instance_id") or facts.get("client_id"))


def tight_heartbeat(window: Window) -> Finding | None:
    """The longest silence of a member that is still alive passed 0.66 of its session timeout."""
    near: list[tuple[float, Facts]] = []
    for member in window.live.get("members") or ():
        gap_ms, timeout_ms = member.get("longest_gap_ms"), member.get("session_timeout_ms")
        if gap_ms and timeout_ms and gap_ms > TIGHT_SHARE * timeout_ms:
            near.append((gap_ms / timeout_ms, member))
    if not near:
        return None
    _, member = max(near, key=lambda pair: pair[0])
    says = (
        f"{name_of([member])} was once silent for {duration(member['longest_gap_ms'])} and has a session timeout of "
        f"{duration(member['session_timeout_ms'])}: a little more, and the group rebalances"
    )
    facts = {name: member.get(name) for name in ("member_id", "client_id", "client_host", "longest_gap_ms")}
    return finding("tight_heartbeat", says, {**facts, "session_timeout_ms": member["session_timeout_ms"]}, window.now)


def poll_timeout(window: Window) -> Finding | None:
    """One member exceeded its poll interval at least twice."""
    by: dict[tuple[str, str], list[Facts]] = {}
    for one in window.all_causes():
        key = identity(one)
        if one.get("trigger") == "poll_timeout" and key is not None:
            by.setdefault(key, []).append(one)
    mine = max(by.values(), key=len, default=[])
    if len(mine) < 2:
        return None
    says = (
        f"{name_of(mine)} exceeded its poll interval {len(mine)} times: max.poll.interval.ms is too short, or the work "
        "between two polls too long (fewer records per poll: max.poll.records)"
    )
    facts = {"client_id": mine[-1].get("client_id"), "client_host": mine[-1].get("client_host")}
    return finding("poll_timeout", says, {**facts, "count": len(mine)}, mine)


def deploy_churn(window: Window) -> Finding | None:
    """The same client ids leave and join in turn, as dynamic members: restarts, each of which rebalances.

    A session that expired would have done so of a static member too, and who was too slow was not restarted.
    """
    traces, gone = traces_of(window.records), set[str]()
    returns: Counter[str] = Counter()
    for one in window.all_causes():
        client = one.get("client_id")
        if client is None or one.get("instance_id"):
            continue
        if one.get("trigger") == "member_left":
            if verdict(one, traces, now_ms=window.now_ms)[0] != "too_slow":
                gone.add(client)
        elif one.get("trigger") == "member_joined" and client in gone:
            gone.discard(client)
            returns[client] += 1
    total = sum(returns.values())
    if total < CHURN_RETURNS:
        return None
    churned = {"member_joined", "member_left"}
    # What a group that was empty waited for others to come, static members would have waited for too.
    stopped_ms = sum(
        max((record.get("stopped_ms") or 0) - (record.get("initial_delay_ms") or 0), 0)
        for record in window.ended
        if (record.get("first_cause") or {}).get("client_id") in returns
        and (record.get("first_cause") or {}).get("trigger") in churned
    )
    names = ", ".join(sorted(returns)[:3]) + (", ..." if len(returns) > 3 else "")
    last = window.last_stable or {}
    remedy = "static membership (group.instance.id)"
    if last.get("mode") == "eager":
        remedy += " or a cooperative assignor"
    says = f"{names} left and came back {plural(total, 'time')}: {remedy} would have saved {duration(stopped_ms)}"
    of = [one for one in window.all_causes() if one.get("client_id") in returns and one.get("trigger") in churned]
    return finding("deploy_churn", says, {"returns": dict(returns), "stopped_ms": stopped_ms}, of, hint=True)


def eager_stop(window: Window) -> Finding | None:
    """An eager protocol stops everybody, although few partitions move."""
    eager = [
        record
        for record in window.ended
        if record.get("mode") == "eager"
        and record.get("partitions_moved") is not None
        and record.get("partitions_total")
        and any(member.get("change") == "stayed" for member in record.get("members") or ())
    ]
    moved = sum(record["partitions_moved"] for record in eager)
    total = sum(record["partitions_total"] for record in eager)
    if moved >= total:
        return None
    stopped_ms = sum(record.get("stopped_ms") or 0 for record in eager)
    protocol = eager[-1].get("protocol")
    says = (
        f"{protocol} is eager: in {plural(len(eager), 'rebalance')} all {total:,} partitions stopped, though {moved:,} "
        f"moved; with cooperative-sticky {total - moved:,} would have gone on"
    )
    facts = {"protocol": protocol, "moved": moved, "total": total, "stopped_ms": stopped_ms}
    return finding("eager_stop", says, facts, eager, hint=True)


def idle_members(window: Window) -> Finding | None:
    """More members than partitions."""
    last = window.last_stable
    if last is None or last.get("partitions_total") is None:
        return None
    members = [
        member for member in last.get("members") or () if member.get("change") in ("joined", "stayed", "replaced")
    ]
    count, total = len(members) + int(last.get("members_truncated") or 0), last["partitions_total"]
    if count <= total:
        return None
    idle = sum(partition_count(member.get("partitions")) == 0 for member in members)
    without = max(idle, count - total)
    says = (
        f"{plural(count, 'member')} share {plural(total, 'partition')}: {without} {'has' if without == 1 else 'have'}"
    )
    return finding(
        "idle_members",
        f"{says} nothing to do",
        {"members": count, "partitions": total, "idle": idle},
        [last],
        hint=True,
    )


def imbalance(window: Window) -> Finding | None:
    """Members subscribed to the same topics differ by more than one partition."""
    last = window.last_stable
    if last is None or (last.get("imbalance") or 0) <= 1:
        return None
    by = f"{last['imbalance']} partitions more than another"
    says = f"{last.get('protocol')} gives one member {by}: cooperative-sticky, sticky or roundrobin would share evenly"
    return finding(
        "imbalance", says, {"imbalance": last["imbalance"], "protocol": last.get("protocol")}, [last], hint=True
    )
