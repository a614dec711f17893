"""CreateTopics, DeleteTopics, CreatePartitions: one result per topic, whatever happens to its neighbours.

Source: KIP-4, KIP-525, KIP-516; Kafka's ControllerApis.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.catalogue.internal_topics import OFFSETS_TOPIC
from broker.catalogue.topic_changes import METADATA_TOPIC, NewTopic
from broker.handlers.authorizer import Operation, ResourceType, authorize, probe
from broker.handlers.configs import Entries, topic_entries
from broker.handlers.context import Deferred
from broker.handlers.gathering import PACE, Gathering, deferring, grouped, tallied
from broker.handlers.metadata import may_create
from broker.loop.slices import InThread, Steps
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from protocol.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from broker.broker import Broker
    from broker.catalogue.requests import Pay, Result
    from broker.handlers.context import RequestContext
    from protocol.messages.create_topics import CreatableTopic

_AT_ONCE = 512  # configs and assignments of a topic that are read on the loop


def create_topics(broker: Broker, context: RequestContext, request: CreateTopicsRequest) -> Deferred:
    """Create topics; a name that the request gives twice is refused and not created."""
    deferred = Deferred()
    return deferring(broker, context, deferred, _creating(broker, context, request, deferred))


def _creating(broker: Broker, context: RequestContext, request: CreateTopicsRequest, deferred: Deferred) -> Steps[None]:
    wishes, names = yield from grouped(request.topics, _name)
    gathering: Gathering[CreatableTopicResult] = Gathering(
        len(wishes), lambda results: CreateTopicsResponse(topics=results), deferred
    )
    shown = _Shown(broker)
    pay = _paying(context, strict_since=6)

    def create(index: int, wish: NewTopic, twice_assigned: bool) -> None:
        topic = wishes[index]
        refused = _refusal(context, topic, twice=names[topic.name] > 1, twice_assigned=twice_assigned)
        if refused is not None:
            gathering.put(index, refused)
            return

        def created(result: Result) -> None:
            may_see = probe(context, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name)
            gathering.put(index, _created(shown if may_see else None, topic.name, result))

        broker.catalogue.create_topic(wish, created, validate_only=request.validate_only, pay=pay)

    for index, topic in enumerate(wishes):
        if len(topic.configs) + len(topic.assignments) > _AT_ONCE:
            wish = yield InThread(partial(_wish, topic))
        else:
            wish = _wish(topic)
        create(index, wish, len(wish.assignments or ()) < len(topic.assignments))
        if index % PACE == PACE - 1:
            yield gathering.pause(index + 1)


def _paying(context: RequestContext, *, strict_since: int) -> Pay | None:
    """What pays for partitions, where a quota holds the client. Later versions are refused while it owes (KIP-599)."""
    return None if context.limits is None else context.limits.mutation(strict=context.version >= strict_since)


def _name(topic: CreatableTopic | CreatePartitionsTopic) -> str:
    return topic.name


def _wish(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={row.partition_index: row.broker_ids for row in topic.assignments} or None,
        configs={config.name: config.value for config in topic.configs},
    )


def _refusal(
    context: RequestContext, topic: CreatableTopic, *, twice: bool, twice_assigned: bool
) -> CreatableTopicResult | None:
    if twice:
        error, message = ErrorCode.INVALID_REQUEST, "Duplicate topic name."
    elif topic.name == METADATA_TOPIC:
        error, message = ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
    elif twice_assigned:
        error, message = ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned twice."
    elif not may_create(context, topic.name):
        error, message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."
    else:
        return None
    return CreatableTopicResult(
        name=topic.name, topic_id=ZERO_UUID, error_code=error, error_message=message, configs=[]
    )


class _Shown:
    """The configs of topics as CreateTopics shows them, made once for one answer and shared by its topics."""

    __slots__ = ("_broker", "_entries", "_shown")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._entries: Entries = {}
        self._shown: dict[int, list[CreatableTopicConfigs]] = {}  # by the identity of what is in `_entries`

    def of(self, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """Those of a topic with these overrides."""
        entries = topic_entries(self._broker, overrides, None, made=self._entries)
        shown = self._shown.get(id(entries))
        if shown is None:
            shown = self._shown[id(entries)] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.config_source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in entries
            ]
        return shown


def _created(shown: _Shown | None, name: str, result: Result) -> CreatableTopicResult:
    if result.error is not ErrorCode.NONE or result.value is None:
        error = result.error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # deleted again before we could look
        return CreatableTopicResult(
            name=name, topic_id=ZERO_UUID, error_code=error, error_message=result.message, configs=[]
        )
    topic = result.value
    if shown is None:
        return CreatableTopicResult(
            name=name,
            topic_id=topic.topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=[],
        )
    return CreatableTopicResult(
        name=name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=topic.partition_count,
        replication_factor=1,
        configs=shown.of(topic.configs),
    )


def delete_topics(broker: Broker, context: RequestContext, request: DeleteTopicsRequest) -> Deferred:
    """Delete topics by name, or from v6 by name or id."""
    deferred = Deferred()
    return deferring(broker, context, deferred, _deleting(broker, context, request, deferred))


def _deleting(broker: Broker, context: RequestContext, request: DeleteTopicsRequest, deferred: Deferred) -> Steps[None]:
    wanted: Iterable[tuple[str | None, bytes]]
    if context.version < 6:
        wanted = ((name, ZERO_UUID) for name in request.topic_names)
    else:
        wanted = ((topic.name, topic.topic_id) for topic in request.topics)
    times = yield from tallied(wanted)
    by_both = yield from _named_by_both(broker, context, times)
    doubled = set(by_both.values())
    # What is asked for twice is answered once.
    requested = list(times)
    if doubled:
        requested = [(name, topic_id) for name, topic_id in times if name is not None or topic_id not in doubled]
    gathering: Gathering[DeletableTopicResult] = Gathering(
        len(requested), lambda results: DeleteTopicsResponse(responses=results), deferred
    )

    pay = _paying(context, strict_since=5)

    def delete(index: int) -> None:
        name, topic_id = requested[index]

        def deleted(result: Result) -> None:
            topic = result.value
            gathering.put(
                index,
                DeletableTopicResult(
                    name=topic.name if topic is not None else name,
                    topic_id=topic.topic_id if topic is not None else topic_id,
                    error_code=result.error,
                    error_message=result.message,
                ),
            )

        refusal = _delete_refusal(broker, context, name, topic_id, times[name, topic_id])
        if refusal is None and name in by_both:
            refusal = ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
        if refusal is not None:
            error, message = refusal
            told_id = by_both.get(name, topic_id)
            gathering.put(
                index, DeletableTopicResult(name=name, topic_id=told_id, error_code=error, error_message=message)
            )
        elif name is not None:
            broker.catalogue.delete_topic(deleted, name=name, pay=pay)
        else:
            broker.catalogue.delete_topic(deleted, topic_id=topic_id, pay=pay)

    yield from gathering.ask_each(delete)


def _named_by_both(
    broker: Broker, context: RequestContext, requested: Iterable[tuple[str | None, bytes]]
) -> Steps[dict[str | None, bytes]]:
    """The topics that are named by name and by id, among those that the client may know of: name -> id."""
    ids = set()
    for count, (name, topic_id) in enumerate(requested):
        if name is None:
            ids.add(topic_id)
        if not count % 256:
            yield None
    found: dict[str | None, bytes] = {}
    for count, (name, topic_id) in enumerate(requested if ids else ()):
        topic = broker.catalogue.image.topic(name) if name is not None and topic_id == ZERO_UUID else None
        if topic is not None and topic.topic_id in ids and _may_know(context, topic.name):
            found[name] = topic.topic_id
        if not count % 256:
            yield None
    return found


def _may_know(context: RequestContext, name: str) -> bool:
    return probe(context, Operation.DELETE, ResourceType.CLUSTER) or probe(
        context, Operation.DESCRIBE, ResourceType.TOPIC, name
    )


def _delete_refusal(
    broker: Broker, context: RequestContext, name: str | None, topic_id: bytes, times: int
) -> tuple[ErrorCode, str] | None:
    if not broker.settings.delete_topic_enable:
        return ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled."
    if times > 1:
        return ErrorCode.INVALID_REQUEST, "Duplicate topic name or id."
    if name is not None and topic_id != ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
    if name is None and topic_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
    known = name if name is not None else broker.catalogue.image.topic_name(topic_id)
    if known is not None and not (
        probe(context, Operation.DELETE, ResourceType.CLUSTER)
        or authorize(context, Operation.DELETE, ResourceType.TOPIC, known)
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."
    return None


def create_partitions(broker: Broker, context: RequestContext, request: CreatePartitionsRequest) -> Deferred:
    """Grow topics; one result per topic, on success too (librdkafka takes an empty list for a failure)."""
    deferred = Deferred()
    return deferring(broker, context, deferred, _growing(broker, context, request, deferred))


def _growing(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest, deferred: Deferred
) -> Steps[None]:
    wishes, names = yield from grouped(request.topics, _name)
    gathering: Gathering[CreatePartitionsTopicResult] = Gathering(
        len(wishes), lambda results: CreatePartitionsResponse(results=results), deferred
    )
    pay = _paying(context, strict_since=3)

    def grow(index: int) -> None:
        topic = wishes[index]
        if names[topic.name] > 1:
            gathering.put(index, _grown(topic.name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
            return
        if not authorize(context, Operation.ALTER, ResourceType.TOPIC, topic.name):
            gathering.put(index, _grown(topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
            return
        if topic.name == OFFSETS_TOPIC and broker.catalogue.image.topic(OFFSETS_TOPIC) is not None:
            # A group belongs to hash(group) % count: after the next start nobody would find what was committed.
            message = "The number of partitions for the offsets topic cannot be changed."
            gathering.put(index, _grown(topic.name, ErrorCode.INVALID_PARTITIONS, message))
            return
        assignments = None if topic.assignments is None else [row.broker_ids for row in topic.assignments]
        broker.catalogue.create_partitions(
            topic.name,
            topic.count,
            assignments,
            lambda result: gathering.put(index, _grown(topic.name, result.error, result.message)),
            validate_only=request.validate_only,
            pay=pay,
        )

    yield from gathering.ask_each(grow)


def _grown(name: str, error: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error, error_message=message)
