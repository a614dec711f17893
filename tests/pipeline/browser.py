"""A headless Chromium, spoken to over a pipe: loads a page, tells what it complained about and asked the net for.

Source: the Chrome DevTools Protocol; `--remote-debugging-pipe` reads from descriptor 3 and writes to 4, each message
ended by a zero byte.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.broker_process import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def program() -> str | None:
    """Where a Chromium is, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def need_chromium() -> str:
    """The program; skips the running test where there is none, with what to do. In CI it is installed, or fails."""
    import pytest

    found = program()
    if found is None and os.environ.get("CI") and shutil.which("apt-get"):
        # One of the processes that run tests installs it, the others wait: apt lets two of them fail.
        with (Path(tempfile.gettempdir()) / "kohort-tests-apt.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if program() is None:
                _install_chromium()
        found = program()
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Chromium on this machine: apt-get install chromium")
    assert found is not None
    return found


def _install_chromium() -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        subprocess.run(["apt-get", "-q", *words], check=True, timeout=600, env=environment, stdout=subprocess.DEVNULL)


class Chromium:
    """One browser with one page. `problems`: console errors and exceptions; `requests`: addresses it wanted."""

    def __init__(self, profile: Path, *, width: int = 1280, height: int = 900) -> None:
        ours, theirs_out = os.pipe()
        theirs_in, self._out = os.pipe()
        # High numbers, so that putting them on 3 and 4 overwrites neither.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 50) for fd in (theirs_in, theirs_out)]
        words = [need_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        words += ["--remote-debugging-pipe", f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        words += ["--disable-background-networking", "--disable-component-update", "--no-first-run", "--mute-audio"]
        words += ["--disable-dev-shm-usage", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{high[0]} 4>&{high[1]}', "bash", *words],
            pass_fds=high,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in (theirs_in, theirs_out, *high):
            os.close(fd)
        self._in, self._text, self._number = ours, b"", 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session: str | None = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.call(f"{domain}.enable")

    _session: str | None = None

    def call(self, method: str, **params: Any) -> Any:
        """One command and its answer; what the page tells meanwhile is noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 60 * PATIENCE
        while True:
            for answer in self._messages(end):
                if answer.get("id") == self._number:
                    assert "error" not in answer, f"{method}: {answer['error']}"
                    return answer["result"]
                self._note(answer)

    def _messages(self, end: float) -> list[Any]:
        readable, _, _ = select.select([self._in], [], [], max(end - time.monotonic(), 0))
        assert readable, "Chromium does not answer"
        data = os.read(self._in, 1 << 20)
        assert data, "Chromium ended"
        *whole, self._text = (self._text + data).split(b"\0")
        return [json.loads(one) for one in whole]

    def _note(self, event: Any) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"].get("exception", params["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(one.get("value", one.get("description"))) for one in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def scheme(self, name: str, media: str = "") -> None:
        """`light` or `dark`; media `print` for how it prints."""
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, page: Path) -> None:
        """Load a file and wait until its figures are drawn."""
        self.call("Page.navigate", url=page.resolve().as_uri())
        end = time.monotonic() + 60 * PATIENCE
        while not self.evaluate("document.documentElement?.dataset.drawn || ''"):
            assert time.monotonic() < end, f"never drawn: {self.problems}"
            time.sleep(0.05)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, file: Path) -> None:
        """The whole page as PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        """The page as it prints."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def close(self) -> None:
        """End it."""
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
