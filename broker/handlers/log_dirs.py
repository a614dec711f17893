"""DescribeLogDirs: the log directories, what is in each, and the room that is left there.

Source: KIP-113, KIP-827; Kafka's ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.handlers.authorizer import Operation, ResourceType, authorize
from broker.handlers.gathering import Steps, sliced
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from pathlib import Path

    from broker.broker import Broker
    from broker.handlers.context import Deferred, RequestContext
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
    image = broker.catalogue.image
    if request.topics is None:
        wanted = {topic.name: list(range(topic.partition_count)) for topic in image}
    else:
        wanted = {}
        for requested in request.topics:
            wanted.setdefault(requested.topic, []).extend(requested.partitions)
    partitions = broker.partitions
    found: dict[Path, dict[str, list[DescribeLogDirsPartition]]] = {one: {} for one in partitions.directories}
    for name, indexes in wanted.items():
        for index in dict.fromkeys(indexes):
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
    offline = partitions.disks.offline
    results = [
        DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(place), topics=[])
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
                error_code=0, log_dir=directory, topics=topics, total_bytes=total_bytes, usable_bytes=usable_bytes
            )
        )
    return DescribeLogDirsResponse(error_code=0, results=results)
