"""The log directory's own files (DD14, DD16, DD18)."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from protocol.types import uuid_text
from storage.directory.log_directory import (
    FolderName,
    LogDirectory,
    parse_folder_name,
    read_topic_id,
    suffixed_name,
)
from storage.directory.meta_properties import MetaProperties, load_or_create, parse_properties
from storage.errors import CorruptFile, DirectoryRefused

ID = bytes.fromhex("27c6803dc7cb42dd9baacd494ffacc81")


def uuids() -> object:
    count = itertools.count(200)
    return lambda: next(count).to_bytes(16)


def test_a_new_directory_gets_an_identity_that_stays(tmp_path: Path) -> None:
    first = load_or_create(tmp_path, node_id=1, new_uuid=uuids())  # type: ignore[arg-type]
    again = load_or_create(tmp_path, node_id=1, new_uuid=uuids())  # type: ignore[arg-type]
    assert first == again
    text = (tmp_path / "meta.properties").read_text()
    assert set(text.split()[1:]) == {
        "version=1",
        f"cluster.id={first.cluster_id}",
        "node.id=1",
        f"directory.id={uuid_text(first.directory_id)}",
    }


@pytest.mark.parametrize(
    "text",
    [
        "version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=J8aAPcfLQt2bqs1JT_rMgQ\n",
        "#\n#Sat Nov 21 10:00:00 UTC 2026\n! also a comment\nnode.id : 1\r\ndirectory.id J8aAPcfLQt2bqs1JT_rMgQ\r\n"
        "  version = 1\ncluster.\\\n   id=\\u0061bc",
        "version=0\ncluster.id=abc\nbroker.id=1\ndirectory.id=J8aAPcfLQt2bqs1JT_rMgQ",
        "cluster.id=abc\nbroker.id=1\ndirectory.id=J8aAPcfLQt2bqs1JT_rMgQ",
    ],
)
def test_every_legal_spelling_of_meta_properties_is_read(tmp_path: Path, text: str) -> None:
    """DD16."""
    (tmp_path / "meta.properties").write_bytes(text.encode())
    assert load_or_create(tmp_path, node_id=1, new_uuid=uuids()) == MetaProperties("abc", 1, ID)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("version=2\ncluster.id=abc\nnode.id=1\n", "version 2"),
        ("version=1\nnode.id=1\n", "no cluster.id"),
        ("version=1\ncluster.id=abc\n", "no node.id"),
        ("version=1\ncluster.id=abc\nnode.id=one\n", "no number"),
        ("version=1\ncluster.id=abc\nnode.id=2\n", "belongs to node 2"),
        ("version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n", "reserved"),
        ("version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=short\n", "no uuid"),
    ],
)
def test_a_wrong_meta_properties_is_refused_with_its_reason(tmp_path: Path, text: str, why: str) -> None:
    """DD16."""
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(CorruptFile, match=why):
        load_or_create(tmp_path, node_id=1, new_uuid=uuids())  # type: ignore[arg-type]
    assert (tmp_path / "meta.properties").read_text() == text


def test_a_missing_directory_id_is_added_as_kafka_does(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    made = load_or_create(tmp_path, node_id=1, new_uuid=uuids())  # type: ignore[arg-type]
    assert made.cluster_id == "abc"
    assert load_or_create(tmp_path, node_id=1, new_uuid=uuids()) == made  # type: ignore[arg-type]


def test_properties_escapes() -> None:
    assert parse_properties("a\\ b=c\\tD\nodd\\=key=1\nempty") == {"a b": "c\tD", "odd=key": "1", "empty": ""}


def test_a_second_process_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    """DD14: the lock is the JVM's kind, so a process with fcntl locks stands for Kafka."""
    held = (
        "import fcntl,os,sys; fd=os.open(sys.argv[1],os.O_RDWR|os.O_CREAT);"
        "fcntl.lockf(fd,fcntl.LOCK_EX|fcntl.LOCK_NB); print('held',flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", held, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DirectoryRefused, match="in use by another process"):
            LogDirectory.open(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]
        other.communicate("")
    LogDirectory.open(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_the_lock_file_names_the_process_that_has_it_and_none_before_it(tmp_path: Path) -> None:
    """So that `kill $(cat data/.lock)` ends the broker of this directory and no other."""
    (tmp_path / ".lock").write_text("1234567890123\n")  # of one that was killed
    directory = LogDirectory.open(tmp_path)
    assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
    directory.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
@pytest.mark.parametrize("name", ["data", "data/below"])
def test_a_directory_of_another_user_is_refused_with_both_users(name: str) -> None:
    with tempfile.TemporaryDirectory() as made:  # pytest's own folders cannot be entered by others at all
        Path(made).chmod(0o755)
        (Path(made) / "data").mkdir(mode=0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(DirectoryRefused) as refused:
                LogDirectory.open(Path(made) / name)
        finally:
            os.seteuid(0)
    assert "Permission denied" in str(refused.value)
    assert f"{made}/data belongs to uid 0, this process runs as uid 65534: chown it" in str(refused.value)


def test_a_lock_is_given_up_once_whatever_the_disk_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux gives the descriptor back before it tells of an error: the number may be another file's by then."""
    directory = LogDirectory.open(tmp_path / "data")
    closed: list[int] = []
    close = os.close

    def refuse(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "close", refuse)
    directory.close()
    directory.close()
    monkeypatch.undo()
    assert len(closed) == 1


def test_a_file_in_the_directorys_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(DirectoryRefused, match="not a directory"):
        LogDirectory.open(tmp_path / "data")


@pytest.mark.parametrize(("text", "epoch"), [('{"version":0,"brokerEpoch":7,"new":1}', 7), ("", -1), ("{}", -1)])
def test_the_clean_marker_is_read_once(tmp_path: Path, text: str, epoch: int) -> None:
    directory = LogDirectory.open(tmp_path)
    assert directory.take_clean_marker() is None
    (tmp_path / ".kafka_cleanshutdown").write_text(text)
    assert directory.take_clean_marker() == epoch
    assert directory.take_clean_marker() is None
    directory.write_clean_marker(9)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":9}'
    directory.close()


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("t-0", FolderName("t", 0)),
        ("a-b-12", FolderName("a-b", 12)),
        ("t-0.000102030405060708090a0b0c0d0e0f-delete", FolderName("t", 0, "delete")),
        ("a-b-3.000102030405060708090a0b0c0d0e0f-stray", FolderName("a-b", 3, "stray")),
        ("lost+found", None),
        ("tmp", None),
        ("t-x", None),
        ("-3", None),
        ("t-x.1-delete", None),
    ],
)
def test_folder_names(name: str, parsed: FolderName | None) -> None:
    assert parse_folder_name(name) == parsed


def test_the_longest_topic_name_fits_when_deleted(tmp_path: Path) -> None:
    """DD18: at most 255 characters, and the folder is known by its id."""
    directory = LogDirectory.open(tmp_path)
    topic = "x" * 249
    directory.create_folders({(topic, 0): ID})
    target = directory.retire(topic, 0, unique=bytes(16))
    assert target is not None
    assert len(target.name) == 255
    assert target.is_dir()
    assert read_topic_id(target) == ID
    assert parse_folder_name(suffixed_name(topic, 123, bytes(16), "stray")) is not None
    directory.close()


def test_a_scan_tells_the_folders_apart(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path)
    directory.create_folders({("t", 0): ID, ("t", 1): ID})
    (tmp_path / "bare-0").mkdir()
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "s-0.000102030405060708090a0b0c0d0e0f-stray").mkdir()
    directory.retire("t", 1, unique=bytes(16))
    scan = directory.scan()
    assert scan.logs == {("t", 0): ID, ("bare", 0): None}
    assert [path.name for path in scan.to_delete] == [f"t-1.{bytes(16).hex()}-delete"]
    assert len(scan.set_aside) == 1
    assert (tmp_path / "t-0/partition.metadata").read_text() == f"version: 0\ntopic_id: {uuid_text(ID)}"
    (tmp_path / "lost+found").mkdir()
    with pytest.raises(DirectoryRefused, match=r"lost\+found"):
        directory.scan()
    directory.close()
