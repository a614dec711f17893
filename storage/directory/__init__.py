"""A log directory: its lock, its identity, its folders."""
