"""ListTransactions: the transactional ids of a broker."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Int64, Message, Nullable, String, Struct, field, message, struct


@message(api_key=ApiKey.LIST_TRANSACTIONS, versions=(0, 2), flexible_from=0)
class ListTransactionsRequest(Message):
    """Which to list; an empty filter lets all pass. Source: KIP-664, KIP-994, KIP-1152."""

    state_filters: list[str] = field(Array(String))
    producer_id_filters: list[int] = field(Array(Int64))
    duration_filter: int = field(Int64, since=1, default=-1)  # ms; only those that run longer
    transactional_id_pattern: str | None = field(Nullable(String), since=2, default=None)  # RE2, of the whole id


@struct
class ListedTransaction(Struct):
    """One transactional id."""

    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    transaction_state: str = field(String)


@message(api_key=ApiKey.LIST_TRANSACTIONS, versions=(0, 2), flexible_from=0)
class ListTransactionsResponse(Message):
    """The transactional ids, and which state filters are the name of no state."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    unknown_state_filters: list[str] = field(Array(String))
    transaction_states: list[ListedTransaction] = field(Array(ListedTransaction))
