"""How many offsets of each partition a batch takes, when not everything fits."""

from __future__ import annotations

from collections.abc import Mapping


def admit(waiting: Mapping[str, int], limit: int) -> dict[str, int]:
    """Shares in proportion to what each has waiting, rounded up, so that nobody who waits gets nothing."""
    total = sum(waiting.values())
    if total <= limit:
        return dict(waiting)
    return {name: min(count, -(-count * limit // total)) for name, count in waiting.items()}
