"""kafka-console-producer and kafka-console-consumer, as words for `kohort produce` and `kohort consume`.

Options about classes of the JVM (formatters, deserializers) are accepted for the defaults' sake and have no effect.
Source: Kafka's ConsoleProducer, ConsoleConsumer, LineMessageReader, DefaultMessageFormatter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.errors import UsageError
from cli.options import BOOTSTRAP, COMMAND_CONFIG, COMMAND_PROPERTY, TOPIC, VERSION, Parser, add

if TYPE_CHECKING:
    import argparse

_PRINTED = {
    "print.key": "--print-key",
    "print.partition": "--print-partition",
    "print.offset": "--print-offset",
    "print.timestamp": "--print-timestamp",
    "print.headers": "--print-headers",
}


def producer(words: list[str]) -> int:
    """Carry out kafka-console-producer.sh. Raises: Failed, UsageError."""
    parser = _parser("producer", "Lines of standard input become records.")
    parser.add_argument(
        "--property", "--reader-property", dest="properties", action="append", default=[], metavar="K=V"
    )
    parser.add_argument("--compression-codec", nargs="?", const="gzip", metavar="CODEC")
    parser.add_argument("--request-required-acks", metavar="ACKS")
    parser.add_argument("--batch-size", metavar="BYTES")
    parser.add_argument("--timeout", metavar="MS", help="how long a batch waits for more")
    for name in ("--sync",):
        parser.add_argument(name, action="store_true", help="accepted")
    for name in (
        *("--line-reader", "--reader-config", "--max-block-ms", "--max-memory-bytes", "--max-partition-memory-bytes"),
        *("--message-send-max-retries", "--metadata-expiry-ms", "--request-timeout-ms", "--retry-backoff-ms"),
        "--socket-buffer-size",
    ):
        parser.add_argument(name, metavar="VALUE", help="accepted")
    options = parser.parse_args(words)
    ours = [*_common(options), "--quiet"]
    given = _properties(options.properties)
    if given.get("parse.key", "").lower() == "true":
        ours.append(f"--key-separator={given.get('key.separator', chr(9))}")
    if given.get("parse.headers", "").lower() == "true":
        ours.append(f"--headers-delimiter={given.get('headers.delimiter', chr(9))}")
    if "null.marker" in given:
        ours.append(f"--null-marker={given['null.marker']}")
    for name, value in (
        ("--compression", options.compression_codec),
        ("--acks", options.request_required_acks),
        ("--batch-size", options.batch_size),
        ("--linger-ms", options.timeout),
    ):
        if value is not None:
            ours.append(f"{name}={value}")
    from cli.produce import main  # noqa: PLC0415  one tool, one verb

    return main(ours)


def consumer(words: list[str]) -> int:
    """Carry out kafka-console-consumer.sh. Raises: Failed, UsageError."""
    parser = _parser("consumer", "Print records of a topic.")
    parser.add_argument(
        "--property", "--formatter-property", dest="properties", action="append", default=[], metavar="K=V"
    )
    parser.add_argument("--include", "--whitelist", metavar="REGEX")
    parser.add_argument("--from-beginning", action="store_true")
    for name in ("--group", "--partition", "--offset", "--max-messages", "--timeout-ms", "--isolation-level"):
        parser.add_argument(name, metavar="VALUE")
    for name in ("--skip-message-on-error", "--enable-systest-events"):
        parser.add_argument(name, action="store_true", help="accepted")
    for name in ("--formatter", "--formatter-config", "--key-deserializer", "--value-deserializer"):
        parser.add_argument(name, metavar="VALUE", help="accepted")
    options = parser.parse_args(words)
    given = _properties([*options.properties, *(options.command_property or ())])
    group = options.group or given.get("group.id")
    if options.include and not group:
        # Kafka's tool makes up a group for every run too.
        import os  # noqa: PLC0415  rare

        group = f"console-consumer-{os.getpid()}"
    ours = _common(options, needs_topic=not options.include)
    if options.include:
        ours.append(f"--topic=^({options.include.replace(',', '|')})$")
    if group:
        ours.append(f"--group={group}")
    if options.from_beginning:
        ours.append("--from-beginning")
    for name in ("partition", "offset", "max_messages", "timeout_ms", "isolation_level"):
        value = getattr(options, name)
        if value is not None:
            ours.append(f"--{name.replace('_', '-')}={value}")
    ours += [option for key, option in _PRINTED.items() if given.get(key, "").lower() == "true"]
    if given.get("print.value", "").lower() == "false":
        ours.append("--no-value")
    if "key.separator" in given:
        ours.append(f"--key-separator={given['key.separator']}")
    from cli.consume import main  # noqa: PLC0415  one tool, one verb

    return main(ours)


def _parser(client: str, about: str) -> Parser:
    parser = Parser(prog=f"kafka-console-{client}.sh", description=about)
    add(parser, BOOTSTRAP, also=("--broker-list",))
    add(parser, TOPIC, help="the topic")
    add(parser, COMMAND_CONFIG, also=(f"--{client}.config",))
    add(parser, COMMAND_PROPERTY, also=(f"--{client}-property",))
    add(parser, VERSION)
    return parser


def _common(options: argparse.Namespace, *, needs_topic: bool = True) -> list[str]:
    words = [f"--bootstrap-server={options.bootstrap_server}"]
    if needs_topic and not options.topic:
        raise UsageError("--topic must be there")
    if options.topic and needs_topic:
        words.append(f"--topic={options.topic}")
    if options.command_config:
        words.append(f"--command-config={options.command_config}")
    words += [f"--command-property={word}" for word in options.command_property or ()]
    return words


def _properties(words: list[str]) -> dict[str, str]:
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--property {word}: it takes key=value")
        found[key.strip()] = value
    return found
