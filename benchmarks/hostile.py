"""How long do others wait for a hostile client? Twenty of each API's worst, and one that only sends heartbeats.

The worst client of an API sends a megabyte of what it may ask for, again as soon as it has its answer: names without
end, partitions without end, times that lie inside compressed batches. They are clients of one process with a low
priority, so that on two cores they do not take from the broker what is measured. The heartbeat is one of a group,
sent every few milliseconds on a connection of its own.
Then what a storm of commits loses beside a client of garbage and one that never reads: 20,000 commits for 200 groups by
20 clients, alone and beside the two.
"""

import argparse
import contextlib
import multiprocessing
import os
import re
import selectors
import socket
import struct
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event

from benchmarks.common import Row, arguments, brokers, create_topic, machine, median, show
from protocol.frames import encode_request
from protocol.messages import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from protocol.records.batch import Record, encode_batch
from protocol.schema import Message
from tests.crash.test_storm import Storm, deaf, garbage, prepare
from tests.support.broker_process import BrokerProcess, Kohort
from tests.support.wire import Wire

HOSTILE = 20
MEGABYTE = 1_000_000
WIDE, PARTITIONS = "wide", 2_000
PACKED, BATCHES = "packed", 50
GROUPS = 2_000
LIMIT_MS = 50
_LZ4 = 3

Worst = tuple[Message, int]


def _names(prefix: str, size: int = MEGABYTE) -> list[str]:
    """A megabyte of names that nobody has heard of."""
    return [f"{prefix}-{number}" for number in range(size // (len(prefix) + 8))]


def _partitions(each_bytes: int) -> range:
    """The partitions of the wide topic, and then some that it does not have."""
    return range(MEGABYTE // each_bytes)


def worst() -> dict[str, Callable[[], Worst]]:
    """By API: what its worst client asks for."""
    return {
        "Produce": lambda: (
            produce.ProduceRequest(
                acks=1,
                timeout_ms=1_000,
                topic_data=[
                    produce.TopicProduceData(
                        name=WIDE,
                        partition_data=[
                            produce.PartitionProduceData(index=index, records=b"") for index in _partitions(8)
                        ],
                    )
                ],
            ),
            7,
        ),
        "Fetch": lambda: (
            fetch.FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                topics=[
                    fetch.FetchTopic(
                        topic=WIDE,
                        partitions=[
                            fetch.FetchPartition(partition=index % PARTITIONS, fetch_offset=0, partition_max_bytes=1000)
                            for index in _partitions(28)
                        ],
                    )
                ],
            ),
            11,
        ),
        "ListOffsets": lambda: (_listed(WIDE, _partitions(16), -1), 7),
        "ListOffsets by time": lambda: (_listed(PACKED, range(BATCHES), _MIDDLE_MS), 7),
        "ListOffsets -3": lambda: (_listed(PACKED, range(BATCHES), -3), 7),
        "OffsetForLeaderEpoch": lambda: (
            offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                topics=[
                    offset_for_leader_epoch.OffsetForLeaderTopic(
                        topic=WIDE,
                        partitions=[
                            offset_for_leader_epoch.OffsetForLeaderPartition(partition=index, leader_epoch=0)
                            for index in _partitions(12)
                        ],
                    )
                ]
            ),
            3,
        ),
        "Metadata": lambda: (
            metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name) for name in _names("absent")]),
            8,
        ),
        "Metadata of all": lambda: (metadata.MetadataRequest(topics=None), 8),
        "DescribeTopicPartitions": lambda: (
            describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name=name) for name in _names("absent")]
            ),
            0,
        ),
        "OffsetCommit": lambda: (
            offset_commit.OffsetCommitRequest(
                group_id="hostile",
                member_id="",
                topics=[
                    offset_commit.OffsetCommitRequestTopic(
                        name=WIDE,
                        partitions=[
                            offset_commit.OffsetCommitRequestPartition(
                                partition_index=index % PARTITIONS, committed_offset=1, committed_metadata=""
                            )
                            for index in _partitions(18)
                        ],
                    )
                ],
            ),
            7,
        ),
        "OffsetFetch": lambda: (
            offset_fetch.OffsetFetchRequest(
                groups=[
                    offset_fetch.OffsetFetchRequestGroup(
                        group_id="crowded",
                        topics=[
                            offset_fetch.OffsetFetchRequestTopics(
                                name=WIDE, partition_indexes=[index % PARTITIONS for index in _partitions(4)]
                            )
                        ],
                    )
                ]
            ),
            8,
        ),
        "OffsetFetch of many": lambda: (
            offset_fetch.OffsetFetchRequest(
                groups=[offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None) for name in _names("absent")]
            ),
            8,
        ),
        "OffsetDelete": lambda: (
            offset_delete.OffsetDeleteRequest(
                group_id="crowded",
                topics=[
                    offset_delete.OffsetDeleteRequestTopic(
                        name=WIDE,
                        partitions=[
                            offset_delete.OffsetDeleteRequestPartition(partition_index=PARTITIONS + index)
                            for index in _partitions(4)
                        ],
                    )
                ],
            ),
            0,
        ),
        "FindCoordinator": lambda: (
            find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=_names("absent")),
            4,
        ),
        "JoinGroup": lambda: (
            join_group.JoinGroupRequest(
                group_id="hostile-join",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=[join_group.JoinGroupRequestProtocol(name=name, metadata=b"") for name in _names("p")],
            ),
            5,
        ),
        "SyncGroup": lambda: (
            sync_group.SyncGroupRequest(
                group_id="hostile",
                generation_id=1,
                member_id="nobody",
                assignments=[
                    sync_group.SyncGroupRequestAssignment(member_id=name, assignment=b"") for name in _names("m")
                ],
            ),
            3,
        ),
        "LeaveGroup": lambda: (
            leave_group.LeaveGroupRequest(
                group_id="crowded", members=[leave_group.MemberIdentity(member_id=name) for name in _names("m")]
            ),
            3,
        ),
        "DescribeGroups": lambda: (describe_groups.DescribeGroupsRequest(groups=_names("absent")), 5),
        "ListGroups": lambda: (list_groups.ListGroupsRequest(), 4),
        "DeleteGroups": lambda: (delete_groups.DeleteGroupsRequest(groups_names=_names("absent")), 2),
        "CreateTopics": lambda: (
            create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(
                        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
                    )
                    for name in _names("maybe", MEGABYTE // 2)
                ],
                timeout_ms=1_000,
                validate_only=True,
            ),
            4,
        ),
        "CreateTopics, one wide": lambda: (
            create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(
                        name="maybe", num_partitions=100_000, replication_factor=1, assignments=[], configs=[]
                    )
                ],
                timeout_ms=1_000,
                validate_only=True,
            ),
            4,
        ),
        "CreatePartitions": lambda: (
            create_partitions.CreatePartitionsRequest(
                topics=[
                    create_partitions.CreatePartitionsTopic(name=name, count=2, assignments=None)
                    for name in _names("absent")
                ],
                timeout_ms=1_000,
                validate_only=True,
            ),
            1,
        ),
        "DeleteTopics": lambda: (
            delete_topics.DeleteTopicsRequest(topic_names=_names("absent"), timeout_ms=1_000),
            5,
        ),
        "DeleteRecords": lambda: (
            delete_records.DeleteRecordsRequest(
                topics=[
                    delete_records.DeleteRecordsTopic(
                        name=WIDE,
                        partitions=[
                            delete_records.DeleteRecordsPartition(partition_index=index, offset=0)
                            for index in _partitions(12)
                        ],
                    )
                ],
                timeout_ms=1_000,
            ),
            1,
        ),
        "DescribeConfigs": lambda: (
            describe_configs.DescribeConfigsRequest(
                resources=[
                    describe_configs.DescribeConfigsResource(resource_type=2, resource_name=name)
                    for name in _names("absent")
                ]
            ),
            2,
        ),
        "AlterConfigs": lambda: (
            alter_configs.AlterConfigsRequest(
                resources=[
                    alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=[])
                    for name in _names("absent")
                ],
                validate_only=True,
            ),
            1,
        ),
        "IncrementalAlterConfigs": lambda: (
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[
                    incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=[])
                    for name in _names("absent")
                ],
                validate_only=True,
            ),
            0,
        ),
        "DescribeLogDirs": lambda: (
            describe_log_dirs.DescribeLogDirsRequest(
                topics=[describe_log_dirs.DescribableLogDirTopic(topic=WIDE, partitions=list(range(MEGABYTE // 4)))]
            ),
            1,
        ),
        "ElectLeaders": lambda: (
            elect_leaders.ElectLeadersRequest(
                election_type=0,
                topic_partitions=[elect_leaders.TopicPartitions(topic=WIDE, partitions=list(_partitions(4)))],
                timeout_ms=1_000,
            ),
            1,
        ),
        "AlterPartitionReassignments": lambda: (
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                timeout_ms=1_000,
                topics=[
                    alter_partition_reassignments.ReassignableTopic(
                        name=WIDE,
                        partitions=[
                            alter_partition_reassignments.ReassignablePartition(partition_index=index, replicas=None)
                            for index in _partitions(6)
                        ],
                    )
                ],
            ),
            0,
        ),
        "Heartbeat, thousands at once": lambda: (
            heartbeat.HeartbeatRequest(group_id="hostile", generation_id=1, member_id="nobody"),
            3,
        ),
    }


_MIDDLE_MS = 1_700_000_000_000 + 30_000


def _listed(topic: str, partitions: range, timestamp: int) -> list_offsets.ListOffsetsRequest:
    wanted = [list_offsets.ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in partitions]
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=wanted)]
    )


def frames_of(api: str) -> bytes:
    """What the worst client of this API sends at once."""
    request, version = worst()[api]()
    frame = encode_request(request, version, 1, "hostile")
    return frame * (MEGABYTE // 4 // len(frame)) if api.endswith("at once") else frame


def attack(address: str, data: bytes, begun: Event, end: Event) -> None:
    """Twenty connections that send `data`, wait for all the answers to it, and send it again."""
    os.nice(10)
    host, _, port = address.rpartition(":")
    count, position = 0, 0
    while position < len(data):
        position += 4 + struct.unpack_from(">i", data, position)[0]
        count += 1
    selector = selectors.DefaultSelector()
    for _ in range(HOSTILE):
        connection = socket.create_connection((host, int(port)))
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_WRITE, [memoryview(data), b"", 0, count])
    room = bytearray(1 << 20)
    while not end.is_set():
        for key, _ in selector.select(0.1):
            _serve(selector, key, data, room, count)
        begun.set()


def _serve(
    selector: selectors.BaseSelector, key: selectors.SelectorKey, data: bytes, room: bytearray, count: int
) -> None:
    state, connection = key.data, key.fileobj
    assert isinstance(connection, socket.socket)
    if state[0]:
        state[0] = state[0][connection.send(state[0]) :]
        selector.modify(connection, selectors.EVENT_READ | (selectors.EVENT_WRITE if state[0] else 0), state)
    with contextlib.suppress(BlockingIOError):
        size = connection.recv_into(room)
        if not size:
            sys.exit("a hostile client was thrown out: it must be answered to be a nuisance")
        # Frames are only counted: a head that came in pieces, how much of a frame is still to come, how many frames.
        position = 0
        while position < size:
            if state[2]:
                step = min(state[2], size - position)
                state[2] -= step
                position += step
                state[3] -= state[2] == 0
            else:
                head = bytes(room[position : min(position + 4 - len(state[1]), size)])
                position += len(head)
                state[1] += head
                if len(state[1]) == 4:
                    state[2] = struct.unpack(">i", state[1])[0]
                    state[1] = b""
    if not state[3]:
        state[0], state[3] = memoryview(data), count
        selector.modify(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, state)


def heartbeats(address: str, seconds: float) -> list[float]:
    """How long each heartbeat of one quiet client took, in ms, sorted."""
    request = heartbeat.HeartbeatRequest(group_id="quiet", generation_id=1, member_id="nobody")
    times_ms = []
    with Wire(address) as wire:
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(times_ms) < 3:
            began = time.perf_counter()
            wire.call(request, 3)
            times_ms.append((time.perf_counter() - began) * 1_000)
            time.sleep(0.002)
    return sorted(times_ms)


@contextlib.contextmanager
def beside(address: str, data: bytes) -> Iterator[None]:
    """Hostile clients are at work."""
    context = multiprocessing.get_context("spawn")
    begun, end = context.Event(), context.Event()
    process = context.Process(target=attack, args=(address, data, begun, end), daemon=True)
    process.start()
    begun.wait(60)
    time.sleep(0.5)
    try:
        yield
        if process.exitcode:
            sys.exit("a hostile client was thrown out")
    finally:
        end.set()
        process.join(10)
        process.kill()


def furnish(broker: BrokerProcess) -> None:
    """A wide topic, one of large compressed batches, many groups and one with many offsets."""
    create_topic(broker, WIDE, PARTITIONS)
    create_topic(broker, PACKED, BATCHES)
    records = [Record(at, 1_700_000_000_000 + at, b"k", b"x" * 100) for at in range(60_000)]
    packed = encode_batch(records, compression=_LZ4)
    with Wire(broker.address) as wire:
        for index in range(BATCHES):
            data = produce.TopicProduceData(
                name=PACKED, partition_data=[produce.PartitionProduceData(index=index, records=packed)]
            )
            answer = wire.call(produce.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 7)
            assert answer.responses[0].partition_responses[0].error_code == 0
        for number in range(GROUPS):
            wire.commit(f"group-{number}", WIDE, {0: 1})
        wire.commit("crowded", WIDE, dict.fromkeys(range(PARTITIONS), 1))


def stalls(broker: BrokerProcess) -> list[str]:
    """What the broker itself says of turns of its loop that took too long, by API."""
    if not isinstance(broker, Kohort):
        return []
    text = urllib.request.urlopen(f"{broker.http}/metrics").read().decode()
    found = re.findall(r'^kohort_loop_longest_stall_seconds\{api="(.*?)"\} (\S+)', text, re.MULTILINE)
    return [
        f"{name} {float(seconds) * 1_000:.0f} ms" for name, seconds in sorted(found, key=lambda one: -float(one[1]))
    ]


def waiting(options: argparse.Namespace) -> list[Row]:
    """The longest heartbeat beside the worst of each API, the median of the rounds."""
    rows = []
    with brokers(options, **{"num.partitions": 1}) as running:
        for broker in running:
            furnish(broker)
            heartbeats(broker.address, 1)
        apis = [None, *(api for api in worst() if not options.api or api in options.api)]
        for api in apis:
            row = Row(api or "nobody", "ms", "" if api is None else f"<= {LIMIT_MS}")
            rows.append(row)
            for broker in running:
                longest, middle = [], []
                for _ in range(options.rounds):
                    with beside(broker.address, frames_of(api)) if api else contextlib.nullcontext():
                        times_ms = heartbeats(broker.address, options.seconds)
                    longest.append(times_ms[-1])
                    middle.append(median(times_ms))
                row.figures[broker.name] = median(longest)
                row.notes[broker.name] = f"p50 {median(middle):.1f}"
            print(f"{row.question}: {row.figures} {row.notes}", file=sys.stderr)
        for broker in running:
            print(f"{broker.name} says that its loop was held: {', '.join(stalls(broker)) or '-'}", file=sys.stderr)
    return rows


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=3, help="how long heartbeats are sent beside each (3)")
    parser.add_argument("--api", action="append", help="only this API's worst client; may be repeated")
    options = parser.parse_args()
    rows = waiting(options)
    print(f"\n{machine()}; the longest heartbeat of {options.seconds:g} s, median of {options.rounds}\n")
    show(rows, options)
    if not options.api:
        storms(options)


def storms(options: argparse.Namespace) -> None:
    """Commits alone and beside hostile connections: each round alone first."""
    rows = [Row("commits alone", "/s"), Row("commits beside hostile connections", "/s")]
    cpu = [Row("broker CPU a commit, alone", "us"), Row("broker CPU a commit, beside", "us")]
    with brokers(options) as running:
        for broker in running:
            prepare(broker)
            Storm(broker.address, "topic-0", 1)  # warms up
            alone, hostile = [], []
            for number in range(options.rounds):
                alone.append(_storm(broker, (2 * number + 1) * 1_000_000))
                with garbage(broker.address, seed=number), deaf(broker):
                    hostile.append(_storm(broker, (2 * number + 2) * 1_000_000))
            for which, measured in enumerate((alone, hostile)):
                rows[which].figures[broker.name] = median([rate for rate, _ in measured])
                cpu[which].figures[broker.name] = median([cost for _, cost in measured])
    print(f"\n{machine()}; median of {options.rounds}\n")
    show([*rows, *cpu], options)


def _storm(broker: BrokerProcess, first_offset: int) -> tuple[float, float]:
    """(commits a second, microseconds of the broker's CPU time for each)."""
    began, used_s = time.monotonic(), broker.cpu_s()
    storm = Storm(broker.address, "topic-0", first_offset)
    took_s = time.monotonic() - began
    assert not storm.failures, storm.failures[:3]
    return storm.commits / took_s, (broker.cpu_s() - used_s) / storm.commits * 1e6


if __name__ == "__main__":
    main()
