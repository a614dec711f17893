"""What consumers tell each other through the coordinator, written byte by byte.

Source: Kafka's ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json.
"""

import struct


def subscription(*topics: str, owned: dict[str, list[int]] | None = None) -> bytes:
    """Version 0, or 1 with what the member owns."""
    metadata = struct.pack(">hi", 0 if owned is None else 1, len(topics)) + b"".join(map(_string, topics))
    metadata += struct.pack(">i", -1)
    return metadata if owned is None else metadata + _partitions(owned)


def assignment(partitions: dict[str, list[int]]) -> bytes:
    """Version 0."""
    return struct.pack(">h", 0) + _partitions(partitions) + struct.pack(">i", -1)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _partitions(partitions: dict[str, list[int]]) -> bytes:
    return struct.pack(">i", len(partitions)) + b"".join(
        _string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in partitions.items()
    )
