"""What the rules of transactions ask the edge to do: take a producer id, write markers.

Results come back to the leader of the transactional id as inputs. If it has given the id up meanwhile, they are lost,
and whoever leads it next begins anew with all markers: written twice they do no harm.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.partitions import Marker
from coordinator.transactions.inputs import MarkersWritten, TakeProducerId, WriteMarkers
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.catalogue.producer_ids import ProducerIds
    from broker.coordinators.leader import Leader
    from broker.loop.runtime import Runtime
    from broker.partitions import Markers
    from coordinator.outcome import Work
    from coordinator.transactions.inputs import Fresh
    from coordinator.transactions.shard import TransactionShard
    from coordinator.transactions.transaction import TopicPartition

    LeaderOf = Callable[[str], Leader[TransactionShard]]
    Tell = Callable[[WriteMarkers, dict[TopicPartition, ErrorCode]], None]


class TransactionWork:
    """Does it. `leader_of` says where the results go."""

    def __init__(self, runtime: Runtime, markers: Markers, producer_ids: ProducerIds, leader_of: LeaderOf) -> None:
        self._runtime = runtime
        self._markers = markers
        self._producer_ids = producer_ids
        self._leader_of = leader_of

    def begin(self, work: Work) -> None:
        """Begin it; the result comes in a later turn of the loop, so that each step's record is written by itself."""
        if isinstance(work, TakeProducerId):
            self._producer_ids.next(partial(self._taken, work.event))
        else:
            assert isinstance(work, WriteMarkers)
            self._runtime.soon(partial(self._write, work))

    def _taken(self, event: Fresh, producer_id: int, error: ErrorCode) -> None:
        if error:
            event.fresh_error = error
        else:
            event.fresh_id = producer_id
        self._leader_of(event.transactional_id).submit(event)

    def _write(self, work: WriteMarkers) -> None:
        leader = self._leader_of(work.transactional_id)
        marker = Marker(
            work.producer_id, work.producer_epoch, work.committed, leader.leader_epoch, work.transaction_version
        )
        writing = _Writing(work, self._written)
        for place in sorted(work.partitions):
            self._markers.write(*place, marker, partial(self._answered, writing, place, marker))
        writing.started()

    def _answered(self, writing: _Writing, place: TopicPartition, marker: Marker, error: ErrorCode) -> None:
        if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            # There is no later coordinator: somebody wrote a marker by hand, and must not hang the transaction by it.
            known = self._markers.coordinator_epoch(*place, marker.producer_id)
            if known > marker.coordinator_epoch:
                again = marker._replace(coordinator_epoch=known)
                self._markers.write(*place, again, partial(self._answered, writing, place, again))
                return
        writing.done(place, error)

    def _written(self, work: WriteMarkers, errors: dict[TopicPartition, ErrorCode]) -> None:
        result = MarkersWritten(work.transactional_id, work.producer_id, work.producer_epoch, errors)
        self._runtime.soon(lambda: self._leader_of(work.transactional_id).submit(result))


class _Writing:
    """The markers of one transaction that are on their way."""

    __slots__ = ("_errors", "_missing", "_tell", "_work")

    def __init__(
        self, work: WriteMarkers, tell: Callable[[WriteMarkers, dict[TopicPartition, ErrorCode]], None]
    ) -> None:
        self._work = work
        self._tell = tell
        self._errors: dict[TopicPartition, ErrorCode] = {}
        self._missing = len(work.partitions) + 1

    def done(self, partition: TopicPartition, error: ErrorCode) -> None:
        """One marker is in, or was refused."""
        self._errors[partition] = error
        self._count()

    def started(self) -> None:
        """All were asked for."""
        self._count()

    def _count(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._tell(self._work, self._errors)
