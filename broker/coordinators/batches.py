"""What a coordinator's leader holds: its state, the batches that are on their way, the log in chunks."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode
from protocol.records.batch_encoder import encoded_pair_bytes
from protocol.records.batch_header import HEADER_BYTES
from protocol.records.group_records import EncodedValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from broker.partitions import Partition
    from coordinator.outcome import Input, Outcome

_KEYS_KEPT = 100_000


class LeaderState(Enum):
    """Whether what a partition holds is served."""

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


class OutcomeBatch:
    """Outcomes whose records share a batch, and those that came after them and must wait for it.

    A step is (input, key, outcome).
    `producer`, an (id, epoch), makes it a batch of that producer's transaction. `ended` is set for a marker, which has
    no outcome: it is told NONE when that is committed, else an error.
    """

    __slots__ = ("_looks", "ended", "pairs", "producer", "records", "size_bytes", "steps")

    def __init__(
        self, producer: tuple[int, int] | None = None, ended: Callable[[ErrorCode], None] | None = None
    ) -> None:
        self.producer = producer
        self.ended = ended
        self.pairs: list[tuple[bytes, bytes | None]] = []
        self.records: list[tuple[Any, Any | None]] = []
        self.size_bytes = HEADER_BYTES
        self.steps: list[tuple[Input | None, str, Outcome[Any]]] = []
        self._looks: tuple[int, ...] = ()  # how many steps there were at each of the last looks

    def overdue(self, looks: int) -> list[tuple[Input, str, Outcome[Any]]]:
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
        return [(event, key, outcome) for event, key, outcome in late if event is not None]


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


class RecordEncoder:
    """Records as the pairs of bytes of a batch. Keys come again and again: encoded once, until their tombstone."""

    __slots__ = ("_encode_key", "_encode_value", "_keys")

    def __init__(self, encode_key: Callable[[Any], bytes], encode_value: Callable[[Any], bytes]) -> None:
        self._encode_key = encode_key
        self._encode_value = encode_value
        self._keys: dict[Any, bytes] = {}

    def pairs(self, records: Iterable[tuple[Any, Any]]) -> tuple[list[tuple[bytes, bytes | None]], int]:
        """The pairs, and how many bytes they take in a batch. Raises: EncodeError for a name too long for a record."""
        keys = self._keys
        pairs: list[tuple[bytes, bytes | None]] = []
        size_bytes = 0
        for key, value in records:
            if type(value) is EncodedValue:
                pairs.append((value.key_bytes, value.value_bytes))
                size_bytes += encoded_pair_bytes(value.key_bytes, value.value_bytes)
                continue
            value_bytes = None
            if value is None:  # what is gone is not written again
                key_bytes = keys.pop(key, None) or self._encode_key(key)
            else:
                kept = keys.get(key)
                if kept is None:
                    if len(keys) >= _KEYS_KEPT:
                        keys.clear()
                    kept = keys[key] = self._encode_key(key)
                key_bytes = kept
                value_bytes = self._encode_value(value)
            pairs.append((key_bytes, value_bytes))
            size_bytes += encoded_pair_bytes(key_bytes, value_bytes)
        return pairs, size_bytes
