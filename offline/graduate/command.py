"""`kohort graduate`: look at a stopped directory, append what the target needs, print what Kafka is to be started with.

Facts and problems go to standard error, one a line; `server.properties`, and nothing else, to standard output.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from broker.catalogue.acls import DENY
from broker.catalogue.startup import oldest_kafka
from broker.config.host_ranges import network
from broker.config.settings_sources import everything_given, gather
from offline.graduate.directory import Directory, inspect
from offline.graduate.findings import counted
from offline.graduate.metadata import append_features
from offline.graduate.properties import not_carried, server_properties
from offline.graduate.targets import TARGETS, Target, target
from storage.directory.log_directories import LogDirectories, absolute_paths
from storage.errors import CorruptFile, DirectoryRefused, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.catalogue.cluster_state import ClusterState
    from broker.config.settings import Settings

_REFUSED = 1
_ONCE = "once the levels are appended"


@dataclass(slots=True)
class Wish:
    """What was asked for."""

    config: Path | None = None
    overrides: list[str] = field(default_factory=list)
    only_check: bool = False
    to: Target | None = None


def known_versions() -> str:
    """For texts."""
    return ", ".join(one.version for one in TARGETS)


def find_target(version: str) -> Target | None:
    """The release of a version; None when it is not known."""
    return target(version)


def run(wish: Wish, environment: Mapping[str, str]) -> int:
    """Carry it out; return the exit code. Raises: SettingsError."""
    sources = gather(wish.config, environment, wish.overrides)
    given = everything_given(wish.config, environment, wish.overrides)
    try:
        settings = sources.settings
        for path in absolute_paths(settings.log_dirs):
            if not path.is_dir():
                raise DirectoryRefused(f"there is no directory {path}")
        directories = LogDirectories.open(settings.log_dirs, settings.metadata_log_dir, all_of_them=True)
    except DirectoryRefused as error:
        return _refuse([str(error)])
    try:
        return _graduate(directories, wish, settings, given)
    except (CorruptFile, DirectoryRefused, StorageError) as error:
        return _refuse([str(error)])
    finally:
        directories.close()


def _graduate(directories: LogDirectories, wish: Wish, settings: Settings, given: Mapping[str, str]) -> int:
    directory = inspect(directories)
    path = directory.path
    findings = directory.findings
    for about, what in findings.facts:
        _say(f"{about:11} {what}")
    problems = list(findings.problems)
    metadata = directory.metadata
    if metadata is not None and wish.to is not None:
        problems += [f"{path}: {why}" for why in wish.to.refusals(metadata.state.features)]
    if metadata is None or problems:
        return _refuse(problems)
    features = metadata.state.features
    raising = [] if wish.to is None else wish.to.raising(features)
    if raising and not wish.only_check:
        assert directory.identity is not None
        append_features(path, directory.identity, raising, int(time.time() * 1_000))
    for record in raising:
        verb = "to append" if wish.only_check else "appended"
        _say(f"{verb:11} {record.name} {record.feature_level}, which was {features.get(record.name, 0)}")
    _tell_what_carries_over(directory, wish, given)
    raised = {**features, **{record.name: record.feature_level for record in raising}}
    still_to_come = raising and wish.only_check
    oldest = oldest_kafka(raised)
    if oldest is not None:
        _say(f"{'careful':11} no Kafka older than {oldest} starts on it {_ONCE if still_to_come else 'any more'}")
    if wish.only_check:
        afterwards = f" as it is now; Kafka {_ready(raised)} {_ONCE}" if still_to_come else ""
        _say(f"{'ready for':11} Kafka {_ready(features)}{afterwards}")
        return 0
    version = _likely_version(directory, wish)
    print("\n".join(server_properties(directory, settings, given, version)), flush=True)
    _say(f"{'next':11} give the lines on standard output to Kafka as server.properties; do not format the directory")
    return 0


def _ready(features: Mapping[str, int]) -> str:
    return ", ".join(one.version for one in TARGETS if not one.refusals(features))


def _likely_version(directory: Directory, wish: Wish) -> str:
    return TARGETS[-1].version if wish.to is None else wish.to.version


def _tell_what_carries_over(directory: Directory, wish: Wish, given: Mapping[str, str]) -> None:
    assert directory.metadata is not None
    state = directory.metadata.state
    records = sum(files.record_count for files in directory.partitions.values())
    _say(
        f"{'carries':11} {counted(len(state.topics), 'topic')} with ids and configs, "
        f"{counted(len(directory.partitions), 'partition')}, {counted(records, 'record')}, every offset"
    )
    if any(topic == "__consumer_offsets" for topic, _ in directory.partitions):
        _say(f"{'carries':11} groups and their committed offsets; members rejoin or go on")
    if any(topic == "__kohort_rebalances" for topic, _ in directory.partitions):
        _say(f"{'ends':11} the rebalance ledger: __kohort_rebalances is carried over, and nobody goes on writing it")
    _say(f"{'carries':11} producer ids from {state.next_producer_id} on, and what each producer wrote last")
    if directory.has_new_groups and wish.to is None and not state.features.get("group.version"):
        _say(f"{'careful':11} there are groups of the new protocol: Kafka 4 serves them after --to 4.x")
    _warn_of_host_ranges(state, wish)
    for key in not_carried(given):
        _say(f"{'stays here':11} {key}, which only Kohort knows")
    if given.get("kohort.durability", "").strip() == "always":
        _say(f"{'carries':11} kohort.durability=always as log.flush.interval.messages=1")


def _warn_of_host_ranges(state: ClusterState, wish: Wish) -> None:
    if wish.to is not None and wish.to.knows_host_ranges:
        return
    acls = [acl for acl in state.kept.acls.values() if network(acl.host) is not None]
    if acls:
        count = counted(len(acls), "ACL")
        _say(f"{'careful':11} {count} with a range of hosts: to a Kafka before 4.4 such a range means nobody")
    for acl in acls:
        if acl.permission_type == DENY:
            who = f"{acl.principal} from {acl.host} at {acl.resource_name}"
            _say(f"{'careful':11} so it lets in whom a DENY keeps out here: {who}")


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _refuse(problems: list[str]) -> int:
    for problem in problems:
        print(f"kohort: {problem}", file=sys.stderr)
    print("kohort: not ready for Kafka; nothing was changed", file=sys.stderr)
    return _REFUSED
