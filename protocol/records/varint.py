"""Variable-length integers: unsigned (lengths in flexible structs) and zig-zag (everything inside a record)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.records.errors import CorruptBatch

if TYPE_CHECKING:
    from protocol.records.compression import Buffer


def encode_uvarint(value: int) -> bytes:
    """`value` >= 0 in groups of seven bits, lowest first."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """A signed 32- or 64-bit `value`, zig-zag."""
    return encode_uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


SMALL_VARINTS = tuple(encode_varint(value) for value in range(1024))
"""The zig-zag bytes of 0..1023: nearly every length and delta that the broker writes."""


def decode_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """The value at `position` and the position after it. Raises: IndexError past the end; CorruptBatch over
    64 bits.
    """
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise CorruptBatch("variable-length integer is longer than ten bytes")


def decode_varint(data: Buffer, position: int) -> tuple[int, int]:
    """As `decode_uvarint`, zig-zag."""
    value, position = decode_uvarint(data, position)
    return (value >> 1) ^ -(value & 1), position
