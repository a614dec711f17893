"""What a group leader keeps in its hands: its state, the batches that are on their way, the log in chunks."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from coordinator.append_errors import error_for_client
from coordinator.offsets.inputs import FetchOffsets
from protocol.errors import ErrorCode
from protocol.records.batch_header import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.partitions import Partition
    from coordinator.outcome import Input, Outcome


class LeaderState(Enum):
    """Whether a partition's groups are served."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"  # its log refused a write or an fsync, or cannot be understood
    RESIGNED = "resigned"


REFUSALS = {
    LeaderState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    # Not "loading": aiokafka takes that answer to an OffsetFetch for "nothing is committed", and starts anew.
    LeaderState.FAILED: ErrorCode.NOT_COORDINATOR,
    LeaderState.RESIGNED: ErrorCode.NOT_COORDINATOR,
}
"""What requests are answered in a state other than ACTIVE."""


def timed_out(event: Input) -> ErrorCode:
    """What a request without records is answered that has waited for those before it for too long.

    Kafka answers a plain OffsetFetch at once, and gives one that waits this error. It is also the one that no client
    takes for "nothing is committed". Source: Kafka's GroupCoordinatorService.handleOffsetFetchException.
    """
    return ErrorCode.NOT_COORDINATOR if type(event) is FetchOffsets else error_for_client(ErrorCode.REQUEST_TIMED_OUT)


class GroupBatch:
    """Outcomes whose records share a batch, and those that came after them and must wait for it.

    A step is (input, group id, outcome). `last_offset` is known once the batch is appended.
    """

    __slots__ = ("_looks", "last_offset", "pairs", "records", "size_bytes", "steps")

    def __init__(self) -> None:
        self.pairs: list[tuple[bytes, bytes | None]] = []
        self.records: list[tuple[Any, Any | None]] = []
        self.size_bytes = HEADER_BYTES
        self.steps: list[tuple[Input | None, str, Outcome]] = []
        self.last_offset = -1
        self._looks: tuple[int, ...] = ()  # how many steps there were at each of the last looks

    def overdue(self, looks: int) -> list[tuple[Input, str, Outcome]]:
        """Look at what waits: what was there so many looks ago is taken out. Calls of our own wait on."""
        seen = (*self._looks, len(self.steps))
        if len(seen) <= looks:
            self._looks = seen
            return []
        late = self.steps[: seen[0]]
        ours = [step for step in late if step[0] is None]
        self.steps[: seen[0]] = ours
        gone = len(late) - len(ours)
        self._looks = tuple([count - gone for count in seen[1:]])
        return [(event, group_id, outcome) for event, group_id, outcome in late if event is not None]


class Call:
    """Where a "reply" goes that is a call of our own."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback

    def complete(self, _: object) -> None:
        """Call it."""
        self._callback()


def chunks_of(partition: Partition, chunk_bytes: int) -> Iterator[bytes]:
    """The partition's log from start to end, whole batches."""
    offset, end = partition.log_start_offset, partition.log_end_offset
    while offset < end:
        result = partition.log.read(offset, chunk_bytes, copied=True)
        if not result.size_bytes and result.next_offset <= offset:
            return
        if result.size_bytes:
            yield b"".join(result.buffers)
        offset = result.next_offset
