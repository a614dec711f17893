"""The versions of Apache Kafka that the judge knows, and what the older of them lack.

`KAFKA_VERSION` names the one to judge by. Scenarios are written for the newest: where they come to a request in a
version that an older one does not know, they end, on both brokers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

NEWEST = "4.4.0"
VERSIONS = ("3.9.2", "4.3.1", NEWEST)
OLDEST = VERSIONS[0]

_IN_4_3: Mapping[str, int] = {"ApiVersions": 4, "DeleteGroups": 2, "TxnOffsetCommit": 5}
LAST: Mapping[str, Mapping[str, int]] = {
    "4.3.1": _IN_4_3,
    "3.9.2": {
        **_IN_4_3,
        "AlterPartitionReassignments": 0,
        # The new consumer protocol is a preview there, and known to differ.
        "ConsumerGroupDescribe": -1,
        "ConsumerGroupHeartbeat": -1,
        "DescribeCluster": 1,
        "DescribeGroups": 5,
        "DescribeLogDirs": 4,
        "EndTxn": 4,
        "Fetch": 17,
        "ListConfigResources": 0,
        "ListOffsets": 9,
        "ListTransactions": 1,
        "Metadata": 12,
        "OffsetCommit": 9,
        "OffsetFetch": 9,
        "Produce": 11,
        "TxnOffsetCommit": 4,
        "UpdateFeatures": 1,
        "WriteTxnMarkers": 1,
    },
}
"""The last version of an API that an older Kafka is asked: the last that it offers, if nothing else is said."""

SETTINGS: Mapping[str, Mapping[str, object]] = {
    # The group coordinator that is Kafka's only one since 4.0, and was a preview together with the new protocol.
    "3.9.2": {"group.coordinator.rebalance.protocols": "classic,consumer"},
}
"""What an older Kafka has to be told to be what the newest is unasked."""

UNORDERED: Mapping[str, frozenset[str]] = {"3.9.2": frozenset({"MetadataResponseTopic.partitions"})}
"""Lists of answers whose order is that of a hash map in an older Kafka alone."""


def judging() -> str:
    """The version to judge by. Raises: AssertionError for one that is not known here."""
    version = os.environ.get("KAFKA_VERSION", NEWEST)
    assert version in VERSIONS, f"the judge knows Apache Kafka {', '.join(VERSIONS)}, not {version}"
    return version


def is_known(api: str, version: int, by: str) -> bool:
    """Whether this Kafka knows this version of an API."""
    return version <= LAST.get(by, {}).get(api, version)


def is_since(since: str, by: str) -> bool:
    """Whether `by` is this version or a newer one."""
    return VERSIONS.index(by) >= VERSIONS.index(since)
