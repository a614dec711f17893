"""The processes that brokers run in: each serves one broker at a time, and waits for the next when that is closed.

A process is spoken with over a socket that only it and we have: when we are gone, however that came, it ends.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Lock
from typing import IO, Any

from kohort.testing.errors import BrokerDied, Refused

ANSWER_WITHIN_S = 60.0
_IDLE_AT_MOST = 2
_PARENT = Path(__file__).resolve().parents[2]
_LAST_BYTES = 4_000
_FOR_EVERY_PYTHON = (
    "PYTHONHOME",
    "PYTHONPLATLIBDIR",
    "PYTHONPYCACHEPREFIX",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUSERBASE",
)


class Process:
    """One process. Asked from one thread at a time, the others wait."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._socket.settimeout(ANSWER_WITHIN_S)
        self._owner_pid = os.getpid()
        self._lock = Lock()
        self._request_count = 0
        self._pieces = [b""]  # of what has come; only the last of them may hold the end of an answer
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  until `end`
        path = os.pathsep.join([str(_PARENT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with theirs:
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "kohort._testbed", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._stderr,
                stderr=self._stderr,
                env={**_environment(), "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for the tests
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._popen.poll() is None

    def ask(self, command: str, **words: Any) -> Any:
        """The answer to a command. Raises: Refused, BrokerDied."""
        if os.getpid() != self._owner_pid:
            raise Refused("this broker belongs to the process that has started it, of which this one is a fork")
        with self._lock:
            self._request_count += 1
            try:
                self._socket.sendall(json.dumps({"do": command, "id": self._request_count, **words}).encode() + b"\n")
                said = self._answer()
            except TimeoutError:
                raise BrokerDied(f"no answer to {command} within {ANSWER_WITHIN_S:g} s{self.last_words()}") from None
            except ConnectionError:
                raise self.died() from None
        if "refused" in said:
            raise Refused(said["refused"])
        return said["is"]

    def _answer(self) -> dict[str, Any]:
        """The answer to the last command. Who was interrupted while it waited has left others unread."""
        while True:
            while b"\n" not in self._pieces[-1]:
                data = self._socket.recv(262_144)
                if not data:
                    raise ConnectionError
                self._pieces.append(data)
            line, _, rest = b"".join(self._pieces).partition(b"\n")
            self._pieces = [rest]
            said: dict[str, Any] = json.loads(line)
            if said["id"] == self._request_count:
                return said

    def died(self) -> BrokerDied:
        """What is raised once it has ended unasked."""
        return BrokerDied(f"the broker's process has ended{self.last_words()}")

    def last_words(self) -> str:
        """How it ended, as far as that is known, and what it has printed."""
        try:
            code: int | None = self._popen.wait(1)
        except subprocess.TimeoutExpired:
            code = None
        how = "" if code is None else f", by {signal.Signals(-code).name}" if code < 0 else f", with exit code {code}"
        with os.fdopen(os.dup(self._stderr.fileno()), "rb") as printed:
            size = printed.seek(0, os.SEEK_END)
            printed.seek(max(0, size - _LAST_BYTES))
            said = printed.read().decode(errors="replace").strip()
        return f"{how}:\n{said}" if said else how

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._popen.send_signal(number)

    def end(self, *, kill: bool = False) -> None:
        """End it: by SIGKILL, or by ending the conversation."""
        if os.getpid() == self._owner_pid:
            if kill:
                self._popen.kill()
            self._socket.close()
            try:
                self._popen.wait(10)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait()
        self._stderr.close()


def _environment() -> dict[str, str]:
    """Ours, without what is meant for the tests: warnings as errors, tracing, coverage."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "COVERAGE_")) or name in _FOR_EVERY_PYTHON
    }


class _Pool:
    """Processes that serve no broker just now."""

    def __init__(self) -> None:
        self.idle: list[Process] = []
        self.lock = Lock()


_pool = _Pool()


def take() -> Process:
    """A process for a broker, started if none is idle."""
    with _pool.lock:
        while _pool.idle:
            process = _pool.idle.pop()
            if process.alive:
                return process
            process.end()
    return Process()


def give_back(process: Process) -> None:
    """Its broker is closed: the next one may have it."""
    with _pool.lock:
        if len(_pool.idle) < _IDLE_AT_MOST:
            _pool.idle.append(process)
            return
    process.end()


def end_all() -> None:
    """End the processes that are idle; the next broker starts one anew."""
    with _pool.lock:
        ended, _pool.idle = _pool.idle, []
    for process in ended:
        process.end()


def _forget() -> None:
    """In a fork: the processes are its parent's."""
    global _pool  # noqa: PLW0603  its lock may be held by a thread that is not here
    _pool = _Pool()


atexit.register(end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
