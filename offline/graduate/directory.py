"""A stopped directory as a whole: is it complete, cleanly closed, and sound to the last byte.

Source: Kafka's LogManager, MetaPropertiesEnsemble.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from broker.catalogue.topic_changes import Placing
from offline.graduate.findings import Findings, counted, size
from offline.graduate.metadata import Metadata, read_metadata
from offline.graduate.partition_files import PartitionFiles, inspect_partition
from offline.graduate.transactions import known_transactions
from protocol.types import uuid_text
from storage.directory import meta_properties
from storage.directory.log_directory import CLEAN_MARKER, METADATA_FOLDER, parse_folder_name, read_topic_id
from storage.errors import CorruptFile, DirectoryRefused
from storage.reading.checkpoints import HIGH_WATERMARK, LEADER_EPOCHS, LOG_START, OFFSET_CHECKPOINTS, read_offsets

if TYPE_CHECKING:
    from broker.catalogue.startup import DirectoryIds
    from storage.directory.log_directories import LogDirectories
    from storage.directory.meta_properties import MetaProperties

_OFFSETS_TOPIC = "__consumer_offsets"
_TRANSACTIONS_TOPIC = "__transaction_state"
_NEW_GROUP_TYPES = frozenset(range(3, 9)) | {16}  # keys of KIP-848 groups
_NOT_PARTITIONS = (METADATA_FOLDER, "remote-log-index-cache")
_AGAIN = "start Kohort on it, and stop it with SIGTERM"

_Folders: TypeAlias = dict[Path, dict[tuple[str, int], Path]]  # by directory, then by partition


@dataclass(slots=True)
class Directory:
    """What was found in the directories."""

    path: Path  # of the metadata log
    logs: dict[Path, MetaProperties] = field(default_factory=dict)  # those of the partitions
    findings: Findings = field(default_factory=Findings)
    identity: MetaProperties | None = None
    metadata: Metadata | None = None
    partitions: dict[tuple[str, int], PartitionFiles] = field(default_factory=dict)
    has_new_groups: bool = False


def inspect(directories: LogDirectories) -> Directory:
    """Look at everything below these, which are locked. Raises: DirectoryRefused when one is no data directory."""
    directory = Directory(directories.metadata.path)
    directory.identity = _identity(directory.path)
    findings = directory.findings
    for one in directories:
        identity = _identity(one.path)
        one.directory_id = identity.directory_id
        if one in directories.logs:
            directory.logs[one.path] = identity
        findings.fact("directory", f"{one.path}, {_owner(one.path)}")
        findings.fact(
            "identity",
            f"cluster {identity.cluster_id}, node {identity.node_id}, directory {uuid_text(identity.directory_id)}",
        )
        if (identity.cluster_id, identity.node_id) != (directory.identity.cluster_id, directory.identity.node_id):
            findings.problem(
                f"{one.path / meta_properties.FILE}: it is of another cluster or node than {directory.path}"
            )
    placing = Placing(
        directory.identity.node_id,
        directory.identity.directory_id,
        1,
        directories={identity.directory_id: str(path) for path, identity in directory.logs.items()},
    )
    if len(placing.directories) != len(directory.logs):
        findings.problem("two of the directories have the same directory.id; Kafka would not start")
    folders = {path: _folders(path, findings) for path in directory.logs}
    directory.metadata = read_metadata(directory.path, placing, _directory_ids(directory, folders), findings)
    for path in directory.logs:
        _check_marker(directory, path)
    if directory.metadata is not None:
        _check_partitions(directory, folders)
    for path in directory.logs:
        _check_checkpoints(directory, path)
    for path in dict.fromkeys((*directory.logs, directory.path)):
        _check_access(directory, path)
    return directory


def _directory_ids(directory: Directory, folders: _Folders) -> DirectoryIds:
    """The ids of the directories where each partition lies, by topic id and partition."""
    found: dict[tuple[bytes, int], tuple[bytes, ...]] = {}
    for path, its in folders.items():
        for (_, partition), folder in its.items():
            with suppress(CorruptFile):  # which is told of with the partition
                topic_id = read_topic_id(folder)
                if topic_id is not None:
                    key = topic_id, partition
                    found[key] = (*found.get(key, ()), directory.logs[path].directory_id)
    return found


def _identity(path: Path) -> MetaProperties:
    file = path / meta_properties.FILE
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DirectoryRefused(f"{path} is no data directory of Kohort or Kafka: it has no {file.name}") from error
    identity, _, _ = meta_properties.read(file, data)
    if identity is None:
        raise DirectoryRefused(f"{file}: it has no directory.id; {_AGAIN}")
    return identity


def _owner(path: Path) -> str:
    owner = path.stat().st_uid
    try:
        import pwd  # noqa: PLC0415  not on every system

        name = pwd.getpwuid(owner).pw_name
    except (ImportError, KeyError):
        name = f"uid {owner}"
    return f"owned by {name}, as whom Kafka must run"


def _check_marker(directory: Directory, at: Path) -> None:
    """The marker's epoch must be that of the last registration: then Kafka knows that this stop was a clean one."""
    path = at / CLEAN_MARKER
    assert directory.identity is not None
    try:
        marker = json.loads(path.read_bytes())
        epoch = int(marker["brokerEpoch"])
    except FileNotFoundError:
        directory.findings.problem(f"{path}: it is not there, so the last stop was not a clean one; {_AGAIN}")
        return
    except (ValueError, KeyError, TypeError, OSError) as error:
        directory.findings.problem(f"{path}: it does not say which broker epoch stopped ({error}); {_AGAIN}")
        return
    if directory.metadata is None:
        return
    broker = directory.metadata.state.kept.brokers.get(directory.identity.node_id)
    registered = None if broker is None else broker.broker_epoch
    if epoch != registered:
        directory.findings.problem(
            f"{path}: it is of broker epoch {epoch}, and the last registration is of "
            f"{'none' if registered is None else registered}; {_AGAIN}"
        )
    else:
        directory.findings.fact("stopped", f"cleanly, broker epoch {epoch}")


def _folders(path: Path, findings: Findings) -> dict[tuple[str, int], Path]:
    """The partitions' folders; whatever else is a directory is a problem or a fact."""
    found: dict[tuple[str, int], Path] = {}
    leaving = aside = 0
    for entry in sorted(path.iterdir()):
        if not entry.is_dir() or entry.name in _NOT_PARTITIONS:
            continue
        parsed = parse_folder_name(entry.name)
        if parsed is None:
            findings.problem(f"{entry}: it is no partition's folder, and Kafka would not start; move it away")
        elif parsed.kind == "delete":
            leaving += 1
        elif parsed.kind:
            aside += 1
        else:
            found[parsed.topic, parsed.partition] = entry
    if leaving:
        findings.fact("deleted", f"{counted(leaving, 'folder')} of deleted partitions, which Kafka removes")
    if aside:
        findings.fact("set aside", f"{counted(aside, 'folder')} that belong to no topic; Kafka leaves them alone too")
    return found


def _check_partitions(directory: Directory, folders: _Folders) -> None:
    assert directory.metadata is not None
    findings = directory.findings
    left = {(path, *key): folder for path, its in folders.items() for key, folder in its.items()}
    by_id = {identity.directory_id: path for path, identity in directory.logs.items()}
    known = known_transactions(path for (_, topic, _), path in left.items() if topic == _TRANSACTIONS_TOPIC)
    topics = sorted(directory.metadata.state.topics.values(), key=lambda topic: topic.name)
    for topic in topics:
        problems = len(findings.problems)
        record_count = size_bytes = 0
        for partition, state in sorted(topic.partitions.items()):
            said = next((by_id[one] for one in state.directories if one in by_id), None)
            holding = [path for path in directory.logs if (path, topic.name, partition) in left]
            if not holding:
                missing = (said or next(iter(directory.logs))) / f"{topic.name}-{partition}"
                findings.problem(f"{missing}: it is not there; Kafka would make it anew, empty")
                continue
            place = said if said in holding else holding[0]
            folder = left.pop((place, topic.name, partition))
            if said not in (place, None):
                findings.problem(f"{folder}: the metadata says that it lies in {said}; {_AGAIN}")
            _check_topic_id(folder, topic.topic_id, findings)
            files = inspect_partition(folder, group_records=topic.name == _OFFSETS_TOPIC)
            directory.partitions[topic.name, partition] = files
            findings.problems.extend(files.problems)
            if files.newest_epoch > state.leader_epoch:
                findings.problem(
                    f"{folder / LEADER_EPOCHS}: the log is of leader epoch {files.newest_epoch}, the metadata of "
                    f"{state.leader_epoch}; {_AGAIN}"
                )
            for producer_id, offset in files.open_transactions.items():
                what = f"{folder}: the transaction of producer {producer_id} that begins at offset {offset}"
                if (producer_id, topic.name, partition) in known:
                    findings.fact("goes on", f"{what} is open; Kafka ends it, or its producer does")
                else:
                    findings.problem(
                        f"{what} has no end, and no transactional id knows of it; consumers would wait for it for "
                        "ever: abort it first (kafka-transactions.sh abort)"
                    )
            record_count += files.record_count
            size_bytes += files.size_bytes
            directory.has_new_groups |= not _NEW_GROUP_TYPES.isdisjoint(files.group_record_types)
        if len(findings.problems) == problems:
            findings.fact(
                "topic",
                f"{topic.name}: {counted(len(topic.partitions), 'partition')}, {counted(record_count, 'record')}, "
                f"{size(size_bytes)}, sound",
            )
    for folder in left.values():
        findings.problem(f"{folder}: no topic has this partition, so Kafka would set it aside; {_AGAIN}")


def _check_topic_id(folder: Path, topic_id: bytes, findings: Findings) -> None:
    try:
        its_id = read_topic_id(folder)
    except CorruptFile as error:
        findings.problem(str(error))
        return
    if its_id != topic_id:
        says = "is not there" if its_id is None else f"names topic id {uuid_text(its_id)}"
        findings.problem(
            f"{folder / 'partition.metadata'}: it {says}, and the topic's is {uuid_text(topic_id)}; Kafka would set "
            "the folder aside"
        )


def _check_checkpoints(directory: Directory, at: Path) -> None:
    findings = directory.findings
    for name in OFFSET_CHECKPOINTS:
        path = at / name
        try:
            offsets = read_offsets(path)
        except (CorruptFile, OSError) as error:
            findings.problem(str(error))
            continue
        for partition, offset in offsets.items():
            files = directory.partitions.get(partition)
            if (
                files is not None
                and files.folder.parent == at
                and offset > files.end_offset
                and name in (HIGH_WATERMARK, LOG_START)
            ):
                findings.problem(
                    f"{path}: {partition[0]}-{partition[1]} is at offset {offset}, and its log ends at "
                    f"{files.end_offset}"
                )


def _check_access(directory: Directory, at: Path) -> None:
    """Kafka writes to all of it."""
    owner = at.stat().st_uid
    for place in (at, *(files.folder for files in directory.partitions.values() if files.folder.parent == at)):
        if not os.access(place, os.W_OK | os.X_OK):
            directory.findings.problem(f"{place}: it cannot be written to")
        elif place.stat().st_uid != owner:
            directory.findings.problem(f"{place}: it belongs to another user than the directory does")
