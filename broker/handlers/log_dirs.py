"""The log directories: what is in each and the room that is left there, and who is to move to another one.

Source: KIP-113, KIP-827, KIP-1066; Kafka's ReplicaManager.describeLogDirs, ReplicaManager.alterReplicaLogDirs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.context import Deferred
from broker.handlers.gathering import PACE, Gathering, each, sliced
from broker.loop.slices import Steps
from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
    from protocol.messages.describe_log_dirs import DescribeLogDirsRequest


def describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | Deferred:
    """Sizes in bytes per partition. Topics and partitions that do not exist are left out, as Kafka does."""
    return sliced(broker, context, _described(broker, context, request))


def _described(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> Steps[DescribeLogDirsResponse]:
    if not authorize(context, Operation.DESCRIBE, ResourceType.CLUSTER):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results=[])
    image, partitions = broker.catalogue.image, broker.partitions
    wanted: dict[str, dict[int, None]] = {}
    if request.topics is None:
        wanted = {topic.name: dict.fromkeys(range(topic.partition_count)) for topic in image}
    else:
        for requested in request.topics:
            name, its = requested.topic, wanted.setdefault(requested.topic, {})
            for index in requested.partitions:  # a megabyte of those that are not there is not kept
                yield None
                if partitions.has(name, index):
                    its[index] = None
    found: dict[Path, dict[str, list[DescribeLogDirsPartition]]] = {one: {} for one in partitions.directories}
    for name, indexes in wanted.items():
        for index in indexes:
            yield None
            if partitions.has(name, index) and not partitions.is_offline(name, index):
                found[partitions.folder(name, index).parent].setdefault(name, []).append(
                    DescribeLogDirsPartition(
                        partition_index=index,
                        partition_size=partitions.size_bytes(name, index),
                        offset_lag=0,
                        is_future_key=False,
                    )
                )
    for (name, index), place, size, behind in partitions.copies():
        if index in wanted.get(name, ()) and place in found:
            found[place].setdefault(name, []).append(
                DescribeLogDirsPartition(
                    partition_index=index, partition_size=size, offset_lag=behind, is_future_key=True
                )
            )
    offline, cordoned = partitions.disks.offline, broker.settings.cordoned
    results = [
        DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(place), topics=[], is_cordoned=place in cordoned
        )
        for place in offline
    ]
    for place, by_topic in found.items():
        if place in offline:
            continue
        topics = [DescribeLogDirsTopic(name=name, partitions=its) for name, its in by_topic.items()]
        directory = os.path.abspath(place)  # noqa: PTH100  resolve() would follow links
        total_bytes = usable_bytes = -1
        with suppress(OSError):
            volume = os.statvfs(directory)
            total_bytes, usable_bytes = volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize
        results.append(
            DescribeLogDirsResult(
                error_code=0,
                log_dir=directory,
                topics=topics,
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
                is_cordoned=place in cordoned,
            )
        )
    return DescribeLogDirsResponse(error_code=0, results=results)


T = TypeVar("T")


def alter_replica_log_dirs(broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest) -> Deferred:
    """Begin to move partitions; each is answered when its move survives a restart. The moves themselves go on."""
    allowed = authorize(context, Operation.ALTER, ResourceType.CLUSTER)
    deferred = Deferred()

    def answer(keys: list[tuple[str, int]], found: list[ErrorCode]) -> None:
        in_turns(_altered(keys, found), deferred.complete)

    def begin() -> Steps[None]:
        wishes = yield from _wishes(request)
        keys = list(wishes)
        results = Gathering(len(keys), partial(answer, keys), Deferred())

        def ask(index: int) -> None:
            if allowed:
                broker.moves.ask(keys[index], Path(wishes[keys[index]]), partial(results.put, index))
            else:
                results.put(index, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

        yield from each(len(keys), ask)

    def in_turns(steps: Steps[T], finished: Callable[[T], None]) -> None:
        broker.runtime.in_slices(steps, finished, deferred.fail, owner=context.session, wanted=deferred.is_wanted)

    in_turns(begin(), lambda _: None)
    deferred.raise_failure()
    return deferred


def _wishes(request: AlterReplicaLogDirsRequest) -> Steps[dict[tuple[str, int], str]]:
    """Where each partition is to lie; the last wish counts."""
    wishes: dict[tuple[str, int], str] = {}
    wanted = (
        ((topic.name, index), directory.path)
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    )
    for count, (key, path) in enumerate(wanted, start=1):
        wishes[key] = path
        if not count % PACE:
            yield None
    return wishes


def _altered(keys: list[tuple[str, int]], found: list[ErrorCode]) -> Steps[AlterReplicaLogDirsResponse]:
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for count, ((name, index), error) in enumerate(zip(keys, found, strict=True), start=1):
        by_topic.setdefault(name, []).append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error))
        if not count % PACE:
            yield None
    return AlterReplicaLogDirsResponse(
        throttle_time_ms=0,
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=its) for name, its in by_topic.items()],
    )
