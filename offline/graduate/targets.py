"""The versions of Apache Kafka that can take over, and which features each of them knows.

Source: what 3.9.2, 4.0.2, 4.1.2, 4.2.1, 4.3.1 and 4.4.0 were seen to start on and to write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Mapping

_METADATA = "metadata.version"
_GROUP = "group.version"  # the KIP-848 protocol: without it 4.x does not describe or serve such groups
_TRANSACTION = "transaction.version"

HOST_RANGES_SINCE = 32  # metadata.version 4.4-IV1


@dataclass(frozen=True, slots=True)
class Target:
    """One release: the highest level of each feature that it knows, and what `--to` brings a directory to."""

    version: str
    lowest_metadata_version: int
    highest: Mapping[str, int]
    appended: Mapping[str, int]

    @property
    def knows_host_ranges(self) -> bool:
        """Whether an ACL may name hosts by a range of addresses. Source: MetadataVersion.isCidrAclSupported."""
        return self.highest[_METADATA] >= HOST_RANGES_SINCE

    def refusals(self, features: Mapping[str, int]) -> list[str]:
        """Why it would not start under these finalized features."""
        found = []
        for name, level in features.items():
            highest = self.highest.get(name)
            if highest is None:
                found.append(f"feature {name} is at level {level}, and Kafka {self.version} does not know it")
            elif level > highest:
                found.append(f"feature {name} is at level {level}, and Kafka {self.version} knows it up to {highest}")
        if features.get(_METADATA, 0) < self.lowest_metadata_version:
            found.append(
                f"{_METADATA} is at level {features.get(_METADATA, 0)}, and Kafka {self.version} needs at least "
                f"{self.lowest_metadata_version}"
            )
        return found

    def raising(self, features: Mapping[str, int]) -> list[Any]:
        """The records that bring these features to what this version needs; a level is never lowered."""
        return [
            records.FeatureLevelRecord(name=name, feature_level=level)
            for name, level in self.appended.items()
            if features.get(name, 0) < level
        ]


def _four(minor: int, level: int, **more: int) -> Target:
    names = {name.replace("_", "."): known for name, known in more.items()}
    appended = {_METADATA: level, _GROUP: 1, _TRANSACTION: 2}
    return Target(f"4.{minor}", 7, {**appended, **names}, appended)


# Not among what is appended: features that change how partitions are led, or that nothing in the directory uses;
# `kafka-features.sh upgrade` raises them in Kafka's own time.
TARGETS = (
    Target("3.9", 1, {_METADATA: 21}, {}),
    _four(0, 25),
    _four(1, 27, eligible_leader_replicas_version=1),
    _four(2, 29, eligible_leader_replicas_version=1, share_version=1, streams_version=1),
    _four(3, 30, eligible_leader_replicas_version=1, share_version=1, streams_version=1),
    _four(4, 33, eligible_leader_replicas_version=1, share_version=2, streams_version=1),
)


def target(version: str) -> Target | None:
    """The release of a version such as 4.3 or 4.3.1; None when it is not known."""
    parts = version.split(".")
    if len(parts) not in (2, 3) or not all(part.isdigit() for part in parts):
        return None
    return next((known for known in TARGETS if known.version == ".".join(parts[:2])), None)
