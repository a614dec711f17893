"""What `kohort why` tells, read: the ledger's records, else generations; and what the broker says over HTTP."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import urlopen

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cli.cluster import OFFSETS_TOPIC, make_client, parse_addresses, said, unknown
from cli.errors import Failed, UsageError
from cli.groups.epochs import read_epochs
from cli.groups.lags import first_unread_ms
from cli.groups.reading import end_offsets, never_seen, read_groups, read_offsets
from cli.why_context import session_timeout_ms, topic_names
from coordinator.routing import partition_for
from coordinator.why.findings import LIVE_RULES, findings
from coordinator.why.gaps import GAP, has_gap, newest_generation, with_gaps
from coordinator.why.inferred import generations
from coordinator.why.terms import plural
from coordinator.why.verdicts import verdicts
from coordinator.why.window import of_last_rebalances
from protocol.errors import ErrorCode
from protocol.records.errors import UnparsableRecord
from protocol.records.ledger import LEDGER_TOPIC, ForeignRecord, NewerRecord, decode_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from cli.cluster import Cluster
    from coordinator.why.window import Finding

_HTTP_TIMEOUT_S = 2.0
_HTTP_PORT = 9644
_HTTP_PLACE = re.compile(r"(?:http://)?(\[[0-9A-Fa-f:.%]+\]|[^\s/:\[\]]+):([0-9]{1,5})/?")
_LINGER_S = 0.05

Record = dict[str, Any]


@dataclass
class Told:
    """Everything about one group. `inferred`: there is no ledger, `records` are made of generations."""

    group_id: str
    state: str | None = None
    members: int | None = None
    records: list[Record] = field(default_factory=list)  # chosen, the oldest first
    every: list[Record] = field(default_factory=list)  # of the window of time
    judged: list[Record] = field(default_factory=list)  # of those, what findings look at
    departed: list[Record] = field(default_factory=list)  # and verdicts: inferred ones too
    known: list[Record] = field(default_factory=list)  # of any time: what was seen later of those who went
    until_ms: int | None = None
    ended_later: set[str] = field(default_factory=set)  # rebalances that ended after the window of time
    last: int = 10  # so many rebalances, and so many lines of other kinds
    http_answered: bool = False
    inferred: bool = False
    in_progress: Mapping[str, Any] | None = None
    live_findings: list[Finding] = field(default_factory=list)
    files: str | None = None  # the directory that was read, instead of a cluster
    lag: int | None = None  # records that are not read yet; None: nothing was committed
    lag_s: float | None = None  # the age of the oldest of them
    http_silent: bool = False  # --http was given, and nobody there knows of this cluster's group

    def choose(
        self, *, last: int, judged: int, since_ms: int | None, until_ms: int | None, triggers: Collection[str] | None
    ) -> None:
        """Keep what was asked for: the last rebalances of a window of time, and what happened between them."""
        self.until_ms, self.last, self.known = until_ms, last, self.records
        if until_ms is not None:
            late = [one for one in self.records if one["kind"] == "rebalance_ended" and one["at_ms"] > until_ms]
            self.ended_later = {one["rebalance_id"] for one in late if one.get("rebalance_id")}
        self.every = [
            record
            for record in self.records
            if (since_ms is None or record["at_ms"] >= since_ms) and (until_ms is None or record["at_ms"] <= until_ms)
        ]
        kept = self.every
        if triggers:
            kept = [record for record in kept if (_first_cause(record) or {}).get("trigger") in triggers]
        self.departed = [one for one in of_last_rebalances(self.every, judged) if one["kind"] != GAP]
        self.judged = [one for one in self.departed if "source" not in one]
        self.records = list(of_last_rebalances(kept, last))

    @property
    def ends_with_gap(self) -> int | None:
        """Since when nobody has written the ledger; None while somebody does."""
        gaps = [one for one in self.every if one["kind"] == GAP and one["until_ms"] is None]
        return gaps[-1]["from_ms"] if gaps else None

    def findings(self, now_ms: int) -> list[Finding]:
        """What the records say, and what only the broker could see."""
        if self.inferred:
            return []
        if self.until_ms is not None:  # what the group is now is no matter
            return findings(self.judged, now_ms=min(now_ms, self.until_ms))
        found = findings(self.judged, now_ms=now_ms)
        rules = {one["rule"] for one in found}
        return [*found, *(one for one in self.live_findings if one["rule"] not in rules)]

    def as_json(self, now_ms: int) -> Record:
        """For programs."""
        return {
            "group_id": self.group_id,
            "state": self.state,
            "source": "inferred" if self.inferred else "ledger",
            "lag": self.lag,
            "lag_seconds": self.lag_s,
            "records": self.records,
            "rebalance_in_progress": self.in_progress,
            "verdicts": verdicts(self.departed, now_ms=now_ms, traced=self.known),
            "findings": self.findings(now_ms),
        }


def read(cluster: Cluster, group_id: str, http: str | None, now_ms: int) -> Told:
    """All there is about the group. Raises: Failed, also when nobody knows it; UsageError."""
    told = Told(group_id)
    if not cluster.ever_had_groups:
        raise never_seen(cluster, group_id)
    topics, _ = cluster.describe_topics([LEDGER_TOPIC])
    if LEDGER_TOPIC in topics:
        told.records = ledger_records(cluster, group_id, len(topics[LEDGER_TOPIC].partitions))
    else:
        told.inferred = True
        told.records = inferred_records(cluster, group_id)
    _describe(cluster, told)
    _look_at_lag(cluster, told)
    now_at = _ask_broker(cluster, told, http)
    newest = newest_generation(told.records)
    if not told.inferred and (has_gap(told.records) or now_at is None or now_at != newest):
        told.records = with_gaps(told.records, inferred_records(cluster, group_id))
    return told


def ledger_records(cluster: Cluster, group_id: str, partition_count: int) -> list[Record]:
    """The group's records, the oldest first."""
    found = []
    newer = foreign = 0
    for key, value, _ in _whole_partition(cluster, LEDGER_TOPIC, partition_for(group_id, partition_count)):
        if key == group_id.encode():
            try:
                found.append(decode_whole(value, cluster.cluster_id))
            except NewerRecord:
                newer += 1
            except ForeignRecord:
                foreign += 1
            except UnparsableRecord:
                continue  # a client may write into the topic as well
    if newer:
        were, are = ("was", "is") if newer == 1 else ("were", "are")
        what = f"{plural(newer, 'record')} of the ledger {were} written by a newer Kohort"
        print(f"kohort: {what}, and {are} left out", file=sys.stderr)
    if foreign:
        are = "is" if foreign == 1 else "are"
        what = f"{plural(foreign, 'record')} of the ledger {are} another cluster's"
        print(f"kohort: {what}, and {are} left out", file=sys.stderr)
    return found


def inferred_records(cluster: Cluster, group_id: str) -> list[Record]:
    """What the generations in `__consumer_offsets` tell."""
    topics, _ = cluster.describe_topics([OFFSETS_TOPIC])
    if OFFSETS_TOPIC not in topics:
        return []
    partition = partition_for(group_id, len(topics[OFFSETS_TOPIC].partitions))
    log = _whole_partition(cluster, OFFSETS_TOPIC, partition)
    names, session_ms = topic_names(cluster, group_id), session_timeout_ms(cluster, group_id)
    return generations(group_id, log, names=names, session_ms=session_ms)


def _whole_partition(cluster: Cluster, topic: str, partition: int) -> Iterator[tuple[bytes | None, bytes | None, int]]:
    """Key, value and time of every record, up to the end as it is now. Raises: Failed."""
    settings = cluster.settings(
        group_id="kohort-why",  # the library wants one; nothing is committed and no group is joined
        enable_auto_commit=False,
        enable_partition_eof=True,
        auto_offset_reset="earliest",
        isolation_level="read_uncommitted",
        allow_auto_create_topics=False,
    )
    consumer: Consumer = make_client(Consumer, settings)
    place = TopicPartition(topic, partition)
    try:
        low, high = consumer.get_watermark_offsets(place, timeout=cluster.timeout_s)
        if low >= high:
            return
        consumer.assign([TopicPartition(topic, partition, low)])
        give_up = time.monotonic() + cluster.timeout_s
        while True:
            # It waits for so many until its time is out, even when the end has been reached.
            messages = consumer.consume(1_000, timeout=_LINGER_S)
            if messages:
                give_up = time.monotonic() + cluster.timeout_s
            elif time.monotonic() > give_up:
                raise Failed(f"{topic}-{partition} cannot be read: no answer within {cluster.timeout_s:g} s")
            for message in messages:
                error = message.error()
                if error is None:
                    yield message.key(), message.value(), message.timestamp()[1]
                    if (message.offset() or 0) >= high - 1:
                        return
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                else:
                    raise Failed(f"{topic}-{partition} cannot be read: {said(error)}")
    except KafkaException as error:
        raise Failed(f"{topic}-{partition} cannot be read: {said(error)}") from None
    finally:
        consumer.close()


def _describe(cluster: Cluster, told: Told) -> None:
    """State and members as DescribeGroups says. Raises: Failed when neither the cluster nor the ledger knows it."""
    errors: dict[str, KafkaError] = {}
    with suppress(Failed):  # the records tell the rest
        groups, errors = read_groups(cluster, [told.group_id])
        read_epochs(groups, cluster)
        for group in groups:
            told.state, told.members = group.state, len(group.members)
    if told.state in (None, "Dead") and not told.records:
        for error in errors.values():
            if error.code() != ErrorCode.GROUP_ID_NOT_FOUND:
                raise Failed(f"group {told.group_id!r}: {said(error)}")
        listed = cluster.result(cluster.admin.list_consumer_groups(request_timeout=cluster.timeout_s))
        raise unknown("group", told.group_id, [group.group_id for group in listed.valid])


def _look_at_lag(cluster: Cluster, told: Told) -> None:
    """How far behind the group is; it stays unknown to who may not see offsets."""
    with suppress(Failed):
        committed = {place: at for place, (at, _) in read_offsets(cluster, told.group_id).items()}
        ends = end_offsets(cluster, committed)
        behind = [ends[place] - at for place, at in committed.items() if ends.get(place, 0) > at]
        if committed:
            told.lag, told.lag_s = sum(behind), None if behind else 0.0
        first_ms = first_unread_ms(cluster, committed, ends)
        if first_ms:
            told.lag_s = round(max(time.time() - min(first_ms.values()) / 1_000, 0.0), 1)


def _ask_broker(cluster: Cluster, told: Told, http: str | None) -> int | None:
    """What goes on at this moment; the generation or epoch, if the broker says it.

    A broker that does not answer HTTP is no error: the records tell the rest.
    """
    open_ids = {record["rebalance_id"] for record in told.records if record["kind"] == "rebalance_began"}
    open_ids -= {record["rebalance_id"] for record in told.records if record["kind"] == "rebalance_ended"}
    group, told.http_answered = ask_http(cluster, http, "groups", told.group_id)
    if group is not None and group.get("cluster_id") != cluster.cluster_id:
        group, told.http_answered = None, False  # another broker's port, whose group has the same name
    told.http_silent = http is not None and not told.http_answered
    now = (group or {}).get("rebalance_in_progress")
    if isinstance(now, dict) and now.get("rebalance_id") in open_ids:
        told.in_progress = now
    if group is not None and not told.inferred:
        answer = over_http(cluster, http, "groups", told.group_id, "/findings") or {}
        for one in answer.get("findings") or ():
            if isinstance(one, dict) and one.get("rule") in LIVE_RULES:
                told.live_findings.append(one)  # type: ignore[arg-type]  # a Finding, as JSON
    return None if group is None else group.get("generation")


def over_http(cluster: Cluster, http: str | None, what: str, name: str, below: str = "") -> dict[str, Any] | None:
    """What the broker says at /WHAT/NAME; None when nobody there speaks HTTP or knows it. Raises: UsageError."""
    return ask_http(cluster, http, what, name, below)[0]


def ask_http(
    cluster: Cluster, http: str | None, what: str, name: str, below: str = ""
) -> tuple[dict[str, Any] | None, bool]:
    """As `over_http`, and whether anybody answered. Raises: UsageError."""
    where = http_place(http) if http else f"{_bracketed(parse_addresses(cluster.bootstrap)[0][0])}:{_HTTP_PORT}"
    return _get(f"http://{where}/{what}/{quote(name, safe='')}{below}")


def http_place(text: str) -> str:
    """HOST:PORT of what --http was given. Raises: UsageError."""
    match = _HTTP_PLACE.fullmatch(text)
    if match is None or not 0 < int(match[2]) < 65_536:
        raise UsageError(f"--http {text}: it takes HOST:PORT")
    return f"{match[1]}:{match[2]}"


def _get(url: str) -> tuple[dict[str, Any] | None, bool]:
    """The answer, and whether there was any: a group that was deleted is none to the broker."""
    try:
        with urlopen(url, timeout=_HTTP_TIMEOUT_S) as answer:  # always http://
            content = json.load(answer)
    except HTTPError as error:
        return None, error.code == HTTPStatus.NOT_FOUND and "json" in error.headers.get("content-type", "")
    except (URLError, OSError, ValueError, HTTPException):  # what listens there may not speak HTTP
        return None, False
    return (content, True) if isinstance(content, dict) else (None, False)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _first_cause(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = record.get("first_cause") or record.get("cause")
    return found
