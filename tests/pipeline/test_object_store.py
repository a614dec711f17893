"""Logs that lie in an object store, spoken to as S3: what is read is what the same files give on this machine."""

import contextlib
import re
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from pipeline import cli
from pipeline.errors import DataError, UsageError
from pipeline.sources import hdfs, log_dir, plan
from pipeline.sources.files import LOCAL, File
from pipeline.sources.options import parse
from pipeline.sources.read import read_splits
from pipeline.sources.segments import index_entries
from storage.reading.index_file import WHOLE_BYTES, offset_entries, time_entries
from tests.pipeline.capture import unpack
from tests.pipeline.test_cli import run
from tests.pipeline.told import told

__all__ = ["run"]
NAMES = ("kafka-4.3.1-compacted-zstd", "kohort")

Store = tuple[Path, dict[str, str]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """(a folder with directories that brokers wrote, settings of an S3 server that has them in its bucket `logs`)."""
    from moto.server import ThreadedMotoServer

    folder = tmp_path_factory.mktemp("golden")
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        address = "http://{}:{}".format(*server.get_host_and_port())
        settings = {"endpoint_override": address, "access_key": "reader", "secret_key": "s3cret", "region": "us-east-1"}
        made = urllib.request.Request(f"{address}/logs", method="PUT")
        urllib.request.urlopen(made, timeout=120).close()
        there = fs.S3FileSystem(**settings)
        for name in NAMES:
            unpack(name, folder)
        fs.copy_files(str(folder), "logs", fs.LocalFileSystem(), there)
        yield folder, settings
    finally:
        server.stop()


def rows(path: str, settings: dict[str, str], **options: str) -> list[dict[str, Any]]:
    """What a read gives, places without the folder in which everything lies."""
    given = parse({"path": path, **{f"fs.{key}": text for key, text in settings.items()}, **options})
    splits = [split for task in plan.plan(given) for split in task]
    found = [row for batch in read_splits(splits, given) for row in batch.to_pylist()]
    for row in found:
        if "file" in row:
            row["file"] = row["file"].rpartition(path)[2]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_an_object_store_gives_what_the_same_files_give(store: Store, name: str):
    folder, settings = store
    several: list[dict[str, str]] = [
        {"records": "group", "includeSource": "true"},
        {"records": "batch"},
        {"isolationLevel": "read_committed", "upTo": "highWatermark"},
        {"startingTimestamp": "2020-01-01", "topic": "__consumer_offsets", "splitBytes": "4k"},
    ]
    for options in several:
        found = rows(f"s3://logs/{name}", settings, **options)
        assert found == rows(str(folder / name), {}, **options)
        assert found


def test_one_partition_of_an_object_store(store: Store):
    folder, settings = store
    found = log_dir.scan(f"s3a://logs/{NAMES[0]}/__consumer_offsets-0/", settings)
    [here] = log_dir.scan(str(folder / NAMES[0] / "__consumer_offsets-0"))
    assert [(one.key, one.topic_id, one.high_watermark, one.first_dirty_offset) for one in found] == [
        (here.key, here.topic_id, here.high_watermark, here.first_dirty_offset)
    ]


@pytest.mark.parametrize(
    ("path", "more", "error", "says"),
    [
        ("s3://logs/nothing/here", {}, UsageError, "s3://logs/nothing/here does not exist"),
        ("s3://other/logs", {}, DataError, "s3://other/logs cannot be read: .*bucket does not exist"),
        ("s3://logs/kohort/meta.properties", {}, UsageError, "is a file; give the log directory"),
        ("s3://logs/kohort", {"acces_key": "x"}, UsageError, "acces_key"),
        (
            "hdfs://127.0.0.1:9/logs",
            {"dfs.client.failover.max.attempts": "1"},
            DataError,
            "hdfs://127.0.0.1:9/logs cannot be read: Connection refused",
        ),
        ("hdfs://127.0.0.1:9/logs", {"usr": "x"}, UsageError, "usr is no setting of it; Hadoop's own and kerberos_"),
        ("webhdfs://127.0.0.1:9/logs", {}, DataError, "webhdfs://127.0.0.1:9/logs cannot be read: connection refused"),
        ("webhdfs://127.0.0.1:9/logs", {"usr": "x"}, UsageError, "usr is no setting of it; user and token are"),
    ],
)
def test_what_cannot_be_read_is_named(store: Store, path: str, more: dict[str, str], error: type[Exception], says: str):
    settings = more if "hdfs" in path else store[1] | more
    with pytest.raises(error, match=says):
        log_dir.scan(path, settings)


def test_without_its_client_hdfs_says_what_else_reads_it(monkeypatch: pytest.MonkeyPatch):
    """Arrow's own class wants the library and the Java of a Hadoop that is installed."""
    monkeypatch.setattr(hdfs, "is_installed", lambda: False)
    says = "hdfs://nobody:9/logs cannot be read: Unable to load lib(jvm|hdfs).*hdfs-native installed, or as webhdfs:"
    with pytest.raises(DataError, match=says):
        log_dir.scan("hdfs://nobody:9/logs")


class Broken(BaseHTTPRequestHandler):
    """Gives on what the store says, until somebody reads a segment: of that the half, or an error."""

    store = how = ""

    def do_GET(self) -> None:
        try:
            asked = urllib.request.Request(f"{self.store}{self.path}", headers=dict(self.headers), method=self.command)
            with urllib.request.urlopen(asked, timeout=120) as answer:
                status, headers, body = answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            status, headers, body = error.code, dict(error.headers), error.read()
        if self.command == "GET" and self.path.partition("?")[0].endswith(".log"):
            if self.how == "cut":
                headers["Content-Length"], body = str(len(body)), body[: len(body) // 2]
            else:
                status, headers, body = int(self.how), {"Content-Length": "0"}, b""
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in {"connection", "transfer-encoding", "server", "date"}:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    do_HEAD = do_GET  # noqa: N815  the name that it is called by

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def failing(settings: dict[str, str], how: str) -> Iterator[dict[str, str]]:
    """The settings with which the store is asked through one that fails."""
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Here", (Broken,), {"store": settings["endpoint_override"], "how": how})
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield settings | {"endpoint_override": f"http://127.0.0.1:{server.server_port}"}
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("how", ["cut", "500", "503", "403"])
def test_a_store_that_fails_in_the_middle_of_a_read_is_named(store: Store, how: str) -> None:
    """And no row is given of a segment of which there is only a part."""
    with failing(store[1], how) as through, pytest.raises(DataError, match=r"s3://logs/kohort/.*\.log"):
        rows("s3://logs/kohort", through)


@pytest.mark.slow
def test_a_verb_whose_store_fails_in_the_middle_writes_nothing(run: Any, store: Store, tmp_path: Path) -> None:
    """One sentence with the place; neither tables nor what would be renamed into their place."""
    config = tmp_path / "s3.properties"
    with failing(store[1], "cut") as through:
        config.write_text("".join(f"{key}={text}\n" for key, text in through.items()))
        words = ("--from", "s3://logs/kohort", "--fs-config", config, "--to", tmp_path / "out")
        code, out, err = run("commits", *words)
    said = told(err)
    assert (code, out, len(said)) == (1, "", 1), err
    assert re.match(r"kohort pipeline: s3://logs/kohort/__consumer_offsets-\d+/0+\.log", said[0])
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.rglob("*.parquet"))


def test_settings_are_for_a_remote_path_and_shown_to_nobody(tmp_path: Path):
    with pytest.raises(UsageError, match=r"fs\.access_key: the path is none"):
        parse({"path": str(tmp_path), "fs.access_key": "k"})
    assert "s3cret" not in repr(parse({"path": "s3://b/c", "fs.secret_key": "s3cret"}))


class Counting:
    """This machine's files; `read_bytes` counts what was asked of them."""

    def __init__(self) -> None:
        self.read_bytes = 0

    entries = LOCAL.entries

    def open(self, path: str) -> File:
        file = LOCAL.open(path)
        before = file.pread

        def pread(count: int, position: int) -> bytes:
            data = before(count, position)
            self.read_bytes += len(data)
            return data

        class Counted:
            size_bytes = file.size_bytes

            def __enter__(self) -> Any:
                return self

            def __exit__(self, *of_error: object) -> None:
                file.__exit__(None, None, None)

        counted: Any = Counted()
        counted.pread, counted.fill = pread, file.fill
        return counted  # type: ignore[no-any-return]


def test_a_large_index_is_not_read_whole(tmp_path: Path):
    """A pre-sized index of a running broker, zero behind its entries: a look-up reads a few blocks of it."""
    count = 3 * WHOLE_BYTES // 8
    offsets = b"".join(struct.pack(">ii", 10 * at + 9, 4096 * at) for at in range(1, count + 1))
    times = b"".join(struct.pack(">qi", 1_700_000_000_000 + at, 10 * at + 9) for at in range(1, count + 1))
    (tmp_path / "0.index").write_bytes(offsets + bytes(10 * 1024 * 1024 - len(offsets)))
    (tmp_path / "0.timeindex").write_bytes(times + bytes(1024 * 1024 * 12 - len(times)))
    files: Any = Counting()

    index = files.open(str(tmp_path / "0.index"))
    entries = offset_entries(index.pread, index.size_bytes, 1000, 1 << 40)
    assert (len(entries), entries[-1], entries[7]) == (count, (1000 + 10 * count + 9, 4096 * count), (1089, 4096 * 8))
    index = files.open(str(tmp_path / "0.timeindex"))
    moments = time_entries(index.pread, index.size_bytes, 1000, None)
    assert (len(moments), moments[-1]) == (count, (1_700_000_000_000 + count, 1000 + 10 * count + 9))
    assert files.read_bytes < 200_000
    assert not index_entries(log_dir.Segment(0, str(tmp_path / "1.log"), 1))


def test_a_verb_reads_an_object_store(
    spark: SparkSession,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """Settings come out of a file and travel to the tasks."""
    folder, settings = store
    monkeypatch.setattr("pipeline.session.build", lambda **_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    config = tmp_path / "s3.properties"
    config.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))

    words = ["--from", "s3://logs/kohort", "--fs-config", str(config), "--to", str(tmp_path / "out"), "--format", "csv"]
    assert cli.main(["records", *words]) == 0
    spark.sparkContext.setLogLevel("ERROR")
    count = len(rows(str(folder / "kohort"), {}, records="group"))
    assert count
    assert f"{count} rows from {count} records, 0 undecoded" in capsys.readouterr().err
