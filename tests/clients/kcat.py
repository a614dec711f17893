"""kcat, as it is installed: one record by a process of its own, or many by one that stays."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from itertools import count
from pathlib import Path
from typing import Any, Self

import confluent_kafka

from tests.support.broker_process import eventually, need

_BLOCK = "w" * 4_095 + "\n"
"""A record: kcat reads a kilobyte and more before it looks for the end of a line."""
_NUMBERS = count()


def kcat(given: dict[str, Any], newer: Path | None = None) -> str:
    """One record by kcat; `newer` is of `newer_librdkafka`."""
    command = ["kcat", "-P", *_words(given)]
    environment = _environment(newer)
    ended = subprocess.run(
        command, input="word\n", capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    return "said" if ended.returncode == 0 and "failed" not in ended.stderr else ended.stderr


class Kcat:
    """One kcat that writes for as long as it is there."""

    def __init__(self, given: dict[str, Any], folder: Path, newer: Path | None = None) -> None:
        need("kcat")
        self._told = folder / f"kcat-{next(_NUMBERS)}.txt"
        self._written = 0
        with self._told.open("w") as told:
            self._process = subprocess.Popen(
                ["kcat", "-P", "-u", "-vvv", *_words(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=told,
                text=True,
                env=_environment(newer),
            )

    def say(self) -> str:
        """What came of one record, or its last words when it has ended.

        It tells of each when it has read another line, so more are written until then.
        """
        number = self._written

        def told() -> str | None:
            if self._process.poll() is not None:
                return self._told.read_text().splitlines()[-1]
            self._write()
            reports = re.findall(r"Message delivered|Delivery failed for message: .*", self._told.read_text())
            return reports[number] if number < len(reports) else None

        report = eventually(told, what="what kcat tells of a record")
        return "said" if report == "Message delivered" else str(report)

    def has_ended(self) -> bool:
        """Whether it has gone by itself, as it does when it is told that it may not see its topic."""
        self._write()
        return self._process.poll() is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """It goes."""
        self._process.kill()
        self._process.communicate()

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has just ended
            self._process.stdin.write(_BLOCK)
            self._process.stdin.flush()
        self._written += 1


def librdkafka() -> tuple[int, ...]:
    """The version that kcat is linked with."""
    need("kcat")
    told = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)", told)
    return (0,) if found is None else tuple(int(part) for part in found.groups())


def newer_librdkafka(folder: Path) -> Path | None:
    """A folder with the library that confluent-kafka brings, under the name by which kcat loads its own; if it does."""
    for library in (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka-*.so.1"):
        link = folder / "librdkafka.so.1"
        if not link.is_symlink():
            link.symlink_to(library)
        return folder
    return None


def _environment(newer: Path | None) -> dict[str, str]:
    return {**os.environ, **({} if newer is None else {"LD_LIBRARY_PATH": str(newer)})}


def _words(given: dict[str, Any]) -> list[str]:
    """Where, what about, and as whom."""
    names = {"ca": "ssl.ca.location", "certificate": "ssl.certificate.location", "key": "ssl.key.location"}
    names |= {"mechanism": "sasl.mechanism", "user": "sasl.username", "password": "sasl.password"}
    security = given["security"]
    words = ["-X", f"security.protocol={security['protocol']}", "-X", "message.timeout.ms=3000"]
    if security.get("mechanism") == "OAUTHBEARER":
        # By a client of OAuth, or it makes its token itself and signs none.
        asking = {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "kcat",
            "sasl.oauthbearer.client.secret": "any",
            "sasl.oauthbearer.token.endpoint.url": security.get("endpoint"),
        }
        making = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": security["token"]}
        for key, value in (asking if security.get("endpoint") else making).items():
            words += ["-X", f"{key}={value}"]
    for name, key in names.items():
        if security.get(name):
            words += ["-X", f"{key}={security[name]}"]
    return ["-b", given["bootstrap"], "-t", given["topic"], *words]
