"""Every tool of Kafka's that works against one broker says of Kohort what it says of Kafka, or docs say why not.

The tools are those of 4.3.1, since those of 4.4.0 are in no registry; the broker beside is Apache Kafka 4.4.0. Each
broker has one JVM, in which the tools' mains run one after the other (Tools.java).
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.harness import create_topic
from tests.reference import graduation as g
from tests.reference.tools import calls
from tests.support.broker_process import QUICK_GROUPS, ROOT, BrokerProcess, Kafka, Kohort, eventually
from tests.support.java import NEWEST, class_path, jars_of, jars_of_kafka

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = pytest.mark.slow

TOOLS = "4.3.1"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
BESIDE = ROOT / "tests" / "reference" / "tools" / "beside-pom.xml"
BESIDE_JARS = {"connect-mirror", "connect-runtime", "kafka-shell", "trogdor"}
MAIN = (b"\x01\x00\x04main", b"\x01\x00\x16([Ljava/lang/String;)V")
"""Name and type of a `main`, as a class file has them."""
MEASURED = {
    "producer-perf", "producer-perf-transactions", "consumer-perf", "end-to-end", "quorum-replication",
    "quorum-replication-readable", "log-dirs", "log-dirs-broker", "transactions-describe", "transactions-describe-open",
}  # fmt: skip
"""What these show differs from run to run."""
EXACT = ("configs-", "acls-")
"""Of these the figures are quotas and addresses."""
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


def plain(text: str, broker: BrokerProcess, *, figures: bool) -> list[str]:
    """Lines without what names the run: addresses, ids, folders, times, figures of speed."""
    port = broker.address.rpartition(":")[2]
    text = re.sub(rf"\b({port}|{int(port) + 1})\b", "<port>", text)
    text = text.replace(str(broker.directory), "<directory>")
    text = re.sub(r"\b(localhost|127\.0\.0\.1)\b", "<host>", text)
    text = re.sub(r"console-consumer-\d+(?![\w-])", "console-<number>", text)
    text = re.sub(r"(?<![\w+/-])[\w+/-]{22}(?![\w+/-])", "<id>", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[:,.]\d+", "<time>", text)
    text = re.sub(r"\b1[5-9]\d{11}\b", "<time>", text)
    text = re.sub(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d:\d+", "<time>", text)
    if figures:
        text = re.sub(r"\d+\.\d+", "<figure>", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]


def of_call(id_: str, text: str, broker: BrokerProcess) -> list[str]:
    """`plain`, and without numbers where they are those of the run."""
    text = re.sub(r"\b(Epoch|HighWatermark|LeaderEpoch): +\d+", r"\1: <number>", text)
    # The verifiable producer ends before its last acknowledgements come, so that they show up in what follows it.
    lines = [
        line for line in plain(text, broker, figures=not id_.startswith(EXACT)) if "producer_send_success" not in line
    ]
    if "scram" in id_:  # mechanisms come in any order
        lines = [" ".join(sorted(line.replace(",", "").split())) for line in lines]
    if id_ == "replica-verification":  # once or twice in the time
        lines = sorted(set(lines))
    elif id_ == "share-verifiable":
        lines = [line for line in lines if "max lag is" not in line]  # of the tool before it
    elif id_.startswith("verifiable-consumer"):
        lines = consumed_at_last(lines)
    if id_ == "configs-loggers-describe":  # each has its own loggers
        lines = sorted(
            {re.sub(r"^[\w.$-]+=(TRACE|DEBUG|INFO|WARN|ERROR|FATAL|OFF) ", "<logger>=<level> ", line) for line in lines}
        )
    return [re.sub(r"\d+", "<number>", line) for line in lines] if id_ in MEASURED else lines


def consumed_at_last(lines: Sequence[str]) -> list[str]:
    """How many records a poll brings, and in how many polls they come, is a matter of time: where it ended is not.

    Only the last of what was consumed and committed, without counts; all other lines.
    """
    found: list[str] = []
    last: dict[str, str] = {}
    for line in lines:
        event = re.search(r'"name":"(records_consumed|offsets_committed)"', line)
        if event is None:
            found.append(line)
        else:
            last[event[1]] = re.sub(r'"(count|minOffset)":\d+,', "", line)
    return found + list(last.values())


class Background:
    """What there is to describe: a member of a group of each protocol, and a transaction that does not end."""

    def __init__(self, broker: BrokerProcess) -> None:
        for topic in ("living", "open", "copied"):
            create_topic(broker.address, topic, 1)
        shared = {"bootstrap.servers": broker.address, "client.id": "background", **g.QUIET}
        self._producer = Producer({**shared, "transactional.id": "open", "transaction.timeout.ms": 600_000})
        self._producer.init_transactions(60)
        self._producer.begin_transaction()
        self._producer.produce("open", b"a")
        self._producer.flush(60)
        self._members = []
        for protocol, group_id in (("classic", "living"), ("consumer", "living-new")):
            member = Consumer({
                **shared, "group.id": group_id, "group.protocol": protocol, "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            })  # fmt: skip
            member.subscribe(["living"])
            eventually(lambda member=member: member.poll(0.05) or member.assignment())
            member.commit(offsets=[TopicPartition("living", 0, 0)], asynchronous=False)
            self._members.append(member)
        self._ended = threading.Event()
        self._poller = threading.Thread(target=self._poll, daemon=True)
        self._poller.start()

    def _poll(self) -> None:
        while not self._ended.is_set():
            for member in self._members:
                member.poll(0.1)

    def close(self) -> None:
        """The members leave; the transaction has been aborted by a tool."""
        self._ended.set()
        self._poller.join()
        for member in self._members:
            member.close()


def said(broker: BrokerProcess, classes: str, files: Path, asked: Sequence[calls.Call]) -> Answers:
    """What each call has printed, its exit code in front."""
    answers: Answers = {}
    command = [*JVM, "-cp", classes, "Tools"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as jvm:
        assert jvm.stdin is not None and jvm.stdout is not None
        for call in asked:
            words = [w.replace(calls.SERVER, broker.address).replace(calls.FILES, str(files)) for w in call.words]
            line = {"class": call.tool, "args": words, "stdin": call.stdin, "patience_ms": call.patience_s * 1000,
                    "until": call.until}  # fmt: skip
            jvm.stdin.write(json.dumps(line) + "\n")
            jvm.stdin.flush()
            answer = json.loads(jvm.stdout.readline())
            # The trace below an exception is the client's.
            shown = [line for line in (answer["out"] + answer["err"]).splitlines() if not line.startswith("\tat ")]
            answers[call.id] = [f"exit {answer['code']}", *of_call(call.id, "\n".join(shown), broker)]
        jvm.stdin.close()
    return answers


Answers = dict[str, list[str]]


def both(place: Path, settings: Mapping[str, object], asked: Sequence[calls.Call]) -> tuple[Answers, Answers]:
    """What the tools say of Kafka, and of Kohort."""
    place.mkdir(parents=True)
    classes = class_path(Path(__file__).parent / "Tools.java", place, TOOLS)
    (place / "controller").mkdir()
    for name, text in (
        ("records.json", calls.RECORDS),
        ("records-beyond.json", calls.RECORDS.replace('"offset":1', '"offset":1000')),
        ("election.json", calls.ELECTION),
        ("election-of-nobody.json", calls.ELECTION.replace("orders", "nobody")),
        ("topics.json", calls.TOPICS_TO_MOVE),
        ("reassignment.json", calls.REASSIGNMENT),
        ("elsewhere.json", calls.ELSEWHERE),
        ("offsets.csv", calls.OFFSETS),
        ("metrics.properties", calls.METRICS),
        ("controller.properties", calls.CONTROLLER.format(folder=place)),
        ("controller/meta.properties", calls.META),
        ("empty.properties", ""),
    ):
        (place / name).write_text(text)
    environment = {"KAFKA_VERSION": NEWEST, "KAFKA_HEAP": "320m"}
    settings = {**QUICK_GROUPS, **settings}
    brokers = (Kafka(place / "kafka", settings, environment=environment), Kohort(place / "kohort", settings))

    def ask(broker: BrokerProcess) -> Answers:
        with broker, closing(Background(broker)):
            return said(broker, classes, place, asked)

    with ThreadPoolExecutor(2) as pool:
        kafka, kohort = pool.map(ask, brokers)
    return kafka, kohort


def differing(place: Path, settings: Mapping[str, object], asked: Sequence[calls.Call]) -> tuple[set[str], set[str]]:
    """The calls that differ, and those of them that no row covers: a difference counts when it shows twice."""
    listed = rows()
    unlisted: set[str] = set()
    for attempt in (1, 2):
        kafka, kohort = both(place / str(attempt), settings, asked)
        differ = {id_ for id_ in kafka if sorted(kafka[id_]) != sorted(kohort[id_])}
        found = {id_ for id_ in differ if not any(fnmatchcase(id_, row) for row in listed)}
        for id_ in sorted(found):
            print(f"{id_}\n  kafka  {kafka[id_]}\n  kohort {kohort[id_]}")
        unlisted = found if attempt == 1 else unlisted & found
        if not unlisted:
            break
    return differ, unlisted


def test_in_how_many_polls_records_come_does_not_count() -> None:
    """But what was consumed and committed at last."""

    def consumed(count: int, first: int, last: int) -> str:
        offsets = f'"count":{count},"minOffset":{first},"maxOffset":{last}'
        return f'{{"name":"records_consumed","count":{count},"partitions":[{{"partition":0,{offsets}}}]}}'

    whole = consumed_at_last(["exit 0", consumed(5, 0, 4)])

    assert consumed_at_last(["exit 0", consumed(2, 0, 1), consumed(3, 2, 4)]) == whole
    assert consumed_at_last(["exit 0", consumed(2, 0, 1)]) != whole


def test_kafkas_tools_say_the_same_of_both_or_the_docs_say_why_not(tmp_path: Path) -> None:
    """And no row covers what does not differ. A difference counts when it shows twice: the machine may be slow."""
    differ, unlisted = differing(tmp_path, {}, calls.CALLS)

    assert unlisted == set()
    assert [row for row in rows() if not any(fnmatchcase(id_, row) for id_ in differ)] == []


def test_kafka_acls_says_the_same_of_both(tmp_path: Path) -> None:
    """With an authorizer; without one it is among the others."""
    assert differing(tmp_path, AUTHORIZER, calls.SECURED)[1] == set()


@pytest.mark.parametrize("version", [TOOLS, NEWEST])
def test_every_tool_of_kafkas_is_called_or_named(version: str) -> None:
    """Every class with a `main` in the jars: called, or none that runs against a broker, and why.

    Those beside the broker and its tools too: Connect, MirrorMaker, the metadata shell, Trogdor.
    """
    mains = set()
    beside = list(Path(jars_of(BESIDE, TOOLS)).glob("*.jar"))
    assert {jar.name.removesuffix(f"-{TOOLS}.jar") for jar in beside} == BESIDE_JARS
    for jar in (*Path(jars_of_kafka(version)).glob("kafka*.jar"), *beside):
        with ZipFile(jar) as packed:
            mains |= {
                name.removesuffix(".class").replace("/", ".")
                for name in packed.namelist()
                if name.endswith(".class") and "$" not in name and all(part in packed.read(name) for part in MAIN)
            }
    called = {call.tool for call in (*calls.CALLS, *calls.SECURED)}
    names = [call.id for call in (*calls.CALLS, *calls.SECURED)]

    assert sorted(set(names)) == sorted(names)
    assert len(mains) > 30
    assert {
        name for name in mains - called - calls.NOT_CALLED.keys() if not name.startswith(calls.PACKAGES_OF_NO_TOOLS)
    } == set()
    if version == TOOLS:
        assert called | calls.NOT_CALLED.keys() <= mains
