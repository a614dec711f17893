"""The answers to members of the new protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse, TopicPartitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator.consumer.group import EpochPartitions

_NO_INTERVAL = 0


class Refused(Exception):
    """A request that is answered with an error, and changes nothing."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def heartbeat_error(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """A refused heartbeat."""
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)


def refusal() -> Callable[[ErrorCode], ConsumerGroupHeartbeatResponse]:
    """What is answered when the records of a heartbeat cannot be written."""
    return heartbeat_error


def heard(
    member_id: str, epoch: int, interval_ms: int = _NO_INTERVAL, assigned: EpochPartitions | None = None
) -> ConsumerGroupHeartbeatResponse:
    """The member is where it is. `assigned` None: as it was told before."""
    assignment = None
    if assigned is not None:
        topics = [TopicPartitions(topic_id=topic_id, partitions=sorted(held)) for topic_id, held in assigned.items()]
        assignment = Assignment(topic_partitions=topics)
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms, assignment=assignment
    )
