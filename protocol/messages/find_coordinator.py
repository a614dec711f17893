"""FindCoordinator: which broker answers for a group or a transactional id."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int8, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@message(api_key=ApiKey.FIND_COORDINATOR, versions=(0, 6), flexible_from=3)
class FindCoordinatorRequest(Message):
    """One key up to version 3, any number from version 4 on. Source: KIP-98, KIP-699, KIP-890, KIP-932."""

    key: str = field(String, until=3)
    key_type: int = field(Int8, since=1)  # 0: group, 1: transactional id, 2: share group
    coordinator_keys: list[str] = field(Array(String), since=4)


@struct
class Coordinator(Struct):
    """The coordinator of one key."""

    key: str = field(String)
    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))


@message(api_key=ApiKey.FIND_COORDINATOR, versions=(0, 6), flexible_from=3)
class FindCoordinatorResponse(Message):
    """The coordinator of the key, or from version 4 on of each key."""

    throttle_time_ms: int = field(Int32, since=1)
    error_code: int = field(Int16, until=3)
    error_message: str | None = field(Nullable(String), since=1, until=3)
    node_id: int = field(Int32, until=3)
    host: str = field(String, until=3)
    port: int = field(Int32, until=3)
    coordinators: list[Coordinator] = field(Array(Coordinator), since=4)
