"""Logs that lie in a store that speaks as Google's does: folders are parts of names there, and nothing else."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.sources import log_dir
from tests.pipeline.capture import unpack
from tests.pipeline.test_object_store import NAMES, Store, rows
from tests.support.golang import program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("KOHORT_STORES"), reason="a store of Google's kind, built in Go: make test-all"
    ),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """(a folder with directories that brokers wrote, settings of a store that has them in its bucket `logs`)."""
    folder = tmp_path_factory.mktemp("buckets")
    (folder / "logs").mkdir()
    for name in NAMES:
        unpack(name, folder / "logs")
    words = [str(program(Path(__file__).with_name("google_store"))), str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdin
        scheme, _, address = process.stdout.readline().strip().partition("://")
        yield folder / "logs", {"anonymous": "true", "endpoint_override": address, "scheme": scheme}
        process.stdin.close()


@pytest.mark.parametrize("name", NAMES)
def test_folders_that_are_parts_of_names_are_read(store: Store, name: str):
    folder, settings = store
    several: list[dict[str, str]] = [{"records": "group", "includeSource": "true"}, {"records": "batch"}]
    for options in several:
        found = rows(f"gs://logs/{name}", settings, **options)
        assert found == rows(str(folder / name), {}, **options)
        assert found


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("gs://logs/nothing/here", "gs://logs/nothing/here does not exist"),
        ("gs://other/logs", "gs://other/logs does not exist"),
        ("gs://logs/kohort/meta.properties", "is a file; give the log directory"),
    ],
)
def test_what_cannot_be_read_is_named(store: Store, path: str, says: str):
    with pytest.raises(UsageError, match=says):
        log_dir.scan(path, store[1])
