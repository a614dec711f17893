"""Topics as rules see them, for tests that have no catalogue."""

from __future__ import annotations

from collections.abc import Mapping


class Topics:
    """Topics of a moment, out of a dict: name -> partition count. The id of a topic is its name, padded."""

    def __init__(self, partitions: Mapping[str, int] | None = None) -> None:
        self.partitions = dict(partitions or {})
        self.lives: dict[str, int] = {}  # of topics that were made anew, how often

    def partition_count(self, name: str) -> int | None:
        return self.partitions.get(name)

    def topic_id(self, name: str) -> bytes | None:
        if name not in self.partitions:
            return None
        return (name.encode().ljust(15, b"\0") + bytes([self.lives.get(name, 0)]))[:16]

    def topic_name(self, topic_id: bytes) -> str | None:
        name = topic_id[:15].rstrip(b"\0").decode()
        return name if name in self.partitions else None

    def names(self) -> list[str]:
        return sorted(self.partitions)

    version = 1
    created_version = 1
