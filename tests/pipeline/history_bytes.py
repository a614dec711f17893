"""Consumer protocol bytes and varints of written histories, made from their layouts alone."""

from collections.abc import Sequence


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def places(owned: Sequence[tuple[str, int]]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in owned:
        topics.setdefault(topic, []).append(partition)
    out = len(topics).to_bytes(4, "big")
    for topic, partitions in topics.items():
        out += string(topic) + len(partitions).to_bytes(4, "big")
        out += b"".join(partition.to_bytes(4, "big") for partition in partitions)
    return out


def subscription(version: int, topics: Sequence[str], owned: Sequence[tuple[str, int]]) -> bytes:
    out = version.to_bytes(2, "big") + (len(topics)).to_bytes(4, "big") + b"".join(map(string, topics))
    out += b"\x00\x00\x00\x02ud" if version % 2 else b"\xff\xff\xff\xff"
    out += places(owned) if version >= 1 else b""
    out += (5).to_bytes(4, "big") if version >= 2 else b""
    out += string("rack-a") if version >= 3 else b""
    return out


def assignment(owned: Sequence[tuple[str, int]]) -> bytes:
    return b"\x00\x00" + places(owned) + b"\xff\xff\xff\xff"
