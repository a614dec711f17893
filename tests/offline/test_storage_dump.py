"""`kohort storage dump`: a directory that clients have used, and what is wrong with damaged files."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from protocol.records import transaction_records
from protocol.records.batch import Record, encode_batch
from storage.clean.cleaner import clean
from storage.reading.transaction_index import AbortedTransaction, pack_transaction_index
from storage.state.producer_snapshot import pack_snapshot
from storage.state.producer_state import ProducerEntry, SentBatch
from tests.cli.conftest import Ended, committed_group, fill, kohort
from tests.protocol.records.test_transaction_records import GOLDEN as TRANSACTIONS
from tests.storage.logs import COMPACT, keyed, opened
from tests.support.broker_process import QUICK_GROUPS, Kohort

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a stopped broker with a topic, its records, and a group with offsets."""
    with Kohort(tmp_path_factory.mktemp("dump"), {**QUICK_GROUPS, "index.interval.bytes": 100}) as broker:
        fill(broker.address, "orders")
        committed_group(broker.address, "billing", "orders", reads=30)
        kohort("produce", "orders", "-b", broker.address, "--linger-ms", "0", stdin="x" * 4000 + "\n")
    return broker.data


def dumped(path: Path, *words: str) -> list[dict[str, Any]]:
    ended = kohort("storage", "dump", str(path), "--json", *words)
    assert ended.code == 0, ended
    return [json.loads(line) for line in ended.out.splitlines()]


def test_a_whole_directory_is_dumped(data: Path) -> None:
    """Every kind of file, records decoded by their topic; nothing of a sound directory is called damaged."""
    found = dumped(data)
    names = Counter(Path(line["file"]).name.rpartition(".")[2] for line in found)
    assert {"log", "meta", "properties"} <= {*names, "meta"}
    records = [line for line in found if line["kind"] == "record"]
    assert sum("/orders-" in line["file"] for line in records) == 31
    types = Counter(line.get("type") for line in records)
    assert types["TopicRecord"] >= 2
    assert types["OffsetCommit"] >= 3
    assert types["LEADER_CHANGE"] >= 1
    (stable,) = (
        line for line in records if line.get("type") == "GroupMetadata" and line["value"] and line["value"]["members"]
    )
    (member,) = stable["value"]["members"]
    assert stable["key"] == {"group": "billing"}
    assert (member["subscription"], member["assignment"]) == (["orders"], {"orders": [0, 1, 2]})
    ledger = [line["value"] for line in records if "/__kohort_rebalances-" in line["file"]]
    assert {value["kind"] for value in ledger} >= {"rebalance_began", "rebalance_ended"}
    assert {"topic": "orders", "partition": 0} in [
        {key: line[key] for key in ("topic", "partition")}
        for line in found
        if line["file"].endswith("recovery-point-offset-checkpoint")
    ]


def test_a_log_that_is_being_cleaned_is_dumped_whole(tmp_path: Path) -> None:
    """What a cleaning wrote has `.swap` names for a moment, and what it replaces has none of a segment any more."""
    log = opened(tmp_path / "t-0", COMPACT)
    for at in range(6):
        log.append(keyed((b"k%d" % (at % 3), b"%d" % at)), leader_epoch=0)
        log.roll()
    log.append(keyed((b"active", b"x")), leader_epoch=0)
    log.flush()
    result = clean(log.plan_cleaning(log.dirty_range(None, 2_000, log.log_end_offset), 2_000))
    swapping = log.begin_swap(result)
    swapping.prepare()
    both = [line["offset"] for line in dumped(tmp_path / "t-0", "--only", "log") if line["kind"] == "record"]
    assert sorted(both) == [0, 1, 2, 3, 4, 5, 6], "what is replaced is there, and shown alone"
    assert log.finish_swap(swapping, result) is None

    found = dumped(tmp_path / "t-0", "--only", "log")

    assert sorted(line["offset"] for line in found if line["kind"] == "record") == [3, 4, 5, 6]
    assert any(line["file"].endswith(".log.swap") for line in found)


def test_a_partition_is_dumped_from_an_offset(data: Path) -> None:
    """--offset and --max-records choose, --batches leaves records out, --only chooses files."""
    folder = data / "orders-0"
    some = [line for line in dumped(folder, "--offset", "4", "--max-records", "3") if line["kind"] == "record"]
    assert [(line["offset"], line["key"], line["value"]) for line in some] == [
        (4, "k4", "v0-4"),
        (5, "k5", "v0-5"),
        (6, "k6", "v0-6"),
    ]
    batches = dumped(folder, "--batches", "--only", "log")
    assert {line["kind"] for line in batches} == {"batch"}
    assert sum(line["count"] for line in batches) in (10, 11)
    assert batches[0]["position"] == 0


def test_people_read_lines(data: Path) -> None:
    out = kohort("storage", "dump", str(data / "orders-0")).out
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.endswith(".log"))
    assert lines[at + 1].startswith("  batch at 0: offsets 0-")
    assert lines[at + 2].startswith("    0 20")
    assert lines[at + 2].endswith("Z key=k0 value=v0-0")


def test_producers_and_aborted_transactions_are_shown(tmp_path: Path) -> None:
    entry = ProducerEntry(7, 2, (SentBatch(4, 104, 4, 1000),), 0, 1000, -1)
    (tmp_path / "00000000000000000105.snapshot").write_bytes(pack_snapshot([entry]))
    aborted = [AbortedTransaction(7, 100, 109, 110)]
    (tmp_path / "00000000000000000100.txnindex").write_bytes(pack_transaction_index(aborted))
    one, two = dumped(tmp_path)
    assert (one["producer_id"], one["first_offset"], one["last_offset"]) == (7, 100, 109)
    assert (two["producer_id"], two["producer_epoch"], two["first_sequence"], two["last_sequence"]) == (7, 2, 0, 4)
    assert two["transaction_first_offset"] is None


Damage = "Callable[[Path], Path]"


def _log(folder: Path) -> Path:
    return next(path for path in sorted(folder.glob("*.log")) if path.stat().st_size)


def torn(folder: Path) -> Path:
    path = _log(folder)
    with path.open("ab") as file:
        file.write(path.read_bytes()[:57])
    return path


def torn_in_its_records(folder: Path) -> Path:
    path = _log(folder)
    with path.open("ab") as file:
        file.write(path.read_bytes()[:99])
    return path


def flipped(folder: Path) -> Path:
    path = _log(folder)
    data = bytearray(path.read_bytes())
    data[90] ^= 1
    path.write_bytes(data)
    return path


def another_magic(folder: Path) -> Path:
    path = _log(folder)
    data = bytearray(path.read_bytes())
    data[16] = 1
    path.write_bytes(data)
    return path


def half_an_index_entry(folder: Path) -> Path:
    path = _log(folder).with_suffix(".index")
    path.write_bytes(bytes(7) + b"\1" + bytes(3) + b"\5" + bytes(3) + b"\7" + b"\1\2\3")
    return path


def half_an_entry_behind_a_presized_rest(folder: Path) -> Path:
    path = _log(folder).with_suffix(".index")
    path.write_bytes(b"".join(number.to_bytes(4) for number in (5, 100, 9, 200, 0, 0, 0, 0)) + b"\1\2\3")
    return path


def falling_index(folder: Path) -> Path:
    path = _log(folder).with_suffix(".index")
    path.write_bytes(b"".join(number.to_bytes(4) for number in (5, 100, 9, 200, 9, 300)))
    return path


def falling_times(folder: Path) -> Path:
    path = _log(folder).with_suffix(".timeindex")
    path.write_bytes(b"".join(time.to_bytes(8) + bytes(4) for time in (5, 3)))
    return path


def half_an_aborted_transaction(folder: Path) -> Path:
    path = _log(folder).with_suffix(".txnindex")
    path.write_bytes(bytes(40))
    return path


def broken_snapshot(folder: Path) -> Path:
    path = _log(folder).with_suffix(".snapshot")
    path.write_bytes(pack_snapshot([])[:-1] + b"\1")
    return path


def short_checkpoint(folder: Path) -> Path:
    path = folder / "leader-epoch-checkpoint"
    path.write_text("0\n3\n0 0\n")
    return path


def wrong_checkpoint(folder: Path) -> Path:
    path = folder / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n1 x\n")
    return path


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (torn, "the last 57 bytes are no whole batch"),
        (torn_in_its_records, "the last 99 bytes are no whole batch"),
        (flipped, "position 0: batch at offset 0 has CRC"),
        (another_magic, "position 0: no batch begins here: magic 1"),
        (half_an_index_entry, "position 16: the last 3 bytes are no whole entry"),
        (half_an_entry_behind_a_presized_rest, "position 32: the last 3 bytes are no whole entry"),
        (falling_index, "position 16: this entry breaks the order"),
        (falling_times, "position 12: this entry breaks the order"),
        (half_an_aborted_transaction, "position 34: the last 6 bytes are no whole entry"),
        (broken_snapshot, "position 0: has a wrong CRC"),
        (short_checkpoint, "position 0: announces 3 entries and has 1"),
        (wrong_checkpoint, "line 4: this line is not `epoch start_offset`"),
    ],
)
def test_a_damaged_file_is_named_with_the_position(
    data: Path, tmp_path: Path, damage: Callable[[Path], Path], words: str
) -> None:
    """Exit code 1 and a sentence; the folder's other files are dumped all the same."""
    folder = tmp_path / "orders-0"
    shutil.copytree(data / "orders-0", folder)
    # One batch: how many there are, and how long the first one is, was up to the producer's pace.
    whole = encode_batch([Record(at, 5, b"k%d" % at, b"v0-%d" % at) for at in range(10)])
    size = _log(folder).write_bytes(whole)
    path = damage(folder)
    ended = kohort("storage", "dump", str(folder))
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert line.startswith(f"kohort: {path}: ")
    assert words in line
    if damage in (torn, torn_in_its_records):
        assert f"position {size}: " in line
    assert "partition.metadata" in ended.out
    if path.suffix != ".log":
        assert "value=v0-0" in ended.out


def test_records_that_are_not_what_their_topic_says_are_named(tmp_path: Path) -> None:
    """A key that says it is an offset's and breaks off."""
    folder = tmp_path / "__consumer_offsets-7"
    folder.mkdir()
    batch = encode_batch([Record(0, 1, b"\0\1\0\5abc", b"")])
    (folder / "00000000000000000000.log").write_bytes(batch)
    ended = kohort("storage", "dump", str(folder))
    assert ended.code == 1
    assert "position 0: offset 0: " in ended.err


def test_records_of_transactions_are_decoded(tmp_path: Path) -> None:
    """The state as Kafka's decoder names its fields, and the tombstone of an id that has expired."""
    folder = tmp_path / "__transaction_state-3"
    folder.mkdir()
    ((value, _), *_) = TRANSACTIONS.values()
    key = transaction_records.encode_key(transaction_records.TransactionLogKey("orders"))
    records = [Record(0, 1, key, transaction_records.encode_value(value)), Record(1, 1, key, None)]
    (folder / f"{0:020d}.log").write_bytes(encode_batch([*records, Record(2, 1, b"\0\7", b"x")]))
    ended = kohort("storage", "dump", "--json", str(folder))
    assert ended.code == 0
    shown = [line for line in map(json.loads, ended.out.splitlines()) if "offset" in line]
    assert [line["type"] for line in shown] == ["TransactionLog", "TransactionLog", "Unknown"]
    assert shown[0]["key"] == {"transactional_id": "orders"}
    assert (shown[0]["value"]["version"], shown[0]["value"]["producer_id"]) == (value.version, value.value.producer_id)
    assert shown[1]["value"] is None


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ((), 2, "name a PATH"),
        (("/nowhere",), 1, "/nowhere: no such file or directory"),
        (("/proc/self/status",), 1, "no file of a data directory is called so"),
        (("/proc/self/fdinfo",), 1, "nothing here that belongs to a log"),
        (("/tmp", "--only", "pictures"), 2, "it takes some of log, index"),
    ],
)
def test_what_is_not_there_is_one_sentence(words: tuple[str, ...], code: int, sentence: str) -> None:
    ended: Ended = kohort("storage", "dump", *words)
    assert ended.code == code
    assert sentence in ended.err
