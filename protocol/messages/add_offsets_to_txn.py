"""AddOffsetsToTxn: the offsets of a group join a transaction."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Int16, Int32, Int64, Message, String, field, message


@message(api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4), flexible_from=3)
class AddOffsetsToTxnRequest(Message):
    """A producer will commit offsets of this group in its transaction. Source: KIP-98, KIP-588, KIP-890."""

    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    group_id: str = field(String)


@message(api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4), flexible_from=3)
class AddOffsetsToTxnResponse(Message):
    """Whether the group's partition of `__consumer_offsets` is in the transaction."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
