"""What each honoured topic config does, seen from outside: a whole broker with it, and the same one without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from broker.loop import logs
from broker.partitions import Partition, Unchecked
from protocol.errors import ErrorCode, KafkaError
from tests.broker.config.test_topic_config_list import HONOURED, REFUSED
from tests.storage.logs import all_bytes, headers_in, records_in
from tests.support.data_plane import batch
from tests.support.whole_broker import Whole

MINUTE_MS = 60_000
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
# Words that codecs find again the better the longer they look.
TEXT = b" ".join(b"%d bottles of beer, %d" % (at * at, at % 7) for at in range(2_000))


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    logs.configure()


def partition(broker: Whole) -> Partition:
    found = broker.broker.partitions.get("t", 0)
    assert found is not None
    return found


def roll(broker: Whole) -> None:
    partition(broker).log.roll(now_ms=broker.runtime.now_ms())


def headers(broker: Whole) -> list[Any]:
    return headers_in(all_bytes(partition(broker).log))


def segments(broker: Whole) -> int:
    return len(partition(broker).log.segments)


def write(broker: Whole, *pairs: tuple[bytes, bytes | None], then_ms: int = 0) -> None:
    """One batch for each pair, at this moment; then time passes."""
    for key, value in pairs:
        moment_ms = broker.runtime.now_ms()
        sent = batch(value, key=key, timestamp=moment_ms)
        if partition(broker).produce(sent, moment_ms, 9) is None:
            partition(broker).produce_later(Unchecked(sent, moment_ms, 9, None, True, repr))
            broker.runtime.run_works()
        broker.runtime.turn()
    broker.runtime.advance(then_ms)


# -- what can be seen --------------------------------------------------------------------------------------------------


def values_after_a_while(broker: Whole) -> list[bytes | None]:
    write(broker, (b"k", b"a"), (b"k", b"b"))
    roll(broker)
    broker.runtime.advance(MINUTE_MS)
    return broker.values("t")


def values_beside_much_that_is_clean(broker: Whole) -> list[bytes | None]:
    write(broker, *[(b"%d" % at, bytes(5_000)) for at in range(8)])
    roll(broker)
    broker.runtime.advance(MINUTE_MS)
    write(broker, (b"k", b"a"), (b"k", b"b"))
    roll(broker)
    broker.runtime.advance(MINUTE_MS)
    return broker.values("t")[8:]


def values_without_a_roll(broker: Whole) -> list[bytes | None]:
    write(broker, (b"k", b"a"), (b"k", b"b"), then_ms=MINUTE_MS)
    write(broker, (b"x", b"x"), then_ms=MINUTE_MS)
    return broker.values("t")


def tombstones_after_two_cleans(broker: Whole) -> int:
    for at in range(3):
        write(broker, (b"k", None if at == 0 else b"other"), (b"o", b"%d" % at))
        if at == 0:
            write(broker, (b"gone", None))
        roll(broker)
        broker.runtime.advance(MINUTE_MS)
    return broker.values("t").count(None)


def files_waiting_for_removal(broker: Whole) -> bool:
    values_after_a_while(broker)
    return any(broker.directory.glob("t-0/*.deleted"))


def stored_bytes(broker: Whole) -> int:
    write(broker, (b"k", TEXT))
    return partition(broker).log.size_bytes


def codec(broker: Whole) -> int:
    write(broker, (b"k", TEXT))
    return headers(broker)[0].attributes & 7


def flushed(wait_ms: int) -> Callable[[Whole], int]:
    def observe(broker: Whole) -> int:
        write(broker, (b"k", b"a"), then_ms=wait_ms)
        return partition(broker).log.recovery_point

    return observe


def index_entries(broker: Whole) -> int:
    write(broker, *[(b"k", b"a")] * 5)
    roll(broker)
    return (broker.directory / "t-0" / f"{0:020d}.index").stat().st_size // 8


def error_of(timestamp_ms: int, value: bytes = b"a", codec: int = 0) -> Callable[[Whole], ErrorCode]:
    """What becomes of a batch that was made so long ago, or will be."""

    def observe(broker: Whole) -> ErrorCode:
        now_ms = broker.runtime.now_ms()
        try:
            partition(broker).produce(batch(value, timestamp=now_ms + timestamp_ms, compression=codec), now_ms, 9)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    return observe


def age_of_its_timestamp_ms(broker: Whole) -> int:
    now_ms = broker.runtime.now_ms()
    partition(broker).produce(batch(b"a", timestamp=now_ms - 5_000), now_ms, 9)
    return now_ms - records_in(all_bytes(partition(broker).log))[0].timestamp


def log_start(broker: Whole) -> int:
    for _ in range(3):
        write(broker, (b"k", bytes(1_000)))
        roll(broker)
    broker.runtime.advance(10 * MINUTE_MS)
    return partition(broker).log.log_start_offset


def segments_of(*pairs: tuple[bytes, bytes], pause_ms: int = 0) -> Callable[[Whole], int]:
    def observe(broker: Whole) -> int:
        for pair in pairs:
            write(broker, pair, then_ms=pause_ms)
        return segments(broker)

    return observe


SMALL, LARGE = (b"k", b"a"), (b"k", bytes(600_000))


@dataclass
class Effect:
    """`observe` tells `plain` of a topic `beside` which nothing is set, and `changed` of one with the config too."""

    value: str
    observe: Callable[[Whole], Any]
    plain: Any
    changed: Any
    beside: Mapping[str, str] = field(default_factory=dict)


ANY = object()
EFFECTS = {
    "cleanup.policy": Effect(
        "compact", values_after_a_while, [b"a", b"b"], [b"b"], beside={"min.cleanable.dirty.ratio": "0.01"}
    ),
    "compression.gzip.level": Effect("1", stored_bytes, ANY, ANY, beside={"compression.type": "gzip"}),
    "compression.lz4.level": Effect("1", stored_bytes, ANY, ANY, beside={"compression.type": "lz4"}),
    "compression.type": Effect("zstd", codec, 0, 4),
    "compression.zstd.level": Effect("19", stored_bytes, ANY, ANY, beside={"compression.type": "zstd"}),
    "delete.retention.ms": Effect("0", tombstones_after_two_cleans, 1, 0, beside=COMPACTED),
    "file.delete.delay.ms": Effect("1000", files_waiting_for_removal, True, False, beside=COMPACTED),
    "flush.messages": Effect("1", flushed(0), 0, 1),
    "flush.ms": Effect("10000", flushed(5_000), 1, 0),
    "index.interval.bytes": Effect("1", index_entries, 0, 4),
    "max.compaction.lag.ms": Effect(
        "10000",
        values_without_a_roll,
        [b"a", b"b", b"x"],
        [b"b", b"x"],
        beside={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"},
    ),
    "max.decompressed.message.bytes": Effect(
        "100", error_of(0, bytes(200), codec=1), ErrorCode.NONE, ErrorCode.INVALID_RECORD
    ),
    "max.message.bytes": Effect("100", error_of(0, bytes(200)), ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE),
    "message.timestamp.after.max.ms": Effect(
        "60000", error_of(10 * MINUTE_MS), ErrorCode.NONE, ErrorCode.INVALID_TIMESTAMP
    ),
    "message.timestamp.before.max.ms": Effect(
        "60000", error_of(-10 * MINUTE_MS), ErrorCode.NONE, ErrorCode.INVALID_TIMESTAMP
    ),
    "message.timestamp.type": Effect("LogAppendTime", age_of_its_timestamp_ms, 5_000, 0),
    "min.cleanable.dirty.ratio": Effect(
        "0.0001", values_beside_much_that_is_clean, [b"a", b"b"], [b"b"], beside={"cleanup.policy": "compact"}
    ),
    "min.compaction.lag.ms": Effect("3600000", values_after_a_while, [b"b"], [b"a", b"b"], beside=COMPACTED),
    "retention.bytes": Effect("1", log_start, 0, 2),
    "retention.ms": Effect("60000", log_start, 0, 3),
    "segment.bytes": Effect("1048576", segments_of(LARGE, LARGE, LARGE), 1, 3),
    "segment.index.bytes": Effect("60", segments_of(*[SMALL] * 9), 1, 2, beside={"index.interval.bytes": "1"}),
    "segment.jitter.ms": Effect(
        "50000", segments_of(SMALL, SMALL, pause_ms=59_000), 1, 2, beside={"segment.ms": "60000"}
    ),
    "segment.ms": Effect("60000", segments_of(SMALL, SMALL, pause_ms=61_000), 1, 2),
}


def test_every_honoured_config_has_an_effect() -> None:
    assert sorted(EFFECTS) == sorted(HONOURED)


@pytest.mark.parametrize("name", EFFECTS)
def test_an_honoured_config_does_what_its_name_says(tmp_path: Path, name: str) -> None:
    effect = EFFECTS[name]
    seen = []
    for configs in (effect.beside, {**effect.beside, name: effect.value}):
        broker = Whole(tmp_path / f"{len(seen)}")
        broker.broker.partitions.writer.at_once_bytes = 1 << 30
        assert broker.create("t", **{key.replace(".", "_"): value for key, value in configs.items()}) is ErrorCode.NONE
        seen.append(effect.observe(broker))
        assert broker.stop(), broker.log.getvalue()
    if effect.plain is ANY:
        assert seen[0] != seen[1]
    else:
        assert seen == [effect.plain, effect.changed]


@pytest.mark.parametrize("name", REFUSED)
def test_a_topic_with_a_config_that_cannot_be_honoured_is_not_made(tmp_path: Path, name: str) -> None:
    broker = Whole(tmp_path)
    assert broker.create("t", **{name.replace(".", "_"): REFUSED[name]}) is ErrorCode.INVALID_CONFIG
    assert broker.broker.catalogue.image.topic("t") is None
    assert broker.stop()
