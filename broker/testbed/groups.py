"""Groups as a test sees them, and what it may do to them: nothing that a coordinator, or another client, could not.

What happens to a group goes through its rules, as an input like any other; the ledger and the log say the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.catalogue.internal_topics import OFFSETS_TOPIC
from broker.groups.ledger.reading import finished
from broker.handlers.context import Deferred
from broker.http.metrics.lag import of_group
from broker.testbed.refused import Refused
from coordinator.classic.inputs import Join, Leave, Leaver, SessionExpired, fresh_member_id
from coordinator.consumer.group import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerMember
from coordinator.consumer.inputs import ConsumerHeartbeat
from coordinator.group import GroupState, Member
from coordinator.why import terms, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.groups.groups import GroupLeader
    from broker.testbed.ports import UnderTest
    from coordinator.group import Group

    Answer = Callable[[Any], None]

_CLIENT_ID, _HOST = "kohort-testing", "/127.0.0.1"
_NOBODY = ConsumerMember("")
_TOLD = 50  # rebalances
_LOOK_EVERY_MS, _LOOKS = 2, 500


def group(bed: UnderTest, arguments: dict[str, Any], answer: Answer) -> None:
    """State, generation, protocol, and members with what they own."""
    live = _live(bed, arguments["group"])
    answer(
        {
            "state": live["state"],
            "generation": live["generation"],
            "protocol": live["protocol"],
            "members": [
                {
                    "member_id": member["member_id"],
                    "instance_id": member.get("instance_id"),
                    "client_id": member.get("client_id"),
                    "partitions": [
                        [topic, index]
                        for topic, text in (member["partitions"] or {}).items()
                        for index in _numbers(text)
                    ],
                }
                for member in live["members"]
            ],
        }
    )


def groups(bed: UnderTest, arguments: dict[str, Any], answer: Answer) -> None:
    """The ids of all groups."""
    answer(sorted(_ids(bed)))


def committed(bed: UnderTest, arguments: dict[str, Any], answer: Answer) -> None:
    """[topic, partition, offset, metadata] of what a group has committed."""
    offsets = _leader(bed, arguments["group"]).shard.offsets.get(arguments["group"], {})
    answer([[*key, one.offset, one.metadata] for key, one in sorted(offsets.items())])


def lag(bed: UnderTest, arguments: dict[str, Any], answer: Answer) -> None:
    """[topic, partition, records] that a group has not committed, where it has committed anything."""
    answer([[one.topic, one.partition, one.lag] for one in finished(of_group(bed.broker, arguments["group"]))])


def why(bed: UnderTest, arguments: dict[str, Any], answer: Answer) -> None:
    """The history of a group, as text, once the ledger has written what has happened."""

    def look(left: int) -> None:
        if bed.broker.ledger.is_written or not left:
            bed.guarded(_tell, arguments, answer)
        else:
            look_ms = bed.runtime.now_ms() + _LOOK_EVERY_MS
            bed.runtime.timers.set(("testbed", "why", arguments["id"]), look_ms, lambda: look(left - 1))

    look(_LOOKS)


def _tell(bed: UnderTest, arguments: dict[str, Any], answer: Answer) -> None:
    answer("\n".join(_told(bed, arguments["group"])))


def expire(bed: UnderTest, arguments: dict[str, Any], answer: Answer) -> None:
    """The session of a member is over, whatever it has sent; its id."""
    group_id = arguments["group"]
    member = _member(bed, group_id, arguments["member"])
    _leader(bed, group_id).submit(SessionExpired(group_id, member["member_id"]))
    left = {one["member_id"] for one in _live(bed, group_id)["members"]}
    if member["member_id"] in left:
        raise Refused(f"{terms.who(member)} waits in a rebalance of {group_id}: its coordinator counts it as alive")
    answer(member["member_id"])


def lose_assignment(bed: UnderTest, arguments: dict[str, Any], answer: Answer) -> None:
    """All members, or one, are put out without their knowing; [client id, topic, partition] of what they had."""
    group_id, name = arguments["group"], arguments["member"]
    members = _live(bed, group_id)["members"] if name is None else [_member(bed, group_id, name)]
    lost = [
        [member.get("client_id"), topic, index]
        for member in members
        for topic, text in (member["partitions"] or {}).items()
        for index in _numbers(text)
    ]
    if not lost:
        whose = group_id if name is None else f"{name} of {group_id}"
        raise Refused(f"{whose} has no partitions to lose: wait until the group is stable")
    leader = _leader(bed, group_id)
    for member in members:
        leader.submit(SessionExpired(group_id, member["member_id"]))
    answer(lost)


def fence(bed: UnderTest, arguments: dict[str, Any], answer: Answer) -> None:
    """Somebody else joins with a static member's instance id: it is fenced.

    Nobody takes the place of a present member of KIP-848: there it goes for a while, as before a restart, and goes on.
    """
    group_id, instance_id = arguments["group"], arguments["instance"]
    leader = _leader(bed, group_id)
    found = leader.shard.consumer_groups.get(group_id) or leader.shard.groups.get(group_id)
    holder = None if found is None else found.members.get(found.static_members.get(instance_id, ""))
    if holder is None:
        names = ", ".join(sorted(found.static_members)) if found is not None else ""
        raise Refused(f"{group_id} has no static member {instance_id!r}; it has {names or 'none'}")
    if isinstance(holder, Member) or holder.classic is not None:
        answer(_join(bed, leader, group_id, holder, instance_id))
        return
    rival_id = bed.broker.groups.new_uuid()
    if not holder.is_away:
        leader.submit(_heartbeat(group_id, holder.member_id, LEAVE_STATIC_EPOCH, holder))
    leader.submit(_heartbeat(group_id, rival_id, 0, holder))
    answer(rival_id)


def rebalance(bed: UnderTest, arguments: dict[str, Any], answer: Answer) -> None:
    """A member comes and goes again at once: everybody else has to join anew."""
    group_id = arguments["group"]
    leader = _leader(bed, group_id)
    found: Group | None = leader.shard.groups.get(group_id)
    if group_id in leader.shard.consumer_groups:
        member_id = bed.broker.groups.new_uuid()
        for epoch in (0, LEAVE_EPOCH):
            leader.submit(_heartbeat(group_id, member_id, epoch))
    elif found is None or found.state is not GroupState.STABLE:
        raise Refused(
            f"{group_id} is {'not there' if found is None else found.state.value}: only a stable group rebalances"
        )
    else:
        member_id = _join(bed, leader, group_id, next(iter(found.members.values())), None)
        leaver = Leaver(member_id, None, "a test asked for a rebalance")
        leader.submit(Leave(group_id, [leaver], 5, Deferred(), _CLIENT_ID, _HOST))
    answer(None)


def move_coordinator(bed: UnderTest, arguments: dict[str, Any], answer: Answer) -> None:
    """Everybody who waits is told to look for the coordinator again, which has read the group anew from its log."""
    _live(bed, arguments["group"])
    leader = _leader(bed, arguments["group"])
    partition = bed.broker.partitions.get(OFFSETS_TOPIC, leader.index)
    if partition is None:
        raise Refused("there are no groups yet")

    def settled() -> None:
        leader.load(partition)
        if bed.audit is not None:
            bed.audit.groups_loaded_anew(leader.index)
        answer(None)

    leader.when_settled(settled)


# ---


def _join(
    bed: UnderTest, leader: GroupLeader, group_id: str, like: Member | ConsumerMember, instance_id: str | None
) -> str:
    """The id of a new member of the classic protocol, which says of itself what another one says."""
    member_id = fresh_member_id(instance_id, _CLIENT_ID, bed.broker.groups.new_uuid())
    said = like if isinstance(like, Member) else like.classic
    assert said is not None
    leader.submit(
        Join(
            group_id=group_id,
            member_id="",
            instance_id=instance_id,
            protocol_type=like.protocol_type if isinstance(like, Member) else "consumer",
            protocols=said.protocols,
            session_timeout_ms=said.session_timeout_ms,
            rebalance_timeout_ms=like.rebalance_timeout_ms,
            version=9 if instance_id is not None else 3,  # from 4 on it would have to ask twice
            new_member_id=member_id,
            client_id=_CLIENT_ID,
            client_host=_HOST,
            reply_to=Deferred(),
            reason="a test asked for it",
        )
    )
    return member_id


def _heartbeat(group_id: str, member_id: str, epoch: int, like: ConsumerMember = _NOBODY) -> ConsumerHeartbeat:
    """Of a member that subscribes to what another one does, and has its instance id."""
    return ConsumerHeartbeat(
        group_id=group_id,
        member_id=member_id,
        epoch=epoch,
        instance_id=like.instance_id,
        rack_id=like.rack_id,
        rebalance_timeout_ms=60_000,
        names=like.names,
        regex=like.regex or None,
        assignor=like.assignor,
        owned={},
        version=1,
        new_member_id="",
        client_id=_CLIENT_ID,
        client_host=_HOST,
        reply_to=Deferred(),
    )


def _leader(bed: UnderTest, group_id: str) -> GroupLeader:
    return bed.broker.groups.leader_of(group_id)


def _ids(bed: UnderTest) -> set[str]:
    return {name for leader in bed.broker.groups.leaders for name in leader.shard.all_keys()}


def _live(bed: UnderTest, group_id: str) -> dict[str, Any]:
    live = bed.broker.ledger.live(group_id)
    if live is None:
        if group_id not in _ids(bed):
            known = ", ".join(sorted(_ids(bed)))
            raise Refused(f"there is no group {group_id!r}; there {f'are {known}' if known else 'is none'}")
        live = {"state": GroupState.EMPTY.value, "generation": 0, "protocol": None, "members": []}
    return live


def _member(bed: UnderTest, group_id: str, name: str) -> dict[str, Any]:
    members = _live(bed, group_id)["members"]
    for field in ("member_id", "instance_id", "client_id"):
        found: list[dict[str, Any]] = [one for one in members if one.get(field) == name]
        if len(found) == 1:
            return found[0]
    told = ", ".join(terms.who(one) for one in members) or "none"
    raise Refused(f"{group_id} has no one member with the id, instance id or client id {name!r}; it has {told}")


def _numbers(text: str) -> Iterator[int]:
    """`0-2,5`: four of them."""
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        yield from range(int(first), int(last or first) + 1)


def _told(bed: UnderTest, group_id: str) -> Iterator[str]:
    live = _live(bed, group_id)
    members = ", ".join(terms.who(one) for one in live["members"]) or "nobody"
    yield f"group {group_id}: {live['state']}, generation {live['generation']}, members: {members}"
    ledger = bed.broker.ledger
    going = ledger.in_progress(group_id)
    if going is not None:
        yield f"  {words.in_progress(going)}"
    records = ledger.records(group_id, _TOLD)
    began_ms = records[0]["at_ms"] if records else 0
    for record in records:
        when = f"  +{terms.duration(record['at_ms'] - began_ms)}"
        if record["kind"] == "rebalance_ended":
            told = f"{record.get('from_generation')} -> {record.get('to_generation')}: {words.causes(record)}"
            yield f"{when}  generation {told}"
            if words.consequences(record):
                yield f"        {words.consequences(record)}"
        elif record["kind"] != "rebalance_began":
            text = words.event(record)
            if text is not None:
                yield f"{when}  {text}"
