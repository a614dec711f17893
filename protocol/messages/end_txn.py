"""EndTxn: a producer decides its transaction."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Bool, Int16, Int32, Int64, Message, String, field, message


@message(api_key=ApiKey.END_TXN, versions=(0, 5), flexible_from=3)
class EndTxnRequest(Message):
    """Commit or abort. Source: KIP-98, KIP-588, KIP-890."""

    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    committed: bool = field(Bool)  # false: abort


@message(api_key=ApiKey.END_TXN, versions=(0, 5), flexible_from=3)
class EndTxnResponse(Message):
    """The decision is durable; from version 5 on, with the id and epoch of the next transaction."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    producer_id: int = field(Int64, since=5, default=-1)
    producer_epoch: int = field(Int16, since=5, default=-1)
