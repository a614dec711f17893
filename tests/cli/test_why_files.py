"""`kohort why --from` on folders that a crash has left: what a start would read is what is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.why_files import read
from coordinator.why.inferred import generations
from tests.coordinator.why.records import NOW
from tests.coordinator.why.test_inferred import generation
from tests.storage.logs import COMPACT, CRASHED_SWAPS, all_bytes, crashed_swaps, keyed, opened, records_in


@pytest.mark.parametrize("what", CRASHED_SWAPS)
def test_a_cleaning_that_was_being_taken_over_is_read_as_a_start_would(tmp_path: Path, what: str):
    """A complete `.swap` counts and what it stands for does not, wherever the crash was; no file is touched."""
    batches = []
    for number, owned in enumerate(({"a": [0, 1]}, {"a": [0], "b": [1]}, {"b": [0, 1]}, {"b": [0], "c": [1]}), start=1):
        key, value, at_ms = generation(number, NOW + number * 60_000, owned)
        batches.append(keyed((key or b"", value), timestamp=at_ms))
    folder = crashed_swaps(tmp_path / "__consumer_offsets-0", tmp_path, *batches)[what]
    log = opened(Path(shutil.copytree(folder, tmp_path / "started")), COMPACT)
    expected = generations("g", [(one.key, one.value, one.timestamp) for one in records_in(all_bytes(log))])
    assert [one["generation"] for one in expected] == ([1, 2, 3, 4] if what == "output unfinished" else [3, 4])
    before = sorted(path.name for path in folder.iterdir())

    assert read(str(folder), "g").records == expected

    assert sorted(path.name for path in folder.iterdir()) == before
