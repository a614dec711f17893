"""OffsetCommit, OffsetFetch, OffsetDelete: requests become inputs of the group's leader.

Source: Kafka's KafkaApis.handleOffsetCommitRequest, handleOffsetFetchRequest, handleOffsetDeleteRequest.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.handlers.authorizer import Operation, ResourceType, authorize, authorize_by_name, probe
from broker.handlers.context import Deferred
from broker.handlers.dividing import Divided
from broker.handlers.gathering import PACE, Gathering, deferring, refuse_repetition
from broker.handlers.groups import _Part
from broker.loop.slices import InThread, Steps
from coordinator.offsets.commit import all_partitions
from coordinator.offsets.inputs import CommitOffsets, DeleteOffsets, FetchOffsets
from coordinator.offsets.topic_filter import filter_commit, filter_delete, filter_fetch
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from coordinator.outcome import ReplyTo

_READ, _DESCRIBE, _DELETE = Operation.READ, Operation.DESCRIBE, Operation.DELETE
_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
_FORBIDDEN = ErrorCode.GROUP_AUTHORIZATION_FAILED
_BY_ID_SINCE = 10
_GROUPS_SINCE = 8


def offset_commit(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Deferred:
    """Store offsets. Topics that cannot be are answered here; if no other is left, the group is not even looked at."""
    version, group_id = context.version, request.group_id
    deferred = Deferred()
    commit = CommitOffsets(
        group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        request.topics,
        version,
        request.retention_time_ms,
        deferred,
        (),
        context.client_id,
        context.client_host,
    )
    if not authorize(context, _READ, _GROUP, group_id):
        return all_partitions(commit, _FORBIDDEN)
    commit.topics, commit.refused = filter_commit(
        request.topics,
        broker.catalogue.image,
        authorize_by_name(context, _READ, _TOPIC),
        by_id=version >= _BY_ID_SINCE,
    )
    if not commit.topics:
        return OffsetCommitResponse(topics=commit.refused)
    unread = broker.ledger.unread
    if unread.waiting:
        unread.committed(group_id, request.member_id, commit.topics)
    broker.groups.leader_of(group_id).submit(commit)
    return deferred


def offset_fetch(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> Deferred:
    """What groups have committed: one group up to version 7, several from version 8 on."""
    version = context.version
    if version < _GROUPS_SINCE:
        topics = None
        if request.topics is not None:
            topics = [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ]
        groups = [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]
        respond: Callable[[list[OffsetFetchResponseGroup]], OffsetFetchResponse]
        respond = partial(_single_group, version, request)
    else:
        groups = request.groups
        respond = _several_groups
    count = len(groups)
    gathering = Gathering(count, respond)

    def steps() -> Steps[None]:
        # What is asked of a group partition by partition may be spread over entries; all of it, once is enough.
        whole = (requested.group_id if requested.topics is None else id(requested) for requested in groups)
        yield from refuse_repetition(whole, count)
        for index, requested in enumerate(groups):
            part = _Part(gathering, index)
            if _is_short(requested):
                _fetch_group(broker, context, requested, require_stable=request.require_stable, reply_to=part)
            else:
                yield from _fetch_in_parts(broker, context, requested, request.require_stable, part)
            if index % PACE == PACE - 1:
                yield None

    return deferring(broker, context, gathering.deferred, steps())


def _no_handler(_broker: Broker, _context: RequestContext, _request: OffsetFetchRequestGroup) -> None:
    """A group's entry is no request of its own."""


_TOPICS = Divided(
    _no_handler,
    lists="topics",
    entries="partition_indexes",
    answers="topics",
    answer_entries="partitions",
    key=("name", "topic_id"),
)


def _is_short(requested: OffsetFetchRequestGroup) -> bool:
    return requested.topics is None or _TOPICS.is_short(requested)


def _fetch_in_parts(
    broker: Broker, context: RequestContext, requested: OffsetFetchRequestGroup, require_stable: bool, reply_to: ReplyTo
) -> Steps[None]:
    """The offsets of very many partitions of one group, some at a time."""
    parts: list[tuple[OffsetFetchRequestGroup, bool]] = yield InThread(lambda: _TOPICS.divide(requested))
    gathering = Gathering(len(parts), partial(_join_parts, reply_to, parts))
    for index, (part, _) in enumerate(parts):
        _fetch_group(broker, context, part, require_stable=require_stable, reply_to=_Part(gathering, index))
        yield None


def _join_parts(
    reply_to: ReplyTo, parts: list[tuple[OffsetFetchRequestGroup, bool]], answers: list[OffsetFetchResponseGroup]
) -> None:
    reply_to.complete(_TOPICS.join([(answer, part[1]) for answer, part in zip(answers, parts, strict=True)]))


def _fetch_group(
    broker: Broker,
    context: RequestContext,
    requested: OffsetFetchRequestGroup,
    *,
    require_stable: bool,
    reply_to: ReplyTo,
) -> None:
    group_id = requested.group_id
    if not authorize(context, _DESCRIBE, _GROUP, group_id):
        reply_to.complete(OffsetFetchResponseGroup(group_id=group_id, error_code=_FORBIDDEN))
        return
    by_id = context.version >= _BY_ID_SINCE
    fetch = FetchOffsets(
        group_id,
        None,
        require_stable,
        by_id,
        reply_to,
        member_id=requested.member_id,
        member_epoch=requested.member_epoch,
    )
    allowed = authorize_by_name(context, _DESCRIBE, _TOPIC)
    if requested.topics is None:
        fetch.reply_to = _Visible(reply_to, partial(probe, context, _DESCRIBE, _TOPIC))
    else:
        fetch.topics, fetch.refused = filter_fetch(requested.topics, broker.catalogue.image, allowed, by_id=by_id)
    broker.groups.leader_of(group_id).submit(fetch)


class _Visible:
    """Leaves topics that the caller may not see out of an answer about all topics."""

    __slots__ = ("_allowed", "_reply_to")

    def __init__(self, reply_to: ReplyTo, allowed: Callable[[str], bool]) -> None:
        self._reply_to = reply_to
        self._allowed = allowed

    def complete(self, group: OffsetFetchResponseGroup) -> None:
        group.topics = [topic for topic in group.topics if self._allowed(topic.name)]
        self._reply_to.complete(group)


def _several_groups(results: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=results)


def _single_group(
    version: int, request: OffsetFetchRequest, results: list[OffsetFetchResponseGroup]
) -> OffsetFetchResponse:
    """The answer of versions 1 to 7. Version 1 has no error of its own, so every partition carries it."""
    (group,) = results
    if group.error_code == ErrorCode.NONE or version >= 2:
        topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ]
        return OffsetFetchResponse(topics=topics, error_code=group.error_code)
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=partition, committed_offset=-1, metadata="", error_code=group.error_code
                )
                for partition in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return OffsetFetchResponse(topics=topics)


def offset_delete(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Deferred:
    """Forget offsets of topics that the group does not read at present."""
    if not authorize(context, _DELETE, _GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=_FORBIDDEN)
    allowed = authorize_by_name(context, _READ, _TOPIC)
    topics, refused = filter_delete(request.topics, broker.catalogue.image, allowed)
    # Unlike OffsetCommit it looks at the group also when no topic is left, as Kafka does.
    deferred = Deferred()
    broker.groups.leader_of(request.group_id).submit(
        DeleteOffsets(request.group_id, topics, deferred, refused, context.client_id, context.client_host)
    )
    return deferred
