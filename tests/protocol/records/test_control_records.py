"""Control records against golden bytes."""

import pytest

from protocol.errors import ProtocolError
from protocol.records import batch, control_records
from protocol.records.control_records import ControlType

T0 = 1_700_000_000_000
DIRECTORY = bytes.fromhex("27c6803dc7cb42dd9baacd494ffacc81")
COMMIT_MARKER = bytes.fromhex(
    "00000000000000090000004200000000021739e40b0030000000000000018bcfe568000000018bcfe568000000000000000fa00002ffff"
    "ffff000000012000000008000000010c00000000000900"
)


def test_a_commit_marker_is_kafkas_byte_for_byte():
    """Producer 4000 epoch 2 at offset 9, coordinator epoch 9."""
    made = batch.encode_pairs(
        [control_records.end_transaction(commit=True, coordinator_epoch=9)],
        timestamp=T0,
        base_offset=9,
        leader_epoch=0,
        producer_id=4000,
        producer_epoch=2,
        transactional=True,
        control=True,
    )

    assert bytes(made) == COMMIT_MARKER


@pytest.mark.parametrize(("commit", "kind"), [(True, ControlType.COMMIT), (False, ControlType.ABORT)])
def test_a_marker_says_what_became_of_the_transaction(commit: bool, kind: ControlType):
    key, value = control_records.end_transaction(commit=commit, coordinator_epoch=9)

    assert control_records.control_type(key) is kind
    assert control_records.decode_control_value(kind, value).coordinator_epoch == 9


GOLDEN = [
    (
        ControlType.LEADER_CHANGE,
        "00000000000102000000010002000000010000",
        control_records.LeaderChangeMessage(
            leader_id=1,
            voters=[control_records.Voter(voter_id=1)],
            granting_voters=[control_records.Voter(voter_id=1)],
        ),
    ),
    (ControlType.KRAFT_VERSION, "0000000100", control_records.KRaftVersionRecord(kraft_version=1)),
    (
        ControlType.KRAFT_VOTERS,
        "0000020000000127c6803dc7cb42dd9baacd494ffacc81020b434f4e54524f4c4c45520a6c6f63616c686f737423850000000001000000",
        control_records.KRaftVotersRecord(
            voters=[
                control_records.KRaftVoter(
                    voter_id=1,
                    voter_directory_id=DIRECTORY,
                    endpoints=[control_records.VoterEndpoint(name="CONTROLLER", host="localhost", port=9093)],
                    kraft_version_feature=control_records.KRaftVersionFeature(
                        min_supported_version=0, max_supported_version=1
                    ),
                )
            ]
        ),
    ),
    (ControlType.SNAPSHOT_HEADER, "0000000000000000000000", control_records.SnapshotHeaderRecord()),
    (ControlType.SNAPSHOT_FOOTER, "000000", control_records.SnapshotFooterRecord()),
]


@pytest.mark.parametrize(("kind", "golden", "value"), GOLDEN, ids=[row[0].name for row in GOLDEN])
def test_golden_values_both_ways(kind: ControlType, golden: str, value):
    assert value.encode(0).hex() == golden
    assert control_records.decode_control_value(kind, bytes.fromhex(golden)) == value
    for size in range(len(golden) // 2):
        with pytest.raises(ProtocolError):
            control_records.decode_control_value(kind, bytes.fromhex(golden)[:size])


def test_a_leader_change_is_one_call():
    assert control_records.leader_change(1) == (bytes.fromhex("00000002"), bytes.fromhex(GOLDEN[0][1]))


def test_unknown_versions_are_read_as_0_and_unknown_types_are_skipped():
    """What a reader may meet."""
    assert control_records.control_type(bytes.fromhex("00070001")) is ControlType.COMMIT
    assert control_records.control_type(bytes.fromhex("00000063")) is None
    assert (
        control_records.decode_control_value(ControlType.COMMIT, bytes.fromhex("000500000009")).coordinator_epoch == 9
    )
    for bad in (None, b"", b"\x00\x00\x00", bytes.fromhex("ffff0001")):
        with pytest.raises(ProtocolError):
            control_records.control_type(bad)
    with pytest.raises(ProtocolError):
        control_records.decode_control_value(ControlType.COMMIT, bytes.fromhex("ffff00000009"))
