"""What a request of the catalogue is made of: a plan for its queue, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from broker.catalogue.cluster_state import ClusterState
from protocol.errors import ErrorCode

Plan = Callable[[ClusterState], tuple[list[Any], Any]]
"""State -> the records of the change and the value of its answer. Raises: Refused, NotInThisRound."""

Pay = Callable[[int], None]
"""What is told of the partitions that a change makes or deletes, before it is made. Raises: Refused."""


@dataclass(slots=True)
class Result:
    """What became of one plan: refused with a code and a sentence, or done (code NONE) with a value."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    value: Any = None


class NotInThisRound(Exception):
    """The change needs what this round does to be finished, folders and answers included."""
