"""Requests as clients send them, and what a seeded mutator makes of them. The same seed gives the same frames."""

from __future__ import annotations

import random
from struct import pack
from typing import TYPE_CHECKING, Any

from protocol.frames import encode_request
from protocol.records.batch import encode_batch
from protocol.records.batch_reader import Record
from protocol.registry import APIS, Api
from protocol.schema.layout import Layout, message_layout
from protocol.schema.wire_types import Array, Fixed, Sized

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPICS = ("orders", "payments", "compacted", "nowhere", "__consumer_offsets", "", "bad name")
TRANSACTIONAL_IDS = ("", "tx-a", "tx-b")
GROUPS = ("g0", "g1", "g2", "", "a" * 300)
_BITS = {"Int8": 8, "Int16": 16, "Int32": 32, "Int64": 64}
WIDE = (600, 3_000, 20_000)
"""Elements of an array that is wide: more than are read on the loop (512, and 2,048 of the leader of a group), up to a
frame of a few 100 KB."""
_EDGES = (b"\0", b"\xff", b"\x7f", b"\x80", b"\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f")


class Frames:
    """An endless source of frames, all made from `seed`; one in a thousand of those that are whole has a wide array.

    Counted, not drawn: what a broker answers decides what is drawn next, and by chance there were hardly any.
    """

    def __init__(self, seed: int, *, wide: float = 0.001, apis: Iterable[int] = APIS) -> None:
        self.random = random.Random(seed)
        self.wide_ones = 0
        """How many there were."""
        self._wide = wide
        self._due = 0.0  # wide arrays that are owed
        self._widens = False  # the next array is a wide one
        self.member_ids: list[str] = [""]  # told by whoever reads the answers
        self.consumers: list[tuple[str, Any]] = []  # groups and their members of the new protocol, told likewise
        self._apis = [APIS[key] for key in apis]
        self._recent: list[bytes] = []

    def next(self) -> bytes:
        """The next frame: mostly mutilated, now and then whole, sometimes only noise."""
        rng = self.random
        draw = rng.random()
        if draw < 0.02:
            return pack(">i", rng.choice((-1, 0, 5, 2**31 - 1, 200_000_000))) + rng.randbytes(rng.randrange(12))
        if draw < 0.05:
            noise = rng.randbytes(rng.randrange(60))
            return pack(">i", len(noise)) + noise
        frame = self.valid() if not self._recent or rng.random() < 0.5 else rng.choice(self._recent)
        return frame if draw < 0.4 else self._mutilated(frame)

    def valid(self) -> bytes:
        """A well-formed request of some API and version, whose content a broker has to make sense of."""
        rng = self.random
        api: Api = rng.choice(self._apis)
        version = rng.randint(*api.served)
        self._due += self._wide
        self._widens = self._due >= 1
        request = self._struct(message_layout(api.request, version))
        frame = encode_request(request, version, rng.getrandbits(31), rng.choice((None, "", "fuzz")))
        if len(self._recent) < 500:
            self._recent.append(frame)
        else:
            self._recent[rng.randrange(500)] = frame
        return frame

    # --- content

    def _struct(self, at: Layout) -> Any:
        rng = self.random
        result = at.cls()
        for field in at.plain + at.tagged:
            if at.nullable(field) and rng.random() < 0.2:
                setattr(result, field.name, None)
            elif field.name == "records":
                setattr(result, field.name, self._records())
            else:
                setattr(result, field.name, self._value(at, field.wire_type, field.name))
        return result

    def _value(self, at: Layout, wire_type: Any, name: str) -> Any:
        rng = self.random
        if isinstance(wire_type, Array):
            count = rng.choice((0, 1, 1, 1, 2, 3))
            if self._widens:
                # The outermost one: a few different elements, over and over.
                self._widens, count = False, rng.choice(WIDE)
                self._due -= 1
                self.wide_ones += 1
                return [self._value(at, wire_type.element, name) for _ in range(7)] * (count // 7 + 1)
            return [self._value(at, wire_type.element, name) for _ in range(count)]
        if isinstance(wire_type, Sized):
            return self._text(name) if wire_type.name == "String" else rng.randbytes(rng.choice((0, 1, 8, 40)))
        if isinstance(wire_type, Fixed):
            return self._number(wire_type.name, name)
        return self._struct(at.of(wire_type))

    def _text(self, name: str) -> str:
        rng = self.random
        if name in ("transactional_id", "transactional_ids"):
            return rng.choice(TRANSACTIONAL_IDS)
        if "group" in name or name in ("key", "coordinator_keys", "groups_names"):
            return rng.choice(GROUPS)
        if "topic" in name or name in ("name", "names", "resource_name"):
            return rng.choice(TOPICS)
        if name == "member_id":
            return rng.choice(self.member_ids)
        return rng.choice(("", "consumer", "range", "1", "delete", "retention.ms", "i1", "grüße"))

    def _number(self, wire: str, name: str) -> Any:
        rng = self.random
        if wire == "Bool":
            return rng.random() < 0.5
        if wire == "Uuid":
            return bytes(16)
        if name.endswith("timeout_ms") or name in ("max_wait_ms",):
            return rng.choice((0, 100, 6_000, 10_000))
        if name in ("num_partitions", "count", "replication_factor", "partition_index", "partition", "index"):
            return rng.choice((-1, 0, 1, 1, 2))
        if wire == "Float64":
            return rng.choice((0.0, 1.0, -1.0, 1e6, 5e-324, 1.7e308, float("inf"), float("nan")))
        bits = _BITS[wire]
        if rng.random() < 0.7:
            return rng.choice((0, 0, 1, 1, 2, -1))
        return rng.choice((rng.getrandbits(bits - 1), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))

    def _producer(self) -> dict[str, Any]:
        """Of no producer, or of one that may be there by now, in its transaction or not."""
        rng = self.random
        if rng.random() < 0.5:
            return {}
        return {
            "producer_id": rng.choice((0, 1, 2, 1000)),
            "producer_epoch": rng.choice((0, 0, 1)),
            "base_sequence": rng.choice((0, 0, 1, 5)),
            "transactional": rng.random() < 0.7,
        }

    def _records(self) -> bytes:
        rng = self.random
        count = rng.choice((1, 1, 2, 5))
        records = [Record(offset, 1_700_000_000_000, b"k" * rng.randrange(3), b"v" * 20, ()) for offset in range(count)]
        batch = bytes(encode_batch(records, **self._producer()))
        return batch if rng.random() < 0.6 else self.scarred(batch)

    # --- mutilation

    def _mutilated(self, frame: bytes) -> bytes:
        rng = self.random
        body = frame[4:]
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            body = self.scarred(body)
        size = len(body) if rng.random() < 0.97 else rng.choice((len(body) - 1, len(body) + 1, len(body) // 2))
        return pack(">i", max(size, 0)) + body

    def scarred(self, data: bytes) -> bytes:
        """These bytes with one of seven wounds."""
        rng = self.random
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(7)
        if how == 0:  # one bit
            if at == len(data):
                return data
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        if how == 1:  # an extreme in place of what was there
            edge = rng.choice(_EDGES)
            return data[:at] + edge + data[at + len(edge) :]
        if how == 2:  # an extreme in between
            return data[:at] + rng.choice(_EDGES) + data[at:]
        if how == 3:  # cut off
            return data[:at]
        if how == 4:  # a piece twice, or missing
            end = min(len(data), at + rng.randrange(1, 24))
            return data[:at] + data[at:end] * rng.choice((0, 2)) + data[end:]
        if how == 5:  # more behind the end
            return data + rng.randbytes(rng.randrange(1, 9))
        # another version or API
        return data[:2] + pack(">h", rng.randrange(-1, 19)) + data[4:] if at % 2 else pack(">h", at % 80) + data[2:]
