"""`kohort testbed`: brokers for tests in any language, commanded over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cli import entry
from cli.errors import DONE, Failed, UsageError
from cli.options import CONTAINER, OVERRIDE, Parser, add

if TYPE_CHECKING:
    import argparse

# What a container publishes is known before a broker is opened: one at a time, at this port.
_CONTAINER_HTTP = "0.0.0.0:9645"
_CONTAINER_SETTINGS = {
    "listeners": "PLAINTEXT://0.0.0.0:9092",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
}


def main(words: list[str]) -> int:
    """Serve until a signal ends it."""
    options = parser().parse_args(words)
    settings = dict(_CONTAINER_SETTINGS) if options.container else {}
    for one in options.override:
        key, equals, value = one.partition("=")
        if not equals:
            raise UsageError(f"--override {one}: it takes key=value")
        settings[key.strip()] = value
    http = options.http or (_CONTAINER_HTTP if options.container else "127.0.0.1:9645")
    host, _, port = http.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"--http {http}: it takes HOST:PORT")
    if options.load_from is not None and not options.load_from.is_dir():
        raise UsageError(f"--load-from {options.load_from}: there is no such directory")
    # What tests import is no room of the broker, and knows none: it is named here as verbs are.
    serve = entry("kohort testbed", "kohort.testing.control:serve")
    try:
        serve(host.strip("[]"), int(port), settings, options.load_from, options.host_name)
    except OSError as error:
        raise Failed(f"cannot listen on {http}: {(error.strerror or str(error)).lower()}") from None
    return DONE


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    about = "Brokers for tests in any language: POST /brokers opens one. Whoever reaches the port commands them."
    whole = Parser(prog="kohort testbed", description=about)
    whole.add_argument(
        "--http", metavar="HOST:PORT", help="where it is commanded (default 127.0.0.1:9645; port 0: any that is free)"
    )
    add(whole, OVERRIDE, help="one setting of every broker that it opens")
    whole.add_argument(
        "--load-from",
        metavar="DIRECTORY",
        type=Path,
        help='brokers may begin with a copy of a directory of logs in this one: {"load": NAME}',
    )
    whole.add_argument(
        "--host-name",
        metavar="NAME",
        action="append",
        default=[],
        help="a name with dots that tests know it by; it takes addresses, localhost and names without a dot",
    )
    add(
        whole,
        CONTAINER,
        help="in a container: commanded on 0.0.0.0:9645; one broker at a time, on 9092, known as localhost:9092",
    )
    return whole
