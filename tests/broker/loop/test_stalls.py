"""Who held the loop, for how long, and how often that is said."""

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.settings import Settings
from broker.http.metrics import process
from broker.http.metrics.exposition import Scrape
from broker.loop import logs
from broker.loop.stalls import COUNTED_NS, NOTED_NS, TOLD_EVERY_NS, Stalls

MS = 1_000_000


class Watched:
    """A clock that is set by hand, and the end of a turn."""

    def __init__(self) -> None:
        self.now_ns = 1
        self.cpu_ns = 1
        self.after: list[Callable[[], None]] = []
        self.stalls = Stalls(lambda: self.now_ns, self.after.append, lambda: self.cpu_ns)
        self.log = io.StringIO()
        logs.configure(stream=self.log)

    def works(self, name: str, ms: int, client: str = "client@1.2.3.4:5", *, cpu_ms: int | None = None) -> None:
        self.now_ns += ms * MS
        self.cpu_ns += (ms if cpu_ms is None else cpu_ms) * MS
        if ms * MS > NOTED_NS:
            self.stalls.note(name, client, ms * MS)

    def turn_ends(self) -> None:
        after, self.after[:] = list(self.after), []
        for callback in after:
            callback()


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_stall_is_all_of_a_turn_and_has_the_name_of_what_took_most_of_it(watched: Watched) -> None:
    watched.works("Heartbeat", 1)
    watched.works("Fetch", 10)
    watched.works("ListOffsets", 80)
    watched.works("Metadata", 20)
    assert len(watched.after) == 1
    watched.turn_ends()
    assert watched.stalls.longest_ns == {"ListOffsets": 110 * MS}
    assert watched.stalls.counts == {"ListOffsets": 1}
    assert watched.stalls.total_ns == 110 * MS
    line = "loop_held api=ListOffsets client=client@1.2.3.4:5 took_ms=110 cpu_ms=111 since_last_line=0"
    assert line in watched.log.getvalue()


def test_a_turn_in_which_nobody_took_long_is_not_noted(watched: Watched) -> None:
    watched.works("Heartbeat", 1)
    assert not watched.after
    assert not watched.stalls.longest_ns


def test_a_short_stall_is_measured_and_not_told(watched: Watched) -> None:
    watched.works("Fetch", COUNTED_NS // MS)
    watched.turn_ends()
    assert watched.stalls.longest_ns == {"Fetch": COUNTED_NS}
    assert not watched.stalls.counts
    assert not watched.log.getvalue()


def test_what_is_around_a_part_keeps_the_name_of_the_part(watched: Watched) -> None:
    watched.works("ListOffsets", 60)
    watched.stalls.note("Connection._flush", "", 61 * MS)
    watched.turn_ends()
    assert list(watched.stalls.longest_ns) == ["ListOffsets"]


def test_one_name_is_told_once_a_minute_with_the_number_of_those_between(watched: Watched) -> None:
    for _ in range(3):
        watched.works("Fetch", 60)
        watched.turn_ends()
    watched.works("Metadata", 60)
    watched.turn_ends()
    assert watched.log.getvalue().count("loop_held") == 2
    watched.now_ns += TOLD_EVERY_NS
    watched.works("Fetch", 60)
    watched.turn_ends()
    assert "since_last_line=2" in watched.log.getvalue().splitlines()[-1]
    assert watched.stalls.counts == {"Fetch": 4, "Metadata": 1}


def test_one_that_is_twice_as_long_as_the_one_told_is_told_within_the_minute(watched: Watched) -> None:
    for by_ms in (250, 499, 8_700, 8_700):
        watched.stalls.late(by_ms * MS)
    lines = watched.log.getvalue().splitlines()
    assert [line.partition("took_ms=")[2] for line in lines] == [
        "250 cpu_ms=0 since_last_line=0",
        "8700 cpu_ms=0 since_last_line=1",
    ]


def test_a_stall_in_which_the_process_did_not_run_is_told_with_the_little_that_it_did(watched: Watched) -> None:
    """A busy machine's: of all that the line says, the processor time alone tells it from the broker's own work."""
    watched.works("Heartbeat", 1)
    watched.stalls.late(0)
    watched.works("Heartbeat", 2, cpu_ms=2)
    watched.stalls.late(146 * MS)
    watched.works("Fetch", 90, cpu_ms=3)
    watched.stalls.late(0)  # a look between the stall and the end of its turn
    watched.turn_ends()
    lines = watched.log.getvalue().splitlines()
    assert [line.partition("took_ms=")[2].partition(" since")[0] for line in lines] == ["146 cpu_ms=2", "90 cpu_ms=3"]


def test_many_small_things_are_found_by_the_timer_that_comes_late_and_a_noted_stall_counts_once(
    watched: Watched,
) -> None:
    watched.stalls.late(NOTED_NS)
    assert not watched.stalls.longest_ns
    watched.stalls.late(70 * MS)
    assert watched.stalls.counts == {"many": 1}
    watched.works("Fetch", 60)
    watched.stalls.late(55 * MS)
    watched.turn_ends()
    assert watched.stalls.counts == {"many": 1, "Fetch": 1}


def test_the_longest_stall_of_each_is_a_metric_and_whether_the_loop_sleeps(watched: Watched) -> None:
    for name, ms in (("ListOffsets", 80), ("Fetch", 60), ("ListOffsets", 70)):
        watched.works(name, ms)
        watched.turn_ends()
    runtime = SimpleNamespace(stalls=watched.stalls, busy_polling=SimpleNamespace(awake=True))
    app: Any = SimpleNamespace(broker=SimpleNamespace(runtime=runtime, settings=Settings({})))
    told = "".join(process.loop(Scrape(app))).splitlines()
    assert [line for line in told if not line.startswith("#")] == [
        'kohort_loop_longest_stall_seconds{api="Fetch"} 0.06',
        'kohort_loop_longest_stall_seconds{api="ListOffsets"} 0.08',
        'kohort_loop_stalls_total{api="Fetch"} 1',
        'kohort_loop_stalls_total{api="ListOffsets"} 2',
        "kohort_loop_stall_seconds_total 0.21",
        "kohort_loop_awake 1",
    ]
