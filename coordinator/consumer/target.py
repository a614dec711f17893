"""The target assignment: when it is computed, from what, and what is written of it.

At most one is computed in an assignment interval, by the first heartbeat that finds the group epoch ahead of the
target's; nothing waits for it but members who want more than they have. That of a small group is computed at once, that
of a large one beside the loop, and counts from when it is there.

Source: KIP-848, KIP-1263; Kafka's TargetAssignmentBuilder, GroupMetadataManager.maybeUpdateTargetAssignment,
ConsumerGroup.computePreferredServerAssignor, ModernGroup.subscriptionType.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from coordinator import events
from coordinator.cause import Cause
from coordinator.consumer.assignor import AssignmentSpec, MemberToAssign, TopicToAssign, compute
from coordinator.consumer.draft import Draft
from coordinator.consumer.group import NOTHING, ConsumerGroup
from coordinator.consumer.inputs import ComputeTarget, TargetComputed
from coordinator.consumer.records import target_epoch_record, target_record
from coordinator.outcome import Outcome
from coordinator.values import altered
from protocol.records.group_records import EncodedValue, encode_key, encode_value

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from coordinator.consumer.assignor import Assignor, Target
    from coordinator.consumer.records import Record
    from coordinator.view import AnyGroupOutcome, ConsumerSettings, Topics, View

PIECE = 500
"""Records between two yields: some 3 us each."""
AT_ONCE = 1_000
"""Members and partitions up to which a target is computed within the heartbeat that finds it missing."""


def may_compute(group: ConsumerGroup, settings: ConsumerSettings, now_ms: int) -> bool:
    """Whether a new target is due."""
    if group.epoch <= group.target_epoch:
        return False
    interval_ms, computed_at_ms = settings.assignment_interval_ms, group.target_timestamp_ms
    return computed_at_ms == 0 or interval_ms == 0 or now_ms >= computed_at_ms + interval_ms


def update_target(draft: Draft, requested_by: str) -> None:
    """Compute a new target if one is due, or have it computed. `requested_by`: the member whose heartbeat this is."""
    group, view = draft.group, draft.view
    if not may_compute(group, view.consumer_settings, draft.now_ms):
        return
    topics = view.topics
    size = len(group.members) + sum([topics.partition_count(name) or 0 for name in group.subscribed_topics])
    if size > AT_ONCE and draft.soft.get("computing_epoch", group.computing_epoch) is not None:
        return  # every member of a large group comes by here while its target is being computed
    before = draft.before
    is_new = not isinstance(before, ConsumerGroup) or requested_by not in before.members
    spec = assignment_spec(group, topics, view.consumer_settings.rack, requested_by if is_new else None)
    name = preferred_assignor(group, tuple(view.consumer_settings.assignors))
    _tell_of_assignor(draft, name)
    if size <= AT_ONCE:
        _take_over(draft, group.epoch, compute(view.consumer_settings.assignors[name], spec))
    else:
        draft.soft["computing_epoch"] = group.epoch
        draft.work.append(ComputeTarget(draft.group_id, group.epoch, name, spec))


def _tell_of_assignor(draft: Draft, name: str) -> None:
    """Where a member that went decided what most prefer, no epoch was raised: it comes with the next target."""
    before = draft.tracking.assignor
    if before != name:
        draft.tracking = altered(draft.tracking, assignor=name)
        if before is not None:
            draft.side_causes.append(Cause(draft.now_ms, "assignor_changed", detail={"old": before, "new": name}))


def computed(work: ComputeTarget, assignor: Assignor) -> Generator[None, None, TargetComputed]:
    """What comes of the work, in pieces: the target, and what is to be written of it, already as bytes.

    Making ten thousand records takes as long as computing what they say, and is done in the same way.
    """
    spec = work.spec
    target = yield from assignor.steps(spec)
    records: dict[str, Record] = {}
    for at, (member_id, member) in enumerate(spec.members.items(), 1):
        after = target.get(member_id, NOTHING)
        if member.target != after:
            key, value = target_record(work.group_id, member_id, after)
            assert value is not None
            records[member_id] = key, EncodedValue(value, encode_key(key), encode_value(value))
        if at % PIECE == 0:
            yield
    return TargetComputed(work.group_id, work.epoch, spec, target, records)


def target_computed(view: View, result: TargetComputed, now_ms: int) -> AnyGroupOutcome:
    """The target of a large group is there. Members that have come since wait for the next one."""
    group = view.consumer_group
    if group is None or group.computing_epoch != result.epoch:
        return Outcome(group or view.group)  # another group of that name, or one that was loaded anew
    draft = Draft(view, now_ms)
    draft.soft["computing_epoch"] = None
    if result.target is None:
        draft.event(events.TargetFailed(result.epoch))
    elif result.epoch > group.target_epoch and not _somebody_was_replaced(group, result.spec):
        _take_over(draft, result.epoch, result.target, result.records)
    return draft.outcome()


def _somebody_was_replaced(group: ConsumerGroup, spec: AssignmentSpec) -> bool:
    """A static member that came back under another id has an old target, which the new one may have given on."""
    gone = spec.members.keys() - group.members.keys()
    return any(spec.members[member_id].instance_id in group.static_members for member_id in gone)


def _take_over(draft: Draft, epoch: int, target: Target, made: Mapping[str, Record] | None = None) -> None:
    """`made`: the records of all whose target is another than it was, which nothing has changed since."""
    group_id, members, before = draft.group_id, draft.group.members, draft.group.targets
    if made is None:
        changed = [member_id for member_id in members if before.get(member_id) != target.get(member_id, NOTHING)]
        records = [target_record(group_id, member_id, target.get(member_id, NOTHING)) for member_id in changed]
    else:
        changed = [member_id for member_id in made if member_id in members]
        records = [made[member_id] for member_id in changed]
    draft.write_targets(records, {member_id: target.get(member_id, {}) for member_id in changed})
    draft.write(target_epoch_record(group_id, epoch, draft.now_ms))
    draft.event(events.TargetComputed(epoch, len(members), len(changed)))


def assignment_spec(
    group: ConsumerGroup, topics: Topics, rack: str | None, newcomer: str | None = None
) -> AssignmentSpec:
    """What the group's target depends on."""
    existing: dict[bytes, TopicToAssign] = {}
    by_subscription: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
    members: dict[str, MemberToAssign] = {}
    targets = group.targets
    for member_id, member in group.members.items():
        subscription = member.names, member.regex
        topic_ids = by_subscription.get(subscription)
        if topic_ids is None:
            topic_ids = by_subscription[subscription] = frozenset(ids_of(group.topics_of(member), topics))
            for topic_id in topic_ids:
                if topic_id not in existing:
                    count = topics.partition_count(topics.topic_name(topic_id) or "") or 0
                    racks = () if rack is None else (frozenset({rack}),) * count
                    existing[topic_id] = TopicToAssign(count, racks)
        target = targets.get(member_id, NOTHING)
        members[member_id] = MemberToAssign(member_id, member.instance_id, member.rack_id, topic_ids, target)
    return AssignmentSpec(members, existing, is_homogeneous(group), newcomer)


def ids_of(names: Iterable[str], topics: Topics) -> set[bytes]:
    """The ids of those topics that exist."""
    return {topic_id for topic_id in map(topics.topic_id, names) if topic_id is not None}


def is_homogeneous(group: ConsumerGroup) -> bool:
    """Whether every member subscribes to the same, as far as counting tells."""
    everybody = len(group.members)
    if not group.regex_counts:
        return all(count == everybody for count in group.name_counts.values())
    return list(group.regex_counts.values()) == [everybody] and not group.name_counts


def preferred_assignor(group: ConsumerGroup, configured: tuple[str, ...]) -> str:
    """What most of those who have a preference prefer; the first of the settings when nobody has one.

    Of two with as many votes `uniform` wins over `range`: so their names lie in Kafka's hash map.
    """
    votes = Counter([member.assignor for member in group.members.values() if member.assignor in configured])
    return str(max(votes, key=lambda name: (votes[name], name))) if votes else configured[0]
