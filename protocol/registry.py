"""The APIs of the broker: their messages, which versions are served, and which are advertised.

The messages of an API are in the module of its name, and imported when they are first asked for: a broker starts, and
waits, with those of ten APIs of sixty. Whether an API has a handler is said by the broker, not here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from protocol.schema import Message


_ROOM = __name__.rpartition(".")[0]  # an installed one has a longer name


class Api:
    """One API. Ranges of versions are inclusive.

    Any version that is not `served` closes the connection, ApiVersions apart; `advertised` is what an ApiVersions
    response lists. `name` is as Kafka writes it, such as OffsetCommit.
    """

    __slots__ = ("_request", "_response", "advertised", "key", "name", "served")

    def __init__(self, key: ApiKey, served: tuple[int, int], *, advertised: tuple[int, int] | None = None) -> None:
        self.key = key
        self.name = key.name.title().replace("_", "")
        self.served = served
        self.advertised = served if advertised is None else advertised
        self._request: type[Message] | None = None
        self._response: type[Message] | None = None

    @property
    def request(self) -> type[Message]:
        """The class of its requests."""
        if self._request is None:
            self._request = self._message("Request")
        return self._request

    @property
    def response(self) -> type[Message]:
        """The class of its responses."""
        if self._response is None:
            self._response = self._message("Response")
        return self._response

    def _message(self, kind: str) -> type[Message]:
        found: Any = getattr(import_module(f"{_ROOM}.messages.{self.key.name.lower()}"), self.name + kind)
        message: type[Message] = found
        return message


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        # librdkafka before 2.11 compresses only when it is offered Produce 0; Kafka 4 offers and refuses it too.
        Api(ApiKey.PRODUCE, (3, 13), advertised=(0, 13)),
        Api(ApiKey.FETCH, (4, 18)),
        Api(ApiKey.LIST_OFFSETS, (1, 11)),
        Api(ApiKey.METADATA, (0, 13)),
        Api(ApiKey.OFFSET_COMMIT, (2, 10)),
        Api(ApiKey.OFFSET_FETCH, (1, 10)),
        Api(ApiKey.FIND_COORDINATOR, (0, 6)),
        Api(ApiKey.JOIN_GROUP, (0, 9)),
        Api(ApiKey.HEARTBEAT, (0, 4)),
        Api(ApiKey.LEAVE_GROUP, (0, 5)),
        Api(ApiKey.SYNC_GROUP, (0, 5)),
        Api(ApiKey.DESCRIBE_GROUPS, (0, 6)),
        Api(ApiKey.LIST_GROUPS, (0, 5)),
        Api(ApiKey.SASL_HANDSHAKE, (0, 1)),
        Api(ApiKey.API_VERSIONS, (0, 5)),
        Api(ApiKey.CREATE_TOPICS, (2, 7)),
        Api(ApiKey.DELETE_TOPICS, (1, 6)),
        Api(ApiKey.DELETE_RECORDS, (0, 2)),
        Api(ApiKey.INIT_PRODUCER_ID, (0, 5)),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, (2, 4)),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, (0, 5)),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, (0, 4)),
        Api(ApiKey.END_TXN, (0, 5)),
        Api(ApiKey.WRITE_TXN_MARKERS, (1, 2)),
        Api(ApiKey.TXN_OFFSET_COMMIT, (0, 6)),
        Api(ApiKey.DESCRIBE_ACLS, (1, 3)),
        Api(ApiKey.CREATE_ACLS, (1, 3)),
        Api(ApiKey.DELETE_ACLS, (1, 3)),
        Api(ApiKey.DESCRIBE_CONFIGS, (1, 4)),
        Api(ApiKey.ALTER_CONFIGS, (0, 2)),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, (1, 2)),
        Api(ApiKey.DESCRIBE_LOG_DIRS, (1, 5)),
        Api(ApiKey.SASL_AUTHENTICATE, (0, 2)),
        Api(ApiKey.CREATE_PARTITIONS, (0, 3)),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, (1, 3)),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, (1, 2)),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, (1, 2)),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, (1, 3)),
        Api(ApiKey.DELETE_GROUPS, (0, 3)),
        Api(ApiKey.ELECT_LEADERS, (0, 2)),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1)),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 1)),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0)),
        Api(ApiKey.OFFSET_DELETE, (0, 0)),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1)),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, (0, 1)),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0)),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, (0, 0)),
        Api(ApiKey.DESCRIBE_QUORUM, (0, 2)),
        Api(ApiKey.UPDATE_FEATURES, (0, 2)),
        Api(ApiKey.DESCRIBE_CLUSTER, (0, 2)),
        Api(ApiKey.DESCRIBE_PRODUCERS, (0, 0)),
        Api(ApiKey.UNREGISTER_BROKER, (0, 0)),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, (0, 0)),
        Api(ApiKey.LIST_TRANSACTIONS, (0, 2)),
        Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, 1)),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1)),
        Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, (0, 0)),
        Api(ApiKey.PUSH_TELEMETRY, (0, 0)),
        Api(ApiKey.LIST_CONFIG_RESOURCES, (0, 1)),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (0, 0)),
    )
}
"""By key, in the order of keys."""
