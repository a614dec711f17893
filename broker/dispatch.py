"""Which handler answers which API: the one table.

A handler is `handle(broker, context, request) -> response | Deferred | None`, named as its API is and kept with its
resource. An API is advertised when it stands here: its versions are those of `protocol.registry`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.broker import Broker
    from broker.context import RequestContext

    Handler = Callable[[Broker, RequestContext, Any], Any]

# API -> module of broker.handlers; the function is named as the API is, in snake case.
_MODULES = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.OFFSET_COMMIT: "offsets",
    ApiKey.OFFSET_FETCH: "offsets",
    ApiKey.FIND_COORDINATOR: "groups",
    ApiKey.JOIN_GROUP: "groups",
    ApiKey.HEARTBEAT: "groups",
    ApiKey.LEAVE_GROUP: "groups",
    ApiKey.SYNC_GROUP: "groups",
    ApiKey.DESCRIBE_GROUPS: "groups",
    ApiKey.LIST_GROUPS: "groups",
    ApiKey.SASL_HANDSHAKE: "sasl",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DELETE_TOPICS: "topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "producer_ids",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "list_offsets",
    ApiKey.DESCRIBE_CONFIGS: "configs",
    ApiKey.ALTER_CONFIGS: "configs",
    ApiKey.DESCRIBE_LOG_DIRS: "log_dirs",
    ApiKey.SASL_AUTHENTICATE: "sasl",
    ApiKey.CREATE_PARTITIONS: "topics",
    ApiKey.DELETE_GROUPS: "groups",
    ApiKey.ELECT_LEADERS: "cluster",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "cluster",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "cluster",
    ApiKey.OFFSET_DELETE: "offsets",
    ApiKey.DESCRIBE_CLUSTER: "cluster",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "metadata",
}


def handlers() -> dict[ApiKey, Handler]:
    """The table."""
    table: dict[ApiKey, Handler] = {}
    for key, module_name in _MODULES.items():
        try:
            module = import_module(f"broker.handlers.{module_name}")
            table[key] = getattr(module, key.name.lower())
        except (ImportError, AttributeError):
            continue  # not built yet
    return table
