"""What the auditors of the simulation take for wrong, and what not."""

from __future__ import annotations

import pytest

from broker.testbed.auditing.auditors import Everything
from broker.testbed.auditing.exchange import Exchange
from coordinator.routing import partition_for
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.support.consumer_protocol import subscription


def join(auditor: Everything, tick: int, member_id: str, generation: int, instance: str | None = None) -> None:
    """The member is told that it leads the generation, alone."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=subscription("t"))
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=6_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[protocol],
    )
    exchange = Exchange("client", request, 5, arrived=tick, answered=tick + 1)
    auditor.arrived(exchange)
    exchange.response = JoinGroupResponse(
        generation_id=generation,
        protocol_type="consumer",
        protocol_name="range",
        leader=member_id,
        member_id=member_id,
        members=[JoinGroupResponseMember(member_id=member_id, metadata=protocol.metadata)],
    )
    auditor.answered(exchange)


def test_a_generation_that_was_not_written_down_is_handed_out_again_only_when_its_group_was_loaded_anew() -> None:
    """Nobody need have asked in between: the failure of the log is not always seen on the wire."""
    index = partition_for("g", 3)
    auditor = Everything()
    join(auditor, 1, "a", 1)
    auditor.groups_loaded_anew(index, 3)
    join(auditor, 3, "b", 1)

    auditor.groups_loaded_anew((index + 1) % 3, 3)
    with pytest.raises(AssertionError, match="generation 1 has the leaders"):
        join(auditor, 5, "c", 1)


def test_a_group_deleted_in_its_first_generation_begins_with_another_leader() -> None:
    """It was in that generation when it was deleted, or its later ones were lost with the power: os/54590."""
    auditor = Everything()
    join(auditor, 1, "a", 1)
    auditor.arrived(Exchange("admin", DeleteGroupsRequest(groups_names=["g"]), 2, arrived=3, answered=4))
    join(auditor, 5, "b", 1)

    with pytest.raises(AssertionError, match="generation 1 has the leaders"):
        join(auditor, 7, "c", 1)


def test_a_static_member_that_comes_back_leads_the_generation_that_was_there() -> None:
    """Also when the group may have been deleted: what its leader made of the generation still holds, as in os/0."""
    auditor = Everything()
    join(auditor, 1, "static-1", 1, "static")
    before = auditor.groups["g"][1]
    auditor.arrived(Exchange("admin", DeleteGroupsRequest(groups_names=["g"]), 2, arrived=3, answered=4))
    join(auditor, 5, "static-2", 1, "static")

    assert auditor.groups["g"][1] is before


def test_a_generation_that_was_in_the_log_after_all_is_still_its_leaders() -> None:
    """Its leader's plan came while the log was read anew; the group may have been deleted long ago: always/78366."""
    auditor = Everything()
    auditor.arrived(Exchange("admin", DeleteGroupsRequest(groups_names=["g"]), 2, arrived=1, answered=2))
    join(auditor, 3, "a", 1)
    auditor.groups_loaded_anew(partition_for("g", 3), 3)
    plan = SyncGroupRequestAssignment(member_id="a", assignment=b"")
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id="a", assignments=[plan])
    synced = Exchange("client", request, 3, arrived=5, answered=6)
    auditor.arrived(synced)
    synced.response = SyncGroupResponse(assignment=b"")
    auditor.answered(synced)
    before = auditor.groups["g"][1]

    join(auditor, 7, "a", 1)

    assert auditor.groups["g"][1] is before
    assert before.plans == [{"a": b""}]
