"""Offsets inside of transactions: how they get into a group's log, and how a marker there lets them count or go.

A transactional commit is verified with the transaction coordinator like a batch of the producer's, and is appended as
one: the partition of `__consumer_offsets` joins the transaction. Its marker goes through the leader of that partition,
so that readers see the offsets with it, and not before it is committed.

Source: Kafka's GroupCoordinatorService.commitTransactionalOffsets, completeTransaction; CoordinatorRuntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.catalogue.internal_topics import OFFSETS_TOPIC
from broker.partitions import Question, RecordsRefused
from coordinator.append_errors import error_for_client
from coordinator.offsets.commit import all_partitions
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.groups.groups import GroupLeader, Groups
    from broker.partitions import Marker, Verifier
    from broker.partitions.verification import Permits
    from coordinator.offsets.inputs import CommitTransactionalOffsets
    from storage.state.producer_state import Verification

_ADDS, _KNOWS_ABORTABLE = 5, 4  # TxnOffsetCommit versions
_NO_SEQUENCE = -1


class GroupTransactions:
    """What transactions do to groups."""

    def __init__(self, groups: Groups, verifier: Verifier) -> None:
        self._groups = groups
        self._verifier = verifier

    def commit(self, commit: CommitTransactionalOffsets, transactional_id: str) -> None:
        """Have the transaction coordinator asked, then the group; the answer goes to `commit.reply_to`."""
        leader = self._groups.leader_of(commit.group_id)
        if not leader.effects.serves() or not commit.group_id:
            leader.submit(commit)  # which says why not
            return
        key = OFFSETS_TOPIC, leader.index

        def verified(permits: Permits) -> None:
            permit = permits.get(key)
            if isinstance(permit, KafkaError):
                commit.reply_to.complete(all_partitions(commit, error_for_client(permit.code)))
            else:
                self._submit(commit, permit)

        self._verifier.ask(
            Question(
                transactional_id,
                commit.producer_id,
                commit.producer_epoch,
                {key: _NO_SEQUENCE},
                verified,
                add=commit.version >= _ADDS,
                retry=False,
                abortable=commit.version >= _KNOWS_ABORTABLE,
            )
        )

    def _submit(self, commit: CommitTransactionalOffsets, permit: Verification | None) -> None:
        leader = self._groups.leader_of(commit.group_id)
        try:
            self._check(leader, commit, permit)
        except KafkaError as error:
            commit.reply_to.complete(all_partitions(commit, error_for_client(error.code)))
            return
        leader.submit(commit)

    def _check(self, leader: GroupLeader, commit: CommitTransactionalOffsets, permit: Verification | None) -> None:
        """What the log says to the producer. Whatever waits to be appended is, so that the log knows it too."""
        effects = leader.effects
        effects.write_open()
        if not effects.serves() or effects.partition is None:
            return
        producer_id, epoch = commit.producer_id, commit.producer_epoch
        if producer_id < 0 or epoch < 0:
            raise RecordsRefused(ErrorCode.UNKNOWN_SERVER_ERROR, f"producer {producer_id} at epoch {epoch}")
        effects.partition.check_unsequenced(producer_id, epoch, permit, self._verifier.enabled)

    def write_marker(self, index: int, marker: Marker, done: Callable[[ErrorCode], None]) -> None:
        """Append a marker to a partition of `__consumer_offsets`. A `broker.partitions.markers.MarkerRoute`."""
        leaders = self._groups.leaders
        if index >= len(leaders):
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        effects = leaders[index].effects

        def apply() -> None:
            effects.shard.end_transaction(marker.producer_id, committed=marker.commit)

        effects.append_marker(marker, apply, done)
