"""What the auditors of the simulation take for wrong, and what not."""

from __future__ import annotations

import pytest

from broker.testbed.auditing.auditors import Everything
from broker.testbed.auditing.exchange import Exchange
from coordinator.routing import partition_for
from protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from tests.support.consumer_protocol import subscription


def join(auditor: Everything, tick: int, member_id: str, generation: int) -> None:
    """The member is told that it leads the generation, alone."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=subscription("t"))
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=6_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )
    exchange = Exchange("client", request, 5, arrived=tick, answered=tick + 1)
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
