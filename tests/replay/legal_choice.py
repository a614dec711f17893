"""Any choice that a cleaner could make: which of the records that may go do go.

A record may go when a later one of its key lies in the cleaned part; a tombstone, when its time is over and no older
record of its key was there when the pass began. Kafka's cleaner takes all that it knows of; a pass that is cut short by
a full map, by a limit, or by a truncation takes less, and a load that a pass overtakes sees any mixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from protocol.records.batch import read_keys_values
from storage.clean import cleaner


class Chooser:
    """Remembers over all passes of a log what the newest record of each key is."""

    def __init__(self) -> None:
        self.newest: dict[bytes, int] = {}
        self.clean_end: int | None = None

    @contextmanager
    def choosing(self, random: Random | None) -> Iterator[None]:
        """Let the cleaner choose at random; without `random` it chooses as it does, and all is only noted."""
        older_seen: set[bytes] = set()
        real = cleaner._records_to_keep

        def choose(plan: Any, header: Any, batch: bytes, found: Any) -> tuple[list[bool], bool]:
            self.newest.update(found.offsets)
            if random is None:
                return real(plan, header, batch, found)
            horizon = header.delete_horizon_ms
            keep, has_tombstone = [], False
            for offset, key, value in zip(*read_keys_values(batch), strict=True):
                assert key is not None
                stays = True
                if offset < self.newest.get(key, -1):
                    older_seen.add(key)
                    stays = random.random() < 0.5
                elif offset <= found.latest_offset and value is None and key not in older_seen:
                    stays = horizon is None or plan.now_ms < horizon or random.random() < 0.5
                keep.append(stays)
                has_tombstone = has_tombstone or (stays and value is None)
            return keep, has_tombstone

        with patch.object(cleaner, "_records_to_keep", choose):
            yield
