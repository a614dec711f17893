"""`/groups`: what a group is doing, who owns what, how far behind it is, why it rebalanced.

The records are the ledger's, the findings `coordinator.why`'s; here they are only asked for.
"""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from broker.groups.ledger.group_history import holdings_of
from broker.http.answers import JSON, Answer, Later, json_answer, json_list, problem, worked_out
from broker.http.metrics import lag
from coordinator.classic.protocols import CONSUMER
from coordinator.consumer.group import ConsumerGroup
from coordinator.group import GroupState
from coordinator.why.window import JUDGED
from protocol.errors import KafkaError
from protocol.records.consumer_protocol import MetadataError, assigned_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.groups.ledger.reading import Steps
    from broker.http.app import App
    from broker.http.request import Request
    from coordinator.view import AnyGroup, Topics

LAST = 10
"""Rebalances told when nobody says how many."""
LAST_MAX = 1_000
_NAMES_COMPARED = 100  # each takes some 30 us, in one turn


def all_groups(app: App, request: Request) -> Answer:
    """Every group, with its state."""
    return Answer(json_list({}, "groups", _summaries(app)), JSON)


def group(app: App, request: Request) -> Answer | Later:
    """One group: state, members, owners, lag, the rebalance that goes on."""
    group_id = request.parts["group"]
    if not _known(app, group_id):
        return unknown(app, group_id)
    return worked_out(app.broker.runtime, _readable(_described(app, group_id)))


def rebalances(app: App, request: Request) -> Answer | Later:
    """The group's records in the ledger, those of its last rebalances, the newest last."""
    group_id, last = request.parts["group"], _last(request, LAST)
    if isinstance(last, Answer):
        return last

    def steps() -> Steps[Answer]:
        records = yield from app.broker.ledger.records_in_steps(group_id, last)
        if not records:
            return _without_records(app, group_id, {"records": []})
        return Answer(json_list({"group_id": group_id}, "records", records), JSON)

    return worked_out(app.broker.runtime, _readable(steps()))


def findings(app: App, request: Request) -> Answer | Later:
    """What these records, and the group as it is now, say is wrong with it."""
    group_id, last = request.parts["group"], _last(request, JUDGED)
    if isinstance(last, Answer):
        return last

    since = request.query.get("since_ms", "0")
    if not since.isdecimal():
        return problem(400, f"since_ms={since[:20]}: it takes milliseconds since 1970")

    def steps() -> Steps[Answer]:
        found, told = yield from app.broker.ledger.findings_in_steps(group_id, last, since_ms=int(since))
        if not found and not told:
            return _without_records(app, group_id, {"findings": [], "verdicts": []})
        return json_answer({"group_id": group_id, "findings": found, "verdicts": told})

    return worked_out(app.broker.runtime, _readable(steps()))


def _readable(steps: Steps[Answer]) -> Steps[Answer]:
    """A log that cannot be read now is a reason to come again."""
    try:
        return (yield from steps)
    except KafkaError as error:
        return problem(503, f"the broker cannot read its records of the group now: {error}")


def _without_records(app: App, group_id: str, nothing: dict[str, Any]) -> Answer:
    """Nothing was found: of a group that there is, or has the name been mistaken, or is the ledger off?"""
    if not _known(app, group_id):
        return unknown(app, group_id)
    if not app.broker.ledger.enabled:
        return problem(503, "the rebalance ledger is off: kohort.ledger.enable=false")
    return json_answer({"group_id": group_id, **nothing})


def unknown(app: App, group_id: str) -> Answer:
    """404, and what may have been meant."""
    return problem(404, f"there is no group {group_id[:200]!r}", nearest=nearest(group_id, _names(app)))


def nearest(group_id: str, names: list[str]) -> list[str]:
    """At most three names that look like it. Of many only those are compared that share something with it."""
    if len(names) > _NAMES_COMPARED:
        low = group_id.lower()
        start = low[:3]
        names = [name for name in names if start in name.lower() or name.lower() in low]
    return get_close_matches(group_id, names[:_NAMES_COMPARED], n=3, cutoff=0.5)


def _names(app: App) -> list[str]:
    return [name for leader in app.broker.groups.leaders for name in leader.shard.all_keys()]


def _known(app: App, group_id: str) -> bool:
    shard = app.broker.groups.leader_of(group_id).shard
    return group_id in shard.states or group_id in shard.offsets


def _last(request: Request, default: int) -> int | Answer:
    text = request.query.get("last", str(default))
    if not text.isdecimal() or not 1 <= int(text) <= LAST_MAX:
        return problem(400, f"last={text[:20]}: it takes a number from 1 to {LAST_MAX}")
    return int(text)


def _summaries(app: App) -> Iterator[dict[str, Any]]:
    for leader in list(app.broker.groups.leaders):
        for group_id in sorted(leader.shard.all_keys()):
            yield _summary(group_id, leader.shard.states.get(group_id))


def _summary(group_id: str, found: AnyGroup | None) -> dict[str, Any]:
    if found is None:
        return {"group_id": group_id, "state": GroupState.EMPTY.value, "protocol_type": None, "members": 0}
    return {
        "group_id": group_id,
        "state": found.state.value,
        "protocol_type": CONSUMER if isinstance(found, ConsumerGroup) else found.protocol_type,
        "members": len(found.members),
    }


def _described(app: App, group_id: str) -> Steps[Answer]:
    ledger = app.broker.ledger
    state = yield from ledger.live_in_steps(group_id)
    if state is None:
        state = {"group_id": group_id, "state": GroupState.EMPTY.value, "members": []}
    owners = _owners(app.broker.groups.leader_of(group_id).shard.states.get(group_id), app.broker.catalogue.image)
    yield
    entries = yield from lag.of_group(app.broker, group_id)
    partitions = [
        _partition(entry.topic, entry.partition, owners.pop((entry.topic, entry.partition), None), entry)
        for entry in entries
    ]
    partitions += [_partition(topic, index, owner, None) for (topic, index), owner in sorted(owners.items())]
    yield
    state["cluster_id"] = app.broker.cluster_id
    state["partitions"] = partitions
    state["lag"] = sum(entry.lag for entry in entries)
    state["rebalance_in_progress"] = ledger.in_progress(group_id)
    return json_answer(state)


def _owners(found: AnyGroup | None, topics: Topics) -> dict[tuple[str, int], str]:
    """Which member has which partition; in a classic group nobody while a rebalance goes on."""
    owners: dict[tuple[str, int], str] = {}
    if isinstance(found, ConsumerGroup):
        return {place: id_ for id_, one in holdings_of(found, topics).items() for place in one.partitions}
    if found is not None and found.protocol_type == CONSUMER and found.state is GroupState.STABLE:
        for member in found.members.values():
            with suppress(MetadataError):
                for key in assigned_partitions(member.assignment):
                    owners[key] = member.member_id
    return owners


def _partition(topic: str, index: int, owner: str | None, entry: lag.PartitionLag | None) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": index,
        "committed_offset": entry.committed if entry is not None else None,
        "lag": entry.lag if entry is not None else None,
        "lag_seconds": entry.lag_s if entry is not None else None,
        "owner": owner,
    }
