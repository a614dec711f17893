"""The rebalance ledger: what happened to groups, as records of the topic `__kohort_rebalances`."""

from broker.groups.ledger.ledger import Ledger

__all__ = ["Ledger"]
