"""Uuids: 16 bytes on the wire and in memory, 22 characters wherever a person reads them.

Source: Kafka's Uuid.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

ZERO_UUID = bytes(16)
"""No uuid: a topic whose id is not known, or a message of a version that has no ids."""

METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The id of `__cluster_metadata`; never given to another topic. Source: Kafka's Uuid.METADATA_TOPIC_ID."""


def uuid_text(uuid: bytes) -> str:
    """The text form: url-safe base64 without padding, 22 characters."""
    if len(uuid) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(uuid)}")
    return urlsafe_b64encode(uuid)[:22].decode()


def uuid_of_halves(high: int, low: int) -> bytes:
    """The 16 bytes of a client's uuid, of which it tells both halves as signed numbers. Source: Java's UUID."""
    return high.to_bytes(8, "big", signed=True) + low.to_bytes(8, "big", signed=True)


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes of a text form.

    Raises: ValueError when `text` is no uuid.
    """
    try:
        uuid = urlsafe_b64decode(text.encode("ascii") + b"==")
    except ValueError as error:
        raise ValueError(f"not a uuid: {text!r}") from error
    # b64decode leaves out characters that it does not know, and the last one holds 2 bits of the uuid and 4 of nothing.
    if len(uuid) != 16 or uuid_text(uuid) != text:
        raise ValueError(f"not a uuid: {text!r}")
    return uuid
