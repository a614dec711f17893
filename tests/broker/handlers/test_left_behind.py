"""The longest requests of every API leave nothing to the garbage collector, answered or given up with their client.

On native code, too: a scope of nested functions is one environment there (`tests/compiled/test_closures.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.worst import worst
from broker.handlers.dispatch import HANDLERS
from protocol.frames import encode_request
from protocol.schema.declaration import Struct
from tests.broker.handlers.test_refused_requests import nothing_left_to_collect
from tests.support.connections import Harness
from tests.support.whole_broker import Whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENTRIES = 64
"""Of what is a megabyte: some slices of it."""
STEP_NS = 300_000
"""Longer than a work may take at once."""


class Patient(Whole):
    """A broker whose slices each take a turn, one by one."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.create("t")
        self.commit("g", 1)
        self.harness = Harness(HANDLERS, broker=self.broker, runtime=self.runtime)

    def ask(self, frame: bytes, turns: int | None) -> int:
        """The bytes of the answer: a client goes after so many turns, or when it has it (None)."""
        connection, transport = self.harness.connect()
        self.runtime.step_ns = STEP_NS
        connection.data_received(frame)
        if turns is None:
            self.settle()
        else:
            for _ in range(turns):
                self.runtime.step()
        answered = len(transport.written)
        transport.closed = True
        connection.connection_lost(None)
        transport.protocol = None
        self.settle()
        self.runtime.step_ns = 0
        return answered

    def settle(self) -> None:
        """Until nobody has anything to do, but for what clients have asked to wait for."""
        self.runtime.turn()
        self.runtime.advance(12_000)


def shorten(message: Struct) -> None:
    """Leave few entries in each of its lists."""
    for content in [getattr(message, field.name) for field in message.FIELDS]:
        if isinstance(content, list):
            del content[ENTRIES:]
            for entry in content:
                if isinstance(entry, Struct):
                    shorten(entry)
        elif isinstance(content, Struct):
            shorten(content)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    """One for all of them."""
    patient = Patient(tmp_path_factory.mktemp("left") / "data")
    yield patient
    patient.stop()


@pytest.mark.parametrize("api", worst())
def test_nothing_of_a_long_request_is_left_behind(broker: Patient, api: str) -> None:
    request, version = worst()[api]()
    shorten(request)
    frame = encode_request(request, version, 1, "client")
    del request
    broker.ask(frame, None)  # what is made once stays
    with nothing_left_to_collect():
        for turns in (None, 0, 1, 2, 4):
            broker.ask(frame, turns)
