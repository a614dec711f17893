"""Fetch: whole batches from the asked offsets on, at once or when there is enough.

A request that finds less than `min_bytes` is parked on its partitions. Whatever changes there wakes it at the end of
the loop turn; it answers when there is enough, when something went wrong, and at the latest after `max_wait_ms`.

Always true: a batch is never cut; an answer to a request that could read anything holds at least one batch, however
small the limits; `records` is never null, since librdkafka drops such an answer.

Source: KIP-74, KIP-227; Kafka's ReplicaManager.readFromLog, DelayedFetch, KafkaApis.handleFetchRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.context import Deferred
from broker.handlers.gathering import PACE
from broker.loop.slices import Steps
from broker.partitions.fetch_sessions import FULL, FetchPlan, SessionError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from broker.partitions import Partition
    from broker.quotas.limits import Limits
    from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

_MOST_AT_ONCE = 128  # partitions, a few microseconds each
_READ = Operation.READ
_TOPIC = ResourceType.TOPIC
_NOT_THERE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def fetch(broker: Broker, context: RequestContext, request: FetchRequest) -> FetchResponse | Deferred:
    """Read what is asked for, or wait for it."""
    plan = FULL
    topics = request.topics
    # -1 is a request outside of any session, and 0/-1 the end of one; both name all their partitions.
    if context.version >= 7 and (request.session_epoch != -1 or request.session_id != 0):
        try:
            plan = broker.partitions.fetch_sessions.plan(
                request, context.principal, by_id=context.version >= 13, now_ms=broker.runtime.now_ms()
            )
        except SessionError as error:
            return FetchResponse(error_code=error.code, session_id=0, responses=[])
        topics = plan.topics
    unread = broker.ledger.unread
    if unread.waiting:
        unread.fetched((context.client_id, context.client_host), topics, lambda topic: _name_of(broker, topic))
    reading = _Reading(broker, context, request, topics, plan)
    if reading.is_long:
        return reading.begin()
    reading.read()
    if reading.size_bytes >= reading.min_bytes or reading.failed or request.max_wait_ms <= 0 or not reading.partitions:
        return reading.response()
    return reading.park()


def _name_of(broker: Broker, topic: FetchTopic) -> str:
    """Of a version with ids too."""
    if topic.topic:
        return topic.topic
    known = broker.catalogue.image.topic_by_id(topic.topic_id)
    return known.name if known is not None else ""


class _Reading:
    """One request: what it asks for, what was read last, and how it waits. A `broker.partitions.Waiter`."""

    __slots__ = (
        "broker",
        "changed",
        "committed_only",
        "context",
        "deferred",
        "failed",
        "in_slices",
        "is_long",
        "max_bytes",
        "min_bytes",
        "over",
        "partitions",
        "plan",
        "request",
        "responses",
        "size_bytes",
        "topics",
    )

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        request: FetchRequest,
        topics: list[FetchTopic],
        plan: FetchPlan,
    ) -> None:
        self.broker = broker
        self.context = context
        self.request = request
        self.topics = topics
        self.plan = plan
        self.committed_only = request.isolation_level == 1
        # `min` is a call, and every fetch comes here.
        requested, most, least = request.max_bytes, broker.settings.fetch_max_bytes, request.min_bytes
        self.max_bytes = most = requested if requested < most else most
        # More than the answer may hold would never come.
        self.min_bytes = least if least < most else most
        self.responses: list[FetchableTopicResponse] = []
        self.partitions: list[Partition] = []
        self.size_bytes = 0
        self.failed = False
        self.deferred: Deferred | None = None
        # Requests for many partitions are read in slices.
        partition_count = 0
        for topic in topics:
            partition_count += len(topic.partitions)
        self.is_long = partition_count > _MOST_AT_ONCE
        if self.is_long:
            self.in_slices = False  # they are being read
            self.changed = False  # something has, since that began
            self.over = False  # the wait

    def read(self) -> None:
        """Read every partition in the order of the request, as far as `max_bytes` goes."""
        for _ in self._steps():
            pass

    def _steps(self) -> Steps[None]:
        broker = self.broker
        by_id = self.context.version >= 13
        room = self.max_bytes
        committed_only = self.committed_only
        copied = self.context.session.is_encrypted
        is_long = self.is_long
        get = broker.partitions.get
        responses: list[FetchableTopicResponse] = []
        partitions: list[Partition] = []
        total = 0
        failed = False
        for topic in self.topics:
            name, error = self._topic(topic, by_id)
            results: list[PartitionData] = []
            for wanted in topic.partitions:
                if is_long and len(results) % PACE == PACE - 1:
                    yield None
                index = wanted.partition
                partition = None
                code = error
                if not code:
                    try:
                        partition = get(name, index)
                    except KafkaError as problem:
                        code = problem.code
                    else:
                        if partition is None:
                            code = _NOT_THERE
                if partition is None:
                    results.append(_failure(index, code, aborted_transactions=[]))  # not null, as in Kafka
                    failed = True
                    continue
                partitions.append(partition)
                result, size = _read(partition, wanted, room, total == 0, committed_only, copied)
                results.append(result)
                if result.error_code or result.diverging_epoch.epoch >= 0:
                    failed = True
                total += size
                room -= size
            if results:  # a topic without partitions is left out of the answer too, as in Kafka
                responses.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=results))
            if is_long:
                yield None
        self.responses, self.partitions = responses, partitions
        self.size_bytes = total
        self.failed = failed

    def _topic(self, topic: FetchTopic, by_id: bool) -> tuple[str, int]:
        name = topic.topic
        if by_id:
            known = self.broker.catalogue.image.topic_by_id(topic.topic_id)
            if known is None:
                return "", ErrorCode.UNKNOWN_TOPIC_ID
            name = known.name
        if self.context.rights is not None and not self._may_read(name):
            return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return name, 0

    def _may_read(self, name: str) -> bool:
        if self._is_follower:
            return authorize(self.context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        return authorize(self.context, _READ, _TOPIC, name)

    @property
    def _is_follower(self) -> bool:
        request = self.request
        return request.replica_id >= 0 or request.replica_state.replica_id >= 0

    def response(self) -> FetchResponse:
        """The answer with what was read last."""
        plan = self.plan
        if self.context.limits is not None and self._must_wait(self.context.limits):
            # Nothing is told, and so nothing is taken for told.
            return FetchResponse(session_id=self.broker.partitions.fetch_sessions.put_off(plan), responses=[])
        if plan is FULL:
            return FetchResponse(responses=self.responses)
        return FetchResponse(session_id=plan.session_id, responses=plan.trim(self.responses))

    def _must_wait(self, limits: Limits) -> bool:
        """Whether quotas hold the answer back. Source: KIP-13, KIP-219; Kafka's KafkaApis.handleFetchRequest."""
        if self._is_follower:
            return False
        size_bytes = 0
        if limits.measures_fetches:
            told = self.responses
            if self.plan is not FULL:
                told = self.plan.outline(told)
            size_bytes = _size_bytes(told, self.context.version, self.size_bytes)
        return limits.fetched(size_bytes) > 0

    def begin(self) -> Deferred:
        """Read very many partitions in slices; then answer, or wait for more."""
        self.deferred = deferred = Deferred(self._forget)
        self._read_in_slices(self._begun)
        deferred.raise_failure()
        return deferred

    def _read_in_slices(self, done: Callable[[], None]) -> None:
        deferred = self.deferred
        assert deferred is not None
        self.in_slices = True

        def read(_: None) -> None:
            self.in_slices = False
            if not deferred.done:
                done()

        self.broker.runtime.in_slices(
            self._steps(), read, deferred.fail, owner=self.context.session, wanted=deferred.is_wanted
        )

    @property
    def _has_enough(self) -> bool:
        return self.size_bytes >= self.min_bytes or self.failed

    def _begun(self) -> None:
        if self._has_enough or self.request.max_wait_ms <= 0 or not self.partitions:
            self._answer()
        else:
            self._wait()

    def _read_again(self) -> None:
        if self._has_enough or self.over:
            self._answer()
        elif self.changed:
            self.changed = False
            self._read_in_slices(self._read_again)
        else:
            self.responses = []

    def park(self) -> Deferred:
        """Wait for more."""
        self.deferred = Deferred(self._forget)
        self._wait()
        return self.deferred

    def _wait(self) -> None:
        self.responses = []  # read again when the time comes: what is there now need not be held meanwhile
        for partition in self.partitions:
            partition.wait_for_data(self)
        runtime = self.broker.runtime
        runtime.timers.set(self, runtime.now_ms() + self.request.max_wait_ms, self.finish)

    def partition_changed(self, partition: Partition) -> None:
        """Answer if there is enough now."""
        if self.deferred is None or self.deferred.done:
            return
        if self.is_long:
            if self.in_slices:
                self.changed = True
            else:
                self._read_in_slices(self._read_again)
            return
        self.read()
        if self._has_enough:
            self._answer()

    def finish(self) -> None:
        """Answer with what there is: the wait is over."""
        if self.deferred is None or self.deferred.done:
            return
        if self.is_long:
            self.over = True
            if not self.in_slices:
                self._read_in_slices(self._read_again)
            return
        self.read()
        self._answer()

    def _answer(self) -> None:
        assert self.deferred is not None
        self._forget()
        response = self.response()
        self.responses = []  # its timer may know this object for a while yet
        self.deferred.complete(response)

    def _forget(self) -> None:
        for partition in self.partitions:
            partition.stop_waiting(self)
        self.broker.runtime.timers.cancel(self)


def _size_bytes(responses: list[FetchableTopicResponse], version: int, records_bytes: int) -> int:
    """Of the answer, its length field included, as Kafka counts; of a very long one the records alone."""
    if len(responses) > _MOST_AT_ONCE:
        return records_bytes
    return 4 + sum(map(len, FetchResponse.encoder(version)(FetchResponse(responses=responses))))


def _failure(
    index: int,
    code: int,
    log_start_offset: int = -1,
    aborted_transactions: list[AbortedTransaction] | None = None,
) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=log_start_offset,
        aborted_transactions=aborted_transactions,
        records=b"",
    )


def _read(
    partition: Partition, wanted: FetchPartition, room: int, first: bool, committed_only: bool, copied: bool
) -> tuple[PartitionData, int]:
    """One partition's part of the answer, and its bytes. `first`: nothing was read yet, so one batch always fits.

    `copied`: this process looks into the records before they leave.
    """
    index = wanted.partition
    offset = wanted.fetch_offset
    if partition.error is not None:
        return _failure(index, partition.error.code), 0
    epoch = wanted.current_leader_epoch
    if epoch >= 0 and epoch != partition.leader_epoch:
        older = epoch < partition.leader_epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return _failure(index, code), 0
    log = partition.log
    start = log.state.log_start_offset
    if wanted.last_fetched_epoch >= 0:
        diverging = _diverging(partition, wanted)
        if diverging is not None:
            return diverging, 0
    if offset < start or offset > log.state.log_end_offset:
        return _failure(index, ErrorCode.OFFSET_OUT_OF_RANGE, start), 0
    high_watermark = partition.high_watermark
    stable = partition.last_stable_offset
    end = stable if committed_only else high_watermark
    result = PartitionData(
        partition_index=index,
        high_watermark=high_watermark,
        last_stable_offset=stable,
        log_start_offset=start,
        aborted_transactions=[] if committed_only else None,
        records=b"",
    )
    if offset >= end:
        return result, 0
    limit = wanted.partition_max_bytes
    if room < limit:  # noqa: PLR1730  every fetch comes here: a call less
        limit = room
    if limit <= 0 and not first:
        return result, 0
    try:
        found = log.read(offset, limit, upper_bound_offset=end, min_one_batch=first, copied=copied)
    except KafkaError as error:
        partition.read_failed(error)
        return _failure(index, error.code, start if error.code == 1 else -1), 0
    size = found.size_bytes
    if size:
        result.records = found.buffers
        if committed_only:
            result.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in log.aborted_transactions(offset, found.next_offset)
            ]
    return result, size


def _diverging(partition: Partition, wanted: FetchPartition) -> PartitionData | None:
    """The answer when the reader's log and ours part before its offset (KIP-595), else None."""
    epoch, end_offset = partition.epoch_end(wanted.last_fetched_epoch)
    if epoch < 0:
        return _failure(wanted.partition, ErrorCode.OFFSET_OUT_OF_RANGE, partition.log_start_offset)
    if epoch >= wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return None
    return PartitionData(
        partition_index=wanted.partition,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
        aborted_transactions=None,
        records=b"",
    )
