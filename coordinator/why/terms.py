"""Members, spans and counts as people say them: what sentences about groups are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Facts = Mapping[str, Any]


def duration(ms: float | None) -> str:
    """As people say it: `0.3 s`, `61.0 s`, `3 min 20 s`, `2 h 5 min`, `3 days`."""
    if ms is None:
        return "-"
    if ms < 120_000:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(round(ms / 1_000), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def plural(count: int, one: str, several: str = "") -> str:
    """`1 commit`, `3,000 commits`; `several` where it is more than an s: `1 batch`, `2 batches`. For all sentences."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def host(text: str | None) -> str:
    """A client's host without the slash that Java prints before it."""
    return (text or "").removeprefix("/")


Namesakes = Mapping[str, bool]
"""Client ids that several members of one generation have; True where host and client id together are not one's own."""

_BEFORE = frozenset({"stayed", "left", "expired", "removed"})
_AFTER = frozenset({"stayed", "joined", "replaced"})
_TOLD_OF_ID = 9
"""Of what follows the client id in a member id, a hyphen and a uuid: enough to know it by, and to search for."""


def namesakes(record: Facts) -> Namesakes:
    """Who has another's name in a `rebalance_ended`: clients that were given no name all have the library's."""
    shared: dict[str, bool] = {}
    for there in (_BEFORE, _AFTER):
        hosts: dict[str, list[str]] = {}
        for member in record.get("members") or ():
            if member.get("change") in there and member.get("client_id") and not member.get("instance_id"):
                hosts.setdefault(str(member["client_id"]), []).append(host(member.get("client_host")))
        for name, where in hosts.items():
            if len(where) > 1:
                shared[name] = shared.get(name, False) or len(set(where)) < len(where)
    return shared


NOBODY = "somebody"
"""Who is told where no member is named."""


def who(facts: Facts, *, with_host: bool = True, shared: Namesakes | None = None) -> str:
    """A member as people know it: its client id, or instance id, and its host.

    Where its name is `shared` the host is told, and where that is not enough the beginning of the member id.
    """
    client_id, member_id = facts.get("client_id"), facts.get("member_id")
    name = facts.get("instance_id") or client_id or member_id or NOBODY
    where = host(facts.get("client_host"))
    if shared and client_id and not facts.get("instance_id") and client_id in shared:
        if shared[client_id] and member_id and str(member_id).startswith(f"{client_id}-"):
            name = str(member_id)[: len(client_id) + _TOLD_OF_ID]
        else:
            with_host = True
    return f"{name} ({where})" if with_host and where else str(name)


def quoted(text: str | None) -> str:
    """A client's own words, without their full stop."""
    return f'"{(text or "").rstrip(".")}"'
