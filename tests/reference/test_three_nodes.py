"""The commands of docs/graduate.md, carried out in order, with clients at work all the while."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference import graduation as g
from tests.support.broker_process import ROOT, eventually, free_port, need

pytestmark = pytest.mark.slow

DOCUMENT = ROOT / "docs" / "graduate.md"
CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
}
BLOCK_S = 600  # for one block of commands, where three brokers and a tool are as many JVMs on two processors
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Walk:
    """Someone who reads the document and types what it says."""

    def __init__(self, folder: Path, places: dict[str, str]) -> None:
        self.folder = folder
        self._places = places
        self.addresses = [places[f"{node}.example:9092"] for node in ("one", "two", "three")]
        self.blocks = re.findall(r"^```(sh|properties)\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
        programs = folder / "bin"
        programs.mkdir()
        run = f'KAFKA_HEAP=${{KAFKA_HEAP:-128m}} JAVA_TOOL_OPTIONS="{JVM}" {ROOT / "tools" / "kafka"} run'
        for name, java_class in CLASSES.items():
            self._program(programs / f"{name}.sh", f'{run} {java_class} "$@" 2> >(grep -v JAVA_TOOL_OPTIONS >&2)')
        self._program(
            programs / "kafka-server-start.sh",
            f'export KAFKA_HEAP=256m; {run} kafka.Kafka "$2" > "$2.log" 2>&1 < /dev/null & echo $! > "$2.pid"',
        )
        self._program(programs / "kohort", f'PYTHONPATH={ROOT} exec {sys.executable} -m kohort "$@"')

    def _program(self, path: Path, line: str) -> None:
        path.write_text(f"#!/usr/bin/env bash\n{line}\n")
        path.chmod(0o755)

    def _here(self, text: str) -> str:
        for name, place in self._places.items():
            text = text.replace(name, place)
        return text

    def place(self, name: str) -> str:
        """The address here of what the document calls `name`."""
        return self._places[name]

    def section(self, *, until: str) -> str:
        """Carry out the blocks up to the one that has `until` in it, that one too; return what was printed."""
        printed = ""
        while self.blocks:
            kind, text = self.blocks.pop(0)
            if kind == "properties":
                name = text.partition("\n")[0].removeprefix("# ")
                (self.folder / name).write_text(self._here(text))
            else:
                printed += self._type(self._here(text))
            if until in text:
                return printed
        raise AssertionError(f"no block of the document has {until!r} in it")

    def _type(self, commands: str) -> str:
        began = time.monotonic()
        # `timeout` says so by 124, and what was printed until then is kept.
        ended = subprocess.run(
            ["timeout", str(BLOCK_S), "bash", "-euo", "pipefail", "-c", commands],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "KAFKA_VERSION": "4.3.1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        logs = "".join(f"\n{log.name}: {log.read_text()[-1500:]}" for log in self.folder.glob("*.properties.log"))
        assert ended.returncode == 0, (
            f"{commands}exit code {ended.returncode}: {ended.stdout[-3000:]}{ended.stderr[-3000:]}{logs}"
        )
        print(f"{time.monotonic() - began:.1f} s: {commands[:100]!r}")
        return ended.stdout + ended.stderr

    def kill(self, name: str) -> None:
        """SIGKILL for the node of this file, if it runs."""
        path = self.folder / f"{name}.properties.pid"
        if path.exists():
            pid = int(path.read_text())
            path.unlink()
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    need("java", "mvn", "awk")
    subprocess.run([str(ROOT / "tools" / "kafka"), "install"], check=True, capture_output=True, timeout=300)
    places = {}
    for node in ("one", "two", "three"):
        port = free_port()
        places[f"{node}.example:9092"] = f"127.0.0.1:{port}"
        places[f"{node}.example:9093"] = f"127.0.0.1:{port + 1}"
    places["/srv/kohort"] = str(tmp_path / "kohort" / "data")
    places["/srv/"] = f"{tmp_path}/"
    walker = Walk(tmp_path, places)
    yield walker
    for name in ("one", "two", "three"):
        walker.kill(name)


@pytest.mark.long
def test_from_one_kohort_to_three_nodes_of_kafka_one_of_which_dies(tmp_path: Path, walk: Walk) -> None:
    """The clients began on Kohort; they are told all three addresses, and nothing else, and never started again."""
    one, two, _ = walk.addresses
    kohort = g.kohort_on(tmp_path / "kohort", int(one.rpartition(":")[2]))
    kohort.settings["offsets.topic.num.partitions"] = 4
    kohort.start()
    try:
        g.create(kohort.address, g.TOPIC, retention_ms="-1")
        load = g.Load(",".join(walk.addresses), per_turn=10, pause_s=0.1)
        load.wait_until_written(300)
        g.commit(kohort.address, "simple", g.TOPIC, 77)
        kohort.stop()
    except BaseException:
        kohort.kill()
        raise

    assert "ready for" in walk.section(until="graduate --check")
    walk.section(until="graduate --to")
    properties = tmp_path / "one.properties"
    # The controller's port that is printed is a fixed one; another Kafka may have it on this machine.
    assert "controller.quorum.voters=1@127.0.0.1:9093" in properties.read_text()
    properties.write_text(properties.read_text().replace("127.0.0.1:9093", walk.place("one.example:9093")))
    assert "simple" in walk.section(until="--describe --all-groups")
    assert "kraft.version was upgraded to 1" in walk.section(until="kafka-features.sh")
    walk.section(until="CurrentVoters")
    walk.section(until="--execute")
    walk.section(until="--list")
    walk.section(until="min.insync.replicas")
    described = walk.folder / "everywhere.json"
    assert '"__consumer_offsets"' in described.read_text()
    so_far = load.written
    walk.kill("one")

    eventually(lambda: load.written > so_far + 200, deadline_s=180)
    load.finish()
    load.check_at(two)
    eventually(lambda: not g.leaders(two) & {1, -1}, deadline_s=180, every_s=1, what="other leaders")
    topics = walk.section(until="--describe --all-groups")
    assert "simple" in topics and "readers" in topics
    assert not re.search(r"Leader: (1|none)\b", topics)
    assert g.committed(two, "simple", g.TOPIC)[0] == 77
    assert not walk.blocks, "the document has commands that nobody carried out"
    assert g.strays(tmp_path / "kohort" / "data") == []
