"""Which handler answers which API: the one table.

A handler is `handle(broker, context, request) -> response | Deferred | None`, named as its API is and kept with its
resource. An API is advertised when it stands here: its versions are those of `protocol.registry`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from protocol.api_keys import ApiKey
from protocol.frames import response_encoder
from protocol.registry import APIS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


def handlers() -> dict[int, Handler]:
    """The table."""
    table: dict[int, Handler] = {}
    for key, module_name in _MODULES.items():
        try:
            module = import_module(f"broker.handlers.{module_name}")
            table[key] = getattr(module, key.name.lower())
        except (ImportError, AttributeError):
            continue  # not built yet
    return table


class Route:
    """What one API in one version needs, compiled: bytes to request, request to response, response to bytes."""

    __slots__ = ("api_key", "decode", "encode", "handle", "name", "version")

    def __init__(self, api_key: int, version: int, handler: Handler) -> None:
        api = APIS[api_key]
        self.api_key = api_key
        self.version = version
        self.name = api.name
        self.decode: Callable[[bytes, int], tuple[Any, int]] = api.request.decoder(version)
        self.handle = handler
        self.encode = response_encoder(api_key, version)


class Routes:
    """The routes of a table of handlers, each made when it is first asked for: compiling takes a millisecond."""

    def __init__(self, table: Mapping[int, Handler]) -> None:
        self.table = table
        self.made: dict[int, Route] = {}  # by `api_key << 16 | version`

    def find(self, api_key: int, version: int) -> Route | None:
        """The route, or None for an API or a version that is not served."""
        handler = self.table.get(api_key)
        if handler is None:
            return None
        first, last = APIS[api_key].served
        if not first <= version <= last:
            return None
        route = self.made[api_key << 16 | version] = Route(api_key, version, handler)
        return route
