"""Whatever lies in the ledger's topic: readers leave out what they cannot read, and never end for it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from cli.why_reading import Told
from cli.why_showing import lines
from coordinator.why.findings import findings
from coordinator.why.replay import replay
from coordinator.why.timeline import timeline as timeline_of
from coordinator.why.verdicts import verdicts
from protocol.records.errors import UnparsableRecord
from protocol.records.ledger import NewerRecord, decode_whole
from tests.coordinator.why.records import MINUTE, NOW, Record, cause, member, rebalance

ODD: list[Any] = [
    None,
    True,
    -1,
    1 << 70,
    1e300,
    "",
    "\x00\u202e\ud7ff",
    "x" * 5_000,
    [],
    [None],
    {},
    {"a": {"b": []}},
    "9-1",
]


def timeline() -> list[Record]:
    silent = cause("session_expired", "b", session_timeout_ms=9_000, last_heard_ms=9_000, connection={"state": "open"})
    moved = [["t", 0, "a-id", "b-id"]]
    there = [member("a", partitions={"t": "0-3"}), member("b", "joined", partitions={"t": "4"})]
    fenced = {
        "kind": "member_fenced", "at_ms": NOW, "group_id": "g", "generation": 1, "instance_id": "i", "api": "Heartbeat",
        "client_host": "/1", "holder_client_host": "/2", "client_id": "b", "holder_client_id": "c",
    }  # fmt: skip
    traced = {
        "kind": "departure_traced", "at_ms": NOW, "group_id": "g", "generation": 1, "member_id": "b-id", "saw": "open",
        "after_ms": 3_000, "trigger": "session_expired",
    }  # fmt: skip
    refused = {
        "kind": "commits_refused", "at_ms": NOW, "group_id": "g", "generation": 2, "count": 3, "client_id": "b",
        "error": "ILLEGAL_GENERATION", "request_generation": 1, "topics": ["t"],
    }  # fmt: skip
    joins = {
        "kind": "joins_refused", "at_ms": NOW, "group_id": "g", "generation": 2, "count": 3, "client_id": "d",
        "client_host": "/1", "error": "INCONSISTENT_GROUP_PROTOCOL", "protocols": ["x"], "group_protocols": ["range"],
    }  # fmt: skip
    return [
        *rebalance(NOW, cause("member_joined"), members=there, moves=moved),
        *rebalance(NOW + 9, silent, members=there, further_causes=[cause("partitions_changed", topics={"t": [3, 6]})]),
        fenced, traced, refused, joins,
    ]  # fmt: skip


def mutated(content: Any, chance: random.Random) -> Any:
    """One place of it is something else."""
    if isinstance(content, dict) and content and chance.random() < 0.9:
        name = chance.choice(list(content))
        return {**content, name: mutated(content[name], chance)}
    if isinstance(content, list) and content and chance.random() < 0.9:
        at = chance.randrange(len(content))
        return [*content[:at], mutated(content[at], chance), *content[at + 1 :]]
    return copy.copy(chance.choice(ODD))


def read(records: list[Record]) -> list[Record]:
    whole = []
    for record in records:
        try:
            whole.append(decode_whole(json.dumps(record).encode("utf-8", "replace")))
        except UnparsableRecord:
            continue
    return whole


@pytest.mark.parametrize("seed", range(4))
def test_records_with_anything_in_any_place_end_no_reader(seed: int):
    chance = random.Random(seed)
    kept = 0
    for _ in range(150):
        records = timeline()
        at = chance.randrange(len(records))
        records[at] = mutated(records[at], chance)
        whole = read([one for one in records if isinstance(one, dict)])
        kept += len(whole) == len(records)
        told = Told("g", "Stable", 2, whole)
        told.choose(last=10, judged=100, since_ms=None, until_ms=None, triggers=None)
        assert list(lines(told, NOW + MINUTE, verbose=True)), (seed, records[at])
        findings(whole, now_ms=NOW + MINUTE)
        assert len(timeline_of(whole, now_ms=NOW + MINUTE)) <= len(whole)
        verdicts(whole, now_ms=NOW)
    assert 5 < kept < 145, "some mutations matter, some do not"


def places(content: Any, *way: Any) -> Iterator[tuple[Any, ...]]:
    """The way to every field, however deep it lies."""
    if isinstance(content, dict):
        for name in content:
            yield (*way, name)
            yield from places(content[name], *way, name)
    elif isinstance(content, list):
        for at, one in enumerate(content):
            yield from places(one, *way, at)


def test_records_with_any_one_field_missing_end_no_reader():
    """Also inside of what they hold: a scrape of the metrics reads them as `kohort why` does."""
    waited = {"member_id": "a-id", "instance_id": None, "client_id": "a", "client_host": "/1", "after_ms": 2_000}
    changed = {
        "kind": "offsets_changed", "at_ms": NOW, "group_id": "g", "generation": 2, "by": "client", "client_id": "c",
        "client_host": "/1", "offsets": [{"topic": "t", "partition": 0, "from": 1, "to": 2}], "truncated": 0,
    }  # fmt: skip
    whole = [*timeline(), changed]
    for record in whole:
        if record["kind"] == "rebalance_ended":
            record |= {"slowest_to_join": waited, "slowest_to_sync": waited}
    ways = list(places(whole))
    assert len(read(whole)) == len(whole)
    for way in ways:
        records = copy.deepcopy(whole)
        inner: Any = records
        for step in way[:-1]:
            inner = inner[step]
        del inner[way[-1]]
        left = read(records)
        told = Told("g", "Stable", 2, left)
        told.choose(last=10, judged=100, since_ms=None, until_ms=None, triggers=None)
        assert list(lines(told, NOW + MINUTE, verbose=True)), way
        findings(left, now_ms=NOW + MINUTE)
        verdicts(left, now_ms=NOW)
        list(replay(left))


def test_a_newer_version_is_left_out_and_an_older_field_may_be_missing():
    (began, ended) = rebalance(NOW, cause("member_joined"))
    with pytest.raises(NewerRecord):
        decode_whole(json.dumps({**ended, "version": 2}).encode())
    del ended["slowest_to_sync"], ended["imbalance"]
    told = Told("g", "Stable", 2, read([began, {**ended, "of_the_future": {"x": 1}}]))
    told.choose(last=10, judged=100, since_ms=None, until_ms=None, triggers=None)
    assert any("worker-1 (10.0.0.1) joined" in line for line in lines(told, NOW))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"kind": "rebalance_ended"', b"{}" * 9])
def test_torn_and_strange_bytes_are_no_records(data: bytes):
    with pytest.raises(UnparsableRecord):
        decode_whole(data)
