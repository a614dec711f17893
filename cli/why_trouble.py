"""`kohort why` without a group: which groups are in trouble now, worst first, one line each."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from cli.cluster import make_client, said
from cli.errors import DONE, FAILED, Failed
from cli.groups.lags import first_unread_ms
from cli.groups.reading import all_groups, end_offsets, offsets_at, read_groups, read_offsets
from cli.options import print_json
from cli.tables import plain
from cli.why_reading import ask_http
from coordinator.why import words
from coordinator.why.findings import findings
from coordinator.why.terms import duration, plural
from protocol.errors import ErrorCode
from protocol.records.errors import UnparsableRecord
from protocol.records.ledger import LEDGER_TOPIC, decode_whole

if TYPE_CHECKING:
    import argparse

    from cli.cluster import Cluster
    from cli.groups.reading import Group, Tp

RECENT_MS = 10 * 60_000
"""What was found in that time counts as now, unless --since says otherwise."""
LOOKED_AT_MS = 60 * 60_000
"""Of the ledger: findings are made of more than what is recent."""
REBALANCING_MS = 10_000
UNREAD_MS = 60_000
"""In a group that nobody is in, records older than that are waiting in vain."""
BEHIND_MS = 5 * 60_000
_MOVING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_LINGER_S = 0.05

Record = dict[str, Any]


class Trouble(NamedTuple):
    """One thing that is wrong with a group; the larger `weight`, the worse."""

    weight: float
    rule: str
    says: str


def explain(options: argparse.Namespace, since_ms: int | None, now_ms: int) -> int:
    """Print the groups in trouble. Exit code 1 when there are some. Raises: Failed."""
    from cli.cluster import Cluster  # noqa: PLC0415  the client library, once the words make sense

    cluster = Cluster(options)
    recent_ms = since_ms if since_ms is not None else now_ms - RECENT_MS
    names = all_groups(cluster) if cluster.ever_had_groups else []
    ledger = _ledger(cluster, min(recent_ms, now_ms - LOOKED_AT_MS), now_ms)
    groups, errors = read_groups(cluster, [name for name in names if name])
    lags = _lags(cluster, groups, now_ms)
    found = {
        group.group_id: troubles
        for group in groups
        if (
            troubles := _troubles(
                cluster, options.http, group, (ledger or {}).get(group.group_id, []), lags, recent_ms, now_ms
            )
        )
    }
    worst = sorted(found, key=lambda name: (-found[name][0].weight, name))
    if options.json:
        print_json(
            {
                "groups": len(groups),
                "source": "ledger" if ledger is not None else "cluster",
                "in_trouble": [
                    {"group_id": name, "troubles": [{"rule": one.rule, "says": one.says} for one in found[name]]}
                    for name in worst
                ],
                "unknown": {name: said(error) for name, error in errors.items()},
            }
        )
        return FAILED if worst else DONE
    width = max(map(len, worst), default=0)
    for name in worst:
        first, *others = found[name]
        more = f" (and {len(others)} more: kohort why {name})" if others else ""
        print(plain(f"{name:<{width}}  {first.says}{more}"))
    healthy = len(groups) - len(worst)
    if not groups:
        print("there are no groups")
    elif healthy:
        print(f"{'' if not worst else 'the other '}{plural(healthy, 'group')}: no trouble")
    for name, error in errors.items():
        print(plain(f"{name}: cannot be told: {said(error)}"))
    if ledger is None and groups:
        print("There is no rebalance ledger: only states and lag were looked at.")
    return FAILED if worst else DONE


def _troubles(
    cluster: Cluster,
    http: str | None,
    group: Group,
    records: list[Record],
    lags: dict[str, tuple[int, int]],
    recent_ms: int,
    now_ms: int,
) -> list[Trouble]:
    told: list[Trouble] = []
    if group.state in _MOVING:
        told += _rebalancing(cluster, http, group, records, now_ms)
    lag, unread_ms = lags.get(group.group_id, (0, 0))
    behind = f"{plural(lag, 'record')} behind, the first of them {duration(unread_ms)} old"
    if group.state == "Empty" and unread_ms >= UNREAD_MS:
        told.append(Trouble(5e8 + unread_ms / 1e3, "nobody_reads", f"nobody is in the group, {behind}"))
    elif group.members and unread_ms >= BEHIND_MS:
        told.append(Trouble(3e8 + unread_ms / 1e3, "behind", behind))
    for at, one in enumerate(findings(records, now_ms=now_ms)):
        if one["severity"] == "warning" and (one["last_at_ms"] or 0) >= recent_ms:
            told.append(Trouble(1e8 - at, one["rule"], one["says"]))
    return sorted(told, key=lambda one: -one.weight)


def _rebalancing(cluster: Cluster, http: str | None, group: Group, records: list[Record], now_ms: int) -> list[Trouble]:
    ended = {one["rebalance_id"] for one in records if one["kind"] == "rebalance_ended"}
    open_ = [one for one in records if one["kind"] == "rebalance_began" and one["rebalance_id"] not in ended]
    answer, _ = ask_http(cluster, http, "groups", group.group_id)
    ours = answer is not None and answer.get("cluster_id") == cluster.cluster_id
    now = answer.get("rebalance_in_progress") if answer is not None and ours else None
    if isinstance(now, dict):
        for_ms, says = int(now.get("for_ms") or 0), words.in_progress(now)
    elif open_:
        for_ms = now_ms - int(open_[-1]["at_ms"])
        says = f"a rebalance has been going on for {duration(for_ms)}"
    else:
        for_ms, says = REBALANCING_MS, f"it is rebalancing ({group.state})"
    return [Trouble(9e8 + for_ms / 1e3, "rebalancing", says)] if for_ms >= REBALANCING_MS else []


def _lags(cluster: Cluster, groups: list[Group], now_ms: int) -> dict[str, tuple[int, int]]:
    """Of each group: records that it has not read, and the age of the oldest in ms."""
    offsets: dict[str, dict[Tp, int]] = {}
    for group in groups:
        try:
            offsets[group.group_id] = {tp: at for tp, (at, _) in read_offsets(cluster, group.group_id).items()}
        except Failed:
            continue  # who may not see a group's offsets is told of the rest
    ends = end_offsets(cluster, {tp for committed in offsets.values() for tp in committed})
    oldest: dict[Tp, int] = {}  # of several groups the one that is furthest behind is asked for
    for committed in offsets.values():
        for tp, at in committed.items():
            oldest[tp] = min(at, oldest.get(tp, at))
    first_ms = first_unread_ms(cluster, oldest, ends)
    lags = {}
    for group_id, committed in offsets.items():
        behind = {tp: ends[tp] - at for tp, at in committed.items() if ends.get(tp, 0) > at}
        exact = [tp for tp in behind if committed[tp] == oldest[tp]]
        rest = {tp: committed[tp] for tp in behind if tp not in exact}
        moments = [first_ms[tp] for tp in exact if tp in first_ms]
        moments += first_unread_ms(cluster, rest, ends).values()
        lags[group_id] = sum(behind.values()), now_ms - min(moments, default=now_ms)
    return lags


def _ledger(cluster: Cluster, since_ms: int, now_ms: int) -> dict[str, list[Record]] | None:
    """The ledger's records since then, by group; None: there is no ledger. Raises: Failed."""
    topics, errors = cluster.describe_topics([LEDGER_TOPIC])
    if LEDGER_TOPIC not in topics:
        for error in errors.values():
            if error.code() != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise Failed(f"{LEDGER_TOPIC}: {said(error)}")
        return None
    tps = [(LEDGER_TOPIC, number) for number in range(len(topics[LEDGER_TOPIC].partitions))]
    ends = end_offsets(cluster, tps)
    begins = offsets_at(cluster, {tp: OffsetSpec.for_timestamp(since_ms) for tp in tps})
    left = {tp: ends[tp] for tp, at in begins.items() if 0 <= at < ends.get(tp, 0)}
    found: dict[str, list[Record]] = defaultdict(list)
    if not left:
        return found
    settings = cluster.settings(
        group_id="kohort-why",
        enable_auto_commit=False,
        isolation_level="read_uncommitted",
        allow_auto_create_topics=False,
    )
    consumer: Consumer = make_client(Consumer, settings)
    try:
        consumer.assign([TopicPartition(*tp, begins[tp]) for tp in left])
        give_up = time.monotonic() + cluster.timeout_s
        while left:
            for message in consumer.consume(1_000, timeout=_LINGER_S):
                if message.error() is not None:
                    continue
                give_up = time.monotonic() + cluster.timeout_s
                tp, offset = (str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)
                try:
                    record = decode_whole(message.value(), cluster.cluster_id)
                except UnparsableRecord:
                    record = None  # a client may write into the topic as well
                if record is not None and record["at_ms"] <= now_ms:
                    found[record["group_id"]].append(record)
                if offset >= left.get(tp, 0) - 1:
                    left.pop(tp, None)
            if time.monotonic() > give_up:
                raise Failed(f"{LEDGER_TOPIC} cannot be read: no answer within {cluster.timeout_s:g} s")
    except KafkaException as error:
        raise Failed(f"{LEDGER_TOPIC} cannot be read: {said(error)}") from None
    finally:
        consumer.close()
    return found
