"""Keys of records are encoded once, as long as there is what they stand for."""

from broker.coordinators.batches import RecordEncoder
from protocol.records.group_records import GroupMetadataKey


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
