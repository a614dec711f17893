"""What small functions answer to every combination of a few values, and how a directory is taken, is what is kept."""

from __future__ import annotations

import errno
import itertools
import os
import struct
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from protocol.records.batch import encode_batch
from protocol.schema.ahead import TREE
from protocol.types import uuid_text
from storage.directory import meta_properties
from storage.directory.directory_check import is_full, why_unusable
from storage.directory.last_stops import LastStops
from storage.directory.log_directories import (
    LogDirectories,
    absolute_paths,
    check_distinct,
    metadata_directory,
    offsets_of,
)
from storage.directory.log_directory import LogDirectory, Scan, parse_folder_name, parse_topic_id, suffixed_name
from storage.errors import StorageError
from storage.files import LogFile, make_directory, remove_files, replace_file, write_file
from storage.reading.batches import read_marker
from storage.reading.checkpoints import format_checkpoint, parse_offsets, write_offsets
from storage.reading.folder import base_offset_of, replaced_by, scan_folder
from storage.reading.indexes import OffsetIndex, TimeIndex
from storage.reading.transaction_index import (
    AbortedTransaction,
    overlapping,
    pack_transaction_index,
    parse_transaction_index,
    sound_transaction_index,
)
from storage.reading.walk import Walk, sound_batch_after
from storage.state.leader_epochs import LeaderEpochs
from storage.state.producer_checks import check, check_epoch, check_marker, check_unsequenced
from storage.state.producer_snapshot import pack_snapshot, parse_snapshot
from storage.state.producer_state import ProducerEntry, ProducerState, SentBatch, Verification
from tests.storage.courses import Course, joined, told
from tests.storage.logs import batch, keyed, marker, transactional
from tests.support.kept import held

pytestmark = pytest.mark.skipif(TREE != "pure", reason="native code does not show its state")
KEPT = Path(__file__).parent / "kept"
HERE = Path("/d")


def answers(course: Course, name: str, call: Callable[..., Any], *choices: Any) -> None:
    """What it says to each combination, as steps."""
    for given in itertools.product(*choices):
        course.step(f"{name} {told(list(given), course.root)}", lambda given=given: call(*given))


@pytest.fixture
def course(tmp_path: Path) -> Course:
    root = tmp_path / "d"
    root.mkdir()
    return Course(root)


# -- producers --------------------------------------------------------------------------------------------------


def entry(epoch: int, batches: tuple[SentBatch, ...] = (), opened_at: int = -1, coordinator: int = -1) -> ProducerEntry:
    return ProducerEntry(7, epoch, batches, coordinator, 1_000, opened_at)


LAST = 2**31 - 1
ENTRIES = (
    None,
    entry(-1),
    entry(3, coordinator=5),
    entry(3, (SentBatch(4, 14, 4, 900),), coordinator=5),
    entry(3, (SentBatch(4, 14, 4, 900), SentBatch(5, 20, 0, 950)), opened_at=20, coordinator=5),
    entry(3, (SentBatch(1, 9, 2, 900),)),  # sequences that began again
    entry(3, (SentBatch(LAST, 9, 0, 900),), opened_at=0),
    entry(32_767, (SentBatch(0, 0, 0, 900),), opened_at=0),
)


def test_of_producers(course: Course) -> None:
    asked = [
        None,
        *(
            Verification(epoch, lowest, version)
            for epoch in (3, 4)
            for lowest in (0, 5, 6)
            for version in (False, True)
        ),
    ]

    def checked(at: int, epoch: int, sequence: int, delta: int, transactional: bool, verify: bool) -> Any:
        return check(
            ENTRIES[at], producer_id=7, epoch=epoch, base_sequence=sequence, last_offset_delta=delta,
            transactional=transactional, verify=verify,
        )  # fmt: skip

    every = range(len(ENTRIES))
    answers(course, "check", checked, every, (2, 3, 4), (-1, 0, 2, 5, 6, LAST), (0, 4), (False, True), (False, True))

    def verified(at: int, epoch: int, sequence: int, question: int, guarded: bool) -> Any:
        guard = asked[question] if guarded else Verification(3, 0, True)
        return check(
            ENTRIES[at], producer_id=7, epoch=epoch, base_sequence=sequence, last_offset_delta=0, transactional=True,
            verification=asked[question], guard=guard, verify=True,
        )  # fmt: skip

    answers(course, "verified", verified, every[:5], (3, 4), (0, 5, 6), range(len(asked)), (False, True))

    def unsequenced(at: int, epoch: int, question: int, guarded: bool, verify: bool) -> Any:
        guard = asked[question] if guarded else None
        return check_unsequenced(
            ENTRIES[at], producer_id=7, epoch=epoch, verification=asked[question], guard=guard, verify=verify
        )

    answers(course, "unsequenced", unsequenced, every, (2, 3, 4), (0, 1), (False, True), (False, True))
    answers(course, "epoch", lambda at, epoch: check_epoch(ENTRIES[at], producer_id=7, epoch=epoch), every, (2, 3, 4))

    def marked(at: int, producer: int, epoch: int, coordinator: int, version: int) -> Any:
        return check_marker(
            ENTRIES[at], producer_id=producer, epoch=epoch, coordinator_epoch=coordinator, transaction_version=version
        )

    answers(course, "marker", marked, every, (-1, 0, 7), (-1, 0, 2, 3, 4, 32_767), (-1, 4, 5, 6), (0, 1, 2, 3))
    for known in filter(None, ENTRIES):
        course.step(
            f"entry {told(known, HERE)}",
            lambda known=known: (
                known.last_sequence, known.last_data_offset, [known.is_open(epoch) for epoch in (2, 3, 32_767)],
                [(sent.first_sequence, sent.base_offset) for sent in known.batches],
            ),
        )  # fmt: skip
    whole = pack_snapshot(filter(None, ENTRIES))
    course.step("packed", lambda: (whole, parse_snapshot(HERE / "s", whole)))
    course.step("packed nothing", lambda: (pack_snapshot([]), parse_snapshot(HERE / "s", pack_snapshot([]))))
    held(KEPT / "producers.txt", joined(course.lines))


def test_of_the_table_of_producers(course: Course) -> None:
    """Step by step, with what is left of questions, open transactions and those not decided yet."""
    table = ProducerState()
    course.watch(table)
    steps: list[tuple[str, Callable[[], Any]]] = []

    def data(producer: int, epoch: int, sequence: int, offset: int, delta: int, transactional: bool) -> None:
        steps.append((
            f"data {producer} {epoch} {sequence} {offset} {delta} {transactional}",
            lambda: table.data_appended(
                producer, epoch, sequence, offset, delta, 1_000 + offset, transactional=transactional
            ),
        ))  # fmt: skip

    def ended(producer: int, epoch: int, coordinator: int, offset: int, aborted: bool) -> None:
        steps.append((
            f"marker {producer} {epoch} {coordinator} {offset} {aborted}",
            lambda: table.marker_appended(producer, epoch, coordinator, offset, 2_000 + offset, aborted=aborted),
        ))  # fmt: skip

    def ask(producer: int, epoch: int, sequence: int, version: bool) -> None:
        steps.append((
            f"ask {producer} {epoch} {sequence} {version}",
            lambda: table.start_verification(producer, epoch, sequence, 900 + sequence, transaction_v2=version),
        ))  # fmt: skip

    for sequence in range(7):
        data(1, 0, sequence, sequence, 0, transactional=False)
    data(1, 1, LAST, 7, 2, transactional=False)
    data(1, 1, -1, 10, 0, transactional=True)
    data(2, 0, 0, 11, 3, transactional=True)
    data(1, 1, 3, 15, 0, transactional=True)
    for epoch, sequence, version in (
        (0, 5, False),
        (0, 4, False),
        (0, 6, False),
        (1, 9, True),
        (0, 1, True),
        (1, 8, False),
    ):
        ask(3, epoch, sequence, version)
    for epoch, version in ((3, True), (4, True), (3, False)):
        ask(4, 3, 0, version)
        ended(4, epoch, 2, 16, aborted=False)
    ended(2, 0, 4, 17, aborted=True)
    ended(1, 2, 5, 18, aborted=False)
    ended(9, 0, 0, 19, aborted=True)
    for name, act in steps:
        course.step(name, act, table)
    for mark in (0, 10, 11, 17, 18, 19, 30):
        course.step(f"stable {mark}", lambda mark=mark: table.last_stable_offset(mark), table)
    data_of_five = lambda: table.data_appended(5, 0, 0, 20, 0, 3_000, transactional=True)  # noqa: E731
    course.step("one more open", data_of_five, table)
    course.step("first open", lambda: (table.first_open_offset(-1), table.first_open_offset(99)))
    for now in (1_904, 1_905, 1_908, 3_016, 3_017, 3_018, 3_019, 9_999):
        course.step(f"expire {now}", lambda now=now: table.expire(now, 1_000), table)
    course.step("restore", lambda: table.restore(entry(1, opened_at=40)), table)
    course.step("restore another", lambda: table.restore(ProducerEntry(8, 1)), table)
    course.step("clear", table.clear, table)
    held(KEPT / "table-of-producers.txt", course.lines)


# -- files of a log ------------------------------------------------------------------------------------------------


def words(*values: int, kind: str = "i") -> bytes:
    return struct.pack(f">{len(values)}{kind}", *values)


def test_of_indexes(course: Course) -> None:
    contents = [
        b"", b"x", words(0, 0), words(3, 40), words(0, 0, 0, 0), words(3, 40, 0, 0), words(3, 40, 5, 90, 0, 0, 0, 0),
        words(3, 40, 3, 90), words(3, 40, 5, 40), words(5, 40, 3, 90), words(3, 40, 9, 80, 9, 99), words(0, 0, 3, 40),
        words(3, 0), words(0, 40), words(3, 40, 5), words(-1, 5), words(3, 40, 0, 90),
    ]  # fmt: skip
    for data in contents:
        answers(course, f"offset index of {data.hex()}", OffsetIndex.parse, [data])
        answers(
            course,
            f"believed of {data.hex()}",
            OffsetIndex.believed,
            [data],
            (40, 41, 90, 91),
        )
    times = [
        b"", b"x", *(b"".join(struct.pack(">qi", *one) for one in entries) for entries in (
            [(0, 0)], [(5, 1)], [(5, 1), (0, 0)], [(5, 1), (9, 2), (0, 0), (10, 3)], [(5, 1), (5, 2)], [(9, 1), (5, 2)],
            [(5, 0)], [(0, 3)], [(5, 1), (0, 4)], [(5, 1), (7, 0)], [(-1, 0), (5, 1)],
        )),
    ]  # fmt: skip
    for data in times:
        answers(course, f"time index of {data.hex()}", TimeIndex.parse, [data])
        answers(course, f"believed of {data.hex()}", TimeIndex.believed, [data])
    index, later = OffsetIndex(), TimeIndex()
    for offset, position, time in (
        (4, 100, 50),
        (9, 300, 40),
        (10, 301, 60),
        (20, 900, -1),
        (30, 950, 0),
        (31, 960, 60),
    ):
        course.step("add", lambda o=offset, p=position, t=time: (index.append(o, p), later.append_if_later(t, o)))
    course.step("bytes", lambda: (index, later, index.to_bytes(), later.to_bytes(), len(index), len(later)))
    answers(course, "lookup", index.lookup, (0, 3, 4, 5, 9, 10, 11, 31, 32))
    answers(course, "boundary", index.last_boundary, (0, 99, 100, 101, 300, 301, 2_000))
    answers(course, "time", later.lookup, (0, 49, 50, 51, 59, 60, 61))

    def cut(at: int) -> Any:
        copies = OffsetIndex.parse(index.to_bytes()), TimeIndex.parse(later.to_bytes())
        for one in copies:
            assert one is not None
            one.truncate(at)
        return copies

    answers(course, "cut", cut, (0, 4, 5, 9, 10, 11, 100, 101, 301, 960, 961))
    held(KEPT / "indexes.txt", joined(course.lines))


def test_of_the_transaction_index(course: Course) -> None:
    entries = [AbortedTransaction(1, 0, 5, 6), AbortedTransaction(2, 3, 9, 7), AbortedTransaction(1, 8, 12, 13)]
    data = pack_transaction_index(entries)
    course.step(
        "packed",
        lambda: (
            data,
            parse_transaction_index(data),
            parse_transaction_index(data + b"x"),
            parse_transaction_index(data[:-1]),
        ),
    )
    answers(course, "overlapping", lambda low, high: overlapping(entries, low, high), range(0, 15), range(0, 15))
    changed = [
        data, data + b"x", b"", *(pack_transaction_index([AbortedTransaction(*one)]) for one in (
            (0, 0, 1, 2), (-1, 0, 1, 2), (1, -1, 1, 2), (1, 1, 1, 2), (1, 2, 1, 2), (1, 0, 4, 5), (1, 0, 5, 5),
        )),
        b"\0\1" + data[2:], data[34:68] + data[:34], data[:34] + data[:34],
    ]  # fmt: skip
    answers(course, "sound", sound_transaction_index, changed, (0, 1, 4, 5, 6), (2, 5, 6, 9, 12, 13))
    held(KEPT / "transaction-index.txt", joined(course.lines))


def test_of_walks(course: Course) -> None:
    data = bytes(batch(2) + keyed((b"k", None), base_offset=2) + marker(1, 0, abort=True) + batch(1, base_offset=9))
    ends = [end for end, _ in Walk.of_bytes(data).headers()]

    def walked(content: bytes, begin: int) -> Any:
        found = []
        for kind in ("headers", "batches"):
            walk = Walk.of_bytes(content, begin)
            found.append(([one[:2] for one in getattr(walk, kind)()], walk.position, walk.verdict, walk.why))
        return found

    answers(course, "walk", walked, [data, b""], (0, *ends[1:], len(data), len(data) + 1))
    cuts = [size + more for size in ends for more in (0, 1, 11, 12, 60, 61, 62)]
    answers(course, "cut", lambda size: walked(data[:size], 0), sorted(cuts))

    def changed(at: int, value: int) -> Any:
        return walked(data[: ends[1] + at] + bytes([value]) + data[ends[1] + at + 1 :], 0)

    answers(course, "changed", changed, (7, 8, 9, 10, 11, 16, 20, 22, 30, 60, 65), (0, 1, 2, 49, 255))
    answers(
        course,
        "sound after",
        partial(sound_batch_after, data),
        (0, *ends, len(data)),
        range(0, 11),
    )
    answers(course, "sound after, of", lambda size: sound_batch_after(data[:size], 0, 0), sorted({*cuts, *ends[1:]}))
    controls = [
        marker(1, 0, abort=True),
        marker(1, 0, abort=False),
        transactional(1, 0, (b"k", b"v")),
        *(
            keyed((key, value), control=True, producer_id=1, producer_epoch=0)
            for key in (None, b"\0\0\0", b"\0\0\0\0", b"\0\0\0\1x", b"\0\0\0\2", b"\0\1\0\0")
            for value in (None, b"\0\0\0\0\0", b"\0\1\0\0\0\7", b"\0\0\0\0\0\7x")
        ),
        encode_batch((), last_offset=0, control=True),
        batch(1)[:-1],
    ]
    answers(course, "marker", read_marker, controls)
    held(KEPT / "walks.txt", joined(course.lines))


def replaced_and_walk(swap: Path) -> tuple[range, Walk]:
    walk = Walk.of_file(swap)
    return replaced_by(swap, walk), walk


def test_of_folders_of_partitions(course: Course) -> None:
    for name in (
        "00000000000000000000.log", "00000000000000000007.log", "00000000000000000007.index", "7.timeindex", "x.log",
        "00000000000000000007.txnindex.cleaned", "00000000000000000009.log.swap", "00000000000000000003.log.swap",
        "00000000000000000007.snapshot", "anything", "00000000000000000007.log.deleted", "x.deleted", "y.log.swap.x",
        "\u0663.log", "00000000000000000009.snapshot.swap", "z.cleaned",
    ):  # fmt: skip
        (course.root / name).write_bytes(bytes(batch(3, base_offset=9)) if name.endswith("swap") else b"12345")
    found = course.step("scan", lambda: scan_folder(course.root))
    course.step("swaps that count", found.swaps_that_count)
    found.cleaned = [course.root / "00000000000000000009.log.cleaned"]
    course.step("swaps that count below", found.swaps_that_count)
    found.cleaned.clear()
    course.step("all swaps count", found.swaps_that_count)
    course.step("odd", found.refuse_odd)
    course.step("drop", lambda: (found.drop(".log", 7), found.drop(".log", 8), found))
    answers(
        course,
        "replaced by",
        lambda name: [told(each, course.root) for each in replaced_and_walk(course.root / name)],
        sorted(path.name for path in found.swaps),
    )
    (course.root / "00000000000000000005.log.swap").touch()
    answers(
        course, "replaced by", lambda name: replaced_and_walk(course.root / name)[0], ["00000000000000000005.log.swap"]
    )
    answers(
        course,
        "base offset",
        lambda name: base_offset_of(HERE / name),
        ("7.log", "x.log", ".log", "12", "1a.log", "\u0663.log"),
    )
    held(KEPT / "folders-of-partitions.txt", course.lines)


def test_of_leader_epochs(course: Course) -> None:
    epochs = LeaderEpochs(course.root, course.disk)
    course.watch(epochs)
    for epoch, start in ((3, 10), (3, 12), (3, 9), (5, 20), (7, 20), (8, 30), (6, 40), (9, 35), (11, 50), (12, 60)):
        course.step(f"assign {epoch} {start}", lambda e=epoch, s=start: epochs.assign(e, s), epochs)
    course.step("facts", lambda: (epochs.latest, epochs.is_dirty, epochs.content()))
    answers(course, "end offset", lambda epoch: epochs.end_offset_for(epoch, 99), range(-1, 14))
    answers(course, "epoch of", epochs.epoch_for_offset, range(5, 65, 5))
    content = epochs.content()
    course.step("write", lambda: epochs.write(content), epochs)
    course.step("write again", lambda: epochs.write(content), epochs)
    for end in (61, 60, 50):
        course.step(f"from the end {end}", lambda end=end: epochs.truncate_from_end(end), epochs)
    for start in (5, 8, 9, 10, 22, 35):
        course.step(f"from the start {start}", lambda start=start: epochs.truncate_from_start(start), epochs)
    course.step("write without fsync", lambda: epochs.write(epochs.content(), sync=False), epochs)
    other = LeaderEpochs(course.root, course.disk)
    course.step("load", other.load, other)
    course.step("replace", lambda: other.replace(epochs), other)
    course.step("relocate", lambda: other.relocate(course.root / "x"), other)
    course.step(
        "of nothing",
        lambda: (
            other.load(),
            LeaderEpochs(HERE, course.disk).latest,
            LeaderEpochs(HERE, course.disk).end_offset_for(0, 9),
        ),
    )
    held(KEPT / "leader-epochs.txt", course.lines)


def test_of_files_and_short_calls(course: Course) -> None:
    path = course.root / "f"
    course.step("write", lambda: write_file(path, b"0123456789", sync=True, disk=course.disk))
    course.step("write nothing", lambda: write_file(course.root / "empty", b"", sync=False, disk=course.disk))
    course.step("replace", lambda: replace_file(path, b"abcdefghij", course.disk))
    course.step("replace without fsync", lambda: replace_file(path, b"0123456789", course.disk, sync=False))
    file = LogFile(path, os.O_RDWR, course.disk)
    read, write = course.disk.pread, course.disk.pwrite
    course.disk.pread = lambda descriptor, count, at: read(descriptor, min(count, 3), at)
    course.disk.pwrite = lambda descriptor, data, at: write(descriptor, data[:3], at)
    answers(course, "read", file.pread, (0, 3, 4, 9, 10, 11, 20), (0, 4, 9, 10, 11))
    answers(course, "write", lambda count, at: file.write_fully(b"x" * count, at), (0, 1, 3, 4, 7), (0, 10))
    answers(course, "write again", file.write_again, (0, 5), (5, 9, 17))
    course.step("size", lambda: (file.size(), file.modified_ms() > 1_600_000_000_000))
    course.step("truncate", lambda: file.truncate(5), look=True)
    course.step("sync", lambda: (file.sync(), file.datasync()))
    course.step("make", lambda: make_directory(course.root / "x", course.disk))
    course.step("make again", lambda: make_directory(course.root / "x", course.disk))
    course.step("make over a file", lambda: make_directory(path, course.disk))
    course.step(
        "remove",
        lambda: remove_files([course.root / "gone", path, course.root / "x", course.root / "empty"], course.disk),
    )
    held(KEPT / "short-calls.txt", joined(course.lines))


def test_of_checkpoints(course: Course) -> None:
    contents = [
        b"",
        b"0\n0\n",
        b"0\n1\nt 0 5\n",
        b" 0 \n 1 \nt 0 5",
        b"0\n2\nt 0 5\nu 11 -7\n",
        b"1\n0\n",
        b"0\n",
        b"0\n-1\n",
        b"0\n1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 5 6\n",
        b"0\n1\nt x 5\n",
        b"0\n0\nt 0 5\n",
        b"\xff\n",
        b"0\n2\nt 0 5\nt 0 6\n",
    ]
    for data in contents:
        course.step(f"offsets in {data!r}", lambda data=data: parse_offsets(HERE / "c", data))
    course.step("format", lambda: (format_checkpoint([]), format_checkpoint(["a 0 1", "b 0 2"])))
    course.step(
        "write", lambda: write_offsets(course.root / "c", {("u", 10): 1, ("u", 9): 2, ("t", 0): 3}, course.disk)
    )
    course.lines.append((course.root / "c").read_text().replace("\n", "|"))
    held(KEPT / "checkpoints.txt", course.lines)


# -- log directories ---------------------------------------------------------------------------------------------------

ID, OTHER = bytes(range(16)), bytes(range(1, 17))


class Uuids:
    """One after the other."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def __call__(self) -> bytes:
        return next(self._numbers).to_bytes(1) * 16


def test_of_names_and_identities(course: Course) -> None:
    names = (
        "t-0",
        "t-0-1",
        "t",
        "-0",
        "t-",
        "t-x",
        "a-b-12",
        "t-0.0123-delete",
        "t-0.0123-stray",
        "t-0.0123-future",
        "t-0-delete",
        "t-x.0123-delete",
        "a-b-3.f-future",
        "t 1-0.f-delete",
        "t-0.f-other",
    )
    answers(course, "folder", parse_folder_name, names)
    answers(course, "suffixed", suffixed_name, ("t", "t" * 249), (0, 1_000), (ID,), ("delete", "future"))
    texts = (
        "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        "topic_id:  AAECAwQFBgcICQoLDA0ODw \nversion: 0",
        "version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw\nmore: x y: z",
        "version: -1\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        "version: x\ntopic_id: AA",
        "version: 0\ntopic_id: AA",
        "version: 0",
        "",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    )
    answers(course, "topic id", lambda text: parse_topic_id(HERE / "m", text.encode()), texts)
    course.step("no text", lambda: parse_topic_id(HERE / "m", b"\xff"))
    properties = (
        "a=b",
        "a:b",
        "a b",
        "a = b ",
        " a\t=\fb",
        "a",
        "",
        "#x=y",
        "!x=y",
        "a=b\\\n  c",
        "a=b\\\\\nc=d",
        "a=b\\\\\\\n c",
        "a\\=b=c",
        "a\\u0041\\x=\\t\\n\\r\\f",
        "a=1\r\nb=2\rc=3",
        "a=b\\",
        "a==b",
        "a=:b",
        "a b=c",
    )
    answers(course, "properties", meta_properties.parse_properties, properties)
    text = uuid_text(ID)
    files = (
        f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={text}",
        f"cluster.id= c \nbroker.id= 2 \ndirectory.id= {text} ",
        "version= 0 \ncluster.id=c\nbroker.id=1",
        "version=1\ncluster.id=c\nbroker.id=1",
        "version=0\ncluster.id=c\nnode.id=1",
        "version=1\ncluster.id= \nnode.id=1",
        f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={uuid_text((99).to_bytes(16))}",
        f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={uuid_text((100).to_bytes(16))}",
        "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=x",
        "version=3",
        "version=1\ncluster.id=\xe9\nnode.id=1",
    )
    answers(course, "identity", lambda text: meta_properties.read(HERE / "m", text.encode("iso-8859-1")), files)
    for content, node in itertools.product((None, *files[:3]), (1, 2)):
        path = course.root / meta_properties.FILE
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_text(content)
        for cluster in (None, "mine"):
            course.step(
                f"load {content!r} {node} {cluster}",
                lambda node=node, cluster=cluster: meta_properties.load_or_create(
                    course.root, node_id=node, new_uuid=Uuids(), cluster_id=cluster, disk=course.disk
                ),
                look=True,
            )
            course.lines.append(path.read_text().replace("\n", "|") if path.exists() else "no file")
    full = [OSError(number, "no") for number in (errno.ENOSPC, errno.EDQUOT, errno.EIO)]
    answers(
        course,
        "is full",
        is_full,
        [
            None,
            ValueError(),
            *full,
            *(StorageError("cannot", HERE, each) for each in full),
            StorageError("cannot", HERE),
        ],
    )
    held(KEPT / "names-and-identities.txt", joined(course.lines))


def test_of_a_directory(course: Course) -> None:
    one = LogDirectory.open(course.root, course.disk)
    (course.root / ".lock").write_text("")  # it has our process id
    course.watch(one)
    topics = {("t", 0): ID, ("t", 1): ID, ("u", 0): OTHER}
    course.step("create", lambda: one.create_folders(topics), one)
    course.lines.append((course.root / "t-0" / "partition.metadata").read_text().replace("\n", "|"))
    course.step("create again", lambda: one.create_folders(topics), one)
    course.step("create nothing", lambda: one.create_folders({}), one)
    future = course.step("future", lambda: one.create_future("t", 2, ID, unique=OTHER), one)
    another = course.step("another", lambda: one.create_future("t", 3, ID, unique=OTHER), one)
    course.lines.append((future / "partition.metadata").read_text().replace("\n", "|"))
    course.step("rename", lambda: one.rename_future(future, "t", 2), one)
    course.step("retire future", lambda: one.retire_future(another, "t", 3, unique=ID), one)
    course.step("retire", lambda: one.retire("u", 0, unique=ID), one)
    course.step("give back", lambda: one.give_back(course.root / f"u-0.{ID.hex()}-delete", "u", 0), one)
    course.step("retire as a stray", lambda: one.retire("u", 0, unique=ID, kind="stray"), one)
    course.step("retire nothing", lambda: one.retire("u", 0, unique=ID), one)
    for given in (ID, OTHER):
        course.step(
            f"retire others than {given.hex()}",
            lambda given=given: one.retire_others("t", 1, given, unique=lambda: OTHER),
            one,
        )
    (course.root / "x-0").mkdir()
    course.step("unfinished", lambda: [one.is_unfinished(*each) for each in (("x", 0), ("t", 0))])
    (course.root / "x-0" / "partition.metadata.tmp").touch()
    course.step("unfinished still", lambda: one.is_unfinished("x", 0))
    (course.root / "__cluster_metadata-0").mkdir()
    (course.root / "remote-log-index-cache").mkdir()
    course.step("scan", lambda: _sorted(one.scan()))
    (course.root / "stranger").mkdir()
    course.step("scan with a stranger", one.scan)
    for text in (None, '{"version":0,"brokerEpoch":7}', "", "{}", '{"brokerEpoch":"x"}', "[1]", '{"brokerEpoch":0}'):
        if text is not None:
            (course.root / ".kafka_cleanshutdown").write_text(text)
        course.step(f"clean marker {text}", one.take_clean_marker)
    course.step("write marker", lambda: one.write_clean_marker(12))
    course.lines.append((course.root / ".kafka_cleanshutdown").read_text())
    course.step("usable", lambda: why_unusable(course.root, ID, course.disk))
    meta_properties.write(course.root, meta_properties.MetaProperties("c", 1, ID))
    course.step("usable", lambda: why_unusable(course.root, ID, course.disk))
    course.step("another's", lambda: why_unusable(course.root, OTHER, course.disk))
    for number in range(6):
        course.disk.refuse_at = number
        course.step(f"refused at {number}", lambda: why_unusable(course.root, ID, course.disk))
    course.disk.refuse_at = -1
    course.step("close", one.close, look=True)
    course.step("close again", one.close, look=True)
    held(KEPT / "directory.txt", course.lines)


def _sorted(scan: Scan) -> dict[str, Any]:
    return {name: sorted(one.items() if isinstance(one, dict) else one) for name, one in asdict(scan).items()}


def test_of_several_directories(course: Course) -> None:
    def opened(*names: str, metadata: str | None = None, **more: Any) -> LogDirectories:
        return LogDirectories.open(
            [str(course.root / name) for name in names], metadata and str(course.root / metadata), course.disk, **more
        )

    def facts(them: LogDirectories) -> Any:
        return {
            "logs": [one.path for one in them.logs], "metadata": them.metadata.path, "away": them.away,
            "every": [one.path for one in them], "new": sorted(one.path for one in them.new),
            "ids": [one.directory_id for one in them],
        }  # fmt: skip

    def identified(them: LogDirectories, new: Uuids, cluster: str | None = None) -> Any:
        return them.identify(node_id=1, new_uuid=new, cluster_id=cluster), facts(them)

    answers(course, "paths", absolute_paths, [[], [""], ["/a", "/b"], ["/a", "", "/a"]])
    answers(course, "metadata", metadata_directory, [["/a", "/b"]], [None, "", "/c"])
    uuids = Uuids()
    them = opened("a", "b")
    course.step("new", lambda: facts(them))
    course.step("stops of new ones", lambda: _stops(LastStops.take(them)))
    course.step("identify", lambda: identified(them, uuids, "cluster"))
    (them.metadata.path / "__cluster_metadata-0").mkdir()
    course.step("write", them.write_identities)
    course.step("new no more", lambda: facts(them))
    course.step("stops after a crash", lambda: _stops(LastStops.take(them)))
    them.logs[0].write_clean_marker(5)
    course.step("stops of one", lambda: _stops(LastStops.take(them)))
    for one, epoch in zip(them.logs, (5, 7), strict=True):
        one.write_clean_marker(epoch)
    stops = LastStops.take(them)
    course.step("stops", lambda: _stops(stops))
    course.step("give back", stops.give_back)
    them.logs[1].create_folders({("t", 0): ID, ("u", 0): OTHER})
    course.step("scans", lambda: [(one.path, _sorted(scan)) for one, scan in them.scans()])
    scans = them.scans()
    (them.logs[1].path / "c").write_text("0\n3\nt 0 5\nu 0 6\nz 0 7\n")
    (them.logs[0].path / "c").write_text("0\n2\nt 0 55\nz 0 77\n")
    found = them.offsets_in(scans, "c")
    course.step("offsets", lambda: [offsets for _, offsets in found])
    for of_t in (ID, OTHER, None):
        course.step(
            f"offsets of {of_t and of_t.hex()}",
            lambda of_t=of_t: offsets_of(found, lambda key: of_t if key[0] == "t" else OTHER),
        )
    them.close()
    again = opened("a", "b", "c")
    course.step("with another", lambda: identified(again, uuids))
    (again.logs[2].path / "x-0").mkdir()
    course.step("which has a partition", lambda: facts(again))
    course.step("give up", lambda: again.give_up(again.logs[2], OSError(5, "no")), look=True)
    course.step("then", lambda: (facts(again), len(again.offsets_in(scans, "c"))))
    course.step("give up the metadata", lambda: again.give_up(again.metadata, OSError(5, "no")))
    again.close()
    course.step("in use twice", lambda: facts(opened("a", "b", "a")))
    course.step("without metadata", lambda: _closed(opened("c", "a"), lambda them: identified(them, uuids)))
    course.step(
        "another metadata", lambda: _closed(opened("a", "b", metadata="b"), lambda them: identified(them, uuids))
    )
    course.step("metadata apart", lambda: _closed(opened("a", "b", metadata="m"), lambda them: identified(them, uuids)))
    meta = (course.root / "a" / meta_properties.FILE).read_text()
    mine = (course.root / "b" / meta_properties.FILE).read_text()
    for name, text in (
        ("twice", meta),
        ("of another cluster", mine.replace("cluster.id=cluster", "cluster.id=x")),
        ("of another node", mine.replace("node.id=1", "node.id=2")),
    ):
        (course.root / "b" / meta_properties.FILE).write_text(text)
        course.step(name, lambda: _closed(opened("a", "b"), lambda them: identified(them, uuids)))
    (course.root / "b" / meta_properties.FILE).write_text(mine)
    (course.root / "a" / "__cluster_metadata-0").rmdir()
    course.step("metadata log is gone", lambda: _closed(opened("a", "b"), LogDirectories.scans))
    (course.root / "file").touch()
    course.step("a file", lambda: _closed(opened("a", "file"), facts))
    course.step("a file, and all are wanted", lambda: _closed(opened("a", "file", all_of_them=True), facts))
    course.step("a file for the metadata", lambda: _closed(opened("file", "a"), facts))
    course.step("a file for all", lambda: _closed(opened("file", metadata="a"), facts))
    (course.root / "link").symlink_to(course.root / "a")
    for names in (["a", "link"], ["link", "b"], ["a", "a/b"], ["a/b", "a"], ["z/y", "z"], ["link/x", "a"]):
        course.step(f"distinct {names}", lambda names=names: check_distinct([course.root / name for name in names]))
    held(KEPT / "directories.txt", course.lines)


def _stops(stops: LastStops) -> Any:
    return stops.at, sorted(one.path for one in stops.unclean)


def _closed(them: LogDirectories, act: Callable[[LogDirectories], Any]) -> Any:
    try:
        return act(them)
    finally:
        them.close()
