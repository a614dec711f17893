"""What one request may give a rule to do in one go."""

import pytest

from kohort.testing import Broker
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.broker_process import eventually
from tests.support.wire import Wire


def joining(protocols: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=f"p{number}", metadata=b"") for number in range(protocols)],
    )


def test_long_lists_are_bounded_or_read_elsewhere():
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        eventually(lambda: wire.coordinator_error("g") == 0)
        assert wire.call(joining(1_001), 3).error_code == ErrorCode.INVALID_REQUEST
        joined = wire.call(joining(1_000), 3)
        assert joined.error_code == 0

        # More assignments than are read on the loop, one member's twice: the last one counts.
        others = [SyncGroupRequestAssignment(member_id=f"m{number}", assignment=b"") for number in range(2_000)]
        mine = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=plan) for plan in (b"old", b"new")]
        request = SyncGroupRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=[*mine, *others]
        )
        assert wire.call(request, 2).assignment == b"new"

        beat = ConsumerGroupHeartbeatRequest(
            group_id="k",
            member_id="m",
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=[f"t{number}" for number in range(10_001)],
            topic_partitions=[],
        )
        assert wire.call(beat, 0).error_code == ErrorCode.INVALID_REQUEST
        beat.subscribed_topic_names = beat.subscribed_topic_names[:10_000]
        answer = wire.call(beat, 0)
        assert answer.error_code == 0 and answer.member_epoch > 0

        states = [f"NoState{number}" for number in range(1_000)]
        listed = wire.call(ListTransactionsRequest(state_filters=[*states, "Ongoing"]), 0)
        assert (listed.error_code, listed.unknown_state_filters) == (0, states)


def test_who_asks_for_the_same_transaction_again_and_again_is_not_answered():
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        eventually(lambda: wire.coordinator_error("g") == 0)
        once = wire.call(DescribeTransactionsRequest(transactional_ids=["t"] * 100), 0)
        assert len(once.transaction_states) == 100
        with pytest.raises(ConnectionResetError):
            wire.call(DescribeTransactionsRequest(transactional_ids=["t"] * 200), 0)
