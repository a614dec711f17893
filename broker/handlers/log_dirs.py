"""DescribeLogDirs: the one log directory, what is in it, and the room that is left.

Source: KIP-113, KIP-827; Kafka's ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

import os
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
        for asked in request.topics:
            wanted.setdefault(asked.topic, []).extend(asked.partitions)
    topics = []
    for name, indexes in wanted.items():
        results = []
        for index in dict.fromkeys(indexes):
            yield None
            if broker.partitions.has(name, index):
                results.append(
                    DescribeLogDirsPartition(
                        partition_index=index,
                        partition_size=broker.partitions.size_bytes(name, index),
                        offset_lag=0,
                        is_future_key=False,
                    )
                )
        if results:
            topics.append(DescribeLogDirsTopic(name=name, partitions=results))
    directory = os.path.abspath(broker.settings.log_dirs[0])  # noqa: PTH100  resolve() would follow links
    total_bytes = usable_bytes = -1
    try:
        volume = os.statvfs(directory)
    except OSError:
        pass
    else:
        total_bytes, usable_bytes = volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize
    result = DescribeLogDirsResult(
        error_code=0, log_dir=directory, topics=topics, total_bytes=total_bytes, usable_bytes=usable_bytes
    )
    return DescribeLogDirsResponse(error_code=0, results=[result])
