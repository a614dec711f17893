"""What commands and faults know of the broker under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from broker.broker import Broker
    from broker.loop.testbed_runtime import TestbedRuntime
    from broker.testbed.auditing.tap import Audit
    from broker.testbed.disk import TestbedDisk


class UnderTest(Protocol):
    """A broker that serves, until its test closes it."""

    broker: Broker
    runtime: TestbedRuntime
    disk: TestbedDisk
    directory: Path

    @property
    def audit(self) -> Audit | None:
        """Its auditors, where there are any."""

    def when_quiet(self, done: Callable[[], None]) -> None:
        """Once nothing is on its way to the disk."""

    def crash(self, *, power: bool = False) -> None:
        """Drop it where it stands, as SIGKILL does, or with `power` as a power failure."""

    def shift(self, by_ms: int, done: Callable[[], None]) -> None:
        """Move the clock; `done()` when all that is due then has happened."""

    def guarded(self, command: Callable[..., None], words: dict[str, Any], answer: Callable[[Any], None]) -> None:
        """Do it; what is wrong is its answer."""
