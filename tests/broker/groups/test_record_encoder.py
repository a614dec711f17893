"""Keys of records are encoded once, as long as there is what they stand for."""

from broker.coordinators.batches import RecordEncoder
from protocol.records.group_records import EncodedValue, GroupMetadataKey, OffsetCommitValue


def test_keys_are_encoded_once_and_forgotten_with_what_they_stand_for():
    """Else a broker whose groups come and go keeps the keys of all that there ever were."""
    asked: list[str] = []

    def encode_key(key: GroupMetadataKey) -> bytes:
        asked.append(key.group)
        return key.group.encode()

    encoder = RecordEncoder(encode_key, bytes)
    a, b = GroupMetadataKey("a"), GroupMetadataKey("b")
    written = [(a, b"1"), (a, b"2"), (a, None), (b, None), (b, None)]
    pairs, _ = encoder.pairs(written)

    assert pairs == [(key.group.encode(), value) for key, value in written]
    assert asked == ["a", "b", "b"]
    assert not encoder._keys


def test_a_value_that_is_encoded_already_takes_as_much_as_any():
    """What a batch may still hold is counted by it."""
    encoder = RecordEncoder(lambda key: key.group.encode(), bytes)
    key, value = GroupMetadataKey("a"), b"v" * 300
    ready = EncodedValue(OffsetCommitValue(offset=1, leader_epoch=-1, metadata="", commit_timestamp=0), b"a", value)

    assert encoder.pairs([(key, ready)]) == encoder.pairs([(key, value)])
