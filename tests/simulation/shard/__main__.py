"""Histories of one group at length: `make shards SHARDS=1000000`, a third of them of each kind.

Prints how many were played and how fast; failures with their seeds, without stopping at them. Ends with 1 if there was
one.
"""

import argparse
import itertools
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.shard.history import KINDS, play

BLOCK = 200


def block(kind: str, first: int, end: int) -> tuple[int, list[str]]:
    """How many were played, and what failed among them."""
    failed = []
    for seed in range(first, end):
        try:
            play(f"{kind}/{seed}")
        except Exception as error:
            failed.append("".join(traceback.format_exception(error)[-3:]))
    return end - first, failed


def blocks(first: int, count: int) -> Iterator[tuple[str, int, int]]:
    """The seeds in pieces, the kinds in turn."""
    end = first + count // len(KINDS)
    for start, kind in itertools.product(range(first, end, BLOCK), KINDS):
        yield kind, start, min(start + BLOCK, end)


def main() -> int:
    """Play them."""
    parser = argparse.ArgumentParser(prog="make shards", description="histories of one group in virtual time")
    parser.add_argument("--histories", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    began, played, failures, told_at = time.monotonic(), 0, 0, 0.0
    with ProcessPoolExecutor(options.processes) as pool:
        for count, failed in pool.map(block, *zip(*blocks(options.first, options.histories), strict=True)):
            played, failures = played + count, failures + len(failed)
            for one in failed:
                print(one, flush=True)
            elapsed = time.monotonic() - began
            if elapsed - told_at > 60 or played == options.histories:
                told_at = elapsed
                print(f"{played} histories, {failures} failed, {1000 * elapsed / played:.1f} ms each", flush=True)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
