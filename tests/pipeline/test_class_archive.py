"""The archive of Spark's classes: the user's own, made when it is asked for, and whole or not there."""

import importlib.metadata
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline import class_archive, command_line, session
from pipeline.errors import UsageError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    return tmp_path / "a cache" / "kohort"


def ended_by(script: str) -> Any:
    """A session whose JVM is a shell: it runs the script when its standard input is closed."""
    process = subprocess.Popen(["sh", "-c", f"cat; {script}"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    gateway = SimpleNamespace(proc=process, shutdown=lambda: None)
    return SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway), stop=lambda: None)


def test_it_is_made_aside_and_used_from_then_on(cache: Path):
    version = session.java_version()
    assert version is not None
    assert "SharedArchiveFile" not in session.defaults("local[2]")["spark.driver.extraJavaOptions"]
    options = session.defaults("local[2]", archive_classes=True)["spark.driver.extraJavaOptions"]
    made = next(word for word in shlex.split(options) if "ArchiveClassesAtExit" in word).partition("=")[2]

    assert "of classes, with which later runs start sooner" in class_archive.keep(
        ended_by(f"echo jsa > '{made}'"), version[1]
    )

    [place] = cache.iterdir()
    options = session.defaults("local[2]")["spark.driver.extraJavaOptions"]
    assert f"-XX:SharedArchiveFile={place}" in shlex.split(options)
    assert class_archive.java_options("18.0.1") == "", "another Java has another archive"


def test_what_was_not_written_is_said(cache: Path):
    cache.mkdir(parents=True)
    assert "the JVM wrote none" in class_archive.keep(ended_by("true"), "17.0.1")
    assert not list(cache.iterdir())
    submitted: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=None), stop=lambda: None)
    assert "another program has started the JVM" in class_archive.keep(submitted, "17.0.1")
    assert class_archive.java_options(None) == ""


def test_a_spark_that_was_unpacked_has_an_archive_of_its_own(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of SPARK_HOME, or of a PYTHONPATH: pip knows no distribution of it."""
    of_pip = class_archive.archive("17.0.1")
    monkeypatch.setattr(importlib.metadata.Distribution, "from_name", _unknown)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.0.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    own = class_archive.archive("17.0.1")
    (tmp_path / "jars" / "spark-core_2.13-4.0.0.jar").rename(tmp_path / "jars" / "spark-core_2.13-4.0.1.jar")
    assert len({of_pip, own, class_archive.archive("17.0.1")}) == 3
    assert session.defaults("local[2]")["spark.driver.extraJavaOptions"]


def test_a_cache_that_cannot_be_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert class_archive.java_options("17.0.1") == ""
    with pytest.raises(UsageError, match=r"--archive-classes: .*: not a directory"):
        class_archive.java_options("17.0.1", make=True)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", _unknown)
    assert class_archive.java_options("17.0.1") == ""


def _unknown(*_: object) -> Any:
    raise RuntimeError


def test_any_verb_takes_it():
    assert command_line.read(["commits", "--from", "localhost:9092", "--archive-classes"]).archive_classes
