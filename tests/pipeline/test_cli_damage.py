"""`kohort pipeline` on directories that are damaged, half written, or there twice; and what it shows while it works."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkContext

from pipeline.decode.batches import CorruptBatch
from pipeline.jobs import progress
from tests.pipeline.logs import Log, commit, rows
from tests.pipeline.test_cli import run
from tests.support.broker_process import eventually

__all__ = ["run"]


def three_batches(root: Path) -> Log:
    """36 commits, twelve in a batch."""
    log = Log(root, "__consumer_offsets", 0)
    for first in (0, 12, 24):
        log.append([commit("g", "orders", n % 3, n) for n in range(first, first + 12)])
    return log


def offsets(out: str) -> list[int]:
    """The second column of the table of commits."""
    return sorted(int(line.split()[1]) for line in out.splitlines()[1:])


def test_pl12_a_half_written_end_is_noticed_and_no_loss(run: Any, tmp_path: Path) -> None:
    """PL12: exit 0 and one notice; the same cut in an earlier segment fails, naming file and position."""
    log = three_batches(tmp_path)
    path, position = log.path, log.positions[2]
    path.write_bytes(path.read_bytes()[: position + 40])
    code, out, err = run("commits", "--from", tmp_path)
    assert code == 0, err
    assert offsets(out) == list(range(24))
    notices = [line for line in err.splitlines() if line.startswith("notice: ")]
    assert notices == [f"notice: {path} ends with 40 bytes of an unfinished batch; read up to offset 24"]

    log.roll()
    log.append([commit("g", "orders", 0, 99)])
    code, out, err = run("commits", "--from", tmp_path)
    assert (code, out) == (1, "")
    assert f"{path}, position {position}, offset 24: incomplete last batch of a segment" in err


def test_pl13_a_damaged_batch_fails_the_job_or_is_left_out_and_told(run: Any, tmp_path: Path) -> None:
    """PL13: one flipped byte in batch 2 of 3; by default offset 12 is named, `skip` gives all other rows and exit 1."""
    log = three_batches(tmp_path)
    content = bytearray(log.path.read_bytes())
    content[log.positions[1] + 70] ^= 1
    log.path.write_bytes(content)
    code, out, err = run("commits", "--from", tmp_path)
    assert (code, out) == (1, "")
    assert f"{log.path}, position {log.positions[1]}, offset 12: CRC mismatch" in err

    code, out, err = run("commits", "--from", tmp_path, "--on-corrupt", "skip")
    assert code == 1
    assert offsets(out) == [*range(12), *range(24, 36)]
    assert f"skipped: __consumer_offsets-0 offsets 12-23, {log.path} at {log.positions[1]}: CRC mismatch" in err
    assert ", 1 batch skipped, " in err.splitlines()[-1]


def test_offsets_that_come_again_or_cannot_be_are_left_out(tmp_path: Path) -> None:
    """A CRC does not cover a batch's offset: of a file copied behind itself each record is read once, and a flipped
    high bit is no record far in the future."""
    log = three_batches(tmp_path)
    content = log.path.read_bytes()
    log.path.write_bytes(content + content)
    assert [row["offset"] for row in rows(tmp_path, onCorrupt="skip")] == list(range(36))
    with pytest.raises(CorruptBatch, match="offset 0"):
        rows(tmp_path)

    flipped = bytearray(content)
    flipped[log.positions[2] + 2] ^= 0x20
    log.path.write_bytes(flipped)
    assert [row["offset"] for row in rows(tmp_path, onCorrupt="skip")] == list(range(24))
    with pytest.raises(CorruptBatch, match="cannot be in this file"):
        rows(tmp_path)


def test_pl35_a_directory_given_twice_counts_once(run: Any, tmp_path: Path) -> None:
    """PL35: two copies of a segment are one; where one byte of one of them differs, both files are named."""
    copies = [three_batches(tmp_path / name) for name in ("one", "two")]
    both = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    code, out, err = run("commits", "--from", both)
    assert code == 0, err
    assert offsets(out) == list(range(36))

    copies[1].path.write_bytes(b"")
    copies[1].next_offset = 0
    for first in (0, 12, 24):
        copies[1].append([commit("g", "orders", n % 3, n + (n == 17)) for n in range(first, first + 12)])
    code, _, err = run("commits", "--from", both)
    assert code == 1
    assert "two copies of a record differ" in err
    assert all(str(log.path) in err for log in copies)


def test_a_long_run_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Tasks done and to do of all running stages; on the screen the line is gone at the end."""
    monkeypatch.setattr(progress, "FIRST_AFTER_S", 0.001)
    stages = {3: SimpleNamespace(numCompletedTasks=2, numTasks=7), 4: SimpleNamespace(numCompletedTasks=0, numTasks=5)}
    tracker = SimpleNamespace(getActiveStageIds=lambda: [*stages, 9], getStageInfo=stages.get)
    context = cast(SparkContext, SimpleNamespace(statusTracker=lambda: tracker))
    for live in (False, True):
        shown = progress.Progress(context, "lag")
        shown._live = live
        said = ""

        def line() -> bool:
            nonlocal said
            said += capsys.readouterr().err
            return "kohort pipeline lag: 2 of 12 tasks, 0 s" in said

        with shown:
            eventually(line, deadline_s=60, what="a line")
        said += capsys.readouterr().err
        assert said.endswith("\r\x1b[K" if live else " s\n")
    stages.clear()
    assert progress.Progress(context, "lag").line() is None
