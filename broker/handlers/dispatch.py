"""Which handler answers which API: the one table.

A handler is `handle(broker, context, request) -> response | Deferred | None`, named as its API is and kept with its
resource. An API is advertised when it stands here: its versions are those of `protocol.registry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

from broker.handlers import (
    api_versions,
    consumer_groups,
    fetch,
    groups,
    list_offsets,
    metadata,
    offsets,
    produce,
    producer_ids,
    sasl,
    txn_offsets,
)
from broker.handlers.dividing import Divided
from broker.handlers.durations import DURATION_BUCKETS, DURATION_SHIFT
from protocol.api_keys import ApiKey
from protocol.frames import encode_response, has_tags, short_request_decoder, short_response_encoder
from protocol.registry import APIS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from broker.handlers.context import Handle, Handler
    from protocol.schema import Message
    from protocol.schema.wire_types import Buffer


class Handlers(Mapping[int, "Handler"]):
    """Handlers by API, each found when it is first looked up."""

    def __init__(self, served: Collection[int], find: Callable[[int], Handler]) -> None:
        self._served = served
        self._find = find
        self._found: dict[int, Handler] = {}

    def __getitem__(self, api_key: int) -> Handler:
        handler = self._found.get(api_key)
        if handler is None:
            if api_key not in self._served:
                raise KeyError(api_key)
            handler = self._found[api_key] = self._find(api_key)
        return handler

    def __contains__(self, api_key: object) -> bool:
        return api_key in self._served

    def __iter__(self) -> Iterator[int]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)


def _commit(handle: Handler) -> Divided:
    return Divided(
        handle,
        lists="topics",
        entries="partitions",
        answers="topics",
        answer_entries="partitions",
        key=("name", "topic_id"),
        most=1_000,  # a commit that somebody really makes is one batch, whole or not at all
    )


_TABLE: dict[int, Handler | str] = {
    ApiKey.PRODUCE: Divided(
        produce.produce,
        lists="topic_data",
        entries="partition_data",
        answers="responses",
        answer_entries="partition_responses",
        key=("name", "topic_id"),
    ),
    ApiKey.FETCH: fetch.fetch,
    ApiKey.LIST_OFFSETS: list_offsets.list_offsets,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.OFFSET_COMMIT: _commit(offsets.offset_commit),
    ApiKey.OFFSET_FETCH: offsets.offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: groups.join_group,
    ApiKey.HEARTBEAT: groups.heartbeat,
    ApiKey.LEAVE_GROUP: Divided(groups.leave_group, lists="members", entries=None, answers="members"),
    ApiKey.SYNC_GROUP: groups.sync_group,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.SASL_HANDSHAKE: sasl.sasl_handshake,
    ApiKey.API_VERSIONS: api_versions.api_versions,
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DELETE_TOPICS: "topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: producer_ids.init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: "transactions",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactions",
    ApiKey.END_TXN: "transactions",
    ApiKey.WRITE_TXN_MARKERS: "partition_transactions",
    ApiKey.TXN_OFFSET_COMMIT: _commit(txn_offsets.txn_offset_commit),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: list_offsets.offset_for_leader_epoch,
    ApiKey.DESCRIBE_ACLS: "acls",
    ApiKey.CREATE_ACLS: "acls",
    ApiKey.DELETE_ACLS: "acls",
    ApiKey.DESCRIBE_CONFIGS: "configs",
    ApiKey.ALTER_CONFIGS: "altered_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "log_dirs",
    ApiKey.SASL_AUTHENTICATE: sasl.sasl_authenticate,
    ApiKey.CREATE_PARTITIONS: "topics",
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.ELECT_LEADERS: "cluster",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "altered_configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "cluster",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "cluster",
    ApiKey.OFFSET_DELETE: Divided(
        offsets.offset_delete, lists="topics", entries="partitions", answers="topics", answer_entries="partitions"
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "quotas",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "users",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "users",
    ApiKey.DESCRIBE_QUORUM: "quorum",
    ApiKey.UPDATE_FEATURES: "features",
    ApiKey.UNREGISTER_BROKER: "quorum",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "telemetry",
    ApiKey.PUSH_TELEMETRY: "telemetry",
    ApiKey.LIST_CONFIG_RESOURCES: "config_resources",
    ApiKey.CREATE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.RENEW_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.DESCRIBE_CLUSTER: "cluster",
    ApiKey.DESCRIBE_PRODUCERS: "partition_transactions",
    ApiKey.DESCRIBE_TRANSACTIONS: "transactions",
    ApiKey.LIST_TRANSACTIONS: "transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.consumer_group_describe,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.describe_topic_partitions,
}
"""Handlers, or the modules of those that a broker may live long without: they and their messages would be a megabyte,
and a part of its start. It has them from their first request on."""


_ROOM = __name__.rpartition(".")[0]  # an installed one has a longer name


def _handler(api_key: int) -> Handler:
    found = _TABLE[api_key]
    if isinstance(found, str):
        handler: Handler = getattr(import_module(f"{_ROOM}.{found}"), ApiKey(api_key).name.lower())
        return handler
    return found


HANDLERS = Handlers(_TABLE, _handler)
"""What is advertised and served."""

FLOWING = frozenset({ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.HEARTBEAT})
"""Begun behind each other without waiting for answers, so that many share one write and one fsync. All of them take
effect as they come, so nobody can tell. See docs/decisions/one-request-at-a-time.md."""


_MOST_ELEMENTS = 512
"""Of all arrays of a message that is read or written on the loop: about half a millisecond."""


def most_elements(api_key: int, handler: Handler) -> tuple[int, int]:
    """How many elements a request and its answer may have, all arrays together, to be read and written on the loop.

    The members that the leader of a classic group is told, and what it assigns to them, are two fields each, and four
    times as many.
    """
    of_request = of_response = _MOST_ELEMENTS
    if api_key == ApiKey.SYNC_GROUP:
        of_request = groups.MEMBERS_AT_ONCE
    elif api_key == ApiKey.JOIN_GROUP:
        of_response = groups.MEMBERS_AT_ONCE
    elif isinstance(handler, Divided):
        of_request = min(of_request, handler.most)  # so that nobody needs to count what is short
    return of_request, of_response


class Route:
    """What one API in one version needs, compiled: bytes to request, request to response, response to bytes.

    And what it was used for: `durations` counts the requests by how long their answers took
    (`broker.handlers.durations`), and `total_ns` is the sum of those times. Written by connections, read by metrics.
    `flows`: see `FLOWING`; `has_tags`: its header ends with tagged fields. `decode` and `encode` raise LongMessage for
    what takes too long for the loop; in a thread `decode_long` and `encode_long` do it. What `decode` gives is for
    `handle`, the rest for `handle_long`.
    """

    __slots__ = (
        "api_key",
        "decode",
        "durations",
        "encode",
        "flows",
        "handle",
        "handle_long",
        "has_tags",
        "name",
        "total_ns",
        "version",
    )

    def __init__(self, api_key: int, version: int, handler: Handler) -> None:
        self.api_key = api_key
        self.version = version
        self.name = APIS[api_key].name
        self.flows = api_key in FLOWING
        self.has_tags = has_tags(api_key, version)
        self.handle = self.handle_long = cast("Handle", handler)
        if isinstance(handler, Divided):
            self.handle = handler.undivided
        of_request, of_response = most_elements(api_key, handler)
        self.decode = short_request_decoder(api_key, version, of_request)
        self.encode = short_response_encoder(api_key, version, of_response)
        self.durations = [0] * DURATION_BUCKETS
        self.total_ns = 0

    def decode_long(self, frame: bytes, position: int) -> tuple[Message, int]:
        """As `decode`, however long it takes. Any thread."""
        decoded: tuple[Message, int] = APIS[self.api_key].request.decoder(self.version)(frame, position)
        return decoded

    def encode_long(self, response: Message, correlation_id: int) -> list[Buffer]:
        """As `encode`, however long it takes. Any thread."""
        return encode_response(self.api_key, self.version, correlation_id, response)

    def tally(self, count: int, took_ns: int) -> None:
        """So many requests were answered, each in so many ns."""
        self.durations[(took_ns >> DURATION_SHIFT).bit_length()] += count
        self.total_ns += took_ns * count


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
