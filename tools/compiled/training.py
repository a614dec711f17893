"""What usual requests look like, for a C compiler that asks: a broker of the tree serves them, and writes it down.

The load is that of `make bench ARGS=requests` and a join: what it does not reach is compiled as without a profile.

Source: gcc's -fprofile-generate and -fprofile-use.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

_LOAD = Path(__file__).resolve().parents[2] / "benchmarks" / "kload.c"
_TOPIC = "trained"
_MODES = (
    "api conns=4",
    "heartbeat conns=16 depth=1",
    "heartbeat conns=16 depth=10",
    "consumer conns=50 depth=1",
    "commit conns=1 depth=1 partitions=1",
    "commit conns=16 depth=1 partitions=1",
    "commit conns=16 depth=10 partitions=4",
    "offsets conns=16 depth=1 partitions=4",
    "produce conns=4 depth=10 partitions=4 bytes=1000",
    "produce conns=4 depth=2 partitions=4 bytes=100000",
    "fetch conns=4 depth=1 partitions=4 bytes=1000",
    "fetch conns=4 depth=1 partitions=4 bytes=100000",
    "join conns=200",
)
_PATIENCE_S = 120


class Untrained(Exception):
    """There is no profile, and why."""


def compiler_flags(profile: Path) -> tuple[list[str], list[str]]:
    """What the compiler is given to watch, and then to use what was seen; the linker has the first as well."""
    watch = [f"-fprofile-generate={profile}", "-fprofile-update=prefer-atomic"]
    use = [f"-fprofile-use={profile}", "-fprofile-correction", "-fprofile-partial-training", "-Wno-missing-profile"]
    return watch, use


def why_not(compiler: str) -> str | None:
    """Why a tree cannot be trained here."""
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    if "clang" in said:
        return f"{compiler} is clang, whose profiles are others than gcc's"
    return None if _LOAD.exists() else "the load generator, benchmarks/kload.c, is not here"


def train(tree: Path, rooms: str, compiler: str, seconds: float = 2) -> None:
    """Put a broker of a tree that watches itself to work, each mode for `seconds`.

    `rooms` is the package of its rooms with a dot, or nothing. Raises: Untrained.
    """
    with tempfile.TemporaryDirectory(prefix="kohort-training-") as made:
        folder = Path(made)
        load = folder / "kload"
        done = subprocess.run([compiler, "-O2", "-o", load, _LOAD], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Untrained(done.stderr)
        with (folder / "said").open("w+") as said:
            broker = subprocess.Popen(
                _command(rooms, "serve", *_settings(folder / "data")),
                env=_environment(tree),
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
            try:
                _put_to_work(broker, load, tree, rooms, seconds)
            except (OSError, subprocess.SubprocessError, Untrained) as error:
                said.seek(0)
                raise Untrained(f"{error}\n{getattr(error, 'stderr', None) or ''}{said.read()[-2_000:]}") from error
            finally:
                broker.kill()
                broker.wait()


def _put_to_work(broker: subprocess.Popen[str], load: Path, tree: Path, rooms: str, seconds: float) -> None:
    assert broker.stdout is not None
    ready = broker.stdout.readline()  # kohort ready on 127.0.0.1:34567 in 300 ms
    if " ready on " not in ready:
        raise Untrained(f"the broker does not start: {ready}")
    address = ready.split(" ready on ")[1].split()[0]
    make_topic = ["topics", "create", _TOPIC, "--partitions", "4", "--bootstrap-server", address]
    _run(_command(rooms, *make_topic), _environment(tree))
    for mode in _MODES:
        name, *options = mode.split()
        words = [str(load), *address.rsplit(":", 1), name, *options, f"seconds={seconds}", f"topic={_TOPIC}"]
        _run(words, dict(os.environ))
    broker.send_signal(signal.SIGTERM)  # what was seen is written at the end of the process
    if broker.wait(_PATIENCE_S):
        raise Untrained(f"the broker ended with {broker.returncode}")


def _run(words: list[str], environment: dict[str, str]) -> None:
    subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=_PATIENCE_S)


def _command(rooms: str, *words: str) -> list[str]:
    return [sys.executable, "-c", f"import sys; from {rooms}cli import main; sys.exit(main(sys.argv[1:]))", *words]


def _settings(data: Path) -> list[str]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": data,
        "kohort.http.listener": "",
        "group.initial.rebalance.delay.ms": 0,
    }
    return [word for name, value in settings.items() for word in ("--override", f"{name}={value}")]


def _environment(tree: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def clear(tree: Path) -> None:
    """Take away what was compiled to watch itself."""
    for built in tree.rglob("*.so"):
        built.unlink()
    shutil.rmtree(tree / "build", ignore_errors=True)
