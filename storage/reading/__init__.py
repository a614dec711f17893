"""What log files say: the one reader of batches, indexes, checkpoints and folders, for all rooms."""
