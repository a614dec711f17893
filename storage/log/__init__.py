"""The log of one partition, open."""
