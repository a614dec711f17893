"""What codecs that are written ahead call."""

from __future__ import annotations

from typing import Any

from librt.strings import BytesWriter


def int8(byte: int) -> int:
    """A byte as a number with a sign."""
    return byte - 256 if byte > 127 else byte


def uuid_at(buffer: bytes, position: int) -> bytes:
    """Sixteen bytes. Raises: IndexError."""
    if position + 16 > len(buffer):
        raise IndexError(position)
    return buffer[position : position + 16]


def checked(value: int, least: int, most: int) -> int:
    """The number itself, if its field can hold it."""
    if not least <= value <= most:
        raise ValueError(f"{value} is not within {least} to {most}")
    return value


def put_size(out: BytesWriter) -> None:
    """Put the size of what follows it into the first four bytes."""
    size = len(out) - 4
    out[0] = size >> 24 & 0xFF
    out[1] = size >> 16 & 0xFF
    out[2] = size >> 8 & 0xFF
    out[3] = size & 0xFF


def chunk_size(chunks: list[Any]) -> list[Any]:
    """The same for a frame in pieces."""
    first = bytearray(chunks[0])
    first[:4] = (sum([len(chunk) for chunk in chunks]) - 4).to_bytes(4, "big")
    chunks[0] = first
    return chunks
