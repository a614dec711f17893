"""The tests of docs/testing-http.md, as their readers would run them."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.harness import WORKERS, kafkajs
from tests.kohort.testing.test_control import Testbed
from tests.support.broker_process import ROOT, need
from tests.support.java import class_path

PAGE = (ROOT / "docs" / "testing-http.md").read_text()


@pytest.fixture
def address() -> Iterator[str]:
    testbed = Testbed()
    yield f"http://127.0.0.1:{testbed.connection.port}"
    assert testbed.ok("GET", "/brokers") == [], "the test has run to its end"
    testbed.close()


def example(language: str) -> str:
    (code,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(code)


def run(*words: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_java(address: str, tmp_path: Path):
    (tmp_path / "ShopTest.java").write_text(example("java"))
    classes = class_path(tmp_path / "ShopTest.java", tmp_path)
    run("java", "-cp", classes, "ShopTest", folder=tmp_path, TESTBED=address)


@pytest.mark.slow
def test_go(address: str, tmp_path: Path):
    need("go")
    (tmp_path / "shop_test.go").write_text(example("go"))
    for name in ("go.mod", "go.sum"):
        shutil.copy(WORKERS / "franz" / name, tmp_path)
    assert "ok" in run("go", "test", "-mod=mod", "./...", folder=tmp_path, TESTBED=address)


@pytest.mark.slow
def test_node(address: str, tmp_path: Path):
    modules = kafkajs()
    (tmp_path / "shop.test.js").write_text(example("js"))
    told = run("node", "--test", "shop.test.js", folder=tmp_path, TESTBED=address, NODE_PATH=str(modules))
    assert re.search(r"pass 1\b", told), told
