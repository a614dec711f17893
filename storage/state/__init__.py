"""What an open log is, in memory: segments, producers, epochs, and what of it is durable."""
