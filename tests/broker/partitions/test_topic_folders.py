"""What becomes of the folders that a start finds, and of those that the disk refuses: no copy of records goes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from broker.catalogue.topics_image import Topic, TopicsImage
from broker.partitions.folders import TopicFolders
from protocol.errors import ErrorCode, KafkaError
from storage.directory.log_directory import LogDirectory, read_topic_id
from storage.files import DISK, Disk
from storage.state.segment import Segment
from tests.support import virtual_runtime
from tests.support.garbage import collected_by_nobody
from tests.support.virtual_runtime import VirtualRuntime
from tests.support.whole_broker import Whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WANTED, REMOVED, UNKNOWN = bytes([1] * 16), bytes([2] * 16), bytes([3] * 16)


class Start:
    """A data directory whose catalogue has topic `t` with two partitions, and once had `WAS`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory = LogDirectory.open(path)
        self.runtime = VirtualRuntime()

    def adopt(self) -> None:
        partitions: Any = SimpleNamespace(topics_changed=lambda names, image: None)
        state: Any = SimpleNamespace(removed_topic_ids={REMOVED})
        folders = TopicFolders(
            self.runtime, [self.directory], partitions, new_uuid=lambda: bytes(16), delete_delay_ms=60_000
        )
        image = TopicsImage().with_changes({"t": Topic("t", WANTED, (0, 0), {})})
        folders.adopt([(self.directory, self.directory.scan())], state, image)

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir() if path.is_dir())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made = Start(tmp_path)
    yield made
    made.directory.close()


def test_what_is_missing_is_made_and_what_is_there_is_kept(start: Start) -> None:
    start.directory.create_folders({("t", 0): WANTED})
    (start.path / "t-0" / f"{0:020d}.log").write_bytes(b"records")
    start.adopt()
    assert start.folders() == ["t-0", "t-1"]
    assert (start.path / "t-0" / f"{0:020d}.log").read_bytes() == b"records"
    assert read_topic_id(start.path / "t-1") == WANTED


def test_a_deleted_topics_folder_goes_after_a_while_and_one_that_nobody_knows_is_set_aside(start: Start) -> None:
    start.directory.create_folders({("was", 0): REMOVED, ("whose", 0): UNKNOWN, ("t", 0): UNKNOWN})
    start.adopt()
    gone, strays = f"was-0.{bytes(16).hex()}-delete", [f"{name}-0.{bytes(16).hex()}-stray" for name in ("t", "whose")]
    assert start.folders() == sorted(["t-0", "t-1", gone, *strays])
    start.runtime.advance(60_001)
    assert start.folders() == sorted(["t-0", "t-1", *strays])


def test_a_folder_without_a_topic_id_that_holds_records_is_set_aside(start: Start) -> None:
    (start.path / "t-0").mkdir()
    (start.path / "t-0" / f"{0:020d}.log").write_bytes(b"records")
    start.adopt()
    assert start.folders() == ["t-0", f"t-0.{bytes(16).hex()}-stray", "t-1"]


def test_a_folder_that_was_being_made_when_the_broker_died_is_finished_or_removed(start: Start) -> None:
    """It holds nothing, so it is nobody's only copy: set aside, it would lie there for ever."""
    for name in ("t-0", "t-1", "never-0"):
        (start.path / name).mkdir()
    (start.path / "t-1" / "partition.metadata.tmp").write_text("version: 0")
    start.adopt()
    start.runtime.advance(60_001)
    assert start.folders() == ["t-0", "t-1"]
    assert [read_topic_id(start.path / name) for name in ("t-0", "t-1")] == [WANTED, WANTED]


def test_nothing_is_appended_in_a_folder_that_could_not_be_made_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its topic's id a folder is nobody's at the next start, and what was acknowledged in it would be gone."""
    broker = Whole(tmp_path)

    def full(path: Any, *rest: Any) -> int:
        if "partition.metadata" in str(path):
            raise OSError(28, "No space left on device")
        return Disk.open(path, *rest)

    monkeypatch.setattr(DISK, "open", full)
    assert broker.create("t") is ErrorCode.NONE
    with pytest.raises(KafkaError, match="No space left on device"):
        broker.produce("t", b"refused")
    assert broker.broker.partitions.not_ready is not None
    monkeypatch.undo()
    broker.produce("t", b"accepted")
    assert broker.broker.partitions.not_ready is None
    assert broker.stop()

    again = Whole(tmp_path)
    assert again.values("t") == [b"accepted"]
    assert again.stop()


def test_a_topic_made_anew_does_not_inherit_a_folder_that_could_not_be_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is its own folder taken for that of the deleted one at the next start."""
    broker = Whole(tmp_path)
    assert broker.create("t") is ErrorCode.NONE
    broker.produce("t", b"old")

    def refused(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(DISK, "rename", refused)
    assert broker.delete("t") is ErrorCode.NONE
    assert "folder_not_renamed" in broker.log.getvalue()
    assert broker.create("t") is ErrorCode.NONE
    with pytest.raises(KafkaError, match="Input/output error"):
        broker.produce("t", b"refused")
    monkeypatch.undo()
    broker.produce("t", b"new")
    assert broker.values("t") == [b"new"]
    assert broker.stop()

    again = Whole(tmp_path)
    assert again.values("t") == [b"new"]
    assert again.stop()


def test_the_files_of_a_deleted_topic_are_closed_at_once(tmp_path: Path) -> None:
    """By reference count: a broker that has frozen what it loaded collects garbage rarely."""
    broker = Whole(tmp_path)
    with collected_by_nobody():
        for _ in range(3):
            assert broker.create("t", 3) is ErrorCode.NONE
            broker.produce("t", b"first")
            partition = broker.broker.partitions.get("t", 0)
            assert partition is not None
            partition.log.roll(now_ms=broker.runtime.now_ms())
            broker.produce("t", b"second")
            assert any("t-0/" in name for name in open_files(tmp_path))
            del partition
            assert broker.delete("t") is ErrorCode.NONE
            broker.runtime.advance(1)
            assert not [name for name in open_files(tmp_path) if name.startswith("t-")]
    assert broker.stop()


def open_files(directory: Path) -> list[str]:
    """The files below `directory` that this process has open."""
    names = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one of this very listing
            names.append(str(descriptor.readlink()))
    return [name.removeprefix(f"{directory}/") for name in names if name.startswith(str(directory))]


def test_a_worker_makes_the_files_of_logs_that_are_all_asked_for_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the groups and of the transactions, when somebody first looks for a coordinator. Others have time."""
    whole = Whole(tmp_path, transaction__state__log__num__partitions="3")
    in_worker, made = [False], list[tuple[str, bool]]()
    run, create = virtual_runtime._run, Segment.create

    def worker(work: Callable[[], Any], *rest: Any) -> None:
        def marked(*arguments: Any) -> Any:
            in_worker[0] = True
            try:
                return work(*arguments)
            finally:
                in_worker[0] = False

        run(marked, *rest)

    def noted(self: Segment) -> None:
        made.append((self.directory.name, in_worker[0]))
        create(self)

    monkeypatch.setattr(virtual_runtime, "_run", worker)
    monkeypatch.setattr(Segment, "create", noted)
    assert whole.broker.groups.coordinator_of("g") is whole.broker.transactions.coordinator_of("x") is None
    whole.create("t", 2)
    assert sorted(made) == [
        *((f"__consumer_offsets-{index}", True) for index in range(2)),
        *((f"__transaction_state-{index}", True) for index in range(3)),
    ]
    assert whole.broker.groups.coordinator_of("g") == whole.broker.transactions.coordinator_of("x") == 1
    assert whole.broker.groups.not_ready is None
    whole.produce("t", b"v")
    assert made[5:] == [("t-0", False)]
    assert whole.stop()


def test_a_log_that_a_worker_could_not_open_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other groups are served; the disk's refusal is told, and once it is over nothing is left of it."""
    whole = Whole(tmp_path)
    create = Segment.create

    def refused(self: Segment) -> None:
        if self.directory.name == "__consumer_offsets-1":
            raise OSError(5, "Input/output error")
        create(self)

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "create", refused)
        whole.broker.groups.coordinator_of("g")
        whole.create("t", 1)
        (of_0,), (of_1,) = whole.groups_of(0), whole.groups_of(1)
        assert whole.commit(of_0, 3) is ErrorCode.NONE
        assert whole.commit(of_1, 4) is not ErrorCode.NONE
        assert "__consumer_offsets-1" in str(whole.broker.groups.not_ready)
    whole.runtime.advance(5_000)
    assert whole.broker.groups.not_ready is None
    assert whole.commit(of_1, 4) is ErrorCode.NONE
    assert (whole.committed(of_0), whole.committed(of_1)) == (3, 4)
    assert whole.stop()
