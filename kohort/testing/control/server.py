"""The HTTP server of `kohort testbed`: one thread a connection, for calls that wait wait for long."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from kohort.testing.broker import Broker
from kohort.testing.chaos import KINDS
from kohort.testing.control import calls
from kohort.testing.control.hosts import check_host
from kohort.testing.control.values import called
from kohort.testing.errors import BrokerDied, Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from kohort.testing.chaos import Chaos
    from kohort.testing.faults import Fault
    from kohort.testing.snapshots import Snapshot

T = TypeVar("T")
MAX_BODY_BYTES = 64 << 20
_LOOKS = frozenset({"GET", "HEAD"})
_NO_TEXT = frozenset({"partition", "committed", "members", "offset", "times", "within"})  # of what a query may hold


class Testbed:
    """All brokers, by number; what is asked by path and method is done here."""

    def __init__(self, settings: Mapping[str, str], load_from: Path | None = None) -> None:
        """`settings` are those of every broker that does not say otherwise; `load` is a directory in `load_from`."""
        self._settings = dict(settings)
        self._load_from = load_from
        self._numbers = count(1)
        self._brokers: dict[str, Broker] = {}
        self._faults: dict[str, dict[str, Fault]] = {}  # by broker
        self._chaos: dict[str, Chaos] = {}
        self._snapshots: dict[str, Snapshot] = {}

    def answer(self, method: str, path: list[str], words: dict[str, Any]) -> Any:
        """What is sent back. Raises: LookupError, Refused, BrokerDied, AssertionError."""
        match path:
            case ["brokers"] if method == "POST":
                return called("POST /brokers", self._open, words)
            case ["brokers"] if method in _LOOKS:
                return [self._told(number) for number in list(self._brokers)]
            case ["snapshots", number] if method == "DELETE":
                _known(self._snapshots, number, "snapshot").remove()
                return {"removed": self._snapshots.pop(number) is not None}
            case ["brokers", number, *rest]:
                broker = _known(self._brokers, number, "broker")
                return self._of(broker, number, method, rest, words)
        raise LookupError(f"there is no /{'/'.join(path)}: begin with POST /brokers")

    def close(self) -> None:
        """End all of them."""
        for broker in self._brokers.values():
            with suppress(BrokerDied, Refused):
                broker.close()
        for snapshot in self._snapshots.values():
            snapshot.remove()

    def _open(
        self,
        settings: Mapping[str, Any] | None = None,
        topics: Mapping[str, int] | None = None,
        load: str | None = None,
        snapshot: str | None = None,
    ) -> dict[str, Any]:
        begins_with: Snapshot | Path | None = None
        if snapshot is not None:
            begins_with = _known(self._snapshots, snapshot, "snapshot")
        elif load is not None:
            begins_with = self._loaded(load)
        return self._opened(Broker({**self._settings, **(settings or {})}, topics, begins_with))

    def _loaded(self, load: str) -> Path:
        """What lies elsewhere on this machine is nothing for who reaches the port."""
        if self._load_from is None:
            raise Refused(f"load={load!r}: it takes a directory in that of `kohort testbed --load-from DIRECTORY`")
        inside = self._load_from.resolve()
        path = (inside / load).resolve()
        if not path.is_relative_to(inside):
            raise Refused(f"load={load!r}: it takes a directory in {self._load_from}")
        return path

    def _opened(self, broker: Broker) -> dict[str, Any]:
        broker.open()
        number = str(next(self._numbers))
        self._brokers[number] = broker
        return self._told(number)

    def _told(self, number: str) -> dict[str, Any]:
        return {"broker": number, "bootstrap_servers": self._brokers[number].bootstrap_servers}

    def _of(self, broker: Broker, number: str, method: str, path: list[str], words: dict[str, Any]) -> Any:
        if method in _LOOKS and path and path[-1] in calls.CHANGES:
            raise Refused(f"{path[-1]} is no mere look: it takes POST")
        match path:
            case [] if method == "DELETE":
                return self._close(broker, number, **{"verify": words.get("verify") not in ("false", False)})
            case []:
                return self._told(number)
            case ["groups", group_id, name]:
                return calls.of_group(broker, group_id, name, words)
            case ["clock", name]:
                return calls.of_clock(broker, name, words)
            case ["faults"] if method == "POST":
                fault = calls.fault(broker, words)
                numbered = str(next(self._numbers))
                self._faults.setdefault(number, {})[numbered] = fault
                return {"fault": numbered, "is": str(fault)}
            case ["faults", numbered, name]:
                return calls.of_fault(_known(self._faults.get(number, {}), numbered, "fault"), name, words)
            case ["snapshot"] if method == "POST":
                taken = str(next(self._numbers))
                self._snapshots[taken] = broker.snapshot()
                return {"snapshot": taken}
            case ["fork"] if method == "POST":
                return self._opened(broker.fork())
            case ["chaos"] if method == "POST":
                self._chaos[number] = called("chaos", broker.chaos, words).begin()
                return {"kinds": list(words.get("kinds", KINDS))}
            case ["chaos"]:
                return _known(self._chaos, number, "chaos of broker").told()
            case [name]:
                return calls.of_broker(broker, name, words)
        raise LookupError(f"there is no /{'/'.join(path)} of a broker")

    def _close(self, broker: Broker, number: str, *, verify: bool) -> dict[str, Any]:
        del self._brokers[number]
        self._chaos.pop(number, None)
        self._faults.pop(number, None)
        try:
            if verify:
                broker.verify()
        finally:
            broker.close()
        return {"closed": number}


def _known(among: dict[str, T], number: str, what: str) -> T:
    if number not in among:
        raise LookupError(f"there is no {what} {number!r}; there {'are ' + ', '.join(among) if among else 'is none'}")
    return among[number]


def _queried(name: str, text: str) -> Any:
    """A word of a query, as a body would have it."""
    if name in _NO_TEXT:
        with suppress(ValueError):
            return json.loads(text)
    return text


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    testbed: Testbed
    host_names: Collection[str]

    def handle_one_request(self) -> None:
        """As always, but that a client may go."""
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def _serve(self) -> None:
        status, told = self._result()
        body = (json.dumps(told, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("content-type", "application/json; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _result(self) -> tuple[int, Any]:
        try:
            self._check_who()
            address = urlsplit(self.path)
            words = {**{name: _queried(name, text) for name, text in parse_qsl(address.query)}, **self._body()}
            path = [unquote(one) for one in address.path.split("/") if one]
            return 200, {"is": self.testbed.answer(self.command, path, words)}
        except Refused as error:
            return 400, {"error": str(error)}
        except LookupError as error:
            return 404, {"error": str(error.args[0])}
        except AssertionError as error:
            return 409, {"error": str(error)}
        except BrokerDied as error:
            return 410, {"error": str(error)}
        except Exception as error:
            return 500, {"error": f"a fault of Kohort's own: {error!r}"}

    def _check_who(self) -> None:
        """Whoever has a browser open on this machine has not asked for what its pages send here. Raises: Refused."""
        closes, self.close_connection = self.close_connection, True  # the body of who is refused is no next request
        check_host(self.headers["host"], self.host_names)
        if "origin" in self.headers:
            raise Refused("a page in a browser has sent this (origin): a testbed takes nothing from those")
        self.close_connection = closes

    def _body(self) -> dict[str, Any]:
        size = self.headers.get("content-length", "0")
        if "transfer-encoding" in self.headers:
            return self._parsed(self._chunked())
        if not size.isdecimal() or int(size) > MAX_BODY_BYTES:
            self.close_connection = True
            raise Refused(f"content-length: {size}: a body has up to {MAX_BODY_BYTES} bytes, and says how many")
        return self._parsed(self.rfile.read(int(size)))

    def _chunked(self) -> bytes:
        """As clients send what they do not know the length of."""
        data = bytearray()
        try:
            while size := int(self.rfile.readline(1_000).partition(b";")[0], 16):
                if not 0 < size <= MAX_BODY_BYTES - len(data):
                    raise ValueError
                data += self.rfile.read(size)
                self.rfile.readline(1_000)
            while self.rfile.readline(1_000).strip():
                pass  # trailers
        except ValueError:
            self.close_connection = True
            raise Refused(f"a body has up to {MAX_BODY_BYTES} bytes, in chunks or with content-length") from None
        return bytes(data)

    def _parsed(self, data: bytes) -> dict[str, Any]:
        if not data:
            return {}
        if "json" not in self.headers.get("content-type", ""):
            # Pages of others, open in a browser of this machine, may send anything else unasked.
            raise Refused("a body is JSON, and says so: content-type: application/json")
        try:
            words = json.loads(data)
        except ValueError as error:
            raise Refused(f"the body is no JSON: {error}") from None
        if not isinstance(words, dict):
            raise Refused("the body is no JSON object: it has the arguments by their names")
        return words

    do_GET = do_HEAD = do_POST = do_DELETE = _serve  # noqa: N815  as http.server names them

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: the test knows what it asks."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def serve(
    host: str, port: int, settings: Mapping[str, str], load_from: Path | None = None, host_names: Collection[str] = ()
) -> None:
    """Serve until SIGTERM or SIGINT. Raises: OSError when it cannot listen there."""
    testbed = Testbed(settings, load_from)
    names = {name.lower() for name in (host, *host_names)}
    server = _Server((host, port), type("Handler", (_Handler,), {"testbed": testbed, "host_names": names}))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    address = f"[{host}]" if ":" in host else host
    print(f"kohort testbed on http://{address}:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    finally:
        server.server_close()
        testbed.close()
