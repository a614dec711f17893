"""`kohort produce`: every line of standard input becomes a record, against any Kafka."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cli.errors import DONE, FAILED, UsageError, WrongInput
from cli.options import CLUSTER, COMMAND_PROPERTY, JSON, TOPIC, Parser, add, carry_out, positive, print_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from confluent_kafka import KafkaError, Message

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_SHOWN_ERRORS = 5


def main(words: list[str]) -> int:
    """Carry out `kohort produce`."""
    return carry_out(parser(), words)


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    one = Parser(prog="kohort produce", description="Lines of standard input become records of a topic.")
    one.set_defaults(run="cli.produce:produce")
    one.add_argument("topic_name", metavar="TOPIC", nargs="?", help="the topic")
    add(one, TOPIC)
    one.add_argument(
        "-K", "--key-separator", metavar="TEXT", help="what stands before it in a line is the key; \\t is a tab"
    )
    one.add_argument("--null-marker", metavar="TEXT", help="a key or value that is this becomes null")
    one.add_argument(
        *("-H", "--header"), metavar="KEY=VALUE", action="append", default=[], help="of each record; may be repeated"
    )
    one.add_argument("--headers-delimiter", metavar="TEXT", help="a line begins with headers k:v,k:v and then this")
    one.add_argument("--partition", metavar="N", type=int, help="all records into this partition")
    one.add_argument("--acks", choices=("0", "1", "-1", "all"), default="all", help="whose answer counts (default all)")
    one.add_argument("--compression", choices=CODECS, default="none", help="how batches are compressed (default none)")
    one.add_argument("--batch-size", metavar="BYTES", type=positive, help="largest batch")
    one.add_argument("--linger-ms", metavar="MS", type=int, default=5, help="how long a batch waits (default 5)")
    one.add_argument("--quiet", action="store_true", help="print nothing when all went well")
    add(one, *CLUSTER, COMMAND_PROPERTY)
    add(one, JSON, help="the outcome as JSON")
    return one


class _Line:
    """How a line is taken apart."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.separator = _bytes(options.key_separator)
        self.null = _bytes(options.null_marker)
        self.delimiter = _bytes(options.headers_delimiter)
        self.headers: list[tuple[str, bytes | None]] = []
        for word in options.header:
            key, equals, value = word.partition("=")
            if not equals:
                raise UsageError(f"--header {word}: it takes KEY=VALUE")
            self.headers.append((key, value.encode()))

    def parts(self, number: int, line: bytes) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        """(key, value, headers) of a line. Raises: WrongInput with its number."""
        headers = self.headers
        if self.delimiter is not None:
            text, found, line = line.partition(self.delimiter)
            if not found:
                raise WrongInput(f"line {number} has no headers delimiter {self.delimiter!r}")
            headers = [*headers, *self._headers(number, text)]
        key: bytes | None = None
        value: bytes | None = line
        if self.separator is not None:
            key, found, value = line.partition(self.separator)
            if not found:
                raise WrongInput(f"line {number} has no key separator {self.separator.decode()!r}")
        if self.null is not None:
            key, value = (None if part == self.null else part for part in (key, value))
        return key, value, headers

    @staticmethod
    def _headers(number: int, text: bytes) -> Iterator[tuple[str, bytes | None]]:
        for pair in text.split(b",") if text else ():
            key, colon, value = pair.partition(b":")
            if not colon:
                raise WrongInput(f"line {number}: header {pair.decode(errors='replace')!r} is not key:value")
            yield key.decode(errors="replace"), value


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.replace("\\t", "\t").replace("\\n", "\n").encode()


def produce(options: argparse.Namespace) -> int:
    """Send what is on standard input; exit code 1 when some of it was not acknowledged. Raises: Failed, UsageError."""
    names = {name for name in (options.topic_name, options.topic) if name}
    if len(names) != 1:
        raise UsageError("name one TOPIC")
    (topic,) = names
    line = _Line(options)
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415  not for --help

    from cli.cluster import Cluster, make_client, said  # noqa: PLC0415

    cluster = Cluster(options)
    settings = cluster.settings(
        acks=options.acks,
        compression_type=options.compression,
        linger_ms=options.linger_ms,
        message_timeout_ms=options.timeout,
        **({"batch_size": options.batch_size} if options.batch_size else {}),
    )
    producer = make_client(Producer, settings)
    outcome = {"acknowledged": 0, "failed": 0}
    well = "acknowledged"
    if options.acks == "0":  # the library calls delivered what has left it
        well = "sent"
        outcome[well] = 0
    problems: list[str] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        outcome["failed" if error else well] += 1
        if error is not None and len(problems) < _SHOWN_ERRORS and said(error) not in problems:
            problems.append(said(error))

    wrong: UsageError | None = None
    placed: dict[str, Any] = {} if options.partition is None else {"partition": options.partition}
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            key, value, headers = line.parts(number, raw.removesuffix(b"\n").removesuffix(b"\r"))
        except UsageError as error:
            wrong = error  # what came before it is sent all the same
            break
        while True:
            try:
                producer.produce(topic, value, key, headers=headers or None, on_delivery=delivered, **placed)
            except BufferError:
                producer.poll(0.1)
                continue
            except KafkaException as error:
                outcome["failed"] += 1
                problems.append(f"line {number}: {said(error)}")
            break
        producer.poll(0)
    left = producer.flush(options.timeout / 1_000 + 5)
    outcome["failed"] += left
    _tell(outcome, problems, topic, options)
    if wrong is not None:
        raise wrong
    return FAILED if outcome["failed"] else DONE


def _tell(outcome: dict[str, int], problems: list[str], topic: str, options: argparse.Namespace) -> None:
    from coordinator.why.terms import plural  # noqa: PLC0415  not for --help

    if options.json:
        print_json(outcome)
    elif "sent" in outcome and not options.quiet:
        print(f"{plural(outcome['sent'], 'record')} sent, none acknowledged (--acks 0)")
    elif not options.quiet:
        print(f"{plural(outcome['acknowledged'], 'record')} acknowledged")
    if outcome["failed"]:
        why = "; ".join(problems) or f"no answer within {options.timeout / 1_000:g} s"
        failed = plural(outcome["failed"], f"record for {topic!r} was", f"records for {topic!r} were")
        print(f"kohort: {failed} not {'sent' if 'sent' in outcome else 'acknowledged'}: {why}", file=sys.stderr)
