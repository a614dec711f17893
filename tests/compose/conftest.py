"""The image and docker-compose.yml as users run them: real containers, each test a project of its own."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.broker_process import eventually, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def engine() -> None:
    """Some Docker engine answers. Skips where none does, but in CI that is a failure."""
    probe = ["docker", "version", "--format", "{{.Server.Version}}"]
    if shutil.which("docker") and subprocess.run(probe, capture_output=True, timeout=300, check=False).returncode == 0:
        return
    (pytest.fail if os.environ.get("CI") else pytest.skip)("no Docker engine answers: `make test-all` brings one")


@pytest.fixture(scope="session")
def images(engine: None, pytestconfig: pytest.Config) -> Path:
    """The images of docker-compose.yml, built once; the folder that it lies in."""
    root = pytestconfig.rootpath
    words = ["docker", "compose", "--profile", "demo", "--ansi", "never", "--progress", "plain", "build"]
    built = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=900, check=False)
    assert built.returncode == 0, built.stdout[-4_000:] + built.stderr[-4_000:]
    return root


_PROFILES = ("--profile", "demo", "--profile", "secure")


class Project:
    """One `docker compose` project, with a port of this machine that is its own."""

    def __init__(self, folder: Path, *files: Path) -> None:
        self.name = f"kohort-test-{uuid.uuid4().hex[:8]}"
        self.port = free_port()
        self.http_port = free_port()
        self.secure_port = free_port()
        self._folder = folder
        self._files = [word for file in files for word in ("-f", str(file))]
        self._environment = {
            **os.environ,
            "KAFKA_PORT": str(self.port),
            "KOHORT_HTTP_PORT": str(self.http_port),
            "KAFKA_SECURE_PORT": str(self.secure_port),
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        }

    @property
    def address(self) -> str:
        """Where the broker is reached from this machine."""
        return f"127.0.0.1:{self.port}"

    def compose(self, *words: str, timeout_s: float = 300, check: bool = True) -> str:
        """Run `docker compose`; its output."""
        command = ["docker", "compose", "-p", self.name, *self._files, *_PROFILES, "--ansi", "never", *words]
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}"
        return done.stdout + done.stderr

    def up(self, *services: str, scale: str | None = None) -> None:
        """Start services and wait until they are healthy."""
        words = ["up", "--detach", "--no-build", "--wait", "--wait-timeout", "180"]
        self.compose(*words, *(("--scale", scale) if scale else ()), *services)

    def logs(self, service: str) -> str:
        """What a service has printed, all its containers."""
        return self.compose("logs", "--no-log-prefix", service)

    def containers(self, service: str) -> list[dict[str, Any]]:
        """The running containers of a service."""
        printed = self.compose("ps", "--format", "json", service)
        return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]

    def owned(self, service: str = "consumer") -> list[list[int]]:
        """What each running consumer last said that it owns."""
        found = []
        for container in self.containers(service):
            said = subprocess.run(
                ["docker", "logs", container["Name"]], capture_output=True, text=True, check=True, timeout=300
            ).stdout
            owns = [line for line in said.splitlines() if line.startswith("owns ")]
            found.append(json.loads(owns[-1].removeprefix("owns ")) if owns else [])
        return found

    def wait_until_shared(self, members: int, deadline_s: float = 180) -> None:
        """Until so many consumers own the four partitions between them, each once, and nobody owns none who could."""

        def shared() -> bool:
            owned = self.owned()
            busy = sum(1 for partitions in owned if partitions)
            return (len(owned), busy) == (members, min(members, 4)) and sorted(itertools.chain(*owned)) == [0, 1, 2, 3]

        eventually(shared, deadline_s=deadline_s, what=f"{members} consumers share four partitions", every_s=0.3)


@pytest.fixture
def project(images: Path) -> Iterator[Callable[..., Project]]:
    """project() is a project of this test's own; its containers, networks and volumes end with the test."""
    made: list[Project] = []

    def make(*files: Path) -> Project:
        made.append(Project(images, *files))
        return made[-1]

    yield make
    for one in made:
        one.compose("down", "--volumes", "--remove-orphans", "--timeout", "5", check=False)
