"""Records that a test writes and reads without a client."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from broker.partitions.partition import Unchecked
from broker.testbed.refused import Refused
from protocol.errors import KafkaError
from protocol.records.batch import Record, encode_batch, iterate_headers, iterate_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.partitions import Partition
    from broker.partitions.partition import AppendInfo
    from broker.testbed.ports import UnderTest

_PRODUCE_VERSION = 9
_READ_BYTES = 1_048_576
_MASK = 0xFFFFFFFF


def produce(bed: UnderTest, words: dict[str, Any], answer: Callable[[Any], None]) -> None:
    """One batch for each partition; answers (partition, offset) of each record, once all are committed."""
    topic = bed.broker.catalogue.image.topic(words["topic"])
    if topic is None:
        raise Refused(f"there is no topic {words['topic']!r}")
    now_ms = bed.runtime.now_ms()
    batches: dict[int, list[Record]] = {}
    counts: list[tuple[int, int]] = []
    for one in words["records"]:
        key, value = decoded(one["key"]), decoded(one["value"])
        index = one["partition"]
        if index is None:
            index = 0 if key is None else partition_of(key, topic.partition_count)
        batch = batches.setdefault(index, [])
        counts.append((index, len(batch)))
        time_ms = now_ms if one["timestamp_ms"] is None else one["timestamp_ms"]
        headers = tuple((name.encode(), decoded(data)) for name, data in one["headers"])
        batch.append(Record(len(batch), time_ms, key, value, headers))
    bases: dict[int, int] = {}
    waits = len(batches)

    def committed(error: KafkaError | None) -> None:
        nonlocal waits
        waits -= 1
        if error is not None:
            answer(Refused(f"{error.code.name}: {error}"))
        elif not waits:
            answer([(index, bases[index] + at) for index, at in counts])

    def append(index: int, into: Partition) -> None:
        def appended(info: AppendInfo | KafkaError) -> None:
            if isinstance(info, KafkaError):
                committed(info)
            else:
                bases[index] = info.base_offset
                into.when_committed(info.last_offset, committed)

        batch = encode_batch(batches[index])
        try:
            info = into.produce(batch, now_ms, _PRODUCE_VERSION)
        except KafkaError as error:
            info_or_error: AppendInfo | KafkaError = error
        else:
            if info is None:
                into.produce_later(Unchecked(batch, now_ms, _PRODUCE_VERSION, None, True, appended))
                return
            info_or_error = info
        appended(info_or_error)

    # All of them are there, before anything is written.
    for index, into in [(index, partition(bed, topic.name, index)) for index in batches]:
        append(index, into)


def read(bed: UnderTest, words: dict[str, Any], answer: Callable[[Any], None]) -> None:
    """The records of a topic, or of one partition, from its first to its last one that is committed."""
    topic = bed.broker.catalogue.image.topic(words["topic"])
    if topic is None:
        raise Refused(f"there is no topic {words['topic']!r}; {known_topics(bed)}")
    chosen = words.get("partition")
    indexes = range(topic.partition_count) if chosen is None else [chosen]
    found = []
    for index in indexes:
        for record in _records(partition(bed, topic.name, index), committed=bool(words.get("committed"))):
            found.append(
                {
                    "partition": index,
                    "offset": record.offset,
                    "timestamp_ms": record.timestamp,
                    "key": encoded(record.key),
                    "value": encoded(record.value),
                    "headers": [(name.decode(errors="replace"), encoded(value)) for name, value in record.headers],
                }
            )
    answer(found)


def _records(of: Partition, *, committed: bool) -> Iterator[Record]:
    """As a client reads them: `committed` leaves out what transactions have aborted, and what is still open."""
    log = of.log
    offset, end = log.log_start_offset, of.last_stable_offset if committed else of.high_watermark
    aborted = sorted(log.aborted_transactions(offset, end), key=lambda one: one.first_offset) if committed else []
    gone: set[int] = set()  # producers whose transaction here is one that was aborted
    while offset < end:
        result = log.read(offset, _READ_BYTES, upper_bound_offset=end, copied=True)
        data = b"".join(result.buffers)
        for position, header in iterate_headers(data):
            while aborted and aborted[0].first_offset <= header.base_offset:
                gone.add(aborted.pop(0).producer_id)
            if header.is_control:
                gone.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in gone):
                yield from iterate_records(data, position)
        if result.next_offset <= offset:
            return
        offset = result.next_offset


def partition(bed: UnderTest, topic: str, index: int) -> Partition:
    """An open partition. Raises: Refused."""
    try:
        found = bed.broker.partitions.get(topic, index)
    except (KafkaError, OSError) as error:
        raise Refused(f"{topic}-{index} cannot be opened: {error}") from None
    if found is None:
        count = bed.broker.catalogue.image.partition_count(topic)
        raise Refused(f"{topic} has no partition {index}: it has {count}, from 0 on")
    return found


def known_topics(bed: UnderTest) -> str:
    """What there is, for an error."""
    names = sorted(name for name in bed.broker.catalogue.image.names() if not name.startswith("__"))
    return f"there are {', '.join(names)}" if names else "there is none"


def encoded(data: bytes | None) -> str | None:
    """Bytes as JSON has them."""
    return None if data is None else b64encode(data).decode()


def decoded(text: str | None) -> bytes | None:
    """And back."""
    return None if text is None else b64decode(text)


def partition_of(key: bytes, partition_count: int) -> int:
    """Where Java's producer, and those that agree with it, put a key. Source: Kafka's BuiltInPartitioner, Utils."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def murmur2(data: bytes) -> int:
    """Kafka's 32 bits of it. Source: Kafka's Utils.murmur2."""
    length = len(data)
    mixed = 0x9747B28C ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        piece = int.from_bytes(data[at : at + 4], "little") * 0x5BD1E995 & _MASK
        piece = (piece ^ piece >> 24) * 0x5BD1E995 & _MASK
        mixed = mixed * 0x5BD1E995 & _MASK ^ piece
    if length > whole:
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * 0x5BD1E995 & _MASK
    mixed = (mixed ^ mixed >> 13) * 0x5BD1E995 & _MASK
    return mixed ^ mixed >> 15
