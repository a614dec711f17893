"""Transactional ids: who may write under them, and how their transactions begin and end.

One module for each kind of input, `rules` says which is which, `shard` holds the ids of one partition of
`__transaction_state`.

Source: KIP-98, KIP-447, KIP-588, KIP-890; Kafka's TransactionCoordinator, TransactionStateManager, TransactionMetadata.
"""
