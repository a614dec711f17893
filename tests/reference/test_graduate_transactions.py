"""Transactions that begin on Kohort and end on Apache Kafka, and the other way round. Needs Java, Maven and Go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.transactional import Java
from tests.reference import graduation as g
from tests.reference.handover import Handover
from tests.support.broker_process import free_port, need

pytestmark = pytest.mark.slow

VERSION = "4.4.0"
QUICK_TIMEOUTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}


@pytest.fixture
def tidy() -> Iterator[Callable[[Any], Any]]:
    """tidy(broker) -> broker, which is killed after the test if it still runs."""
    need("java", "mvn", "go")
    yield from g.ending([])


@pytest.mark.parametrize("begun_by", ["kohort", "kafka"])
def test_each_side_ends_what_the_other_has_begun(
    tmp_path: Path, tidy: Any, tmp_path_factory: pytest.TempPathFactory, begun_by: str
) -> None:
    """TX90: there and back on one directory and address, with transactions in every state.

    The first broker is killed, with decisions that no marker has carried out, or only some; the second is stopped.
    Producers of three libraries, of both generations, live through it, and the end is the same on both.
    """
    base = tmp_path_factory.getbasetemp()
    Java.classes = base.parent if "popen" in base.name else base
    port = free_port()
    if begun_by == "kohort":
        kohort = tidy(g.kohort_on(tmp_path / "kohort", port))
        kafka = tidy(g.kafka_on(tmp_path / "kafka", kohort.data, port, version=VERSION, settings=QUICK_TIMEOUTS))
        first, second = kohort, kafka
    else:
        settings, environment = {"offsets.topic.num.partitions": 50, **QUICK_TIMEOUTS}, {"KAFKA_VERSION": VERSION}
        kafka = tidy(g.Kafka(tmp_path / "kafka", settings, port=port, environment={**environment, **g.HEAP}))
        kohort = tidy(g.kohort_on(tmp_path / "kohort", port, kafka.data))
        first, second = kafka, kohort

    first.start()
    there = Handover("there", prepared=True)
    there.play(first)
    first.kill()
    there.cut(first.data)
    second.start()
    there.check(second)

    back = Handover("back", prepared=False)
    back.play(second)
    second.stop()
    if first is kafka:
        kafka.settings |= g.graduated(kohort, "--to", VERSION)
    first.start()
    back.check(first)
    assert g.strays(first.data) == []
    first.stop()
