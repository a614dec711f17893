"""What the records of a consumer group (KIP-848) leave out, asked of the cluster: names of topics, and its timeout."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cli.errors import Failed, UsageError
from cli.groups.reading import read_offsets
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.types import uuid_of_halves

if TYPE_CHECKING:
    from cli.cluster import Cluster

_GROUP = 32
_SESSION_TIMEOUT = "consumer.session.timeout.ms"


def topic_names(cluster: Cluster, group_id: str) -> dict[bytes, str]:
    """Those that the group has committed to, by id; none where that may not be seen."""
    with suppress(Failed):
        names = {topic for topic, _ in read_offsets(cluster, group_id)}
        found, _ = cluster.describe_topics(names)
        ids: dict[str, Any] = {name: one.topic_id for name, one in found.items()}
        return {
            uuid_of_halves(one.get_most_significant_bits(), one.get_least_significant_bits()): name
            for name, one in ids.items()
        }
    return {}


def session_timeout_ms(cluster: Cluster, group_id: str) -> int | None:
    """As it is now; None where the cluster does not say: it is older than group configs, or does not allow it."""
    requested = DescribeConfigsResource(
        resource_type=_GROUP, resource_name=group_id, configuration_keys=[_SESSION_TIMEOUT]
    )
    with suppress(Failed, UsageError, ValueError):  # UsageError: a log-in that our own connection does not know
        answer = cluster.ask(DescribeConfigsRequest(resources=[requested], include_synonyms=False), 4)
        for one in answer.results:
            for config in one.configs:
                if config.name == _SESSION_TIMEOUT and config.value:
                    return int(config.value)
    return None
