"""What nearly every ConsumerGroupHeartbeat comes to: a member that is where its group is says that it is alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.classic.inputs import SessionExpired
from coordinator.consumer.answers import heard
from coordinator.consumer.group import STABLE
from coordinator.outcome import Outcome, Reply, SetTimer

if TYPE_CHECKING:
    from coordinator.consumer.inputs import ConsumerHeartbeat
    from coordinator.view import AnyGroupOutcome, View


def settled_heartbeat(view: View, request: ConsumerHeartbeat, now_ms: int) -> AnyGroupOutcome | None:
    """Its session begins anew. None when it says something else, or something may be due: then one has to look.

    The same as comes of looking (`coordinator.consumer.heartbeat`), at a fifth of its cost.
    """
    group, member_id = view.consumer_group, request.member_id
    if (
        group is None
        or request.names is not None
        or request.owned is not None
        or request.regex is not None
        or request.rebalance_timeout_ms != -1
        or request.assignor is not None
        or request.rack_id is not None
    ):
        return None
    member = group.members.get(member_id)
    if (
        member is None
        or member.state != STABLE
        or not member.epoch == request.epoch == group.epoch == group.target_epoch
        or (request.instance_id is not None and request.instance_id != member.instance_id)
        or member.client_id != request.client_id
        or member.client_host != request.client_host
        or member.classic is not None
        or group.regex_counts  # they may have to be looked up again
        or group.hashed_topics is not view.topics
    ):
        return None
    settings = view.consumer_settings
    reply = Reply(request.reply_to, heard(member_id, member.epoch, settings.heartbeat_interval_ms))
    key, expired = ("heartbeat", group.group_id, member_id), SessionExpired(group.group_id, member_id)
    # Given by position: the names would cost a tenth of a heartbeat.
    return Outcome(group, (), (reply,), (SetTimer(key, now_ms + max(settings.session_timeout_ms, 0), expired),))
