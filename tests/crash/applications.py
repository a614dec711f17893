"""Java applications that are killed and started again, and what readers of committed records find of their work."""

from __future__ import annotations

import subprocess
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition


class Application:
    """A class with its arguments: the same one, state and all, each time it is started."""

    def __init__(self, classes: str, words: list[str], log: Path) -> None:
        jvm = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes]
        jvm.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        self._command = [*jvm, *words]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def log(self) -> str:
        """The end of what it printed."""
        return self._log.read_text()[-3_000:]


def committed(address: str, topic: str, partitions: int) -> list[Message]:
    """All that a reader gets, each partition's in its order."""
    settings = {
        "bootstrap.servers": address,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[Message] = []
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        if error is None:
            found.append(message)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition() or 0)
    consumer.close()
    return found
