"""What goes when nobody has it, and what waits for the garbage collector, which may look at everything or nothing."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collected_by_nobody() -> Iterator[None]:
    """What goes inside goes by its reference count."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def waiting_for_the_collector() -> list[Any]:
    """All that nobody has, and that is there all the same: in cycles, with an error that was met, say."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
