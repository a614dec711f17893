"""A cluster as the verbs see it: an administration client that says what is wrong in sentences.

The client library is imported here, when a command runs. A cluster that cannot be reached is known before it is used:
the library itself would try for ever, and say nothing.

Source: librdkafka's configuration; Kafka's Errors for the texts.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import re
import socket
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from cli.errors import Failed, UsageError
from cli.wire import HungUp, Wire, hangs_up_on_everybody
from pipeline.client_security import TOKEN_URL, translated
from pipeline.errors import UsageError as WrongSetting
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest
from storage.directory.meta_properties import parse_properties

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterable, Mapping

    from confluent_kafka.admin import ClusterMetadata, TopicDescription

    from protocol.schema import Message

_K = TypeVar("_K")
_V = TypeVar("_V")

_CONNECT_TIMEOUT_S = 5.0
_ASK_AGAIN_S = 0.1
_LISTEN_EVERY_S = 0.05
_PATIENCE_S = 1.0
_AT_ONCE_S = 0.3
_ADDRESS = re.compile(r"(?:[A-Za-z_0-9]+://)?(?:\[([^\]]+)\]|([^:\[\]]+)):(\d+)")
_AFTER = re.compile(r" \(after [^)]*\)$")  # how long it took, and in which state of the library's
_NO_ANSWER = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._WAIT_COORD,
}
_REFUSALS = {KafkaError._AUTHENTICATION, KafkaError._SSL}
OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})


def silent() -> logging.Logger:
    """Where the library's own lines go, which would stand between the rows of a table: nowhere."""
    logger = logging.getLogger("kohort.client")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


class Cluster:
    """The cluster that a command's options name; connected at once. Raises: Failed, UsageError."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.bootstrap: str = options.bootstrap_server
        self.timeout_s: float = options.timeout / 1_000
        self._given = client_settings(options)
        self._refusal = ""  # what the library said last of a connection that it could not use
        self._is_refused = False  # for good, not only this time
        addresses = parse_addresses(self.bootstrap)
        address = _reach(addresses)
        self.admin: AdminClient = self._make(AdminClient, {**self.settings(), "error_cb": self._heard})
        metadata = self._listed(address)
        self.brokers: dict[int, str] = {id_: f"{node.host}:{node.port}" for id_, node in metadata.brokers.items()}
        self.cluster_id: str | None = metadata.cluster_id
        self.topics: dict[str, int] = {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    def _listed(self, address: str) -> ClusterMetadata:
        """All topics and brokers. Raises: Failed, at once when a log-in or a handshake was refused.

        The library would try again until the time is out, deaf to Ctrl-C: it does so in a thread of its own.
        """
        answered: Future[ClusterMetadata] = Future()

        def ask() -> None:
            try:
                answered.set_result(self.admin.list_topics(timeout=self.timeout_s))
            except KafkaException as error:
                answered.set_exception(error)

        threading.Thread(target=ask, name="list topics", daemon=True).start()
        is_late_s = tries_door_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return answered.result(_LISTEN_EVERY_S)
            except KafkaException as error:
                _reach(parse_addresses(self.bootstrap))
                if not self._try_the_door(address):
                    raise Failed(
                        f"{address} closes every connection: this host may have too many of them, or it is ending"
                    ) from None
                raise Failed(f"{self.bootstrap} accepts, and does not answer as Kafka does: {said(error)}") from None
            except TimeoutError:
                self.admin.poll(0)
            now_s = time.monotonic()
            if self._is_refused or (self._refusal and now_s > is_late_s):
                raise Failed(self._refusal)
            if now_s > tries_door_s:
                tries_door_s = math.inf if self._try_the_door(address) else now_s + _PATIENCE_S

    def _heard(self, error: KafkaError) -> None:
        """What the library says of a connection. A wrong password or certificate is wrong at every try."""
        if error.code() in _REFUSALS or "handshake failed" in error.str():
            where, _, why = error.str().partition(": ")
            place = where.rpartition("//")[2].partition("/")[0]  # of `sasl_ssl://localhost:9092/bootstrap`
            self._refusal = f"{place}: {_AFTER.sub('', why).rstrip(': ')}"
            self._is_refused = error.code() in _REFUSALS

    def _try_the_door(self, address: str) -> bool:
        """Who speaks plainly where TLS or a log-in is wanted is hung up on, of which the library says nothing.

        False where that is done to everybody, which may pass. Raises: HungUp.
        """
        began_s = time.monotonic()
        try:
            with self.wire(address, timeout_s=_PATIENCE_S) as wire:
                wire.ask(MetadataRequest(topics=[]), 1)
        except HungUp:
            within_s = _AT_ONCE_S + 2 * (time.monotonic() - began_s)  # a broker may take its time for it
            if not hangs_up_on_everybody(*parse_addresses(address)[0], within_s=within_s):
                raise
            return False
        except (Failed, UsageError):
            pass  # the library tells of it, or knows a log-in that our own connection does not
        return True

    def settings(self, **more: Any) -> dict[str, Any]:
        """The settings of a client of this cluster; `more` with underscores for dots."""
        own = {key.replace("_", "."): value for key, value in more.items()}
        return {"bootstrap.servers": self.bootstrap, "client.id": "kohort", **self._given, **own}

    def wire(self, address: str, *, timeout_s: float | None = None) -> Wire:
        """A connection of our own to one broker, with the cluster's settings. Raises: Failed, UsageError."""
        host, port = parse_addresses(address)[0]
        return Wire(host, port, timeout_s=timeout_s or self.timeout_s, settings=self._given)

    def ask(self, request: Message, version: int) -> Any:
        """The answer of one broker, whichever, over a connection of our own. Raises: Failed, UsageError."""
        with self.wire(next(iter(self.brokers.values()))) as wire:
            return wire.ask(request, version)

    def _make(self, kind: Any, settings: dict[str, Any]) -> Any:
        return make_client(kind, settings)

    def results(self, futures: Mapping[_K, Future[_V]]) -> tuple[dict[_K, _V], dict[_K, KafkaError]]:
        """What came of each, and the errors of the others. Raises: Failed when the cluster does not answer."""
        done: dict[_K, _V] = {}
        failed: dict[_K, KafkaError] = {}
        for key, future in futures.items():
            try:
                done[key] = future.result(self.timeout_s + 5)
            except KafkaException as error:
                failed[key] = error.args[0]
                if failed[key].code() in _NO_ANSWER:
                    raise self.no_answer(failed[key]) from None
            except TimeoutError:
                raise self.no_answer(None) from None
        return done, failed

    def result(self, future: Future[_V]) -> _V:
        """What came of it. Raises: Failed with the error."""
        done, failed = self.results({None: future})
        if failed:
            raise Failed(said(failed[None]))
        return done[None]

    def no_answer(self, error: KafkaError | None) -> Failed:
        """The cluster was reached, and then not: mostly, it advertises an address that is of no use here."""
        where = ", ".join(sorted(self.brokers.values()))
        why = f" ({said(error)})" if error is not None else ""
        return Failed(f"no answer within {self.timeout_s:g} s{why}; the cluster says that it is reached at {where}")

    @cached_property
    def ever_had_groups(self) -> bool:
        """Whether a group was ever there. Where none was, who only asks must not ask for its coordinator: that would
        make `__consumer_offsets`. Who may not see that topic knows by the groups that may be seen."""
        if OFFSETS_TOPIC in self.topics:
            return True
        return bool(self.result(self.admin.list_consumer_groups(request_timeout=self.timeout_s)).valid)

    @property
    def ever_had_transactions(self) -> bool:
        """Whether a transactional id was, or may have been, there; else the same, of `__transaction_state`."""
        _, errors = self.describe_topics([TRANSACTIONS_TOPIC])
        return not errors or errors[TRANSACTIONS_TOPIC].code() != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def await_coordinator(self, group_id: str) -> None:
        """For who is about to change something: return when somebody answers for the group, or the time is out.

        The first question for any group makes `__consumer_offsets`, and is refused until it is there. The library asks
        three times within 0.3 s and after that waits in silence; and a client of it whose question ran out of time is
        never destroyed any more once the broker is gone. So it is asked over a connection of our own.
        """
        if OFFSETS_TOPIC in self.topics:
            return
        deadline_s = time.monotonic() + self.timeout_s
        with self.wire(next(iter(self.brokers.values()))) as wire:
            while time.monotonic() < deadline_s:
                answer = wire.ask(FindCoordinatorRequest(key=group_id), 2)
                if answer.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                    return  # whatever else is wrong, whoever asks for more will hear too
                time.sleep(_ASK_AGAIN_S)

    def describe_topics(self, names: Collection[str]) -> tuple[dict[str, TopicDescription], dict[str, KafkaError]]:
        """Each topic by name, and the errors of those that are not there; none is created by asking."""
        if not names:
            return {}, {}
        futures = self.admin.describe_topics(TopicCollection(list(names)), request_timeout=self.timeout_s)
        return self.results(futures)

    def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        """How many partitions each topic has. Raises: Failed for one that is not there, or may not be seen."""
        found, errors = self.describe_topics(names)
        for name, error in errors.items():
            if error.code() != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise Failed(f"topic {name!r}: {said(error)}")
            raise unknown("topic", name, self.topics)
        return {name: len(topic.partitions) for name, topic in found.items()}


def client_settings(options: argparse.Namespace) -> dict[str, str]:
    """What --command-config and --command-property say, under the library's names. Raises: UsageError."""
    given: dict[str, str] = {}
    path = getattr(options, "command_config", None)
    if path:
        try:
            given.update(parse_properties(Path(path).read_text()))
        except OSError as error:
            raise UsageError(f"--command-config {path}: {(error.strerror or str(error)).lower()}") from None
        except UnicodeDecodeError:
            raise UsageError(f"--command-config {path}: it is no text") from None
    for word in getattr(options, "command_property", None) or ():
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--command-property {word}: it takes key=value")
        given[key.strip()] = value.strip()
    given.pop("bootstrap.servers", None)
    try:
        return translated(given)
    except WrongSetting as error:
        raise UsageError(str(error)) from None


def make_client(kind: Any, settings: dict[str, Any]) -> Any:
    """A client of the library. Settings that only Java's clients know are left out. Raises: Failed, UsageError."""
    settings = dict(settings)
    if str(settings.get(TOKEN_URL, "")).startswith("file:"):  # which Java's clients know, and the library does not
        settings.pop("sasl.oauthbearer.method", None)
        settings["oauth_cb"] = partial(_shown, given={TOKEN_URL: settings.pop(TOKEN_URL)})
        settings["oauth_cb"]("")  # of what is wrong with it the library says only that there is no token
    while True:
        try:
            return kind(settings, logger=silent())
        except KafkaException as error:
            told = error.args[0]
            match = re.search(r'No such configuration property: "([^"]+)"', told.str())
            if match is None or match[1] not in settings:
                raise UsageError(f"a client setting is wrong: {told.str()}") from None
            del settings[match[1]]


def _shown(_: str, *, given: Mapping[str, Any]) -> tuple[str, float]:
    """The token of a file, and when it ends by what it says itself; an hour from now where it does not say.

    Raises: Failed for a file without a token, and for one that has ended: the library takes none.
    """
    from pipeline.errors import DataError  # noqa: PLC0415  few commands need it
    from pipeline.oauth_token import access_token  # noqa: PLC0415

    try:
        token = access_token(given, timeout_s=0)
    except DataError as error:
        raise Failed(str(error)) from None
    now_s = time.time()
    end_s = now_s + 3_600
    with suppress(ValueError, KeyError, TypeError, IndexError):
        claims = token.split(".")[1]
        end_s = float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    if end_s <= now_s:
        raise Failed(f"{given[TOKEN_URL]}: the token in it expired {now_s - end_s:.0f} s ago")
    return token, end_s


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """(host, port) of each of `host:port,host:port`. Raises: UsageError."""
    found = []
    for word in text.split(","):
        match = _ADDRESS.fullmatch(word.strip())
        if match is None or not 0 < int(match[3]) < 65536:
            raise UsageError(f"--bootstrap-server {text}: it takes HOST:PORT, several with commas")
        found.append((match[1] or match[2], int(match[3])))
    return found


def _reach(addresses: list[tuple[str, int]]) -> str:
    """The first address that accepts a connection. Raises: Failed when none does."""
    problems = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
        except TimeoutError:
            problems.append(f"{host}:{port} cannot be reached: no answer within {_CONNECT_TIMEOUT_S:g} s")
        except OSError as error:
            problems.append(f"{host}:{port} cannot be reached: {(error.strerror or str(error)).lower()}")
        else:
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    raise Failed("; ".join(problems))


def said(error: KafkaError | KafkaException) -> str:
    """What an error means, in Kafka's own words where it is Kafka's, without the last full stop."""
    told: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    text = told.str()
    if text.startswith("Broker: "):
        try:
            text = ErrorCode(told.code()).message
        except ValueError:
            text = text.removeprefix("Broker: ")
    return text.removeprefix("Local: ").rstrip(".")


def unknown(kind: str, name: str, known: Iterable[str]) -> Failed:
    """There is no such group or topic, and what may have been meant."""
    import difflib  # noqa: PLC0415  only then

    near = difflib.get_close_matches(name, list(known), n=3)
    meant = f"; did you mean {' or '.join(repr(one) for one in near)}?" if near else ""
    return Failed(f"{kind} {name!r} does not exist{meant}")
