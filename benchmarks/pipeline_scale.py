"""How decoding a group log grows with Spark's executors: 1, 2 and 4 of one core each, on one log.

    python -m benchmarks.pipeline_scale --records 2000000

Each executor is a process of its own on this machine (`local-cluster[N,1,1024]`). Beside `records=group` on the files
stands Spark's own Kafka source on a broker that serves a tenth of the same records, with a plain Python function for
each. A machine with fewer free cores than executors shows what more of them cost, not what they give.
"""

import argparse
import contextlib
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.pipeline_decode import USED, Table, aggregated, naive, served, write_log
from pipeline.session import build

SPLIT_BYTES = 8 << 20
TASKS = 8


def run(records: int, executors: list[int], rounds: int, path: Path) -> None:
    """Print two rows for each number of executors, and how many records a second that were."""
    write_log(path / "whole" / "__consumer_offsets-0", records, 0, 1)
    write_log(path / "tenth" / "__consumer_offsets-0", records // 10, 0, 1)
    table = Table(None)
    with contextlib.closing(served(path / "tenth" / "__consumer_offsets-0", path / "broker")) as broker:
        for count in executors:
            spark = build(master=f"local-cluster[{count},1,1024]", name="scale", connector=True, quiet=True)
            spark.sparkContext.setLogLevel("OFF")
            files = spark.read.format("kohort-log").options(path=str(path / "whole"), splitBytes=str(SPLIT_BYTES))
            group = files.options(records="group", columns=",".join(USED)).load()
            live: Any = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.address)
            live = live.options(subscribe="copied", startingOffsets="earliest", minPartitions=str(TASKS)).load()
            table.measure(f"{count} executors, records=group", partial(aggregated, group), rounds)
            table.measure(f"{count} executors, Kafka source, function", partial(_decoded, live), rounds)
            spark.stop()


def _decoded(raw: Any) -> int:
    return aggregated(naive(raw))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=6_000_000)
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=2, help="after one to warm up; the cheapest counts (2)")
    given = parser.parse_args()
    print(f"# {given.records:,} records, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kohort-scale-") as scratch:
        run(given.records, given.executors, given.rounds, Path(scratch))


if __name__ == "__main__":
    main()
