"""A wheel with the compiled tree: it is for one platform, runs that tree, and runs the sources when told to.

What stands in it is not compiled here, only written: compiling takes minutes. `KOHORT_WHEELS=1`, as `make test-all`
sets it, has the C compiler make it, twice, with a training between.
"""

import json
import os
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT, eventually, free_port
from tests.support.environments import clean_environment

KIND = "trained" if os.environ.get("KOHORT_WHEELS") == "1" else "source"
INTERPRETER = f"CPython {sys.version.split()[0]}"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("install")]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a new environment with the wheel; what it requires is the tests' own."""
    folder = tmp_path_factory.mktemp("compiled-wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, env=clean(KOHORT_COMPILED=KIND), check=False)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert ("native code, trained" in done.stdout) == (KIND == "trained")
    (wheel,) = folder.glob("*.whl")
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-{tag}-{tag}-{platform}.whl")
    venv.create(folder / "environment", with_pip=False)
    python = folder / "environment" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True)
    site = Path(
        sysconfig.get_path("purelib", vars={"base": str(python.parents[1]), "platbase": str(python.parents[1])})
    )
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent


def clean(**more: str) -> dict[str, str]:
    kept = clean_environment()
    kept.pop("KOHORT_PURE", None)
    return kept | more


@pytest.mark.parametrize(("tree", "words"), [("compiled", {}), ("pure", {"KOHORT_PURE": "1"})])
def test_it_says_which_tree_runs_and_serves(
    tree: str, words: dict[str, str], environment: Path, tmp_path: Path
) -> None:
    """`--version`, the ready line and `/readyz`; a client's whole round goes through that tree."""
    kohort = str(environment / "kohort")
    said = subprocess.run([kohort, "--version"], capture_output=True, text=True, env=clean(**words), check=True).stdout
    assert f"({tree}, {INTERPRETER})" in said
    http = f"127.0.0.1:{free_port()}"
    settings = ["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path / 'data'}", f"kohort.http.listener={http}"]
    command = [kohort, "serve", *(word for one in settings for word in ("--override", one))]
    log = tmp_path / "log"
    with log.open("w") as stream:
        broker = subprocess.Popen(command, stdout=stream, stderr=stream, env=clean(**words), cwd=tmp_path)
    try:
        eventually(lambda: "kohort ready on " in log.read_text(), deadline_s=120, what="a ready line")
        assert f"({tree}, {INTERPRETER})" in log.read_text()
        address = log.read_text().split("kohort ready on ")[1].split()[0]
        # Served a moment after the ready line, which does not wait for it.
        eventually(lambda: "kohort metrics on " in log.read_text(), what="the HTTP listener")
        with urllib.request.urlopen(f"http://{http}/readyz") as answer:
            told = json.load(answer)
        assert (told["tree"], told["interpreter"]) == (tree, INTERPRETER)
        for verb, given in (("produce", "one\ntwo\n"), ("consume", "")):
            more = ["--from-beginning", "--max-messages", "2", "--group", "g"] if verb == "consume" else []
            done = subprocess.run(
                [kohort, verb, "orders", "-b", address, *more],
                input=given, capture_output=True, text=True, env=clean(**words), cwd=tmp_path, check=False, timeout=600,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
        assert done.stdout == "one\ntwo\n"
    finally:
        broker.terminate()
        broker.wait(60)
    assert "Traceback" not in log.read_text()
