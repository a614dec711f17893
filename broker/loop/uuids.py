"""Random uuids. `uuid` itself is not imported: it would cost a start several milliseconds."""

from __future__ import annotations

from os import urandom

_VARIANTS = "89ab"  # RFC 4122: in version 4 a nibble says so, and the two upper bits of another are fixed


def random_uuid() -> bytes:
    """A version 4 uuid, 16 bytes, whose text form does not begin with `-`. Source: Kafka's Uuid.randomUuid."""
    while True:
        uuid = bytearray(urandom(16))
        uuid[6] = uuid[6] & 0x0F | 0x40
        uuid[8] = uuid[8] & 0x3F | 0x80
        if uuid[0] >> 2 != 0b111110:  # the first of 22 base64 characters would be `-`
            return bytes(uuid)


def random_uuid_text() -> str:
    """A version 4 uuid as Java prints it, lower case with dashes: what member ids end with."""
    uuid = urandom(16)
    text = uuid.hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANTS[uuid[8] >> 4 & 3]}{text[17:20]}-{text[20:]}"


def random_positive_int32() -> int:
    """A number from 1 to 2^31 - 1."""
    return int.from_bytes(urandom(4)) % (2**31 - 1) + 1
