"""What usual requests look like, for a C compiler that asks: a broker of the tree serves them, and writes it down.

Functions that are not reached are compiled as without a profile.

Source: gcc's -fprofile-generate and -fprofile-use; prefer-atomic since worker threads count, too.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

_LOAD = Path(__file__).resolve().parents[2] / "benchmarks" / "kload.c"
_TOPIC = b"trained"
_PARTITIONS = 4
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
_PATIENCE_S = 120  # a start, a mode, a stop; of a broker that watches itself, on a busy machine
_MUST_BE_SEEN = "*requests.gcda"
_KEPT = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH")  # no settings of the user's brokers


class Untrained(Exception):
    """There is no profile, and why."""


def compiler_flags(profile: Path) -> tuple[list[str], list[str]]:
    """What the compiler is given to watch, and then to use what was seen. The linker has the first as well."""
    watch = [f"-fprofile-generate={profile}", "-fprofile-update=prefer-atomic"]
    use = [f"-fprofile-use={profile}", "-fprofile-correction", "-fprofile-partial-training", "-Wno-missing-profile"]
    return watch, use


def why_not(compiler: list[str]) -> str | None:
    """Why no tree can be trained here; None if it can. `compiler`: the words of its command."""
    if not _LOAD.exists():
        return "the load generator, benchmarks/kload.c, is not here"
    with tempfile.TemporaryDirectory(prefix="kohort-training-") as made:
        for flags in compiler_flags(Path(made)):
            try:
                _compile_load(compiler, Path(made) / "kload", flags)
            except (OSError, Untrained) as error:
                return str(error)
        said = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return f"{' '.join(compiler)} is clang, whose profiles are others than gcc's" if "clang" in said else None


def train(tree: Path, rooms: str, compiler: list[str], seconds: float = 2) -> None:
    """Put a broker of a tree that watches itself to work, each mode for `seconds`.

    `rooms` is the package of its rooms with a dot, or nothing. Raises: Untrained.
    """
    with tempfile.TemporaryDirectory(prefix="kohort-training-") as made:
        folder = Path(made)
        try:
            _compile_load(compiler, folder / "kload", [])
            with (
                (folder / "said").open("w") as said,
                subprocess.Popen(
                    _broker(rooms, folder / "data"),
                    env=_environment(tree),
                    stdout=subprocess.PIPE,
                    stderr=said,
                    text=True,
                ) as broker,
            ):
                try:
                    _put_to_work(broker, folder / "kload", seconds)
                finally:
                    broker.kill()
        except (OSError, subprocess.SubprocessError, Untrained) as error:
            told = (folder / "said").read_text() if (folder / "said").exists() else ""
            raise Untrained(f"{error}\n{told[-2_000:]}") from error


def watched(profile: Path) -> bool:
    """Whether a profile tells of how requests are served."""
    return any(profile.glob(_MUST_BE_SEEN))


def _put_to_work(broker: subprocess.Popen[str], load: Path, seconds: float) -> None:
    assert broker.stdout is not None
    too_late = threading.Timer(_PATIENCE_S, broker.kill)
    too_late.start()
    ready = broker.stdout.readline()  # kohort ready on 127.0.0.1:34567 in 300 ms
    too_late.cancel()
    if " ready on " not in ready:
        raise Untrained(f"the broker does not start: {ready}")
    host, port = ready.split(" ready on ")[1].split()[0].rsplit(":", 1)
    _make_topic(host, int(port))
    for mode in _MODES:
        name, *options = mode.split()
        words = [load, host, port, name, *options, f"seconds={seconds}", f"topic={_TOPIC.decode()}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
        if done.returncode or json.loads(done.stdout.splitlines()[-1]).get("errors"):
            raise Untrained(f"{mode}: {done.stdout}{done.stderr}")
    broker.send_signal(signal.SIGTERM)  # what was seen is written at the end of the process
    if broker.wait(_PATIENCE_S):
        raise Untrained(f"the broker ended with {broker.returncode}")


def _make_topic(host: str, port: int) -> None:
    """CreateTopics 2, with what a machine that only builds has."""
    name = struct.pack(f">h{len(_TOPIC)}s", len(_TOPIC), _TOPIC)
    header = struct.pack(">hhih", 19, 2, 1, -1)  # no client id
    body = struct.pack(">i", 1) + name + struct.pack(">ihiii?", _PARTITIONS, 1, 0, 0, 10_000, False)
    with socket.create_connection((host, port), timeout=_PATIENCE_S) as connection:
        connection.sendall(struct.pack(">i", len(header + body)) + header + body)
        answer = connection.makefile("rb")
        (size,) = struct.unpack(">i", answer.read(4))
        told = answer.read(size)
    (error,) = struct.unpack_from(">h", told, 4 + 4 + 4 + len(name))  # correlation id, throttle time, how many topics
    if error:
        raise Untrained(f"the topic cannot be made: error {error}")


def _compile_load(compiler: list[str], program: Path, flags: list[str]) -> None:
    words = [*compiler, "-O2", *flags, "-o", str(program), str(_LOAD)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Untrained(done.stderr)


def _broker(rooms: str, data: Path) -> list[str]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": data,
        "kohort.http.listener": "",
        "group.initial.rebalance.delay.ms": 0,
    }
    words = [word for name, value in settings.items() for word in ("--override", f"{name}={value}")]
    return [
        sys.executable,
        "-c",
        f"import sys; from {rooms}cli import main; sys.exit(main(sys.argv[1:]))",
        "serve",
        *words,
    ]


def _environment(tree: Path) -> dict[str, str]:
    """With what this process imports from: in a build of pip's that is no environment of its own."""
    path = [str(tree), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    given = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return given | {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
