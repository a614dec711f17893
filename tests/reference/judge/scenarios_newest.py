"""The versions that Apache Kafka 4.4 has and 4.3 has not, and those that only its newest clients use."""

from __future__ import annotations

from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.reference.judge.catalog import scenario
from tests.reference.judge.members import T1
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_admin import api_versions, settled
from tests.reference.judge.scenarios_data import fetches, offsets, refused_fetch, refused_offsets, session
from tests.reference.judge.scenarios_data import topic as made_topic
from tests.reference.judge.scenarios_groups import deleting

for name, act, version in (
    ("ApiVersions", api_versions, 5),
    ("Fetch", fetches, 18),
    ("Fetch-refused", refused_fetch, 18),
    ("Fetch-session", session, 18),
    ("ListOffsets", offsets, 11),
    ("ListOffsets-refused", refused_offsets, 11),
    ("O17", deleting, 3),
):
    scenario(f"{name}-v{version}")(lambda s, act=act, version=version: act(s, version))


@scenario("Offsets-by-id")
def _(s: Script) -> None:
    """Version 10 of OffsetCommit and OffsetFetch: topics are known by their ids, and by those alone."""
    c, group, mine = s.client(), s.name(), made_topic(s)
    first, one, none = s.topic_id(mine), s.topic_id(T1), bytes(16)
    unknown = b"nobody has that!"

    def commit(*topics: tuple[bytes, list[tuple[int, int]]]) -> None:
        said = [
            OffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                    for index, offset in partitions
                ],
            )
            for topic_id, partitions in topics
        ]
        c.call(OffsetCommitRequest(group_id=group, topics=said), 10)

    def fetch(*topics: tuple[bytes, list[int]], version: int = 10) -> None:
        said = [
            OffsetFetchRequestTopics(name=mine, topic_id=topic_id, partition_indexes=partitions)
            for topic_id, partitions in topics
        ]
        asked = OffsetFetchRequestGroup(group_id=group, topics=said or None)
        c.call(OffsetFetchRequest(groups=[asked]), version)

    commit((one, [(0, 5), (1, 6)]), (first, [(0, 7), (1, 8)]))
    commit((one, [(0, 9), (99, 1), (-1, 1)]), (unknown, [(0, 1), (5, 1)]), (none, [(0, 1)]))
    commit((unknown, [(0, 1)]))
    commit((one, []))
    commit((one, [(2, 1)]), (one, [(3, 2)]), (one, [(2, 3)]))
    fetch((one, [0, 1, 2, 3, 9]), (first, [0]), (unknown, [0, 1]), (none, [0]))
    fetch((one, []))
    fetch()
    fetch(version=9)
    c.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=mine)], timeout_ms=30_000), 6)
    settled(s)
    fetch((first, [0]))
    made_topic(s)
    second = s.topic_id(mine)
    fetch((second, [0, 1]))
    commit((first, [(0, 1)]), (second, [(1, 2)]))
    fetch((first, [0]), (second, [0, 1]))


@scenario("ApiVersions-meant")
def _(s: Script) -> None:
    """KIP-1242: the cluster and the node that the client means, right, wrong, and one without the other."""
    c = s.client()
    asked = c.wire.call(MetadataRequest(topics=[]), 9)
    here = asked.cluster_id, asked.controller_id
    for cluster_id, node_id in (
        here,
        (here[0], here[1] + 1),
        ("another", here[1]),
        (None, here[1]),
        (here[0], -1),
        ("", -1),
        ("", here[1]),
    ):
        c.call(
            ApiVersionsRequest(
                client_software_name="judge", client_software_version="1", cluster_id=cluster_id, node_id=node_id
            ),
            5,
        )
