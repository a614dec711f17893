"""What a member of the consumer protocol may not see: Kohort and Apache Kafka come to the same.

The judge's brokers have no authorizer, so it cannot play these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.reference.beside import codes
from tests.reference.test_rights_beside_kafka import ALLOW, DESCRIBE, GROUP, READ, acl, ask, give, there
from tests.support.broker_process import eventually

if TYPE_CHECKING:
    from tests.reference.beside import Side

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]


def beat(side: Side, group: str, epoch: int, **subscription: Any) -> Any:
    """Of a member that has given up nothing and lacks nothing."""
    joining = {"rebalance_timeout_ms": 60_000, "topic_partitions": []} if not epoch else {}
    request = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="m", member_epoch=epoch, **joining, **subscription
    )
    return side.wire.call(request, 1)


def described(side: Side, group: str) -> Any:
    """As a super user sees it."""
    [found] = ask(side, ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
    return found


def may(side: Side, group: str) -> None:
    """Have alice be a member, and know of one of two topics."""
    there(side, "seen", "unseen")
    give(side, acl(ALLOW, READ, group, GROUP), acl(ALLOW, DESCRIBE, "seen"))


def test_a_name_that_a_member_may_not_describe_changes_nothing_as_with_kafka(sides: tuple[Side, Side]) -> None:
    """K21: beside a name that it may; and who joins with it is no member."""
    told = []
    for side in sides:
        may(side, "g21")
        refused = [beat(side, "g21", 0, subscribed_topic_names=["unseen"])]
        missing = described(side, "g21").error_code
        joined = beat(side, "g21", 0, subscribed_topic_names=["seen"])
        before = described(side, "g21")
        refused.append(beat(side, "g21", joined.member_epoch, subscribed_topic_names=["seen", "unseen"]))
        assert described(side, "g21") == before
        after = beat(side, "g21", joined.member_epoch)
        told.append(([list(codes(one)) for one in (*refused, joined, after)], missing, after.member_epoch))
    assert told[0] == told[1]
    assert [found[0][1] for found in told[0][0]] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2 + [ErrorCode.NONE] * 2


def test_an_expression_finds_what_its_member_may_describe_as_with_kafka(sides: tuple[Side, Side]) -> None:
    """K52: the other topic that matches is not given to anybody."""
    told = []
    for side in sides:
        may(side, "g52")
        epoch = beat(side, "g52", 0, subscribed_topic_regex="(un)?seen").member_epoch

        def resolved(side: Side = side, epoch: int = epoch) -> bool:
            beat(side, "g52", epoch)
            return bool(described(side, "g52").members[0].assignment.topic_partitions)

        eventually(resolved, what="it is resolved")
        [member] = described(side, "g52").members
        topics = [one.topic_name for one in member.assignment.topic_partitions]
        told.append((topics, member.subscribed_topic_regex, member.member_epoch))
    assert told[0] == told[1]
    assert told[0][0] == ["seen"]
