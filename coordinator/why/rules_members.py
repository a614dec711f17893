"""Findings about who may be a member: twins under one instance id, and who is refused."""

from __future__ import annotations

from coordinator.why.terms import host, plural
from coordinator.why.window import Facts, Finding, Window, finding, identity, name_of
from coordinator.why.words import join_refusal

_TWIN_REPLACEMENTS = 4
_TWIN_MS = 60_000


def duplicate_instance(window: Window) -> Finding | None:
    """Two processes have one instance id."""
    fenced = window.of_kind("member_fenced")
    if not fenced:
        return _taking_turns(window)
    last = fenced[-1]
    hosts = sorted({(last.get(name) or "?").removeprefix("/") for name in ("client_host", "holder_client_host")})
    where = f"on {hosts[0]}" if len(hosts) == 1 else f"on {hosts[0]} and {hosts[1]}"
    says = (
        f'two processes use the instance id "{last.get("instance_id")}", {where}: whoever comes last puts the other '
        f"out ({plural(len(fenced), 'request')} refused)"
    )
    facts = {name: last.get(name) for name in ("instance_id", "client_host", "holder_client_host")}
    return finding("duplicate_instance", says, {**facts, "count": len(fenced)}, fenced)


def _taking_turns(window: Window) -> Finding | None:
    """Nobody is refused where each of two processes joins anew when it hears of the other (aiokafka)."""
    by: dict[str, list[Facts]] = {}
    for record in window.of_kind("member_replaced"):
        by.setdefault(str(record.get("instance_id")), []).append(record)
    for instance_id, replaced in by.items():
        for first, last in zip(replaced, replaced[_TWIN_REPLACEMENTS - 1 :], strict=False):
            if last["at_ms"] - first["at_ms"] <= _TWIN_MS:
                break
        else:
            continue
        ends = [
            {(record.get(f"{when}client_id"), record.get(f"{when}client_host")) for record in replaced}
            for when in ("old_", "")
        ]
        names = sorted({f"{client} ({host(where)})" for client, where in ends[0] & ends[1] if client})
        where = f", {' and '.join(names[:3])}" if len(names) > 1 else ""
        says = (
            f'processes take turns under the instance id "{instance_id}"{where}: it changed hands '
            f"{plural(len(replaced), 'time')}. Either two use it at once, or one restarts again and again"
        )
        return finding("duplicate_instance", says, {"instance_id": instance_id, "count": len(replaced)}, replaced)
    return None


def refused_joins(window: Window) -> Finding | None:
    """Somebody wants to be in the group, may not, and has not come in since."""
    by: dict[tuple[str, str], list[Facts]] = {}
    for record in window.of_kind("joins_refused"):
        key = identity(record)
        if key is not None:
            by.setdefault(key, []).append(record)
    for record in window.of_kind("rebalance_ended"):
        for member in record.get("members") or ():
            key = identity(member) or ("", "")
            earlier = by.get(key, ())
            if member.get("change") == "joined" and earlier and earlier[-1]["at_ms"] < record["at_ms"]:
                del by[key]
    if not by:
        return None
    mine = max(by.values(), key=len)
    others = f", nor {plural(len(by) - 1, 'other')}" if len(by) > 1 else ""
    says = f"{name_of(mine)} cannot join{others}: {join_refusal(mine[-1])}"
    facts = {name: mine[-1].get(name) for name in ("client_id", "client_host", "error", "protocols", "group_protocols")}
    return finding("refused_joins", says, {**facts, "clients": len(by)}, [one for each in by.values() for one in each])
