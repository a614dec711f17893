"""A runtime that a process makes again and again, one for each broker that it serves: for testbeds."""

from __future__ import annotations

import uvloop

from broker.loop.runtime import LoopRuntime


class TestbedRuntime(LoopRuntime):
    """As `LoopRuntime`, and leaves nothing behind when it is closed."""

    @classmethod
    def create(cls) -> TestbedRuntime:
        """A runtime on a new uvloop."""
        return cls(uvloop.new_event_loop())

    def close(self) -> None:
        """Nothing is called back afterwards, and the loop's descriptors are closed."""
        super().close()
        self._loop.close()
