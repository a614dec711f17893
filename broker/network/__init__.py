"""Listeners and connections: bytes to requests, answers to bytes, in order."""
