"""A broker's process, directory and address, through its lives: opened, killed, paused, started again, closed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.testing import process
from kohort.testing.errors import BrokerDied, Refused
from kohort.testing.snapshots import Snapshot, copied, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kohort.testing.process import Process

_HOLDS_PORTS = "linux" in sys.platform
"""Whether a port can be kept by binding it, while somebody else listens on it."""


class Life:
    """What `Broker` is made of: where it runs, and what it is asked."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings
        self.address = ""
        self.folder: Path | None = None
        self.process: Process | None = None
        self.is_paused = False
        self._state = "has not been opened: use `with Broker() as broker`, or `open`"
        self._reserved: socket.socket | None = None
        self.clock: list[int | None] = [0, None]  # ms by which it is ahead; where it stands still
        """What the next life goes on with."""

    def begin(self, load: Snapshot | Path | None = None) -> None:
        """A new folder, with a copy of `load`, a port, and a first life. Raises: Refused, BrokerDied."""
        self.folder = Path(tempfile.mkdtemp(prefix="kohort-"))
        try:
            if load is not None:
                path = load.path if isinstance(load, Snapshot) else load
                copied(path, self.folder / "data", links=isinstance(load, Snapshot))
                self.settings = {**settings_of(path), **self.settings}
            self.start()
        except BaseException:
            self._forget()
            raise

    def start(self) -> None:
        """A life on the folder that is there. Raises: Refused, BrokerDied."""
        taken = process.take()
        try:
            settings = {"listeners": f"PLAINTEXT://127.0.0.1:{self._port()}", **self.settings}
            folder = str(self.folder)
            answer = taken.ask("open", folder=folder, directory=f"{folder}/data", settings=settings, clock=self.clock)
        except Refused:
            process.give_back(taken)
            raise
        except BaseException:
            taken.end(kill=True)
            raise
        self.address = str(answer["address"])
        self.process = taken

    def _port(self) -> int:
        """The same in all lives: it is bound here too, so that nobody is given it in between."""
        if self._reserved is None:
            self._reserved = socket.socket()
            if _HOLDS_PORTS:
                # Several may be bound with this, as long as none of them listens.
                self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._reserved.bind(("127.0.0.1", 0))
        return int(self._reserved.getsockname()[1] if _HOLDS_PORTS else self.address.rpartition(":")[2] or 0)

    def stop(self) -> None:
        """End this life in good order. Raises: BrokerDied."""
        taken = self.running()
        self.process = None
        self._state = "has been stopped: `start` it"
        try:
            taken.ask("close")
        except BrokerDied:
            taken.end(kill=True)
            raise
        process.give_back(taken)

    def kill(self) -> None:
        """End this life by SIGKILL."""
        taken = self.running()
        self.process = None
        self._state = "has been killed: `start` it"
        taken.end(kill=True)

    def power_cut(self) -> None:
        """End this life, and take from the directory what was not flushed. Raises: Refused."""
        taken = self.running()
        try:
            taken.ask("power_cut")
        except BrokerDied:
            self.process = None
            self._state = "has lost its power: `start` it"
            taken.end(kill=True)

    def pause(self) -> None:
        """SIGSTOP: its clients see a machine that does not answer."""
        running = self.running()
        running.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, running.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.is_paused = True

    def resume(self) -> None:
        """It goes on."""
        if self.process is not None and self.is_paused:
            self.process.signal(signal.SIGCONT)
        self.is_paused = False

    def snapshot(self) -> Snapshot:
        """The directory as it is now: while it is copied, the process stands still. Raises: Refused."""
        if self.folder is None:
            raise Refused(f"this broker {self.state}")
        snapshot = Snapshot(self.clock)
        pauses = self.process is not None and not self.is_paused
        if pauses:
            self.pause()
        try:
            copied(self.folder / "data", snapshot.path, links=True)
        finally:
            if pauses:
                self.resume()
        return snapshot

    def end(self) -> None:
        """The last life is over, and the folder goes. Raises: BrokerDied when it had ended unasked."""
        try:
            self.resume()
            if self.process is not None:
                self.stop()
        finally:
            self._state = "is closed"
            self._forget()

    def _forget(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None

    def check(self) -> None:
        """Raises: BrokerDied when its process has ended unasked."""
        if self.process is not None and not self.process.alive:
            raise self.process.died()

    def running(self) -> Process:
        """Its process. Raises: Refused."""
        if self.process is None or self.is_paused:
            raise Refused(f"this broker {self.state}")
        return self.process

    @property
    def state(self) -> str:
        """For an error: `this broker ...`."""
        if self.is_paused:
            return "is paused: `resume` it"
        return f"serves {self.address}" if self.process is not None else self._state

    def ask(self, command: str, **words: Any) -> Any:
        """The answer to a command. Raises: Refused, BrokerDied."""
        return self.running().ask(command, **words)

    def log(self) -> str:
        """What it has logged in all its lives."""
        if self.folder is None:
            raise Refused(f"this broker {self.state}")
        path = self.folder / "broker.log"
        return path.read_text() if path.exists() else ""
