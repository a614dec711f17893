"""The messages of transactions as clients and brokers put them on the wire: bytes captured from Apache Kafka.

Requests without their headers. TxnOffsetCommit 6 is what the Java client 4.4.0 makes of the same values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
    write_txn_markers,
)

if TYPE_CHECKING:
    from protocol.schema import Message

Topic = add_partitions_to_txn.AddPartitionsToTxnTopic
TopicResult = add_partitions_to_txn.AddPartitionsToTxnTopicResult
PartitionResult = add_partitions_to_txn.AddPartitionsToTxnPartitionResult
TOPIC_ID = bytes(range(16))

CAPTURED: dict[str, tuple[int, Message, str]] = {
    "init_producer_id_request_v0": (
        0,
        init_producer_id.InitProducerIdRequest(transactional_id="tx-aio", transaction_timeout_ms=60_000),
        "0006 74782d61696f 0000ea60",
    ),
    "init_producer_id_response_v0": (
        0,
        init_producer_id.InitProducerIdResponse(producer_id=3001, producer_epoch=0),
        "00000000 0000 0000000000000bb9 0000",
    ),
    "init_producer_id_request_v5": (
        5,
        init_producer_id.InitProducerIdRequest(transactional_id="tx-v2", transaction_timeout_ms=60_000),
        "06 74782d7632 0000ea60 ffffffffffffffff ffff 00",
    ),
    "init_producer_id_response_v5": (
        5,
        init_producer_id.InitProducerIdResponse(producer_id=5, producer_epoch=0),
        "00000000 0000 0000000000000005 0000 00",
    ),
    "add_partitions_to_txn_request_v0": (
        0,
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx-cf",
            v3_and_below_producer_id=3000,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[Topic(name="out-cf", partitions=[1])],
        ),
        "0005 74782d6366 0000000000000bb8 0000 00000001 0006 6f75742d6366 00000001 00000001",
    ),
    "add_partitions_to_txn_response_v0": (
        0,
        add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                TopicResult(name="out-cf", results_by_partition=[PartitionResult(partition_index=1)])
            ]
        ),
        "00000000 00000001 0006 6f75742d6366 00000001 00000001 0000",
    ),
    "add_partitions_to_txn_request_v3": (
        3,
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx-kp",
            v3_and_below_producer_id=3002,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[Topic(name="out-kp", partitions=[0, 1])],
        ),
        "06 74782d6b70 0000000000000bba 0000 02 07 6f75742d6b70 03 00000000 00000001 00 00",
    ),
    "add_partitions_to_txn_response_v3": (
        3,
        add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                TopicResult(
                    name="out-kp",
                    results_by_partition=[PartitionResult(partition_index=0), PartitionResult(partition_index=1)],
                )
            ]
        ),
        "00000000 02 07 6f75742d6b70 03 00000000 0000 00 00000001 0000 00 00 00",
    ),
    "add_partitions_to_txn_request_v5": (
        5,
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            transactions=[
                add_partitions_to_txn.AddPartitionsToTxnTransaction(
                    transactional_id="tx-java",
                    producer_id=3003,
                    producer_epoch=0,
                    topics=[Topic(name="out-kp", partitions=[1])],
                )
            ]
        ),
        "02 08 74782d6a617661 0000000000000bbb 0000 00 02 07 6f75742d6b70 02 00000001 00 00 00",
    ),
    "add_partitions_to_txn_response_v5": (
        5,
        add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_transaction=[
                add_partitions_to_txn.AddPartitionsToTxnResult(
                    transactional_id="tx-java",
                    topic_results=[
                        TopicResult(name="out-kp", results_by_partition=[PartitionResult(partition_index=1)])
                    ],
                )
            ]
        ),
        "00000000 0000 02 08 74782d6a617661 02 07 6f75742d6b70 02 00000001 0000 00 00 00 00",
    ),
    "add_offsets_to_txn_request_v3": (
        3,
        add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id="tx-kp", producer_id=3002, producer_epoch=0, group_id="g-kp"
        ),
        "06 74782d6b70 0000000000000bba 0000 05 672d6b70 00",
    ),
    "add_offsets_to_txn_response_v3": (3, add_offsets_to_txn.AddOffsetsToTxnResponse(), "00000000 0000 00"),
    "end_txn_request_v1": (
        1,
        end_txn.EndTxnRequest(transactional_id="tx-cf", producer_id=3000, producer_epoch=0, committed=True),
        "0005 74782d6366 0000000000000bb8 0000 01",
    ),
    "end_txn_request_v3": (
        3,
        end_txn.EndTxnRequest(transactional_id="tx-v1", producer_id=4, producer_epoch=0, committed=True),
        "06 74782d7631 0000000000000004 0000 01 00",
    ),
    "end_txn_response_v3": (3, end_txn.EndTxnResponse(), "00000000 0000 00"),
    "end_txn_request_v5": (
        5,
        end_txn.EndTxnRequest(transactional_id="tx-v2", producer_id=5, producer_epoch=3, committed=True),
        "06 74782d7632 0000000000000005 0003 01 00",
    ),
    "end_txn_response_v5": (
        5,
        end_txn.EndTxnResponse(producer_id=5, producer_epoch=4),
        "00000000 0000 0000000000000005 0004 00",
    ),
    "write_txn_markers_request_v2": (
        2,
        write_txn_markers.WriteTxnMarkersRequest(
            markers=[
                write_txn_markers.WritableTxnMarker(
                    producer_id=3003,
                    producer_epoch=1,
                    transaction_result=True,
                    topics=[write_txn_markers.WritableTxnMarkerTopic(name="out-kp", partition_indexes=[1])],
                    coordinator_epoch=6,
                    transaction_version=2,
                )
            ]
        ),
        "02 0000000000000bbb 0001 01 02 07 6f75742d6b70 02 00000001 00 00000006 02 00 00",
    ),
    "write_txn_markers_response_v2": (
        2,
        write_txn_markers.WriteTxnMarkersResponse(
            markers=[
                write_txn_markers.WritableTxnMarkerResult(
                    producer_id=3003,
                    topics=[
                        write_txn_markers.WritableTxnMarkerTopicResult(
                            name="out-kp",
                            partitions=[write_txn_markers.WritableTxnMarkerPartitionResult(partition_index=1)],
                        )
                    ],
                )
            ]
        ),
        "02 0000000000000bbb 02 07 6f75742d6b70 02 00000001 0000 00 00 00 00",
    ),
    "txn_offset_commit_request_v0": (
        0,
        txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id="tx-aio",
            group_id="g-aio",
            producer_id=3001,
            producer_epoch=0,
            topics=[
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    name="in-aio",
                    partitions=[
                        txn_offset_commit.TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=2, committed_metadata=""
                        )
                    ],
                )
            ],
        ),
        "0006 74782d61696f 0005 672d61696f 0000000000000bb9 0000 00000001 0006 696e2d61696f 00000001 00000000"
        "0000000000000002 0000",
    ),
    "txn_offset_commit_response_v0": (
        0,
        txn_offset_commit.TxnOffsetCommitResponse(
            topics=[
                txn_offset_commit.TxnOffsetCommitResponseTopic(
                    name="in-aio",
                    partitions=[txn_offset_commit.TxnOffsetCommitResponsePartition(partition_index=0)],
                )
            ]
        ),
        "00000000 00000001 0006 696e2d61696f 00000001 00000000 0000",
    ),
    "txn_offset_commit_request_v3": (
        3,
        txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id="tx-off",
            group_id="grp1",
            producer_id=14,
            producer_epoch=0,
            topics=[
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    name="t1",
                    partitions=[
                        txn_offset_commit.TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=5, committed_metadata="m"
                        )
                    ],
                )
            ],
        ),
        "07 74782d6f6666 05 67727031 000000000000000e 0000 ffffffff 01 00 02 03 7431 02 00000000 0000000000000005"
        "ffffffff 02 6d 00 00 00",
    ),
    "txn_offset_commit_request_v6": (
        6,
        txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id="tx-off",
            group_id="grp1",
            producer_id=14,
            producer_epoch=2,
            generation_id_or_member_epoch=7,
            member_id="m-1",
            group_instance_id="i",
            topics=[
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        txn_offset_commit.TxnOffsetCommitRequestPartition(
                            partition_index=3, committed_offset=5, committed_leader_epoch=1, committed_metadata="m"
                        )
                    ],
                )
            ],
        ),
        "07 74782d6f6666 05 67727031 000000000000000e 0002 00000007 04 6d2d31 02 69 02"
        "000102030405060708090a0b0c0d0e0f 02 00000003 0000000000000005 00000001 02 6d 00 00 00",
    ),
    "txn_offset_commit_response_v6": (
        6,
        txn_offset_commit.TxnOffsetCommitResponse(
            throttle_time_ms=9,
            topics=[
                txn_offset_commit.TxnOffsetCommitResponseTopic(
                    topic_id=TOPIC_ID,
                    partitions=[txn_offset_commit.TxnOffsetCommitResponsePartition(partition_index=3, error_code=113)],
                )
            ],
        ),
        "00000009 02 000102030405060708090a0b0c0d0e0f 02 00000003 0071 00 00 00",
    ),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_the_bytes_are_kafkas(name: str) -> None:
    """Both ways: what we write is what was captured, and what was captured reads as what was meant."""
    version, message, text = CAPTURED[name]
    data = bytes.fromhex(text)

    assert message.encode(version) == data
    assert type(message).decode(version, data) == message
