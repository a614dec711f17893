"""Asking the transaction coordinator before a partition opens a transaction (KIP-890).

Without it a batch that comes after its transaction's end would open one that nobody ends, and readers would stand
before it for ever. A partition where the producer has its transaction open already need not ask, and a producer without
transactions never comes here.

Questions of one transactional id are answered in the order in which they came: of batches that were sent behind one
another the first opens the transaction, and the others find it open. Kafka fails all but the last instead.

Source: Kafka's ReplicaManager.maybeSendPartitionsToTransactionCoordinator, AddPartitionsToTxnManager.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from broker.partitions.errors import RecordsRefused
from protocol.errors import ErrorCode, KafkaError
from storage.state.producer_state import Verification

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from broker.config.settings import Settings
    from broker.loop.runtime import Runtime
    from broker.partitions.table import Key, Partitions

    Permit = Verification | KafkaError | None
    Permits = Mapping[Key, Permit]

ANSWER_WITHIN_MS = 30_000
"""A question that is not answered by then counts as lost. Kafka: request.timeout.ms between its brokers."""


class TransactionCoordinator(Protocol):
    """Who knows which partitions belong to which transaction."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[Key],
        add: bool,
        done: Callable[[Mapping[Key, ErrorCode]], None],
    ) -> None:
        """Are these partitions in the open transaction of this producer? With `add` they are from now on.

        `done`, called once and perhaps before this returns, gets an error for each partition, NONE for those that are.
        Codes are AddPartitionsToTxn's: TRANSACTION_ABORTABLE for a partition that is not in.
        """


class Question:
    """What a request wants to append to, in one transaction: the first sequence for each partition.

    `add`: the request's version lets the partitions join by it. `retry`: CONCURRENT_TRANSACTIONS is asked about again
    for a moment. `abortable`: the client knows TRANSACTION_ABORTABLE. `done` gets for each partition what lets the
    batch in (None where nothing need), or the error that keeps it out.
    """

    __slots__ = (
        "abortable",
        "add",
        "begun_ms",
        "done",
        "producer_epoch",
        "producer_id",
        "retry",
        "round",
        "sequences",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        sequences: Mapping[Key, int],
        done: Callable[[Permits], None],
        *,
        add: bool,
        retry: bool,
        abortable: bool,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.sequences = sequences
        self.done = done
        self.add = add
        self.retry = retry
        self.abortable = abortable
        self.begun_ms = -1
        self.round = 0  # an answer to an earlier one comes too late


class Verifier:
    """Asks `coordinator`, which is set when the broker is put together. Without one no transaction can be opened."""

    def __init__(self, runtime: Runtime, partitions: Partitions, settings: Settings) -> None:
        self.coordinator: TransactionCoordinator | None = None
        self._runtime = runtime
        self._partitions = partitions
        self._settings = settings
        self._waiting: dict[str, deque[Question]] = {}  # by transactional id; the first one is being asked

    @property
    def enabled(self) -> bool:
        """Whether a transaction is opened only with a coordinator's consent."""
        return self._settings.transaction_partition_verification_enable

    def ask(self, question: Question) -> None:
        """Answer `question.done`, at once when nothing need be asked or the coordinator knows at once."""
        waiting = self._waiting.get(question.transactional_id)
        if waiting is not None:
            waiting.append(question)
            return
        self._waiting[question.transactional_id] = waiting = deque([question])
        self._go_on(question.transactional_id, waiting)

    def _go_on(self, transactional_id: str, waiting: deque[Question]) -> None:
        """Answer one question after the other, up to the first that has to wait."""
        while waiting:
            answer = self._begin(waiting[0])
            if answer is None:
                return
            question = waiting[0]
            question.done(answer)
            waiting.popleft()
        del self._waiting[transactional_id]

    def _begin(self, question: Question) -> Permits | None:
        """Ask; the answer when it is there at once, else None."""
        if not (question.add or self.enabled):
            return dict.fromkeys(question.sequences)
        now_ms = self._runtime.now_ms()
        if question.begun_ms < 0:
            question.begun_ms = now_ms
        permits: dict[Key, Permit] = {}
        requested: list[Key] = []
        for key, sequence in question.sequences.items():
            try:
                permit = self._permit(question, key, sequence, now_ms)
            except KafkaError as error:
                permits[key] = error.afresh()  # the one that was raised holds this frame, and in it the request
            else:
                permits[key] = permit
                if permit is not None:
                    requested.append(key)
        if not requested:
            return permits
        if self.coordinator is None:
            nobody = RecordsRefused(ErrorCode.INVALID_TXN_STATE, "this broker coordinates no transactions")
            permits.update(dict.fromkeys(requested, nobody))
            return permits
        question.round += 1
        this_round = question.round
        at_once = True
        answer: Permits | None = None

        def answered(codes: Mapping[Key, ErrorCode]) -> None:
            nonlocal answer
            if question.round != this_round:
                return
            question.round += 1
            if not at_once:
                self._runtime.timers.cancel(question)
            if self._is_to_retry(question, codes):
                self._runtime.timers.set(question, self._runtime.now_ms() + self._backoff_ms, resume)
                return
            for key in requested:
                code = codes.get(key, ErrorCode.NETWORK_EXCEPTION)
                if code:
                    permits[key] = _refused(_for_client(code, abortable=question.abortable))
            answer = permits
            if not at_once:
                resume_with(permits)

        def resume() -> None:
            self._go_on(question.transactional_id, self._waiting[question.transactional_id])

        def resume_with(known: Permits) -> None:
            waiting = self._waiting[question.transactional_id]
            question.done(known)
            waiting.popleft()
            self._go_on(question.transactional_id, waiting)

        self.coordinator.verify(
            question.transactional_id, question.producer_id, question.producer_epoch, requested, question.add, answered
        )
        at_once = False
        if question.round == this_round:
            lost = dict.fromkeys(requested, ErrorCode.NETWORK_EXCEPTION)
            self._runtime.timers.set(question, now_ms + ANSWER_WITHIN_MS, lambda: answered(lost))
        return answer

    def _permit(self, question: Question, key: Key, sequence: int, now_ms: int) -> Verification | None:
        partition = self._partitions.get(*key)
        if partition is None:
            raise RecordsRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {key[0]}-{key[1]}")
        return partition.start_verification(
            question.producer_id, question.producer_epoch, sequence, now_ms, transaction_v2=question.add
        )

    def _is_to_retry(self, question: Question, codes: Mapping[Key, ErrorCode]) -> bool:
        """The transaction before is still being ended, which takes milliseconds: most clients need not hear of it."""
        if not question.retry or ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values():
            return False
        longest_ms = self._settings.add_partitions_to_txn_retry_backoff_max_ms
        return self._runtime.now_ms() - question.begun_ms < longest_ms

    @property
    def _backoff_ms(self) -> int:
        return self._settings.add_partitions_to_txn_retry_backoff_ms


def _for_client(code: ErrorCode, *, abortable: bool) -> ErrorCode:
    """What a coordinator's refusal is for those who append. Source: AddPartitionsToTxnManager."""
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and not abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _refused(code: ErrorCode) -> RecordsRefused:
    if code == ErrorCode.INVALID_TXN_STATE:
        return RecordsRefused(code, "Partition was not added to the transaction")
    return RecordsRefused(code, f"the transaction coordinator answered {code.name}: {code.message}")
