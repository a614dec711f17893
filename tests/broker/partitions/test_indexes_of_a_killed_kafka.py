"""What a killed Kafka leaves of partitions that nobody has written to: indexes of 10 MB, all zeros."""

from __future__ import annotations

import os
from pathlib import Path

from tests.broker.partitions.test_several_directories import kill, start, write


def test_empty_partitions_of_a_killed_kafka_are_taken_over_without_an_error(tmp_path: Path) -> None:
    whole = start(tmp_path)
    whole.create("t", 3)
    write(whole, "t", 0, b"first")
    kill(whole)
    for folder in [one for root in ("a", "b") for one in (tmp_path / root).glob("t-*")]:
        (folder / f"{0:020d}.log").touch()
        for suffix, size in ((".index", 10_485_760), (".timeindex", 10_485_756)):
            path = folder / f"{0:020d}{suffix}"
            path.touch()
            os.truncate(path, size)
    whole = start(tmp_path)
    whole.runtime.advance(5_000)
    assert [line for line in whole.log.getvalue().splitlines() if " ERROR " in line or " WARN " in line] == []
    write(whole, "t", 0, b"second")
    assert whole.values("t") == [b"first", b"second"]
    whole.stop()
