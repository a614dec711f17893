"""`kohort graduate` on directories that a broker has written, sound ones and damaged ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from broker.config.settings import Settings
from cli import main
from offline.graduate.metadata import append_features
from offline.graduate.targets import TARGETS, target
from offline.graduate.transactions import known_transactions
from protocol.records import batch
from protocol.records import metadata_records as m
from protocol.records.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    VersionedValue,
    encode_key,
    encode_value,
)
from storage.directory.meta_properties import parse_properties, read
from tests.broker.network.test_securities import JAAS, Life
from tests.storage.logs import CRASHED_SWAPS, crashed_swaps
from tests.support.broker_process import QUICK_GROUPS, Kohort, eventually

if TYPE_CHECKING:
    from collections.abc import Callable

METADATA = "__cluster_metadata-0/00000000000000000000.log"
LOG = "orders-0/00000000000000000000.log"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that real clients have used, cleanly closed: records, producers, a group with an offset."""
    broker = Kohort(tmp_path_factory.mktemp("graduate"), QUICK_GROUPS)
    with broker:
        producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0})
        for number in range(300):
            producer.produce("orders", b"%d" % number, b"x" * 100)
            if not number % 10:
                producer.flush()
        producer.flush()
        group = Consumer({"bootstrap.servers": broker.address, "group.id": "readers", "log_level": 0})
        group.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        group.close()
    return broker.data


@pytest.fixture
def data(written: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(written, tmp_path / "data"))


@pytest.fixture
def graduate(data: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """graduate("--check", ...) -> (exit code, standard output, standard error)."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["graduate", *words, "--override", f"log.dirs={data}"])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def flip(path: Path, position: int) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[position] ^= 1
    path.write_bytes(damaged)


def test_a_sound_directory_is_ready_for_every_kafka_and_stays_as_it_is(graduate, data: Path) -> None:
    before = content(data)

    code, out, err = graduate("--check")

    assert (code, out) == (0, "")
    assert "topic       orders: 1 partition, 300 records" in err
    assert "stopped     cleanly, broker epoch 2" in err
    assert "ready for   Kafka 3.9, 4.0, 4.1, 4.2, 4.3" in err
    assert "the rebalance ledger: __kohort_rebalances is carried over, and nobody goes on writing it" in err
    assert content(data) == before


def test_the_server_properties_are_a_file_that_kafka_reads(graduate, data: Path) -> None:
    code, out, _ = graduate(
        "--override", "listeners=PLAINTEXT://127.0.0.1:9192", "--override", "log.retention.hours=5",
        "--override", "kohort.durability=always", "--override", "num.network.threads=5",
    )  # fmt: skip

    assert code == 0
    properties = parse_properties(out)
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:9093"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9192,CONTROLLER://127.0.0.1:9093"
    assert properties["log.dirs"] == str(data)
    assert properties["log.retention.hours"] == "5"
    assert properties["num.network.threads"] == "5", "what has no effect here has one there"
    assert properties["log.flush.interval.messages"] == "1"
    assert not [key for key in properties if key.startswith("kohort.")]


def test_listeners_ask_of_their_peers_what_they_asked_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also what was set while Kohort ran, which Kafka would keep and not follow; stores and limits it follows."""
    life = Life(tmp_path / "broker", listeners="SASL://127.0.0.1:9292,SSL://127.0.0.1:9293")
    (life.folder / "data").chmod(0o700)
    users, limit = 'org.apache.kafka.x required user_bob="two";', "listener.name.ssl.max.connections"
    users = users.replace("org.apache.kafka.x", "org.apache.kafka.common.security.plain.PlainLoginModule")
    client_auth = "listener.name.ssl.ssl.client.auth"
    assert life.alter({JAAS: users, client_auth: "required", "ssl.enabled.protocols": "TLSv1.3", limit: "5"})[0] == 0
    life.stop()

    words = [f"--override={key}={value}" for key, value in life.settings.given.items()]
    assert main(["graduate", *words, f"--override={JAAS}=none"]) == 0
    properties = parse_properties(capsys.readouterr().out)
    assert properties["listener.security.protocol.map"] == "SASL:SASL_PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"
    assert properties["inter.broker.listener.name"] == "SSL"
    assert "sasl.mechanism.inter.broker.protocol" not in properties
    assert (properties[JAAS], properties[client_auth]) == (users, "required")
    assert properties["ssl.enabled.protocols"] == "TLSv1.3"
    assert limit not in properties


def test_a_directory_of_users_alone_names_the_mechanism_of_the_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka does not start without; its default is GSSAPI."""
    life = Life(tmp_path / "broker", listeners="SASL://127.0.0.1:9292")
    life.stop()
    words = [f"--override={key}={value}" for key, value in life.settings.given.items()]
    assert main(["graduate", *words]) == 0
    assert parse_properties(capsys.readouterr().out)["sasl.mechanism.inter.broker.protocol"] == "PLAIN"


def test_defaults_of_ours_that_are_not_kafkas_are_told() -> None:
    """Marked `Ours` where they are declared; each is written, or has a place of its own in the file."""
    ours = {key for key, definition in Settings.definitions.items() if "Ours: " in definition.doc}

    assert ours == {
        "node.id", "log.dirs", "listeners", "log.flush.interval.ms", "offsets.topic.replication.factor",
        "socket.send.buffer.bytes", "socket.receive.buffer.bytes", "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    }  # fmt: skip


def test_ranges_of_hosts_are_told_to_whom_an_older_kafka_would_let_in(graduate, data: Path) -> None:
    """Kafka knows them since 4.4; before that nobody has such an address."""
    entries = [
        m.AccessControlEntryRecord(
            id=bytes([number]) * 16, resource_type=2, resource_name="orders", pattern_type=3, principal="User:eve",
            host=host, operation=3, permission_type=permission,
        )
        for number, (host, permission) in enumerate([("10.0.0.0/8", 2), ("10.1.0.0/16", 3), ("10.0.0.1", 2)])
    ]  # fmt: skip
    identity, _, _ = read(data / "meta.properties", (data / "meta.properties").read_bytes())
    assert identity is not None
    append_features(data, identity, entries, 1)
    careful = "careful     2 ACLs with a range of hosts: to a Kafka before 4.4 such a range means nobody"
    keeps_out = "a DENY keeps out here: User:eve from 10.0.0.0/8 at orders"
    for words in (("--check",), ("--check", "--to", "4.3")):
        code, _, err = graduate(*words)
        assert code == 0
        assert careful in err
        assert [line for line in err.splitlines() if "DENY" in line] == [f"careful     so it lets in whom {keeps_out}"]
    assert "range of hosts" not in graduate("--check", "--to", "4.4")[2]


def test_to_4_4_says_that_no_older_kafka_starts_on_it_any_more(graduate, data: Path) -> None:
    """metadata.version 33 is what Kafka 4.4's own storage tool formats with, too."""
    code, _, err = graduate("--check", "--to", "4.4")
    assert code == 0 and "careful     no Kafka older than 4.4 starts on it once the levels are appended\n" in err
    assert (
        "ready for   Kafka 3.9, 4.0, 4.1, 4.2, 4.3, 4.4 as it is now; Kafka 4.4 once the levels are appended\n" in err
    )
    assert graduate("--check")[2].count("careful") == 0

    code, _, err = graduate("--to", "4.4.0")
    assert code == 0 and "careful     no Kafka older than 4.4 starts on it any more" in err

    code, _, err = graduate("--check")
    assert code == 0
    assert "careful     no Kafka older than 4.4 starts on it any more" in err
    assert "ready for   Kafka 4.4\n" in err
    code, _, err = graduate("--check", "--to", "4.3")
    assert code == 1 and "feature metadata.version is at level 33, and Kafka 4.3 knows it up to 30" in err


def test_to_4_3_appends_the_features_that_new_groups_need(graduate, data: Path) -> None:
    size = (data / METADATA).stat().st_size

    code, _, err = graduate("--to", "4.3.1")

    assert code == 0
    assert "appended    group.version 1, which was 0" in err
    log = (data / METADATA).read_bytes()
    batch.verify(log, size)
    records = [m.decode_frame(record.value or b"") for record in batch.iterate_records(log, size)]
    assert [(record.name, record.feature_level) for record in records] == [
        ("metadata.version", 30), ("group.version", 1), ("transaction.version", 2),
    ]  # fmt: skip
    once = content(data)
    assert graduate("--to", "4.3")[0] == 0
    assert content(data) == once, "a second time there is nothing to append"
    code, _, err = graduate("--check", "--to", "3.9")
    assert code == 1 and "feature metadata.version is at level 30, and Kafka 3.9 knows it up to 21" in err


def test_check_appends_nothing(graduate, data: Path) -> None:
    before = content(data)

    code, _, err = graduate("--check", "--to", "4.3")

    assert code == 0 and "to append   metadata.version 30" in err
    assert content(data) == before


def test_a_running_broker_is_refused(graduate, data: Path) -> None:
    import subprocess
    import sys

    holder = subprocess.Popen(
        [sys.executable, "-c", f"import fcntl; f = open({str(data / '.lock')!r}, 'w'); fcntl.lockf(f, fcntl.LOCK_EX);"
         "print('held', flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout and holder.stdout.readline() == b"held\n"
    try:
        code, out, err = graduate()
    finally:
        holder.communicate(b"\n")

    assert (code, out) == (1, "")
    assert "in use by another process" in err


def _other_directory(data: Path) -> None:
    path = data / "meta.properties"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("directory.id")]
    path.write_text("\n".join([*lines, "directory.id=AAECAwQFBgcICQoLDA0ODw", ""]))


def _no_marker(data: Path) -> None:
    (data / ".kafka_cleanshutdown").unlink()


def _other_marker(data: Path) -> None:
    (data / ".kafka_cleanshutdown").write_text(json.dumps({"version": 0, "brokerEpoch": 77}))


def _no_topic_id(data: Path) -> None:
    (data / "orders-0/partition.metadata").unlink()


def _other_topic_id(data: Path) -> None:
    (data / "orders-0/partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")


def _snapshot_gone(data: Path) -> None:
    (data / "orders-0/00000000000000000300.snapshot").unlink()


def _cut(name: str, by: int) -> Callable[[Path], None]:
    return lambda data: (data / name).write_bytes((data / name).read_bytes()[:-by])


def _add(name: str, text: bytes) -> Callable[[Path], None]:
    return lambda data: (data / name).write_bytes((data / name).read_bytes() + text)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (_no_marker, ".kafka_cleanshutdown: it is not there, so the last stop was not a clean one"),
        (_other_marker, "it is of broker epoch 77, and the last registration is of 2"),
        # DD43
        (lambda data: (data / "lost+found").mkdir(), "lost+found: it is no partition's folder"),
        (lambda data: shutil.rmtree(data / "orders-0"), "orders-0: it is not there; Kafka would make it anew, empty"),
        (_no_topic_id, "partition.metadata: it is not there, and the topic's is"),
        (_other_topic_id, "it names topic id AAECAwQFBgcICQoLDA0ODw"),
        (lambda data: shutil.copytree(data / "orders-0", data / "orders-1"), "orders-1: no topic has this partition"),
        (lambda data: flip(data / METADATA, 130), "damaged batch at byte 91 with valid ones after it"),
        (_cut(METADATA, 3), "damaged last batch at byte"),
        (lambda data: flip(data / LOG, 70), f"{LOG}: damaged batch at byte 0: "),
        (lambda data: (data / LOG).unlink(), "orders-0: it has no segment, and files of one"),
        (_cut(LOG, 3), "torn batch at byte"),
        (_add(LOG, bytes(12)), "torn batch at byte"),
        (lambda data: flip(data / LOG.replace(".log", ".index"), 7), ".index: wrong entry at byte 0"),
        (_add(LOG.replace(".log", ".index"), bytes(3)), "are no offset index"),
        (_add(LOG.replace(".log", ".index"), bytes(80)), "are no offset index as a clean stop leaves it"),
        (_add(LOG.replace(".log", ".timeindex"), b"\x7f" * 12), ".timeindex: wrong entry at byte"),
        (lambda data: (data / LOG.replace(".log", ".timeindex")).unlink(), ".timeindex: it is not there"),
        (_snapshot_gone, "00000000000000000300.snapshot: it is not there; Kafka would forget which producers wrote"),
        (lambda data: flip(data / "orders-0/00000000000000000300.snapshot", 20), "has a wrong CRC"),
        (_add("orders-0/leader-epoch-checkpoint", b"x"), "leader-epoch-checkpoint: announces"),
        (lambda data: (data / "orders-0/leader-epoch-checkpoint").write_text("0\n1\n4 0\n"), "is of leader epoch 4"),
        (_add("recovery-point-offset-checkpoint", b"x"), "recovery-point-offset-checkpoint: announces"),
        (lambda data: (data / "replication-offset-checkpoint").write_text("0\n1\norders 0 301\n"), "log ends at 300"),
        (lambda data: (data / "__cluster_metadata-0/quorum-state").write_text("{"), "quorum-state: it is not"),
        (lambda data: (data / "bootstrap.checkpoint").write_text("x"), "bootstrap.checkpoint"),
        (lambda data: shutil.rmtree(data / "__cluster_metadata-0"), "Kafka would begin an empty cluster"),
        (lambda data: (data / "meta.properties").unlink(), "it has no meta.properties"),
        (_other_directory, "its directory.id is not the one that the partitions are said to lie in"),
        (lambda data: (data / "orders-0" / f"{0:020d}.log.swap").touch(), "a cleaning was interrupted"),
    ],
)  # fmt: skip
def test_what_kafka_would_stumble_over_is_named_and_nothing_is_changed(
    graduate, data: Path, damage: Callable[[Path], None], sentence: str
) -> None:
    damage(data)
    before = content(data)

    code, out, err = graduate("--to", "4.3")

    assert (code, out) == (1, "")
    assert sentence in err
    after = content(data)
    after.pop(".lock", None)
    assert after == before


def test_an_unfinished_transaction_is_refused(graduate, data: Path) -> None:
    log = (data / LOG).read_bytes()
    begun = batch.encode_batch(
        [batch.Record(300, 0, b"k", b"v")], base_offset=300, leader_epoch=0, producer_id=5000, producer_epoch=0,
        base_sequence=0, transactional=True,
    )  # fmt: skip
    (data / LOG).write_bytes(log + begun)
    (data / "orders-0/00000000000000000300.snapshot").rename(data / "orders-0/00000000000000000301.snapshot")

    code, _, err = graduate("--check")

    assert code == 1
    assert "the transaction of producer 5000 that begins at offset 300 has no end" in err
    assert "kafka-transactions.sh abort" in err


@pytest.mark.parametrize(("status", "known"), [(1, True), (2, True), (3, True), (0, False), (4, False), (5, False)])
def test_a_transaction_that_a_transactional_id_has_open_goes_on(tmp_path: Path, status: int, known: bool) -> None:
    """TX90: of each id the last record counts; a tombstone says that there is none."""
    log = b"".join(
        [
            transaction_batch(0, "other", 1, 5001, "orders", 0),
            transaction_batch(1, "tx", 1 if not known else 0, 5000, "orders", 0),
            transaction_batch(2, "tx", status, 5000, "orders", 0),
            transaction_batch(3, "other", None, 5001, "orders", 0),
        ]
    )
    for torn in (0, 10, 70, len(log) // 4 - 1):
        (tmp_path / f"{0:020d}.log").write_bytes(log + log[:torn])
        assert known_transactions([tmp_path]) == ({(5000, "orders", 0)} if known else set())


@pytest.mark.parametrize("what", CRASHED_SWAPS)
def test_what_a_cleaning_was_replacing_is_known_all_the_same(tmp_path: Path, what: str) -> None:
    """A crash while a cleaned `__transaction_state` was taken over: what a start would read counts."""
    statuses = (("tx", 1, 5000), ("other", 1, 5001), ("other", None, 5001), ("third", 0, 5002))
    folder = crashed_swaps(
        tmp_path / "__transaction_state-0",
        tmp_path,
        *(bytearray(transaction_batch(0, name, status, number, "t", 0)) for name, status, number in statuses),
    )[what]
    assert known_transactions([folder]) == {(5000, "t", 0)}


def transaction_batch(
    offset: int, transactional_id: str, status: int | None, producer_id: int, topic: str, partition: int
) -> bytes:
    """One record of `__transaction_state`; no status is a tombstone."""
    value = None
    if status is not None:
        value = encode_value(
            VersionedValue(
                1,
                TransactionLogValue(
                    producer_id=producer_id,
                    producer_epoch=0,
                    transaction_timeout_ms=60_000,
                    transaction_status=status,
                    transaction_partitions=[PartitionsSchema(topic=topic, partition_ids=[partition])],
                    transaction_last_update_timestamp_ms=0,
                ),
            )
        )
    key = encode_key(TransactionLogKey(transactional_id))
    return bytes(batch.encode_batch([batch.Record(offset, 0, key, value)], base_offset=offset, leader_epoch=0))


def test_a_directory_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graduate", "--override", f"log.dirs={tmp_path / 'nowhere'}"]) == 1
    assert "there is no directory" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "words", [("--to", "2.8"), ("--to",), ("--force",), ("a", "b"), ("--override", "num.partitions=x")]
)
def test_what_cannot_be_asked_for(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graduate", *words]) == 2
    assert capsys.readouterr().err.startswith("kohort: ")


def test_versions() -> None:
    assert target("4.4.0") is TARGETS[-1] and target("4.3.1") is TARGETS[-2] and target("3.9") is TARGETS[0]
    assert target("5.0") is None and target("4") is None and target("4.x") is None


@pytest.mark.parametrize(
    "damage",
    [
        _no_marker,
        _other_marker,
        _other_directory,
        _snapshot_gone,
        lambda data: (data / LOG.replace(".log", ".timeindex")).unlink(),
        lambda data: (data / LOG.replace(".log", ".index")).unlink(),
        lambda data: (data / "orders-0/leader-epoch-checkpoint").write_text("0\n1\n4 0\n"),
        lambda data: shutil.copytree(data / "orders-0", data / "orders-1"),
        lambda data: (data / "orders-0" / f"{0:020d}.log.cleaned").touch(),
    ],
)
def test_a_start_and_a_stop_of_kohort_mend_what_the_message_says_they_mend(
    graduate, data: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    damage(data)
    assert graduate("--check")[0] == 1

    with Kohort(tmp_path, QUICK_GROUPS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        ends = admin.list_offsets({TopicPartition("orders", 0): OffsetSpec.latest()})
        assert next(iter(ends.values())).result(60).offset == 300
        if damage is _no_marker:
            eventually(lambda: "logs_recovered" in broker.log(), what="every log recovered")

    code, _, err = graduate("--check")
    assert code == 0, err
