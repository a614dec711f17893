"""Segment files, indexes, the partition log, recovery, compaction, retention, checkpoints."""
