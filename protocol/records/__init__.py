"""Record batches, and the records of `__consumer_offsets` and `__cluster_metadata`."""
