"""Transactions as this node serves them: who leads which transactional id, and what its rules ask to be done."""
