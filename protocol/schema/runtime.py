"""What compiled decoders and encoders call off their fast path."""

from __future__ import annotations

from protocol.errors import EncodeError, ProtocolError
from protocol.schema.wire_types import MAX_STRING_BYTES


def long_varint(buffer: bytes, position: int, low: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, before `position`, was `low` > 127: (value, position after)."""
    value, shift = low & 0x7F, 7
    while shift < 35:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
        shift += 7
    raise ProtocolError(f"varint longer than 32 bits before position {position}")


def long_string(buffer: bytes, position: int, low: int) -> tuple[int, int]:
    """As `long_varint`, for the length of a string, plus one."""
    value, position = long_varint(buffer, position, low)
    if value > MAX_STRING_BYTES + 1:
        raise ProtocolError(f"string of {value - 1} bytes at position {position}, longer than {MAX_STRING_BYTES}")
    return value, position


def skip_tagged_fields(buffer: bytes, position: int, count: int) -> int:
    """The position after `count` tagged fields, none of which is known. A `count` over 127 is a varint's first byte."""
    if count > 127:
        count, position = long_varint(buffer, position, count)
    for _ in range(count):
        tag = buffer[position]
        position += 1
        if tag > 127:
            tag, position = long_varint(buffer, position, tag)
        size = buffer[position]
        position += 1
        if size > 127:
            size, position = long_varint(buffer, position, size)
        position += size
        if position > len(buffer):
            raise past_end(f"tagged field {tag}", size, position, len(buffer))
    return position


def past_end(name: str, length: int, end: int, size: int) -> ProtocolError:
    """A length that is negative, or whose end lies behind the frame's."""
    if length < 0:
        return ProtocolError(f"{name} is null or has a negative length ({length})")
    return ProtocolError(f"{name} of {length} bytes ends at {end}, the frame at {size}")


def bad_count(name: str, count: int, position: int, size: int) -> ProtocolError:
    """An array's count that is negative, or more than the rest of the frame can hold."""
    if count < 0:
        return ProtocolError(f"{name} is null or has a negative count ({count})")
    return ProtocolError(f"{name} of {count} elements at {position} cannot fit: the frame ends at {size}")


def bad_tag_size(name: str, end: int, position: int) -> ProtocolError:
    """A tagged field whose content and size disagree."""
    return ProtocolError(f"tagged field {name} should end at {end}, its content ends at {position}")


def varint(value: int) -> bytes:
    """An unsigned varint."""
    if 1 << 14 <= value < 1 << 21:  # the records of a fetch, mostly
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string_varint(value: int) -> bytes:
    """The length of a string, plus one, as an unsigned varint."""
    if value > MAX_STRING_BYTES + 1:
        raise EncodeError(f"a string of {value - 1} bytes is longer than {MAX_STRING_BYTES}")
    return varint(value)


def check_uuid(value: bytes) -> bytes:
    """The uuid itself, if it has 16 bytes."""
    if len(value) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(value)}")
    return value
