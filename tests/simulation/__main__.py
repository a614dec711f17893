"""Histories of the whole broker at length: `make histories SEEDS=50000-54999`, each under both durabilities.

Nothing stops at a failure, and what the ledger names is not played again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.simulation.history import DURABILITIES, play
from tests.simulation.long_run import run, seeds


def main() -> int:
    """Play them."""
    parser = argparse.ArgumentParser(prog="make histories", description="histories of the whole broker in virtual time")
    parser.add_argument("--seeds", type=seeds, required=True, help="17 or 100-200")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--ledger", type=Path, help="the file of what was played: a run goes on where it ends")
    options = parser.parse_args()
    return run(play, DURABILITIES, *options.seeds, options.ledger, processes=options.processes, each=100)


if __name__ == "__main__":
    sys.exit(main())
