"""Committed offsets: commit, fetch, expiry, deletion."""
