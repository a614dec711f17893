"""What a member of the consumer protocol may not name."""

from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.support.broker_process import QUICK_GROUPS, Kohort, eventually
from tests.support.wire import Wire

RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def test_a_name_that_the_caller_may_not_describe_changes_nothing(tmp_path: Path):
    """K21: TOPIC_AUTHORIZATION_FAILED, and the member goes on as it was."""
    with Kohort(tmp_path, {**QUICK_GROUPS, **RIGHTS}) as broker, Wire(broker.address) as wire:
        eventually(lambda: wire.coordinator_error("g") == 0)
        for name in ("seen", "hidden"):
            assert wire.create_topic(name, 1) == 0
        somebody_elses = AclCreation(
            resource_type=2, resource_name="hidden", resource_pattern_type=3, principal="User:another", host="*",
            operation=8, permission_type=3,
        )  # fmt: skip
        wire.call(CreateAclsRequest(creations=[somebody_elses]), 3)
        beat = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", rebalance_timeout_ms=10_000, subscribed_topic_names=["seen"],
            topic_partitions=[],
        )  # fmt: skip
        joined = wire.call(beat, 0)
        assert joined.error_code == ErrorCode.NONE
        describe = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
        before = wire.call(describe, 1).groups

        beat.member_epoch, beat.subscribed_topic_names = joined.member_epoch, ["hidden", "seen"]
        assert wire.call(beat, 0).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

        assert wire.call(describe, 1).groups == before
        beat.subscribed_topic_names = ["seen"]
        assert wire.call(beat, 0).member_epoch == joined.member_epoch
