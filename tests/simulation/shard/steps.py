"""The inputs of one history and what came of each: `python -m tests.simulation.shard.steps consumer/17`."""

import sys
from typing import Any

from tests.simulation.shard.history import History


def main(seed: str) -> None:
    """A line each."""
    history = History(seed)
    handled = history.auditor.handled

    def told(event: Any, outcome: Any) -> None:
        print(history.clock.now_ms, type(event).__name__, getattr(event, "member_id", ""), *outcome.records)
        handled(event, outcome)

    history.auditor.handled = told  # type: ignore[method-assign]
    history.play()


if __name__ == "__main__":
    main(sys.argv[1])
