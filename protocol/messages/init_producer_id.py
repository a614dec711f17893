"""InitProducerId: the id and epoch that make a producer idempotent or transactional."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Bool, Int16, Int32, Int64, Message, Nullable, String, field, message


@message(api_key=ApiKey.INIT_PRODUCER_ID, versions=(0, 6), flexible_from=2)
class InitProducerIdRequest(Message):
    """A producer asks for an id. Source: KIP-98, KIP-360, KIP-588, KIP-890, KIP-939."""

    transactional_id: str | None = field(Nullable(String))
    transaction_timeout_ms: int = field(Int32)
    producer_id: int = field(Int64, since=3, default=-1)  # -1: none yet
    producer_epoch: int = field(Int16, since=3, default=-1)
    enable_2pc: bool = field(Bool, since=6)
    keep_prepared_txn: bool = field(Bool, since=6)


@message(api_key=ApiKey.INIT_PRODUCER_ID, versions=(0, 6), flexible_from=2)
class InitProducerIdResponse(Message):
    """The id, and the epoch that fences earlier holders of it."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    producer_id: int = field(Int64, default=-1)
    producer_epoch: int = field(Int16)
    ongoing_txn_producer_id: int = field(Int64, since=6, default=-1)
    ongoing_txn_producer_epoch: int = field(Int16, since=6, default=-1)
