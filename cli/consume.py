"""`kohort consume`: print records, as a member of a group or alone, from any Kafka.

Source: Kafka's ConsoleConsumer and DefaultMessageFormatter for what a line looks like.
"""

from __future__ import annotations

import base64
import json
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from cli.errors import DONE, Failed, UsageError
from cli.options import CLUSTER, COMMAND_PROPERTY, JSON, TOPICS, Parser, add, carry_out, positive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from confluent_kafka import Consumer

    from cli.cluster import Cluster

_AT_ONCE = 500
_POLL_S = 0.2
_TIMES = {1: "CreateTime", 2: "LogAppendTime"}


def main(words: list[str]) -> int:
    """Carry out `kohort consume`."""
    return carry_out(parser(), words)


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    one = Parser(
        prog="kohort consume",
        description="Print records. With --group as a member that commits what it has printed; else alone, and nothing "
        "is committed. Ctrl-C ends it.",
    )
    one.set_defaults(run="cli.consume:consume")
    one.add_argument("topics", metavar="TOPIC", nargs="*", help="a topic; ^... is a regular expression, in a group")
    add(one, TOPICS)
    one.add_argument("-g", "--group", metavar="GROUP", help="join this group")
    one.add_argument("--from-beginning", action="store_true", help="from the first record where nothing is committed")
    one.add_argument("--partition", metavar="N", type=int, action="append", help="only this one; may be repeated")
    one.add_argument("--offset", metavar="N", help="where to begin: a number, earliest or latest; without a group")
    one.add_argument("--max-messages", metavar="N", type=positive, help="end after so many records")
    one.add_argument("--timeout-ms", metavar="MS", type=positive, help="end when none came for so long")
    one.add_argument(
        *("--isolation-level",),
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="read_committed leaves out records of transactions that did not commit",
    )
    for what in ("key", "partition", "offset", "timestamp", "headers"):
        one.add_argument(f"--print-{what}", action="store_true", help=f"the {what} before the value")
    one.add_argument("--no-value", action="store_true", help="without the value")
    one.add_argument("--key-separator", metavar="TEXT", default="\t", help="between fields (default: a tab)")
    add(one, *CLUSTER, COMMAND_PROPERTY)
    add(one, JSON, help="a JSON object a line, with everything")
    return one


def consume(options: argparse.Namespace) -> int:
    """Print records until told to end. Raises: Failed, UsageError."""
    topics = list(dict.fromkeys([*options.topics, *options.topic]))
    if not all(topics) or not topics:
        raise UsageError("name a TOPIC")
    if options.group == "":
        raise UsageError("--group takes a name")
    if options.group and (options.partition or options.offset is not None):
        raise UsageError("--partition and --offset are for reading without --group")
    start = _start(options)
    from cli.cluster import Cluster  # noqa: PLC0415  not for --help

    cluster = Cluster(options)
    plain = [topic for topic in topics if not topic.startswith("^")]
    if len(plain) < len(topics) and not options.group:
        raise UsageError("a regular expression needs --group")
    counts = cluster.partition_counts(plain)
    consumer = _open(cluster, options)
    try:
        if options.group:
            consumer.subscribe(topics)
        else:
            _assign(consumer, counts, options.partition, start)
        with _Ended() as ended:
            count = _print_all(consumer, options, ended)
    finally:
        consumer.close()
    print(f"Processed a total of {count} messages", file=sys.stderr)
    return DONE


def _open(cluster: Cluster, options: argparse.Namespace) -> Consumer:
    from confluent_kafka import Consumer  # noqa: PLC0415  not for --help

    from cli.cluster import make_client  # noqa: PLC0415

    settings = {
        # The library wants a group's name also where none is joined; nothing is ever sent under it.
        "group.id": options.group or "kohort-consume",
        "enable.auto.commit": bool(options.group),
        "auto.offset.reset": "earliest" if options.from_beginning else "latest",
        "isolation.level": options.isolation_level,
        "enable.partition.eof": False,
        **cluster.settings(),
    }
    consumer: Consumer = make_client(Consumer, settings)
    return consumer


def _start(options: argparse.Namespace) -> int:
    """The offset to begin at, as the library writes it. Raises: UsageError."""
    earliest, latest = -2, -1
    text = options.offset
    if text is None:
        return earliest if options.from_beginning else latest
    if text in ("earliest", "latest"):
        return earliest if text == "earliest" else latest
    if not text.isdigit():
        raise UsageError(f"--offset {text}: it takes a number, earliest or latest")
    return int(text)


def _assign(consumer: Consumer, counts: dict[str, int], partitions: list[int] | None, start: int) -> None:
    from confluent_kafka import TopicPartition  # noqa: PLC0415  not for --help

    from coordinator.why.terms import plural  # noqa: PLC0415

    wanted = []
    for topic, count in counts.items():
        for number in range(count) if partitions is None else partitions:
            if not 0 <= number < count:
                raise Failed(f"topic {topic!r} has {plural(count, 'partition')}, none of number {number}")
            wanted.append(TopicPartition(topic, number, start))
    consumer.assign(wanted)


def _print_all(consumer: Consumer, options: argparse.Namespace, ended: _Ended) -> int:
    """Print what comes; how many records that were."""
    line = _json_line if options.json else _text_line(options)
    out = sys.stdout.buffer
    count = 0
    last_s = time.monotonic()
    while not ended.seen and (options.max_messages is None or count < options.max_messages):
        left = _AT_ONCE if options.max_messages is None else min(_AT_ONCE, options.max_messages - count)
        messages = consumer.consume(left, _POLL_S)
        for message in messages:
            error = message.error()
            if error is not None:
                _look_at(error)
                continue
            out.write(line(message))
            count += 1
        now_s = time.monotonic()
        if messages:
            out.flush()
            last_s = now_s
        elif options.timeout_ms is not None and now_s - last_s >= options.timeout_ms / 1_000:
            break
    return count


class _Ended:
    """Whether a signal has asked for the end; the member then leaves its group in good order."""

    def __init__(self) -> None:
        self.seen = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, *_: object) -> None:
        self.seen = True


def _look_at(error: Any) -> None:
    from cli.cluster import said  # noqa: PLC0415  rare

    if error.fatal() or not error.retriable():
        raise Failed(said(error))


def _text_line(options: argparse.Namespace) -> Callable[[Any], bytes]:
    separator = options.key_separator.replace("\\t", "\t").replace("\\n", "\n").encode()

    def line(message: Any) -> bytes:
        fields: list[bytes] = []
        if options.print_timestamp:
            kind, timestamp = message.timestamp()
            fields.append(f"{_TIMES[kind]}:{timestamp}".encode() if kind in _TIMES else b"NO_TIMESTAMP")
        if options.print_partition:
            fields.append(b"Partition:%d" % (message.partition() or 0))
        if options.print_offset:
            fields.append(b"Offset:%d" % (message.offset() or 0))
        if options.print_headers:
            pairs = [key.encode() + b":" + _field(value) for key, value in message.headers() or ()]
            fields.append(b",".join(pairs) or b"NO_HEADERS")
        if options.print_key:
            fields.append(_field(message.key()))
        if not options.no_value:
            fields.append(_field(message.value()))
        text: bytes = separator.join(fields)
        return text + b"\n"

    return line


def _field(value: bytes | None) -> bytes:
    return b"null" if value is None else value


def _json_line(message: Any) -> bytes:
    kind, timestamp = message.timestamp()
    value: dict[str, Any] = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp if kind in _TIMES else None,
        "timestamp_type": _TIMES.get(kind),
    }
    as_text(value, "key", message.key())
    as_text(value, "value", message.value())
    value["headers"] = [as_text({"key": key}, "value", found) for key, found in message.headers() or ()]
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def as_text(into: dict[str, Any], name: str, data: Any) -> dict[str, Any]:
    """Put bytes into a JSON object: as text if they are UTF-8, else as `<name>_base64`."""
    try:
        into[name] = data.decode() if isinstance(data, bytes) else data
    except UnicodeDecodeError:
        into[f"{name}_base64"] = base64.b64encode(data).decode()
    return into
