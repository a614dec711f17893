"""What decoding a group log costs on Spark, and what it would cost with what people use today, on the same files.

    make bench-pipeline ARGS="--records 3000000 --codec none --codec lz4"

Writes a seeded log (400 groups, 60 topics, batches of 1-60, 2 % tombstones, half of the values v3 and half v4), and
runs every road over it in one process tree. What counts is records per CPU second of everything that ran, the JVM
and its Python workers: wall time on a shared machine says little. Nothing here passes or fails.
"""

import argparse
import contextlib
import json
import os
import platform
import random
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import functions as F  # noqa: N812  as all of Spark's documentation has it
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pipeline import decode
from pipeline.session import build
from pipeline.sources import options, plan, read
from protocol.records.batch import encode_pairs
from protocol.records.batch_header import stamp
from tests.support.broker_process import Kohort

ROOT = Path(__file__).resolve().parent.parent
T0 = 1_700_000_000_000
BUDGET = 0.75e6
GROUPS, TOPICS, PARTITIONS = 400, 60, 12
SEGMENT_BYTES = 100 * 1024 * 1024
USED = (
    *("group_id", "committed_offset", "log_offset", "logged_at", "committed_at", "tombstone", "partition"),
    "value_bytes",
)
ALL_COLUMNS, USED_COLUMNS = "records=group, 10 aggregates", "records=group, only the columns used"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def write_log(folder: Path, records: int, codec: int, seed: int) -> int:
    """`__consumer_offsets-0` with so many records; bytes written."""
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    keys = []
    for group in range(GROUPS):
        topic = f"topic-{rng.randrange(TOPICS):02d}"
        keys.append([_key(f"group-{group:03d}-of-the-benchmark", topic, part) for part in range(PARTITIONS)])
    ids = [rng.randbytes(16) for _ in range(TOPICS)]
    offset = written = position = 0
    index: list[tuple[int, int]] = []
    base = since_entry = 0
    file = (folder / f"{0:020d}.log").open("wb")
    while offset < records:
        count = min(rng.randint(1, 60), records - offset)
        own = keys[rng.randrange(GROUPS)]
        now = T0 + offset // 10
        pairs = []
        for number in range(count):
            value = (
                None if rng.random() < 0.02 else _value(offset + number, now, ids[number % TOPICS], rng.random() < 0.5)
            )
            pairs.append((own[number % PARTITIONS], value))
        data = encode_pairs(pairs, timestamp=now, compression=codec)
        stamp(data, offset, 0)
        if position + len(data) > SEGMENT_BYTES:
            file.close()
            (folder / f"{base:020d}.index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in index))
            base, position, index, since_entry = offset, 0, [], 0
            # No producers: so no transaction is open here.
            (folder / f"{base:020d}.snapshot").write_bytes(bytes.fromhex("000148674bc700000000"))
            file = (folder / f"{base:020d}.log").open("wb")
        if since_entry > 4096:
            index.append((offset + count - 1 - base, position))
            since_entry = 0
        file.write(data)
        position += len(data)
        since_entry += len(data)
        written += len(data)
        offset += count
    file.close()
    return written


def _key(group: str, topic: str, partition: int) -> bytes:
    names = b"".join(struct.pack(">h", len(text)) + text.encode() for text in (group, topic))
    return struct.pack(">h", 1) + names + struct.pack(">i", partition)


def _value(offset: int, now: int, topic_id: bytes, tagged: bool) -> bytes:
    if tagged:
        return struct.pack(">hqiBqBBB16s", 4, offset, 3, 1, now, 1, 0, 16, topic_id)
    return struct.pack(">hqihq", 3, offset, 3, 0, now)


def cpu_seconds() -> float:
    """Of this process and everything that it started, whether it has ended or not."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def worker_peak_bytes() -> int:
    """The largest a Python worker has been since it was started."""
    peak = 0
    for process in psutil.Process().children(recursive=True):
        try:
            if not process.name().startswith("python"):
                continue
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    peak = max(peak, int(line.split()[1]) * 1024)
        except (psutil.Error, OSError):
            continue
    return peak


class Table:
    """Rows as they are measured, printed at once."""

    def __init__(self, sink: Path | None) -> None:
        self.sink = sink
        self.rates: dict[str, float] = {}
        print(f"{'road':44} {'records/CPU s':>14} {'CPU s':>8} {'wall s':>8} {'records':>10}  load")

    def measure(self, road: str, run: Callable[[], int], rounds: int) -> None:
        """Run once to warm up when there are several rounds, then keep the cheapest."""
        best: tuple[float, float, int] | None = None
        for number in range(rounds + (rounds > 1)):
            cpu, wall = cpu_seconds(), time.monotonic()
            records = run()
            cpu, wall = cpu_seconds() - cpu, time.monotonic() - wall
            if (number or rounds == 1) and (best is None or cpu < best[0]):
                best = cpu, wall, records
        assert best is not None
        cpu, wall, records = best
        self.rates[road] = records / cpu
        row = {"road": road, "records": records, "cpu_s": round(cpu, 2), "wall_s": round(wall, 2)}
        row |= {"records_per_cpu_s": round(records / cpu), "load": os.getloadavg()[0]}
        print(
            f"{road:44} {records / cpu:14,.0f} {cpu:8.2f} {wall:8.2f} {records:10,}  {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        if self.sink:
            with self.sink.open("a") as file:
                file.write(json.dumps(row) + "\n")


def aggregated(rows: Any) -> int:
    """Typed rows grouped by group with ten aggregates: every number is looked at. Returns the records."""
    grouped = rows.groupBy("group_id").agg(
        F.count("*").alias("n"),
        F.sum("committed_offset"),
        F.max("committed_offset"),
        F.min("log_offset"),
        F.max("log_offset"),
        F.max("logged_at"),
        F.max("committed_at"),
        F.sum(F.col("tombstone").cast("int")),
        F.sum("partition"),
        F.sum("value_bytes"),
    )
    return int(grouped.agg(F.sum("n")).first()[0])


def naive(raw: Any) -> Any:
    """What one writes first: a Python function a record."""

    def decode(key: bytes, value: bytes | None) -> tuple[Any, ...]:
        at = 4 + int.from_bytes(key[2:4], "big")
        group = key[4:at].decode()
        end = at + 2 + int.from_bytes(key[at : at + 2], "big")
        topic, partition = key[at + 2 : end].decode(), int.from_bytes(key[end : end + 4], "big")
        return group, topic, partition, None if value is None else int.from_bytes(value[2:10], "big")

    fields = [("group_id", StringType()), ("topic", StringType()), ("partition", IntegerType())]
    kind = StructType([StructField(name, type_) for name, type_ in [*fields, ("committed_offset", LongType())]])
    rows = raw.select("offset", "timestamp", "value", F.udf(decode, kind)("key", "value").alias("d"))
    return rows.select(
        *("d.*", F.col("offset").alias("log_offset"), F.col("timestamp").alias("logged_at")),
        F.col("timestamp").alias("committed_at"),
        F.col("value").isNull().alias("tombstone"),
        F.length("value").alias("value_bytes"),
    )


def dump_log(folder: Path) -> int:
    """Kafka's own tool with its offsets decoder; its output is only counted."""
    files = ",".join(str(file) for file in sorted(folder.glob("*.log")))
    command = [str(ROOT / "tools" / "kafka"), "run", "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--offsets-decoder", "--files", files]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        return sum(line.startswith(b"| offset:") for line in process.stdout)


def served(folder: Path, scratch: Path) -> Kohort:
    """A broker whose topic `copied` is these files: its own log recovery takes them over at the start."""
    broker = Kohort(scratch, {"num.partitions": 1})
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.address})
    # The records are old: without this the broker would delete them while they are read.
    topic = NewTopic("copied", 1, 1, config={"retention.ms": "-1"})
    admin.create_topics([topic])["copied"].result(60)
    broker.kill()
    for file in (broker.data / "copied-0").glob("0*"):
        file.unlink()
    for file in folder.glob("*.log"):
        shutil.copy(file, broker.data / "copied-0")
    for checkpoint in broker.data.glob("*-checkpoint"):
        checkpoint.unlink()
    broker.start()
    return broker


OBJECT = b'{"key":'


def console_consumer(broker: Kohort, records: int) -> int:
    """Kafka's console consumer with the formatter for offsets; how many records it printed, tombstones left out."""
    command = [str(ROOT / "tools" / "kafka"), "run", "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    command += ["--bootstrap-server", broker.address, "--topic", "copied", "--from-beginning"]
    command += ["--max-messages", str(records), "--timeout-ms", "300000"]
    command += ["--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        # It writes no end of line: one object follows the other, also across the pieces that are read.
        count, rest = 0, b""
        for piece in iter(lambda: process.stdout.read(1 << 20), b""):
            count += (rest + piece).count(OBJECT)
            rest = piece[-(len(OBJECT) - 1) :]
        return count


def kernel(path: Path) -> Iterator[int]:
    """The same reader without Spark."""
    command = options.parse({"path": str(path), "records": "group"})
    for task in plan.plan(command):
        for batch in read.read_splits(task, command):
            yield batch.num_rows


def run(command: argparse.Namespace, path: Path) -> None:
    table = Table(command.json)
    size = write_log(path / "none" / "__consumer_offsets-0", command.records, 0, command.seed)
    print(f"# {command.records:,} records, {size / 1e6:.0f} MB uncompressed", flush=True)
    table.measure("kernel alone, one core", lambda: sum(kernel(path / "none")), command.rounds)
    small = path / "small"
    write_log(small / "__consumer_offsets-0", 1000, 0, command.seed)
    begun = time.monotonic()
    spark = build(master=command.master, name="benchmark", settings={"spark.log.level": "ERROR"})
    spark.sparkContext.setLogLevel("ERROR")

    def frame(where: Path, **given: str) -> Any:
        return spark.read.format("kohort-log").options(path=str(where), **given).load()

    frame(small, records="group").first()
    print(f"# start-up to the first row of a 1,000-record directory: {time.monotonic() - begun:.1f} s (budget 15)")
    whole = path / "none"
    try:
        table.measure(ALL_COLUMNS, lambda: aggregated(frame(whole, records="group")), command.rounds)
        few = frame(whole, records="group", columns=",".join(USED))
        table.measure(USED_COLUMNS, partial(aggregated, few), command.rounds)
        table.measure("raw, counted", lambda: int(frame(whole).agg(F.count("value")).first()[0]), command.rounds)
        table.measure(
            "raw + group_records (mapInArrow)", lambda: aggregated(decode.group_records(frame(whole))), command.rounds
        )
        print(f"# peak memory of a Python worker: {worker_peak_bytes() / 1e6:.0f} MB (budget 300)")
        for name in command.codec:
            if name == "none":
                continue
            write_log(path / name / "__consumer_offsets-0", command.records, CODECS.index(name), command.seed)
            rows = frame(path / name, records="group")
            table.measure(f"records=group, {name}", partial(aggregated, rows), command.rounds)
        fewer = path / "fewer"
        write_log(fewer / "__consumer_offsets-0", command.records // 10, 0, command.seed)
        # As warm as the others: it must not be charged with what its query costs to compile.
        table.measure("raw + naive Python UDF (a tenth)", lambda: aggregated(naive(frame(fewer))), command.rounds)
        if shutil.which("java") and shutil.which("mvn") and not command.no_dump:
            dump_log(small / "__consumer_offsets-0")  # resolves the jars
            table.measure("kafka-dump-log (a tenth)", lambda: dump_log(fewer / "__consumer_offsets-0"), 1)
            tenth = command.records // 10
            with contextlib.closing(served(fewer / "__consumer_offsets-0", path / "broker")) as broker:
                table.measure(
                    "console consumer, offsets formatter (a tenth)", partial(console_consumer, broker, tenth), 1
                )
    finally:
        spark.stop()
    whole_rate, used_rate = (table.rates[road] for road in (ALL_COLUMNS, USED_COLUMNS))
    for road in (
        "raw + naive Python UDF (a tenth)",
        "kafka-dump-log (a tenth)",
        "console consumer, offsets formatter (a tenth)",
    ):
        if road in table.rates:
            # None of them makes all columns either.
            times = (
                f"{whole_rate / table.rates[road]:.1f} times, with the columns used {used_rate / table.rates[road]:.1f}"
            )
            print(f"# records=group is {times} times {road} (budget 8)")
    print(f"# records=group: {whole_rate / 1e6:.2f} M records per CPU second (budget {BUDGET / 1e6})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--codec", action="append", choices=CODECS, default=[], help="also with this compression")
    parser.add_argument("--rounds", type=int, default=4, help="after one to warm up; the cheapest counts (4)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--no-dump", action="store_true", help="leave out Kafka's own tool")
    parser.add_argument("--json", type=Path, help="append the rows to this file, one JSON object a line")
    command = parser.parse_args()
    names = ("pyspark", "pyarrow", "numpy", "cramjam")
    print("# " + ", ".join(f"{name} {version(name)}" for name in names) + f", Python {platform.python_version()}")
    with tempfile.TemporaryDirectory(prefix="kohort-pipeline-") as scratch:
        run(command, Path(scratch))


if __name__ == "__main__":
    main()
