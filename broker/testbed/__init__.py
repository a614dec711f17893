"""Brokers for tests: one process that serves one broker after the other, and does what its test says."""
