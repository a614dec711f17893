"""What each verb of `kohort pipeline` reads of a directory, in bytes: for its tasks, and on the driver to plan them.

    python -m benchmarks.pipeline_bytes --mebibytes 96

A topic of so many MiB over fifty minutes, in segments with their indexes, and a group that commits it every second.
Counted where files are opened on the driver, and from the plans of the reads, each once.
"""

import argparse
import contextlib
import struct
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.pipeline_decode import _key, _value
from pipeline import cli
from pipeline import session as sessions
from pipeline.jobs.inputs import Inputs
from pipeline.sources import files, options, plan
from protocol.records.batch import encode_pairs
from protocol.records.batch_header import stamp

SEGMENTS, BATCH_BYTES, MINUTES = 4, 16_384, 50


class Log:
    """A partition's segments and indexes, as a broker that was closed leaves them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.offset = folder, 0
        self._begin()

    def _begin(self) -> None:
        self.base, self.data, self.index, self.times = self.offset, bytearray(), bytearray(), bytearray()

    def append(self, pairs: list[tuple[bytes | None, bytes | None]], at_ms: int) -> None:
        """One batch, with an entry of each index."""
        batch = encode_pairs(pairs, timestamp=at_ms, compression=0)
        stamp(batch, self.offset, 0)
        self.offset += len(pairs)
        self.index += struct.pack(">ii", self.offset - 1 - self.base, len(self.data)) if self.data else b""
        self.times += struct.pack(">qi", at_ms, self.offset - 1 - self.base)
        self.data += batch

    def close(self) -> None:
        """Write the segment, begin another."""
        for suffix, data in ((".log", self.data), (".index", self.index), (".timeindex", self.times)):
            (self.folder / f"{self.base:020d}{suffix}").write_bytes(data)
        self._begin()


def write(folder: Path, size_bytes: int) -> int:
    """The directory; returns the moment (ms) of its end."""
    end = int(time.time() * 1000) - 600_000
    start = end - MINUTES * 60_000
    orders, count = Log(folder / "orders-0"), size_bytes // BATCH_BYTES
    value = bytes(2000)
    for number in range(count):
        orders.append([(None, value)] * 8, start + (end - start) * number // count)
        if (number + 1) % -(-count // SEGMENTS) == 0:
            orders.close()
    orders.close()
    groups = Log(folder / "__consumer_offsets-0")
    for second in range(MINUTES * 60):
        at = start + second * 1000
        done = orders.offset * second // (MINUTES * 60 + 90)
        groups.append([(_key("readers", "orders", 0), _value(done, at, b"", False))], at)
    groups.close()
    return end


class Meter:
    """What was read, in bytes."""

    def __init__(self) -> None:
        self.planned = self.looked_at = 0

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Within it, reads of files in this process are counted, and those that are planned for tasks."""
        before, read = files._LocalFile.pread, Inputs._read

        def pread(file: Any, count: int, position: int) -> bytes:
            data = before(file, count, position)
            self.looked_at += len(data)
            return data

        def planned(inputs: Inputs, given: dict[str, str]) -> Any:
            splits = plan.plan(options.parse({**inputs.where, **given}))
            self.planned += sum(split.size_bytes for task in splits for split in task)
            return read(inputs, given)

        patched: Any = (files._LocalFile, Inputs)
        patched[0].pread, patched[1]._read = pread, planned
        try:
            yield
        finally:
            patched[0].pread, patched[1]._read = before, read


def main() -> None:
    """Print a line for each verb."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=96)
    size_bytes = parser.parse_args().mebibytes << 20
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "data"
        end = write(directory, size_bytes)
        at = [datetime.fromtimestamp((end - minutes * 60_000) / 1000, UTC).isoformat() for minutes in (20, 19)]
        command: dict[str, list[str]] = {
            **{verb: [verb] for verb in ("commits", "records", "generations", "membership", "resets", "rebalances")},
            **{verb: [verb] for verb in ("state", "groups", "growth")},
            "restore": ["restore", "--at", at[1]],
            "lag of one minute": ["lag", "--since", at[0], "--until", at[1]],
            "lag, every minute": ["lag"],
            "lag --every 1s": ["lag", "--every", "1s"],
            "lag --now": ["lag", "--now"],
            "lag --exact": ["lag", "--exact"],
            "stuck": ["stuck"],
            "report": ["report"],
        }
        spark: Any = sessions.build(quiet=True)
        sessions.build = lambda **_: spark
        type(spark).stop = lambda _: None
        for name in ("orders-0", "__consumer_offsets-0"):
            print(f"{name:24} {sum(file.stat().st_size for file in (directory / name).glob('*.log')):12,} bytes")
        print(f"\n{'verb':24} {'for tasks':>12} {'on the driver':>14}")
        for name, words in command.items():
            meter = Meter()
            to = Path(scratch) / name.replace(" ", "-")
            with meter.counting():
                code = cli.main([*words, "--from", str(directory), "--to", str(to)])
            assert code == 0
            print(f"{name:24} {meter.planned:12,} {meter.looked_at:14,}", flush=True)


if __name__ == "__main__":
    main()
