"""Histories of one group at length: `make shards SHARDS=1000000`, a third of them of each kind.

Nothing stops at a failure, and what the ledger names is not played again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.simulation.long_run import run
from tests.simulation.shard.history import KINDS, play_one


def main() -> int:
    """Play them."""
    parser = argparse.ArgumentParser(prog="make shards", description="histories of one group in virtual time")
    parser.add_argument("--histories", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--ledger", type=Path, help="the file of what was played: a run goes on where it ends")
    options = parser.parse_args()
    last = options.first + options.histories // len(KINDS) - 1
    return run(play_one, KINDS, options.first, last, options.ledger, processes=options.processes, each=10_000)


if __name__ == "__main__":
    sys.exit(main())
