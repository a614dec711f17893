"""What auditors are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Exchange:
    """One request, and its answer when there is one. Ticks tell what came before what at the broker."""

    client: str
    request: Any
    version: int
    life: int = 0
    arrived: int = -1  # tick at which the broker had all of it; -1: it never had
    answered: int = -1
    response: Any = None
