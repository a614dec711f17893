"""What a log does, step by step, is what is kept: every answer, every operation on the disk, every change of its state.

Other tests say what must hold; these notice what else a change of a line changes.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.records.batch import Record, encode_batch
from protocol.schema.ahead import TREE
from storage.clean import cleaner
from storage.clean.cleaner import CleanResult, clean
from storage.files import LogFile
from storage.log import handover, truncation
from storage.log.partition_log import PartitionLog
from storage.reading import walk
from storage.state import segment as segment_module
from storage.state.log_config import LogConfig
from storage.state.tail import TailBudget
from tests.storage.courses import Course, joined, short, told
from tests.storage.logs import COMPACT, SMALL, batch, keyed, marker, transactional
from tests.support.kept import held

pytestmark = pytest.mark.skipif(TREE != "pure", reason="native code does not show its state")
KEPT = Path(__file__).parent / "kept"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    folder = tmp_path / "t-0"
    folder.mkdir()
    return Course(folder)


def opened(course: Course, config: LogConfig = SMALL, **options: Any) -> PartitionLog:
    """The log of the course's folder, and how it came to be."""
    name = f"open {' '.join(f'{key}={value}' for key, value in options.items())}"
    made: list[PartitionLog] = []
    tail = TailBudget(limit_bytes=1_500, limit_batches=9)

    def act() -> Any:
        made.append(PartitionLog.open(course.root, config, disk=course.disk, tail=tail, **options))
        return made[0].state

    course.step(name, act)
    assert made, course.lines[-5:]
    course.watch(made[0].state)
    return made[0]


def batches() -> Iterator[bytearray]:
    """Of producers and of none, transactions that end well and badly, and times that go up and down."""
    for at in range(12):
        time = 1_000 + 100 * at - 250 * (at % 3)
        yield batch(1 + at % 4, timestamp=time, producer_id=at % 2 + 7, producer_epoch=at // 8, base_sequence=at)
        yield transactional(at % 3, at, (b"k%d" % (at % 5), b"v" * 30 * (at % 4)), (b"x", None))
        if at % 4 == 3:
            yield marker(at % 3, 0, abort=at % 8 == 3, timestamp=time)
        if at % 5 == 2:
            yield batch(2, timestamp=-1)


def fill(log: PartitionLog) -> None:
    for at, each in enumerate(batches()):
        log.append(each, leader_epoch=at // 7, now_ms=5_000 + at)


def test_of_appending_and_flushing(course: Course) -> None:
    log = opened(course)
    for at, each in enumerate(batches()):
        course.step(
            f"append {at}",
            lambda each=each, at=at: log.append(each, leader_epoch=at // 7, now_ms=5_000 + at),
            log.state,
        )
        if at % 8 == 5:
            course.step("flush", lambda at=at: log.flush(sync=at != 13), log.state)
    course.step("roll", lambda: log.roll(now_ms=7_000), log.state)
    course.step("roll again", lambda: log.roll(now_ms=7_001), log.state)
    ticket = course.step("begin to flush", log.begin_flush, log.state)
    course.step("append meanwhile", lambda: log.append(batch(1), leader_epoch=9), log.state)
    course.step("sync", ticket.sync)
    course.step("finish", lambda: log.finish_flush(ticket), log.state)
    course.step("nothing assigned", lambda: log.append_assigned(b""), log.state)
    assigned = encode_batch([Record(90, 5, b"k", b"v")], base_offset=90, leader_epoch=10)
    course.step(
        "assigned", lambda: log.append_assigned(assigned + batch(2, base_offset=95, leader_epoch=11)), log.state
    )
    course.step("assigned below", lambda: log.append_assigned(batch(2, base_offset=94, leader_epoch=11)), log.state)
    course.step("assigned and cut off", lambda: log.append_assigned(batch(2, base_offset=97)[:-1]), log.state)
    course.step("too large", lambda: log.append(batch(1, value_bytes=2_000), leader_epoch=11), log.state)
    course.step("let go", log.release_unused, log.state)
    course.step("let go again", log.release_unused, log.state)
    course.step("close", log.close, log.state)
    course.step("close again", log.close, log.state)
    for act in (log.begin_flush, log.roll, lambda: log.read(0, 9), lambda: log.truncate_to(0)):
        course.step("after that", act)
    held(KEPT / "appending.txt", list(short(course.lines)))


@pytest.mark.parametrize("kind", ["tail", "files", "copied"])
def test_of_reading(course: Course, kind: str) -> None:
    log = opened(course)
    fill(log)
    log.delete_records_before(3)
    end = log.log_end_offset
    if kind != "tail":
        log.state.tail.clear()
    for offset in (2, *range(3, end + 2)):
        bounds: list[int | None] = [None, offset + 1, offset + 5, end, end + 9]
        for most, bound, least in itertools.product((1, 300, 5_000), bounds, (True, False)):
            said = f"read {offset} {most} {bound} {least}"
            course.step(
                said,
                lambda o=offset, m=most, b=bound, one=least: log.read(
                    o, m, upper_bound_offset=b, min_one_batch=one, copied=kind == "copied"
                ),
            )
    course.step("state", lambda: None, log.state)
    held(KEPT / f"reading-{kind}.txt", joined(course.lines))


def test_of_looking_up(course: Course) -> None:
    log = opened(course)
    fill(log)
    end = log.log_end_offset
    for reopened in (False, True):
        if reopened:
            log.close()
            log = opened(course, clean=True)
        for start in (0, 9, 30):
            log.delete_records_before(start)
            _look_up(course, log, start, end)
        course.step("state", lambda: None, log.state)
    held(KEPT / "looking-up.txt", joined(course.lines))


def _look_up(course: Course, log: PartitionLog, start: int, end: int) -> None:
    for time in (*range(0, 2_400, 75), 5_000):
        course.step(f"from {start} at {time}", lambda t=time: log.offset_for_timestamp(t))
    course.step(f"from {start} latest", log.offset_of_max_timestamp)
    for offset in range(end + 2):
        course.step(f"from {start} when {offset}", lambda o=offset: log.timestamp_at(o))
    for low, high in itertools.product(range(0, end, 5), range(0, end + 6, 6)):
        course.step(f"from {start} aborted {low} {high}", lambda a=low, b=high: log.aborted_transactions(a, b))
    for mark in range(0, end + 1, 3):
        course.step(
            f"from {start} stable {mark}", lambda m=mark: (log.last_stable_offset(m), log.first_unstable_offset)
        )


@pytest.mark.parametrize("mapped", [False, True])
def test_of_truncating(course: Course, mapped: bool) -> None:
    begun = opened(course)
    fill(begun)
    end = begun.log_end_offset
    begun.flush()
    whole = course.root.with_name("whole")
    shutil.copytree(course.root, whole)
    for offset in (end + 1, end, end - 1, 25, 24, 16, 15, 9, 1, 0):
        course.begin_again(whole)
        log = opened(course, recovery_point=16, log_start_offset=5)
        if mapped:
            log.state.tail.clear()
            for base in log.bases:
                log.read(max(base, 5), 200)
        course.watch(log.state)
        course.step(f"truncate {offset}", lambda log=log, to=offset: log.truncate_to(to), log.state)
        course.step("take files", log.take_deleted_files, log.state)
        course.step("append", lambda log=log: log.append(batch(2), leader_epoch=12), log.state)
        course.step("close", log.close, log.state)
    held(KEPT / f"truncating-{mapped}.txt", list(short(course.lines)))


def test_of_retention(course: Course) -> None:
    begun = opened(course)
    fill(begun)
    end = begun.log_end_offset
    begun.close()
    whole = course.root.with_name("whole")
    shutil.copytree(course.root, whole)
    size = begun.size_bytes
    first = begun.segments[0].size_bytes
    latest = [segment.max_timestamp for segment in begun.segments]
    for name, start, now, mark, more in (
        ("nothing", 0, 0, end, {"retention_ms": -1}),
        ("start", begun.bases[1], 0, end, {"retention_ms": -1}),
        ("within", begun.bases[1] - 1, 0, end, {"retention_ms": -1}),
        ("compacted", begun.bases[2], 9_999_999, end, {"delete": False, "retention_ms": 1}),
        ("time", 0, latest[0] + 1, end, {"retention_ms": 0}),
        ("not yet", 0, latest[0], end, {"retention_ms": 0}),
        ("all", 0, 9_999_999, end, {"retention_ms": 1}),
        ("marked", 0, 9_999_999, begun.bases[2], {"retention_ms": 1}),
        ("below the mark", 0, 9_999_999, begun.bases[2] - 1, {"retention_ms": 1}),
        ("size", 0, 0, end, {"retention_ms": -1, "retention_bytes": size - first}),
        ("size and a byte", 0, 0, end, {"retention_ms": -1, "retention_bytes": size - first + 1}),
        ("no size", 0, 0, end, {"retention_ms": -1, "retention_bytes": 0}),
    ):  # fmt: skip
        course.begin_again(whole)
        log = opened(course, replace(SMALL, **more), clean=True)
        log.delete_records_before(start)
        course.watch(log.state)
        course.step(f"retain: {name}", lambda log=log, now=now, mark=mark: log.apply_retention(now, mark), log.state)
        course.step("take files", log.take_deleted_files, log.state)
        course.step("close", log.close, log.state)
    held(KEPT / "retention.txt", list(short(course.lines)))


# -- opening what was left ------------------------------------------------------------------------------------


def _cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x55
    path.write_bytes(data)


def damages() -> dict[str, Callable[[Path, list[Path]], object]]:
    """What may have happened to a folder, given its segments."""
    return {
        "nothing": lambda folder, logs: None,
        "torn last": lambda folder, logs: _cut(logs[-1], logs[-1].stat().st_size - 3),
        "torn middle": lambda folder, logs: _cut(logs[1], logs[1].stat().st_size - 3),
        "emptied last": lambda folder, logs: _cut(logs[-1], 0),
        "emptied middle": lambda folder, logs: _cut(logs[1], 0),
        "no last": lambda folder, logs: logs[-1].unlink(),
        "no first": lambda folder, logs: logs[0].unlink(),
        "flipped record": lambda folder, logs: _flip(logs[1], 80),
        "flipped offset": lambda folder, logs: _flip(logs[1], 3),
        "flipped magic": lambda folder, logs: _flip(logs[2], 16),
        "renamed": lambda folder, logs: logs[1].rename(logs[1].with_name(f"{int(logs[1].stem) + 1:020d}.log")),
        "no indexes": lambda folder, logs: [path.unlink() for path in folder.glob("*index")],
        "cut indexes": lambda folder, logs: [_cut(path, path.stat().st_size - 1) for path in folder.glob("*index")],
        "no time index": lambda folder, logs: logs[1].with_suffix(".timeindex").unlink(),
        "wrong txnindex": lambda folder, logs: [_flip(path, 8) for path in folder.glob("*.txnindex")],
        "no snapshots": lambda folder, logs: [path.unlink() for path in folder.glob("*.snapshot")],
        "bad snapshot": lambda folder, logs: _flip(max(folder.glob("*.snapshot")), 20),
        "bad snapshots": lambda folder, logs: [_flip(path, 20) for path in folder.glob("*.snapshot")],
        "no epochs": lambda folder, logs: (folder / "leader-epoch-checkpoint").unlink(),
        "younger epochs": lambda folder, logs: (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n99 999\n"),
        "left over": lambda folder, logs: [
            logs[0].with_name(f"{name}").write_bytes(b"x")
            for name in (f"{0:020d}.log.deleted", f"{5:020d}.log.cleaned", f"{5:020d}.index", f"{6:020d}.snapshot")
        ],
        "odd": lambda folder, logs: (folder / "x.log").touch(),
        "sized beforehand": lambda folder, logs: [
            (logs[-1].with_suffix(suffix)).write_bytes(logs[-1].with_suffix(suffix).read_bytes().ljust(count, b"\0"))
            for suffix, count in ((".index", 800), (".timeindex", 1_200))
        ],
    }


@pytest.mark.parametrize("clean", [True, False])
def test_of_opening(course: Course, clean: bool) -> None:
    begun = opened(course)
    fill(begun)
    begun.close()
    bases = list(begun.bases)
    end = begun.log_end_offset
    whole = course.root.with_name("whole")
    shutil.copytree(course.root, whole)
    points = [end] if clean else [0, bases[2], bases[2] + 1]
    for (name, damage), point in itertools.product(damages().items(), points):
        course.begin_again(whole)
        damage(course.root, sorted(course.root.glob("*.log")))
        course.lines.append(f"{name}, {point}")
        _open_and_close(course, clean=clean, recovery_point=point)
    for start in (0, bases[1], bases[1] + 1, end, end + 1):
        course.begin_again(whole)
        course.lines.append(f"begins at {start}")
        _open_and_close(course, clean=clean, recovery_point=end, log_start_offset=start, now_ms=86_401_500)
    held(KEPT / f"opening-{clean}.txt", list(short(course.lines)))


def _open(course: Course, **options: Any) -> list[PartitionLog]:
    """Open it, if that can be done, and tell what it is then."""
    made: list[PartitionLog] = []

    def act() -> Any:
        made.append(PartitionLog.open(course.root, SMALL, disk=course.disk, tail=None, **options))
        return told(made[0].state.recovery, course.root)

    course.step("open", act)
    for log in made:
        course.step("state", lambda: None, log.state)
    return made


def _open_and_close(course: Course, **options: Any) -> None:
    for log in _open(course, **options):
        course.step("flush", log.flush, log.state)
        course.step("append", lambda log=log: log.append(batch(2), leader_epoch=12), log.state)
        course.step("close", log.close, log.state)


# -- compaction ---------------------------------------------------------------------------------------------


def compacted(course: Course) -> PartitionLog:
    log = opened(course, COMPACT)
    for at in range(30):
        key = b"k%d" % (at % 4)
        value = None if at % 7 == 3 else b"v%d" % at * (20 + at % 3)
        if at % 5 == 4:
            log.append(transactional(at % 2 + 1, at, (key, value), (b"t%d" % at, b"x" * 90)), leader_epoch=0)
            log.append(marker(at % 2 + 1, 0, abort=at % 10 == 4), leader_epoch=0)
        else:
            log.append(
                keyed((key, value), (b"only%d" % (at % 6), b"y" * 50), timestamp=1_000 + at), leader_epoch=at // 9
            )
    return log


def test_of_cleaning(course: Course) -> None:
    log = compacted(course)
    end = log.log_end_offset
    for start, point, now, mark in itertools.product((0, 11), (None, 0, 11, 30, end, end + 1), (0, 1_020), (end, 30)):
        log.delete_records_before(start)
        course.step(f"dirty {start} {point} {now} {mark}", lambda p=point, n=now, m=mark: log.dirty_range(p, n, m))
    for lag in ({"min_compaction_lag_ms": 10}, {"max_compaction_lag_ms": 10}):
        log.config = replace(COMPACT, **lag)
        for now in (1_000, 1_012, 1_025, 1_040):
            course.step(f"dirty with {lag} {now}", lambda n=now: log.dirty_range(None, n, end))
    log.config = COMPACT
    point, now = 0, 5_000
    for number, keys in enumerate((3, 100, 100, 100)):
        dirty = log.dirty_range(point, now, end)
        plan = course.step(f"plan {number}", lambda d=dirty, n=now, k=keys: log.plan_cleaning(d, n, k))
        result = course.step(f"clean {number}", lambda p=plan: clean(p), look=True)
        if number == 1:
            swapping = course.step("begin", lambda r=result: log.begin_swap(r), log.state)
            course.step("no retention meanwhile", lambda: log.apply_retention(9_999_999_999_999, end))
            for _ in range(2 * len(result.groups)):
                course.step("prepare", swapping.prepare)
                course.step("finish", lambda s=swapping, r=result: log.finish_swap(s, r), log.state)
            course.step("settle", swapping.settle)
        else:
            course.step(f"swap {number}", lambda r=result: log.swap_in(r), log.state)
        point, now = result.clean_end_offset, now + 86_400_001
    course.step("close", log.close, log.state)
    held(KEPT / "cleaning.txt", list(short(course.lines)))


# -- a disk that refuses one operation ------------------------------------------------------------------------


def _swapped(log: PartitionLog) -> Callable[[], Any]:
    plan = log.plan_cleaning(log.dirty_range(None, 5_000, log.log_end_offset), 5_000)
    result: CleanResult = clean(plan)
    return lambda: log.swap_in(result)


def acts() -> dict[str, Callable[[PartitionLog], Callable[[], Any]]]:
    """What a log can be asked to do, once it is there."""
    return {
        "append": lambda log: lambda: log.append(batch(2), leader_epoch=12),
        "append and roll": lambda log: lambda: log.append(batch(1, value_bytes=1_800), leader_epoch=12),
        "roll": lambda log: log.roll,
        "flush": lambda log: log.flush,
        "close": lambda log: log.close,
        "truncate": lambda log: lambda: log.truncate_to(9),
        "truncate all": lambda log: (
            lambda: (log.delete_records_before(9), log.apply_retention(0, 99), log.truncate_to(1))
        ),
        "retain": lambda log: lambda: log.apply_retention(9_999_999_999_999, log.log_end_offset),
        "read": lambda log: lambda: (log.state.tail.clear(), log.read(0, 900, copied=True)),
        "look up": lambda log: lambda: log.offset_for_timestamp(1_150),
        "swap": _swapped,
    }


@pytest.mark.parametrize("name", acts())
def test_of_a_disk_that_refuses_once(course: Course, name: str) -> None:
    """At each operation in turn: what is said, what is left, what the log does then, and what it is opened as."""
    kept: list[str] = []
    for at in range(150):
        shutil.rmtree(course.root)
        course.root.mkdir()
        log = compacted(course) if name == "swap" else opened(course)
        if name != "swap":
            fill(log)
        act = acts()[name](log)
        course.watch(log.state)
        course.lines.clear()
        course.disk.refuse_at = at
        course.step(f"{name}, refused {at}", act, log.state)
        refused = course.disk.refuse_at < 0
        course.disk.refuse_at = -1
        for again in (act, log.flush, lambda log=log: log.append(batch(1), leader_epoch=13), log.close):
            course.step("then", again, log.state)
        kept += course.lines
        if not refused:
            break
        del log, act, again
        course.lines.clear()
        _open(course)
        kept += course.lines
    held(KEPT / f"refused-{name.replace(' ', '-')}.txt", list(short(kept)))


# -- another folder -------------------------------------------------------------------------------------------


def test_of_taking_over(course: Course) -> None:
    source = opened(course)
    fill(source)
    source.delete_records_before(4)
    other = course.root / "copy"
    other.mkdir()
    start = handover.first_offset(source)
    copy = PartitionLog.open(other, SMALL, disk=course.disk, tail=None, log_start_offset=start)
    at = copy.log_end_offset
    for _ in range(20):
        piece = course.step(f"piece {at}", lambda o=at: handover.next_piece(source, o, 700, source.log_end_offset))
        if piece is None:
            break
        course.step("left", lambda o=at: handover.bytes_left(source, o))
        at = course.step("copied", lambda p=piece: copy.append_assigned(p.read(), now_ms=9), copy.state)
    course.step("agree", lambda: handover.agree(copy, source), copy.state)
    ticket = course.step("take over", lambda: handover.take_over(copy, source, TailBudget()), copy.state)
    course.step("sync", ticket.sync)
    course.step("finish", lambda: copy.finish_flush(ticket), copy.state)
    course.step("move", lambda: copy.state.relocate(course.root / "copy"), copy.state)
    course.step("close", copy.close, copy.state)
    held(KEPT / "taking-over.txt", list(short(course.lines)))


def test_of_files(course: Course) -> None:
    """Which bytes are written over themselves, and in what pieces."""
    path = course.root / "f"
    path.write_bytes(bytes(3_000_000))
    file = LogFile(path, 2, course.disk)
    for begin, end in ((0, 0), (0, 1), (5, 1_048_581), (5, 1_048_582), (0, 2_097_152), (2_999_990, 3_000_000)):
        course.step(f"write again {begin} {end}", lambda b=begin, e=end: file.write_again(b, e))
    held(KEPT / "files.txt", list(short(course.lines)))


# -- searches, windows, flushes -------------------------------------------------------------------------------


def steps_of(search: Generator[Any, Any, Any], root: Path, most: int = 200) -> Any:
    """What a search yields on its way, and what it finds."""
    told_of: list[Any] = []
    result: Any = None
    while len(told_of) < most:
        try:
            look = search.send(result)
        except StopIteration as end:
            return told_of, end.value
        result = None if look is None else look.run()
        told_of.append("a turn" if look is None else (told(look, root), result))
    return told_of


def test_of_searches(course: Course) -> None:
    """Which batches are looked into, in how many steps, and where others have their turn."""
    log = opened(course, LogConfig(segment_bytes=60_000, index_interval_bytes=4_000))
    log.append(encode_batch([Record(0, 900, b"k", b"v" * 8_043)]), leader_epoch=0)
    log.append(encode_batch([Record(0, 950, b"k", b"v" * 8_042)]), leader_epoch=0)
    log.append(batch(3, timestamp=1_000, compression=1), leader_epoch=0)
    log.append(batch(3, timestamp=2_000, log_append_time_ms=1_500), leader_epoch=1)
    for at in range(40):
        log.append(batch(2, timestamp=500 + 37 * (at % 11), value_bytes=5), leader_epoch=1)
    log.append(encode_batch(Record(at, at, None, None) for at in range(5_001)), leader_epoch=2)
    log.append(encode_batch(Record(at, at * 2, None, None) for at in range(5_000)), leader_epoch=2)
    log.append(batch(1, timestamp=-1), leader_epoch=2)
    log.append(encode_batch([Record(0, 20_000, None, None)]), leader_epoch=2)
    log.roll()
    log.append(batch(1, timestamp=-1), leader_epoch=2)
    log.roll()
    log.append(batch(2, timestamp=9_000), leader_epoch=2)
    log.append(batch(1, timestamp=9_001), leader_epoch=2)
    for start in (0, 1, 5, 20, 5_000, 10_086, log.log_end_offset - 5, log.log_end_offset - 1, log.log_end_offset):
        log.delete_records_before(start)
        for time in (0, 900, 901, 1_002, 1_501, 4_999, 5_000, 5_001, 9_000, 9_998, 9_999, 20_000, 20_001):
            course.step(f"from {start} at {time}", lambda t=time: steps_of(log.timestamp_search(t), course.root))
        course.step(f"from {start} latest", lambda: steps_of(log.max_timestamp_search(), course.root))
    held(KEPT / "searches.txt", joined(list(short(course.lines))))


@pytest.mark.parametrize("size", [61, 100, 300])
def test_of_small_windows(course: Course, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a window, a chunk or a copied piece ends within a batch."""
    for module, name in (
        (segment_module, "WALK_BYTES"), (walk, "WINDOW_BYTES"), (walk, "CHUNK_BYTES"), (truncation, "COPY_BYTES"),
        (cleaner, "CHUNK_BYTES"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, size)
    log = opened(course, replace(SMALL, index_interval_bytes=900))
    fill(log)
    log.state.tail.clear()
    for offset in range(log.log_end_offset):
        course.step(f"read {offset}", lambda o=offset: log.read(o, 500, copied=True))
        course.step(f"view {offset}", lambda o=offset: log.read(o, 700, upper_bound_offset=o + 4))
    log.flush()
    for to in (30, 17):
        course.step(f"truncate {to}", lambda to=to: log.truncate_to(to), log.state)
    log.close()
    again = opened(course)
    course.step("recovered", lambda: None, again.state)
    again.config = replace(SMALL, compact=True, delete=False)
    again.roll()
    course.step("clean", _swapped(again), again.state, look=True)
    held(KEPT / f"windows-{size}.txt", list(short(course.lines)))


def test_of_flushes_that_overlap(course: Course) -> None:
    log = opened(course)
    fill(log)
    first = course.step("begin", log.begin_flush, log.state)
    log.append(batch(9, value_bytes=150), leader_epoch=9)
    log.roll()
    second = course.step("begin another", log.begin_flush, log.state)
    course.step("sync the second", second.sync)
    course.step("finish the second", lambda: log.finish_flush(second), log.state)
    course.step("sync the first", first.sync)
    course.step("finish the first", lambda: log.finish_flush(first), log.state)
    log.append(batch(4), leader_epoch=10)
    before = course.step("begin before a cut", log.begin_flush, log.state)
    log.truncate_to(log.log_end_offset - 2)
    before.sync()
    course.step("finish after it", lambda: log.finish_flush(before), log.state)
    nothing = course.step("begin with nothing to do", log.begin_flush, log.state)
    course.step("sync nothing", nothing.sync)
    course.step("finish nothing", lambda: log.finish_flush(nothing), log.state)
    log.append(batch(1), leader_epoch=11)
    skipped = course.step("begin to be skipped", log.begin_flush, log.state)
    course.step("skip", skipped.skip)
    course.step("finish what was skipped", lambda: log.finish_flush(skipped), log.state)
    log.append(batch(1), leader_epoch=11)
    course.step("finish what was never synced", lambda: log.finish_flush(log.begin_flush()), log.state)
    end = log.log_end_offset
    for most in (end, end + 1, 1):
        course.lines.append(f"opened with {most} unflushed records allowed")
        again = opened(course, replace(SMALL, flush_messages=most))
        course.step("state", lambda again=again: again.recovery_point)
    held(KEPT / "flushes.txt", list(short(course.lines)))


def test_of_what_a_cleaning_keeps(course: Course) -> None:
    """Batches of every kind: compressed, of append time, of producers alive or gone, emptied, of other control."""
    log = opened(course, replace(COMPACT, segment_bytes=900))
    for at in range(24):
        key = b"k%d" % (at % 3)
        kind = at % 6
        if kind == 0:
            made = keyed((key, b"v" * 50), (b"once%d" % at, b"w"), compression=1 + at % 4)
        elif kind == 1:
            made = keyed((key, None), (b"o", b"x"), log_append_time_ms=2_000 + at)
        elif kind == 2:
            made = keyed((key, b"z"), producer_id=at % 4, producer_epoch=at // 12, base_sequence=at)
        elif kind == 3:
            made = encode_batch(
                (),
                last_offset=1,
                producer_id=9,
                producer_epoch=0,
                base_sequence=at,
                max_timestamp=77,
                transactional=at > 12,
            )
        elif kind == 4:
            made = keyed((key, b"old"), (b"t", None), delete_horizon_ms=5_000 + at)
        else:
            made = keyed(
                (b"\0\0\0\x02" if at < 12 else b"\0\0\0\0", b"\0\0\0\0\0\1"),
                control=True,
                producer_id=3,
                producer_epoch=0,
            )
        log.append(made, leader_epoch=at // 10)
        log.append(transactional(4 + at % 2, at, (key, b"t" * 20)), leader_epoch=at // 10)
        if at % 3 == 2:
            log.append(marker(4 + at % 2, 0, abort=at % 2 == 0), leader_epoch=at // 10)
    log.roll()
    end = log.log_end_offset
    log.state.producers.expire(10**12, 1)
    point = 0
    for number, now in enumerate((4_000, 5_004, 5_005, 90_000_000, 10**9, 10**11)):
        dirty = log.dirty_range(point, now, end)
        for keys in (2, 4, 100):
            plan = log.plan_cleaning(dirty, now, keys)
            result = course.step(f"clean {number} {keys}", lambda p=plan: clean(p), look=True)
        course.step(f"swap {number}", lambda r=result: log.swap_in(r), log.state)
        point = result.clean_end_offset if number % 2 else 0
    held(KEPT / "cleaned.txt", list(short(course.lines)))
