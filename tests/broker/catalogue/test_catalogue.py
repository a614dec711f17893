"""The catalogue: one queue, nothing shown that a crash could take back, Kafka's own log on disk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from broker.catalogue import startup
from broker.catalogue.cluster_state import BROKER_RESOURCE, ClusterState
from broker.catalogue.config_changes import ConfigChange, ConfigOperation
from broker.catalogue.opening import Found
from broker.catalogue.quotas import Alteration
from broker.catalogue.topic_changes import NewTopic, Placing
from broker.catalogue.topics_delta import TopicsDelta
from broker.config.config_def import ConfigKey, ConfigType
from protocol.errors import ErrorCode
from protocol.records import batch as record_batch
from protocol.records import control_records, metadata_records
from storage.errors import CorruptFile, DirectoryRefused
from storage.files import Disk
from tests.support.catalogue_fixture import DIRECTORY_ID, CatalogueDriver, Folders

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOG = "__cluster_metadata-0/00000000000000000000.log"


def records_of(directory: Path) -> list[object]:
    """Every data record of the metadata log, and "leader change" for each control batch."""
    data = (directory / LOG).read_bytes()
    found: list[object] = []
    position = 0
    while position < len(data):
        header = record_batch.verify(data, position)
        for record in record_batch.iterate_records(data, position):
            if header.is_control:
                assert control_records.control_type(record.key) is control_records.ControlType.LEADER_CHANGE
                found.append("leader change")
            else:
                assert record.key is None
                assert record.timestamp == header.base_timestamp == header.max_timestamp
                found.append(metadata_records.decode_frame(record.value))
        position += header.size_bytes
    return found


def kinds(directory: Path) -> list[str]:
    return [r if isinstance(r, str) else type(r).__name__.removesuffix("Record") for r in records_of(directory)]


def test_a_new_directory_holds_leader_change_feature_level_and_registration(tmp_path: Path) -> None:
    """DD04: the first two golden batches."""
    CatalogueDriver(tmp_path)
    assert kinds(tmp_path) == ["leader change", "FeatureLevel", "RegisterBroker"]
    registration = records_of(tmp_path)[2]
    assert isinstance(registration, metadata_records.RegisterBrokerRecord)
    assert (registration.broker_epoch, registration.fenced) == (2, True)
    assert (tmp_path / "__cluster_metadata-0/quorum-state").read_text() == (
        '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert (tmp_path / "__cluster_metadata-0/leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"
    assert (tmp_path / "__cluster_metadata-0/partition.metadata").read_text() == (
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    )


def test_the_first_batches_are_kafkas_golden_bytes(tmp_path: Path) -> None:
    """Golden bytes: with their ids, its clock and its names, our log has its bytes and CRCs."""
    driver = CatalogueDriver.__new__(CatalogueDriver)
    ids = iter([bytes(range(16, 32)), bytes(range(16))])
    CatalogueDriver.__init__(driver, tmp_path, seed=0)
    (tmp_path / LOG).unlink()
    driver.catalogue._new_uuid = lambda: next(ids)
    driver.catalogue.queue.state = type(driver.catalogue.state)()
    (tmp_path / "__cluster_metadata-0/quorum-state").unlink()
    driver.catalogue.open([("PLAINTEXT", "localhost", 9092)], Found(clean=True))
    driver.create("orders", 3, configs={"retention.ms": "-1"})
    data = (tmp_path / LOG).read_bytes()
    headers = list(record_batch.iterate_headers(data))
    crcs = [format((header if hasattr(header, "crc") else header[1]).crc, "08x") for header in headers]
    assert crcs == ["1154eaf9", "6572d248", "c90ffeb1"]
    assert len(data) == 91 + 204 + 352


def test_a_clean_restart_adds_one_leader_change_and_one_registration(tmp_path: Path) -> None:
    """DD05."""
    CatalogueDriver(tmp_path).create("t")
    again = CatalogueDriver(tmp_path, clean=True, seed=1)
    assert kinds(tmp_path)[-2:] == ["leader change", "RegisterBroker"]
    assert again.catalogue.image.topic("t") is not None
    assert '"leaderEpoch":2' in (tmp_path / "__cluster_metadata-0/quorum-state").read_text()


def test_after_a_kill_every_partition_gets_a_new_leader_epoch(tmp_path: Path) -> None:
    """DD06."""
    CatalogueDriver(tmp_path).create("t", 2)
    again = CatalogueDriver(tmp_path, clean=False, seed=1)
    assert kinds(tmp_path)[-3:] == ["RegisterBroker", "PartitionChange", "PartitionChange"]
    topic = again.catalogue.image.topic("t")
    assert topic is not None
    assert topic.leader_epochs == (1, 1)


def test_a_torn_last_batch_is_cut_at_every_byte(tmp_path: Path) -> None:
    """DD07: exactly the torn batch is gone, the state is the one before it."""
    driver = CatalogueDriver(tmp_path)
    driver.create("kept")
    before = (tmp_path / LOG).read_bytes()
    driver.create("torn")
    whole = (tmp_path / LOG).read_bytes()
    for size in range(len(before) + 1, len(whole)):
        (tmp_path / LOG).write_bytes(whole[:size])
        again = CatalogueDriver(tmp_path, seed=1)
        assert again.torn is not None
        assert again.torn.cut_bytes == size - len(before)
        assert [topic.name for topic in again.catalogue.image] == ["kept"]
        assert (tmp_path / LOG).read_bytes().startswith(before)


def test_a_damaged_batch_before_valid_ones_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    """DD08: Kafka would drop all that follows."""
    driver = CatalogueDriver(tmp_path)
    size = (tmp_path / LOG).stat().st_size
    driver.create("a")
    driver.create("b")
    data = bytearray((tmp_path / LOG).read_bytes())
    data[size + 70] ^= 1
    (tmp_path / LOG).write_bytes(data)
    with pytest.raises(CorruptFile, match="damaged batch"):
        CatalogueDriver(tmp_path)
    assert (tmp_path / LOG).read_bytes() == data


def test_a_topic_is_shown_and_answered_only_when_it_is_durable(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path)
    driver.runtime._eager_workers = False
    answers: list[object] = []
    driver.catalogue.create_topic(NewTopic("t", 3), answers.append)
    driver.runtime.turn()
    assert driver.catalogue.image.topic("t") is None
    assert answers == []
    driver.runtime.run_work()
    topic = driver.catalogue.image.topic("t")
    assert topic is not None
    assert answers[0].value is topic  # type: ignore[attr-defined]
    assert driver.folders.published == [TopicsDelta(created=(topic,))]


def test_a_bug_of_one_change_stops_no_other(tmp_path: Path) -> None:
    """Whoever comes after it would else wait for ever."""
    driver = CatalogueDriver(tmp_path)

    def fail(*_: object) -> None:
        raise ValueError("a bug")

    driver.catalogue.create_topic(NewTopic("a"), fail)
    refused, made = driver.all(
        partial(driver.catalogue.create_topic, NewTopic("b"), pay=fail),
        partial(driver.catalogue.create_topic, NewTopic("c")),
    )
    assert (refused.error, made.error) == (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE)
    assert driver.create("d").error is ErrorCode.NONE
    assert sorted(topic.name for topic in driver.catalogue.image) == ["a", "c", "d"]


def test_a_wish_for_a_topic_that_is_on_its_way_joins_it(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path)
    first, second, third = driver.all(
        partial(driver.catalogue.ensure_topic, NewTopic("t")),
        partial(driver.catalogue.ensure_topic, NewTopic("t")),
        partial(driver.catalogue.create_topic, NewTopic("t")),
    )
    assert first.value is second.value is driver.catalogue.image.topic("t")
    assert third.error is ErrorCode.TOPIC_ALREADY_EXISTS
    assert kinds(tmp_path).count("Topic") == 1


def test_changes_of_one_turn_are_one_batch(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path)
    before = len(list(record_batch.iterate_headers((tmp_path / LOG).read_bytes())))
    driver.all(*(partial(driver.catalogue.create_topic, NewTopic(f"t{i}")) for i in range(20)))
    assert len(list(record_batch.iterate_headers((tmp_path / LOG).read_bytes()))) == before + 1


@pytest.mark.parametrize(
    ("brokers", "why"),
    [
        ([1, 7, 5], "broker 5, but no such broker is registered."),
        ([1, 1], "the broker 1 more than once."),
        ([], "an empty replica list."),
    ],
)
def test_what_is_wrong_with_an_assignment_is_said_in_kafkas_words(tmp_path: Path, brokers: list[int], why: str) -> None:
    """The lowest broker that is not there is named."""
    driver = CatalogueDriver(tmp_path)
    (refused,) = driver.all(partial(driver.catalogue.create_topic, NewTopic("t", assignments={0: brokers})))
    assert refused.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused.message == f"The manual partition assignment includes {why}"


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION),  # DD19: collides with a.b
        (NewTopic("a.b"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("t", 0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", -2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", assignments={0: [1], 2: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: [2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", 1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", configs={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", configs={"segment.bytes": "12"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", configs={"remote.storage.enable": "true"}), ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_topic_that_may_not_be_is_refused_and_its_neighbour_is_made(
    tmp_path: Path, wish: NewTopic, error: ErrorCode
) -> None:
    driver = CatalogueDriver(tmp_path)
    driver.create("a.b")
    refused, made = driver.all(
        partial(driver.catalogue.create_topic, wish), partial(driver.catalogue.create_topic, NewTopic("neighbour"))
    )
    assert refused.error is error
    assert refused.message
    assert made.error is ErrorCode.NONE
    assert driver.catalogue.image.names() == ("a.b", "neighbour")


def test_assignments_say_how_many_partitions_there_are(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path)
    assert driver.create("t", -1, assignments={0: [1], 1: [1]}).value.partition_count == 2


def test_validate_only_creates_nothing(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path)
    before = (tmp_path / LOG).read_bytes()
    (result,) = driver.all(partial(driver.catalogue.create_topic, NewTopic("t", 7), validate_only=True))
    assert result.value.partition_count == 7
    assert len(driver.catalogue.image) == 0
    assert (tmp_path / LOG).read_bytes() == before


def test_a_deleted_topic_vanishes_and_its_name_gets_a_new_id(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path)
    first = driver.create("t").value
    gone = driver.delete("t")
    assert gone.value == first
    assert driver.catalogue.image.topic("t") is None
    assert driver.folders.deleted[-1].deleted == (first,)
    second = driver.create("t").value
    assert second.topic_id != first.topic_id
    assert CatalogueDriver(tmp_path, seed=1).catalogue.image.topic_by_id(first.topic_id) is None


def test_deleting_what_is_not_there_says_so_by_name_and_by_id(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path)
    by_name, by_id = driver.all(
        partial(driver.catalogue.delete_topic, name="t"), partial(driver.catalogue.delete_topic, topic_id=bytes(16))
    )
    assert by_name.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_id.error is ErrorCode.UNKNOWN_TOPIC_ID


def test_deleted_and_created_again_in_one_turn_is_another_topic(tmp_path: Path) -> None:
    """The new one waits until the old one's folders are out of the way."""
    driver = CatalogueDriver(tmp_path)
    first = driver.create("t").value
    gone, made = driver.all(
        partial(driver.catalogue.delete_topic, name="t"), partial(driver.catalogue.create_topic, NewTopic("t", 2))
    )
    assert gone.value == first
    assert made.value is driver.catalogue.image.topic("t")
    deletion, creation = driver.folders.published[-2:]
    assert (deletion.deleted, deletion.created) == ((first,), ())
    assert (creation.deleted, [t.partition_count for t in creation.created]) == ((), [2])
    assert driver.folders.rounds_with_deletions == 1


def test_what_comes_in_one_turn_happens_in_its_order(tmp_path: Path) -> None:
    """One connection may ask for all of this ahead; each answer is that of its own place in the row."""
    driver = CatalogueDriver(tmp_path)
    delete = partial(driver.catalogue.delete_topic, name="t")
    create = partial(driver.catalogue.create_topic, NewTopic("t", 1))
    results = driver.all(create, delete, create, create, delete, delete, create)
    there, missing = ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [result.error for result in results] == [0, 0, 0, there, 0, missing, 0]
    assert all(result.value is not None for result in results if not result.error)
    assert results[-1].value is driver.catalogue.image.topic("t")


def test_partitions_are_added_and_never_taken_away(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path)
    driver.create("t", 2)
    grown, same, fewer, unknown, rows = driver.all(
        lambda answer: driver.catalogue.create_partitions("t", 4, None, answer),
        lambda answer: driver.catalogue.create_partitions("t", 4, None, answer),
        lambda answer: driver.catalogue.create_partitions("t", 1, None, answer),
        lambda answer: driver.catalogue.create_partitions("u", 4, None, answer),
        lambda answer: driver.catalogue.create_partitions("t", 6, [[1]], answer),
    )
    assert grown.error is ErrorCode.NONE
    assert same.error is fewer.error is ErrorCode.INVALID_PARTITIONS
    assert unknown.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rows.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert driver.catalogue.image.partition_count("t") == 4
    ((before, after),) = driver.folders.published[-1].grown
    assert (before.partition_count, after.partition_count) == (2, 4)


def test_producer_id_blocks_never_repeat(tmp_path: Path) -> None:
    """DD22."""
    driver = CatalogueDriver(tmp_path)
    first, second = driver.all(driver.catalogue.allocate_producer_ids, driver.catalogue.allocate_producer_ids)
    again = CatalogueDriver(tmp_path, clean=False, seed=1)
    (third,) = again.all(again.catalogue.allocate_producer_ids)
    assert [first.value, second.value, third.value] == [range(0, 1000), range(1000, 2000), range(2000, 3000)]


def change(name: str, operation: ConfigOperation, value: str | None = None) -> ConfigChange:
    return ConfigChange(name, operation, value)


def alter(driver: CatalogueDriver, resource: tuple[int, str], *changes: ConfigChange) -> ErrorCode:
    (result,) = driver.all(lambda answer: driver.catalogue.alter_configs(resource, changes, answer))
    return result.error


def test_configs_are_set_deleted_appended_and_subtracted(tmp_path: Path) -> None:
    """Append starts from the effective value, here the default; subtract can leave nothing."""
    driver = CatalogueDriver(tmp_path)
    driver.create("t")
    topic = (2, "t")
    assert alter(driver, topic, change("cleanup.policy", ConfigOperation.APPEND, "compact")) is ErrorCode.NONE
    assert driver.catalogue.image.topic("t").configs == {"cleanup.policy": "delete,compact"}  # type: ignore[union-attr]
    assert alter(driver, topic, change("cleanup.policy", ConfigOperation.SUBTRACT, "delete")) is ErrorCode.NONE
    assert alter(driver, topic, change("retention.ms", ConfigOperation.SET, "5")) is ErrorCode.NONE
    assert alter(driver, topic, change("cleanup.policy", ConfigOperation.DELETE)) is ErrorCode.NONE
    again = CatalogueDriver(tmp_path, seed=1).catalogue
    reopened = again.image.topic("t")
    assert reopened is not None
    assert reopened.configs == {"retention.ms": "5"}
    assert again.effective_configs(reopened).retention_ms == 5


@pytest.mark.parametrize(
    ("resource", "changes", "error"),
    [
        ((2, "u"), [change("retention.ms", ConfigOperation.SET, "5")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((2, "t"), [change("no.such", ConfigOperation.SET, "5")], ErrorCode.INVALID_CONFIG),
        ((2, "t"), [change("retention.ms", ConfigOperation.SET, "soon")], ErrorCode.INVALID_CONFIG),
        ((2, "t"), [change("retention.ms", ConfigOperation.APPEND, "5")], ErrorCode.INVALID_CONFIG),
        ((2, "t"), [change("retention.ms", ConfigOperation.SET, None)], ErrorCode.INVALID_REQUEST),
        ((2, "t"), [change("retention.ms", ConfigOperation.SET, "5")] * 2, ErrorCode.INVALID_REQUEST),
        ((4, "7"), [change("log.retention.ms", ConfigOperation.SET, "5")], ErrorCode.INVALID_REQUEST),
        ((4, "1"), [change("node.id", ConfigOperation.SET, "5")], ErrorCode.INVALID_REQUEST),
        ((16, "m"), [change("x", ConfigOperation.SET, "5")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_config_that_may_not_be_is_refused(
    tmp_path: Path, resource: tuple[int, str], changes: list[ConfigChange], error: ErrorCode
) -> None:
    keys = {
        "log.retention.ms": ConfigKey("log.retention.ms", ConfigType.LONG, None, ""),
        "node.id": ConfigKey("node.id", ConfigType.INT, "1", "", read_only=True),
    }
    driver = CatalogueDriver(tmp_path, keys=keys)
    driver.create("t")
    assert alter(driver, resource, *changes) is error
    assert driver.catalogue.state.configs == {}


def test_a_dynamic_broker_config_reaches_topics_that_do_not_override_it(tmp_path: Path) -> None:
    keys = {"log.retention.hours": ConfigKey("log.retention.hours", ConfigType.INT, "168", "")}
    driver = CatalogueDriver(tmp_path, keys=keys, static={"log.retention.hours": "2"})
    driver.create("t")
    topic = driver.catalogue.image.topic("t")
    assert topic is not None
    assert driver.catalogue.effective_configs(topic).retention_ms == 2 * 3_600_000
    assert alter(driver, (4, ""), change("log.retention.hours", ConfigOperation.SET, "3")) is ErrorCode.NONE
    assert driver.catalogue.effective_configs(topic).retention_ms == 3 * 3_600_000
    assert driver.folders.published[-1].reconfigured == (topic,)


@pytest.mark.parametrize(
    ("value", "error"), [("12", ErrorCode.NONE), ("many", ErrorCode.INVALID_REQUEST)], ids=["number", "text"]
)
def test_what_kafka_takes_at_run_time_and_means_nothing_here_is_kept(
    tmp_path: Path, value: str, error: ErrorCode
) -> None:
    """Of the right type, for a Kafka that comes after; names that nobody knows are refused."""
    driver = CatalogueDriver(tmp_path)
    assert alter(driver, (4, ""), change("background.threads", ConfigOperation.SET, value)) is error
    assert alter(driver, (4, ""), change("nobody.knows", ConfigOperation.SET, "1")) is ErrorCode.INVALID_CONFIG
    kept = {} if error else {(4, ""): {"background.threads": "12"}}
    assert driver.catalogue.configs == kept


def test_replacing_configs_sets_the_rest_back(tmp_path: Path) -> None:
    driver = CatalogueDriver(tmp_path)
    driver.create("t", configs={"retention.ms": "5", "segment.ms": "7"})
    driver.all(lambda answer: driver.catalogue.replace_configs((2, "t"), {"segment.ms": "8"}, answer))
    assert driver.catalogue.image.topic("t").configs == {"segment.ms": "8"}  # type: ignore[union-attr]


def test_twelve_thousand_partitions_lie_in_one_metadata_transaction(tmp_path: Path) -> None:
    """DD20: cut before the end, the topic is absent and AbortTransaction follows."""
    driver = CatalogueDriver(tmp_path)
    create = driver.catalogue.create_topic
    driver.all(*[partial(create, NewTopic(name, 6_000)) for name in ("big", "bigger")])
    data = (tmp_path / LOG).read_bytes()
    assert [kind for kind in kinds(tmp_path) if "Transaction" in kind] == ["BeginTransaction", "EndTransaction"]
    last = list(record_batch.iterate_headers(data))[-1]
    size = (last if hasattr(last, "size_bytes") else last[1]).size_bytes
    (tmp_path / LOG).write_bytes(data[:-size])
    again = CatalogueDriver(tmp_path, seed=1)
    assert again.catalogue.image.topic("big") is None and again.catalogue.image.topic("bigger") is None
    assert "AbortTransaction" in kinds(tmp_path)


def test_a_change_of_more_than_ten_thousand_records_is_refused_as_in_kafka(tmp_path: Path) -> None:
    """QuorumController.MAX_RECORDS_PER_USER_OP."""
    driver = CatalogueDriver(tmp_path)
    assert driver.create("wide", 10_000).error is ErrorCode.POLICY_VIOLATION
    assert driver.create("wide", 9_999).error is ErrorCode.NONE
    grown = driver.all(lambda answer: driver.catalogue.create_partitions("wide", 20_000, None, answer))[0]
    assert grown.error is ErrorCode.POLICY_VIOLATION
    many = [change(f"no.such.{number}", ConfigOperation.DELETE) for number in range(10_001)]
    assert alter(driver, (2, "wide"), *many) is ErrorCode.POLICY_VIOLATION


def test_another_process_that_appends_stops_us_without_writing(tmp_path: Path) -> None:
    """DD15."""
    driver = CatalogueDriver(tmp_path)
    with (tmp_path / LOG).open("ab") as other:
        other.write(b"somebody else's bytes")
    before = (tmp_path / LOG).read_bytes()
    told: list[str] = []
    driver.catalogue.queue.on_intruder = told.append
    assert driver.create("t").error is ErrorCode.KAFKA_STORAGE_ERROR
    assert (tmp_path / LOG).read_bytes() == before
    assert driver.create("t").error is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(told) == 1


class FullDisk(Disk):
    """Writes half of what it is given once `full` is set, then says that there is no space."""

    full = False

    def __init__(self) -> None:
        def pwrite(fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
            if not self.full:
                return Disk.pwrite(fd, data, position)
            if len(data) > 1 and not self.half:
                self.half = True
                return Disk.pwrite(fd, memoryview(data)[: len(data) // 2], position)
            raise OSError(28, "No space left on device")

        self.half = False
        self.pwrite = pwrite  # type: ignore[method-assign]


def test_a_full_disk_refuses_the_change_and_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    disk = FullDisk()
    driver = CatalogueDriver(tmp_path, disk=disk)
    driver.create("before")
    before = (tmp_path / LOG).read_bytes()
    disk.full = True
    assert driver.create("t").error is ErrorCode.KAFKA_STORAGE_ERROR
    assert (tmp_path / LOG).read_bytes() == before
    assert driver.catalogue.image.names() == ("before",)
    disk.full = False
    assert driver.create("t").error is ErrorCode.NONE


def test_a_change_that_cannot_be_applied_is_a_fault_of_ours_and_the_queue_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who came before it in its round has seen nothing that holds, and is refused too; who comes later is served."""
    driver = CatalogueDriver(tmp_path)
    before = (tmp_path / LOG).read_bytes()

    def plan(state: ClusterState) -> tuple[list[object], None]:
        state.features["half"] = 1
        return [metadata_records.EndTransactionRecord()], None  # which never began

    add, create = driver.catalogue.queue.add, driver.catalogue.create_topic
    told = driver.all(partial(create, NewTopic("t", 1)), partial(add, plan), partial(create, NewTopic("u", 1)))
    refused = ErrorCode.UNKNOWN_SERVER_ERROR
    assert [result.error for result in told] == [refused, refused, ErrorCode.NONE]
    said = capsys.readouterr().err
    assert "changes_failed" in said
    assert "a metadata transaction ends that never began" in said
    assert "half" not in driver.catalogue.queue.state.features
    assert driver.catalogue.image.names() == ("u",)
    assert b"half" not in (tmp_path / LOG).read_bytes().removeprefix(before)
    assert driver.create("t").error is ErrorCode.NONE


def test_what_is_refused_because_of_a_change_that_is_not_durable_is_not_refused_for_good(tmp_path: Path) -> None:
    """A topic "exists already" while it is made: when that fails, whoever was told so would wait for it for ever."""
    disk = FullDisk()
    driver = CatalogueDriver(tmp_path, disk=disk)
    driver.create("before")
    disk.full = True

    def create(*names: str) -> list[ErrorCode]:
        make = driver.catalogue.create_topic
        return [result.error for result in driver.all(*(partial(make, NewTopic(name, 1)) for name in names))]

    told = create("before", "t", "t", "a b")

    assert told[0] is ErrorCode.TOPIC_ALREADY_EXISTS
    assert told[1:] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3  # a name that is none is refused when it is asked again
    disk.full = False
    assert create("t", "t") == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]


def test_quotas_are_told_when_they_are_durable(tmp_path: Path) -> None:
    """As everything is: the disk may refuse them yet."""
    told: list[tuple[int, int]] = []
    disk = Disk()
    driver = CatalogueDriver(tmp_path, disk=disk)
    catalogue = driver.catalogue

    def fdatasync(fd: int) -> None:
        told.append((len(catalogue.state.kept.quotas), len(catalogue.client_quotas)))

    disk.fdatasync = disk.fsync = fdatasync  # type: ignore[method-assign]
    wish = Alteration((("user", "a"),), (("producer_byte_rate", 5.0),))
    (done,) = driver.all(lambda answer: catalogue.alter_quotas([wish], answer))

    assert done.error is ErrorCode.NONE
    assert set(told) == {(1, 0)}
    assert [record.value for record in catalogue.client_quotas] == [5.0]


def test_a_directory_of_a_larger_cluster_is_refused(tmp_path: Path) -> None:
    """DD26."""
    driver = CatalogueDriver(tmp_path)
    driver.create("t")
    state = tmp_path / "__cluster_metadata-0/quorum-state"
    state.write_text(state.read_text().replace('[{"voterId":1}]', '[{"voterId":1},{"voterId":2}]'))
    with pytest.raises(DirectoryRefused, match=r"voters are \[1, 2\]"):
        CatalogueDriver(tmp_path)


def test_a_malformed_quorum_state_is_refused_and_a_higher_epoch_is_taken(tmp_path: Path) -> None:
    """DD17."""
    CatalogueDriver(tmp_path)
    state = tmp_path / "__cluster_metadata-0/quorum-state"
    state.write_text(state.read_text().replace('"leaderEpoch":1', '"leaderEpoch":41'))
    CatalogueDriver(tmp_path, seed=1)
    assert '"leaderEpoch":42' in state.read_text()
    state.write_text("not json")
    with pytest.raises(CorruptFile, match="quorum-state"):
        CatalogueDriver(tmp_path, seed=2)


def test_configs_that_would_keep_somebody_out_and_do_not_hold_refuse_the_directory():
    state, placing = ClusterState(), Placing(1, DIRECTORY_ID, default_partitions=1)
    for node, key in (("", "a"), ("1", "b"), ("2", "c")):
        record = metadata_records.ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=node, name=key, value=node)
        state.apply(record)
    told: list[tuple[Mapping[str, str], Mapping[str, str]]] = []
    startup.check_configs(state, placing, lambda _: [], lambda *both: told.append(both))
    assert told == [({"a": ""}, {"b": "1"})]
    with pytest.raises(DirectoryRefused, match="the directory holds a, b, which Kafka changed while it ran"):
        startup.check_configs(state, placing, sorted, lambda *both: told.append(both))
    assert len(told) == 1


def test_nothing_is_remembered_of_the_configs_of_topics_that_are_gone(tmp_path: Path) -> None:
    """Else a broker whose topics come and go keeps something of each for as long as it lives."""
    driver = CatalogueDriver(tmp_path)
    driver.create("t")
    topic = driver.catalogue.image.topic("t")
    assert topic is not None
    driver.catalogue.effective_configs(topic)
    driver.delete("t")
    assert not driver.catalogue._effective


class Confused(Folders):
    """Takes nothing that it is told."""

    def publish(self, image: Any, delta: TopicsDelta, prepared: Any) -> None:
        super().publish(image, delta, prepared)
        raise KeyError

    def discarded(self) -> None:
        super().discarded()
        raise KeyError


def test_a_listener_who_cannot_take_a_change_keeps_it_from_nobody_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The change is durable, so it is answered; those after him are told, and the next one is made."""
    driver = CatalogueDriver(tmp_path)
    queue = driver.catalogue.queue
    queue.listeners.insert(0, Confused())
    publish = queue._publish

    def confused(image: Any, delta: Any) -> None:
        publish(image, delta)
        raise KeyError

    queue._publish = confused
    results = [driver.create("t"), driver.delete("t"), driver.create("u")]
    assert [result.error for result in results] == [ErrorCode.NONE] * 3
    assert driver.catalogue.image.names() == ("u",)
    assert capsys.readouterr().err.count("callback_failed") == 7
    assert len(driver.folders.published) == 3
    assert driver.folders.rounds_with_deletions == 1
