"""Every tool of Kafka's that works against one broker says of Kohort what it says of Kafka, or docs say why not.

The tools are those of 4.3.1, since those of 4.4.0 are in no registry; the broker beside is Apache Kafka 4.4.0. Each
broker has one JVM, in which the tools' mains run one after the other (Tools.java).
"""

from __future__ import annotations

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.reference.tools import calls
from tests.support.broker_process import QUICK_GROUPS, ROOT, BrokerProcess, Kafka, Kohort
from tests.support.java import class_path

pytestmark = pytest.mark.slow

MEASURED = {"producer-perf", "consumer-perf", "end-to-end", "quorum-replication", "log-dirs"}
"""What these show differs from run to run."""
HEADING = "### What Kafka's tools show"
JVM = (
    "java",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
)


def rows() -> dict[str, str]:
    """Pattern of calls that may differ -> why: the table below HEADING."""
    table = (ROOT / "docs" / "unsupported.md").read_text().partition(HEADING)[2].partition("\n#")[0]
    found = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 2 and cells[0].startswith("`"):
            found |= dict.fromkeys(cells[0].strip("`").split(), cells[1])
    return found


def plain(text: str, broker: BrokerProcess) -> list[str]:
    """Lines without what names the run: addresses, ids, folders, times, figures of speed."""
    port = broker.address.rpartition(":")[2]
    text = re.sub(rf"\b({port}|{int(port) + 1})\b", "<port>", text)
    text = text.replace(str(broker.directory), "<directory>")
    text = re.sub(r"\b(localhost|127\.0\.0\.1)\b", "<host>", text)
    text = re.sub(r"(?<![\w-])[\w-]{22}(?![\w-])", "<id>", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[:,.]\d+", "<time>", text)
    text = re.sub(r"\b1[5-9]\d{11}\b", "<time>", text)
    text = re.sub(r"\d+\.\d+", "<figure>", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]


def of_call(id_: str, text: str, broker: BrokerProcess) -> list[str]:
    """`plain`, and without numbers where they are those of the run."""
    text = re.sub(r"\b(Epoch|HighWatermark|LeaderEpoch): +\d+", r"\1: <number>", text)
    # The verifiable producer ends before its last acknowledgements come, so that they show up in what follows it.
    lines = [line for line in plain(text, broker) if "producer_send_success" not in line]
    if id_ == "configs-loggers-describe":  # each has its own loggers
        lines = sorted(
            {re.sub(r"^[\w.$-]+=(TRACE|DEBUG|INFO|WARN|ERROR|FATAL|OFF) ", "<logger>=<level> ", line) for line in lines}
        )
    return [re.sub(r"\d+", "<number>", line) for line in lines] if id_ in MEASURED else lines


def said(broker: BrokerProcess, classes: str, files: Path) -> dict[str, list[str]]:
    """What each call has printed, its exit code in front."""
    answers: dict[str, list[str]] = {}
    command = [*JVM, "-cp", classes, "Tools"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as jvm:
        assert jvm.stdin is not None and jvm.stdout is not None
        for call in calls.CALLS:
            words = [w.replace(calls.SERVER, broker.address).replace(calls.FILES, str(files)) for w in call.words]
            jvm.stdin.write(json.dumps({"class": call.tool, "args": words, "stdin": call.stdin}) + "\n")
            jvm.stdin.flush()
            answer = json.loads(jvm.stdout.readline())
            # The trace below an exception is the client's.
            shown = [line for line in (answer["out"] + answer["err"]).splitlines() if not line.startswith("\tat ")]
            answers[call.id] = [f"exit {answer['code']}", *of_call(call.id, "\n".join(shown), broker)]
        jvm.stdin.close()
    return answers


Answers = dict[str, list[str]]


def both(place: Path) -> tuple[Answers, Answers]:
    """What the tools say of Kafka, and of Kohort."""
    place.mkdir()
    classes = class_path(Path(__file__).parent / "Tools.java", place, "4.3.1")
    for name, text in (
        ("records.json", calls.RECORDS),
        ("election.json", calls.ELECTION),
        ("topics.json", calls.TOPICS_TO_MOVE),
        ("empty.properties", ""),
    ):
        (place / name).write_text(text)
    environment = {"KAFKA_VERSION": "4.4.0", "KAFKA_HEAP": "320m"}
    brokers = (Kafka(place / "kafka", QUICK_GROUPS, environment=environment), Kohort(place / "kohort", QUICK_GROUPS))

    def ask(broker: BrokerProcess) -> Answers:
        with broker:
            return said(broker, classes, place)

    with ThreadPoolExecutor(2) as pool:
        kafka, kohort = pool.map(ask, brokers)
    return kafka, kohort


def test_kafkas_tools_say_the_same_of_both_or_the_docs_say_why_not(tmp_path: Path) -> None:
    """And no row covers what does not differ. A difference counts when it shows twice: the machine may be slow."""
    listed = rows()
    unlisted: set[str] = set()
    for attempt in (1, 2):
        kafka, kohort = both(tmp_path / str(attempt))
        differing = {id_ for id_ in kafka if sorted(kafka[id_]) != sorted(kohort[id_])}
        found = {id_ for id_ in differing if not any(fnmatchcase(id_, row) for row in listed)}
        for id_ in sorted(found):
            print(f"{id_}\n  kafka  {kafka[id_]}\n  kohort {kohort[id_]}")
        unlisted = found if attempt == 1 else unlisted & found
        if not unlisted:
            break

    assert unlisted == set()
    assert [row for row in listed if not any(fnmatchcase(id_, row) for id_ in differing)] == []
