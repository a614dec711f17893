"""Every sentence of `why`, at every threshold, as it is kept: what a change of a rule changes for readers is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.cause import TRIGGERS
from coordinator.why import cause_words, gaps, inferred_departures, replay, transactions, words
from coordinator.why.findings import findings
from coordinator.why.timeline import timeline
from coordinator.why.verdicts import traces_of, verdict, verdicts
from coordinator.why.window import of_last_rebalances
from tests.coordinator.why.records import MINUTE, NOW, Record, cause, member, rebalance
from tests.coordinator.why.test_findings import HEALTHY_LIVE, event, fires, waited
from tests.support import kept
from tests.support.kept import told


def held(area: str, lines: list[str]) -> None:
    kept.held(Path(__file__).parent / "kept" / f"{area}.txt", lines)


DETAILS: dict[str, Record] = {
    "member_removed": {"by_client_id": "admin", "by_client_host": "/10.0.0.2"},
    "session_expired": {"session_timeout_ms": 10_000, "last_heard_ms": 9_001, "last_api": "Heartbeat"},
    "join_timeout": {"rebalance_timeout_ms": 300_000},
    "sync_timeout": {"waited_ms": 61_000},
    "poll_timeout": {"text": "too long."},
    "subscription_changed": {
        "topics_added": ["a", "b"], "topics_removed": ["c"], "protocols_changed": [["range", "sticky"], ["x", "y"]],
    },
    "partitions_changed": {"topics": {"t": [3, 6], "new": [0, 1], "old": [2, 0]}, "made_anew": ["u"]},
    "cooperative_followup": {"follows": "4@7"},
    "append_failed": {"error": "NOT_ENOUGH_REPLICAS"},
    "over_capacity": {"size": 12, "limit": 10},
    "rebalance_timeout": {"rebalance_timeout_ms": 60_000},
    "regex_changed": {"new": "a.*", "regexes": {"a.*": {"added": list("pqrs"), "removed": list("wxyz")}}},
    "assignor_changed": {"old": "range", "new": "uniform"},
    "migrated": {"new": "consumer", "because": "assignor_changed", "because_old": "range", "because_new": "uniform"},
}  # fmt: skip


def because(trigger: str, **facts: Any) -> Record:
    return cause(trigger, "worker-2", "10.0.0.7", reason="so it was.", **DETAILS.get(trigger, {}), **facts)


def test_causes():
    lines = []
    for trigger in [*sorted(TRIGGERS), "of_later"]:
        lines += told(trigger, because(trigger), cause_words.cause)
        nobody = because(trigger) | {"client_id": None, "member_id": None}
        lines += told(f"{trigger}, by nobody", nobody, cause_words.cause, within=(("detail",),))
        lines += told(f"{trigger}, not provided", because(trigger) | {"reason": "not provided"}, cause_words.cause)
    held("causes", lines)


def ended(**facts: Any) -> Record:
    _, record = rebalance(NOW, because("session_expired"), **facts)
    return {**record, "rebalance_id": "7@1", "from_generation": 6, "to_generation": 7, "generation": 7}


CLASSIC: Record = {
    "initial_delay_ms": 50, "slowest_to_join": {**waited(50), "told_after_ms": 500}, "assign_ms": 1_000,
    "slowest_to_sync": waited(1_000, "worker-2"), "stopped_ms": 50, "partitions_moved": 4, "partitions_unassigned": 2,
    "further_causes": [because("join_timeout"), because("member_left"), because("member_joined"),
                       because("join_timeout") | {"detail": {"rebalance_timeout_ms": 2_000}}],
    "further_causes_truncated": 3,
}  # fmt: skip
CONSUMER: Record = {
    "group_type": "consumer", "assign_ms": 2_000, "sync_ms": 1_000, "slowest_to_revoke": waited(50),
    "slowest_to_sync": waited(1_000, "worker-2"), "stopped_ms": 50,
}  # fmt: skip
NAMESAKES: Record = {
    "members": [
        {**member("lib", "stayed"), "member_id": "lib-12345678-9"},
        {**member("lib", "stayed"), "member_id": "lib-22345678-9"},
        member("other", "left", host="10.0.0.3"),
        member("other", "joined", host="10.0.0.4"),
    ],
    "first_cause": cause("member_left", "lib") | {"member_id": "lib-12345678-9"},
    "further_causes": [cause("member_left", "lib") | {"member_id": "lib-22345678-9"}, cause("member_left", "other")],
    "slowest_to_join": {**waited(3_000, "lib"), "member_id": "lib-12345678-9"},
}  # fmt: skip


def test_rebalances():
    lines: list[str] = []
    for name, facts in (("classic", CLASSIC), ("consumer", CONSUMER), ("namesakes", NAMESAKES)):
        record = ended(**facts)
        lines += told(f"{name}, what followed", record, words.consequences)
        lines += told(f"{name}, why", record, words.causes)
    for outcome in ("superseded", "interrupted", "empty", "removed"):
        lines.append(f"{outcome}: {words.consequences(ended(outcome=outcome))}")
    read = {"topic": "t", "partition": 3, "unread_ms": 50, "still_unread": 1, "partitions": 2}
    lines += told("unread", read, words.unread)
    lines += told("read again", {**read, "still_unread": 0}, words.unread)
    held("rebalances", lines)


EVENTS: dict[str, Record] = {
    "commits_refused": {"error": "ILLEGAL_GENERATION", "count": 2, "request_generation": 5, "for_ms": 1_500},
    "commits_refused, consumer": {"error": "STALE_MEMBER_EPOCH", "request_generation": 5, "group_type": "consumer"},
    "commits_refused, generation": {"error": "ILLEGAL_GENERATION", "request_generation": 5, "group_type": "consumer"},
    "commits_refused, unknown": {"error": "UNKNOWN_MEMBER_ID", "count": 1_000},
    "commits_refused, fenced": {"error": "FENCED_INSTANCE_ID"},
    "joins_refused": {
        "error": "INCONSISTENT_GROUP_PROTOCOL", "count": 2, "for_ms": 1_500, "protocols": ["a", "b"],
        "group_protocols": ["c", "d"],
    },
    "joins_refused, full": {"error": "GROUP_MAX_SIZE_REACHED"},
    "joins_refused, kind": {"error": "INCONSISTENT_GROUP_PROTOCOL", "protocols": ["a", "b"]},
    "member_fenced": {"holder_client_id": "h", "holder_client_host": "/10.0.0.8", "holder_member_id": "m",
                      "api": "Heartbeat", "instance_id": "i"},
    "member_replaced": {"away_ms": 900},
    "offsets_changed": {
        "by": "client", "truncated": 0,
        "offsets": [{"topic": "t", "partition": at, "from": at, "to": 5 if at else None} for at in range(4)],
    },
    "offsets_changed, three": {"by": "client", "offsets": [{"topic": "t", "partition": 1, "from": 2, "to": None}] * 3},
    **{f"offsets_changed, {by}": {"by": by, "offsets": [], "truncated": 2}
       for by in ("expiry", "topic_deleted", "removed", "group_deleted")},
    "coordinator_loaded": {"unclean": True, "members": 2},
    "group_removed": {"by": "removed"},
    "group_removed, expired": {"by": "expired"},
    "group_removed, client": {"by": "client"},
    "of_later": {},
}  # fmt: skip


def happened(name: str) -> Record:
    return event(name.partition(",")[0], client_id="w", client_host="/10.0.0.1", member_id="m", **EVENTS[name])


def test_events():
    lines: list[str] = []
    for name in EVENTS:
        lines += told(name, happened(name), words.event)
    refusals = [happened("commits_refused") | {"at_ms": NOW + at} for at in (0, 400, 2_000)]
    traced = event("departure_traced") | {"at_ms": NOW + 500}
    lines += told("folded", [*refusals[:2], traced, refusals[2], happened("coordinator_loaded")], _folded)
    joins = [happened("joins_refused") | {"at_ms": NOW + at} for at in (0, 400)]
    lines += told("folded joins", [happened("group_removed"), *joins, *refusals], _folded)
    for phase in ("join", "assign", "sync", "revoke"):
        for kind in ("classic", "consumer"):
            facts = {"for_ms": 3_000, "phase": phase, "group_type": kind, "initial_delay": False,
                     "missing": [member("a"), member("b"), member("c"), member("d")]}  # fmt: skip
            lines += told(f"{phase}, {kind}", facts, words.in_progress, within=(("initial_delay",), ("missing",)))
    held("events", lines)


def _folded(records: list[Record]) -> Any:
    return [(one.get("kind"), one.get("count"), one.get("for_ms")) for one in words.folded(records)]


SILENT: Record = {"session_timeout_ms": 10_000, "last_heard_ms": 10_000, "broker_held_ms": 2_999}
OPEN: Record = {"state": "open", "open": 2, "own_quiet_ms": 10_000, "quiet_ms": 5_000, "shared": True}
GONE: Record = {"state": "closed", "how": "reset", "closed_ms": 9_900}
SEEN: tuple[Record, ...] = (
    {"saw": "returned", "same_connection": True}, {"saw": "returned", "same_connection": False},
    {"saw": "returned", "same_connection": None}, {"saw": "closed"}, {"saw": "open"},
)  # fmt: skip


def test_verdicts():
    def judged(facts: Record) -> Any:
        return verdict(facts["cause"], traces_of(facts["traces"]), now_ms=facts["now_ms"])

    lines: list[str] = []
    gone = {
        "silent": because("session_expired") | {"detail": SILENT},
        "silent, open": because("session_expired") | {"detail": {**SILENT, "connection": OPEN}},
        "silent, closed": because("session_expired")
        | {"detail": {**SILENT, "connection": GONE, "broker_held_before_ms": 2_999}},
        "silent, again": because("session_expired")
        | {"detail": {**SILENT, "connection": {**OPEN, "joined_again": True}, "broker_held_before_ms": 999}},
        "silent, away": because("session_expired") | {"detail": {**SILENT, "away": True}},
        "left": because("member_left"),
        "left, closed": because("member_left") | {"reason": "the consumer is being closed"},
        "left, unsubscribed": because("member_left") | {"reason": "it unsubscribed"},
        "poll": because("poll_timeout"),
        "late": because("join_timeout") | {"detail": {"last_heard_ms": 10_000, "connection": OPEN}},
        "late, silent": because("sync_timeout") | {"detail": {"last_heard_ms": 10_001}},
    }
    for name, one in gone.items():
        for seen in (None, *SEEN):
            trace = [] if seen is None else [event("departure_traced", member_id="worker-2-id", after_ms=50, **seen)]
            facts = {"cause": one, "traces": trace, "now_ms": NOW + 4_000}
            lines += told(f"{name}, then {seen and list(seen.values())}", facts, judged)
    record = ended(further_causes=[because("member_left"), because("session_expired"), because("member_joined")])
    lines += told("all of one", [record], lambda records: verdicts(records, now_ms=NOW), within=((0, "first_cause"),))
    inferred = {
        "silent_ms": 33_750, "session_timeout_ms": 45_000, "usual_ms": 5_000, "waited_ms": 33_749,
        "rebalance_timeout_ms": 300_000, "session_assumed": False,
    }  # fmt: skip
    lines += told("inferred", inferred, inferred_departures.verdict)
    lines += told("inferred, soon", {**inferred, "silent_ms": 22_500}, inferred_departures.verdict)
    lines += told("inferred, late", {**inferred, "silent_ms": 93_750}, inferred_departures.verdict)
    lines += told("inferred, by default", {**inferred, "silent_ms": 15_000, "session_assumed": True},
                  inferred_departures.verdict)  # fmt: skip
    lines += told("inferred, away", {**inferred, "away_ms": 9_000}, inferred_departures.verdict)
    held("verdicts", lines)


FIRES = ("repeat_offender", "slow_joiner", "storm", "tight_heartbeat", "poll_timeout", "deploy_churn", "eager_stop",
         "idle_members", "imbalance", "duplicate_instance", "refused_joins", "commit_per_record", "refused_commits",
         "offsets_expiring", "offsets_moved")  # fmt: skip
TWINS = [
    event("member_replaced", instance_id="cart-1", old_client_id="cart", old_client_host=f"/10.0.0.{at % 2}",
          client_id="cart", client_host=f"/10.0.0.{1 - at % 2}") | {"at_ms": NOW + at * 20_000}
    for at in range(4)
]  # fmt: skip


def numbered(records: list[Record]) -> list[Record]:
    """With ids and generations that do not depend on which tests ran before."""
    ids: dict[str, int] = {}
    found = []
    for record in records:
        one = record
        if "rebalance_id" in record:
            number = ids.setdefault(record["rebalance_id"], len(ids))
            one = record | {"rebalance_id": f"{number}@"}
        if record["kind"].startswith("rebalance_"):
            reached = number + (record["kind"] == "rebalance_ended")
            one |= {"from_generation": number, "to_generation": reached, "generation": reached}
        found.append(one)
    return found


@pytest.mark.parametrize("rule", FIRES)
def test_findings(rule: str):
    def found(facts: Record) -> Any:
        return [one for one in findings(facts["records"], facts["live"], now_ms=NOW + 1) if one["rule"] == rule]

    records, live, _ = fires(rule)
    facts = {"records": numbered(records), "live": live}
    last = len(records) - 1
    ends = tuple(("records", at) for at in {0, 1, last - 1, last})
    held(f"finding_{rule}", list(told(rule, facts, found, within=(*ends, ("live",)))))


def test_more_findings():
    def found(records: list[Record]) -> Any:
        return findings(records, now_ms=NOW + 1)

    stays = rebalance(NOW, cause("member_joined", "new"), members=[member("w", lost={})])
    refused = event("commits_refused", client_id="w", client_host="/10.0.0.1", error="STALE_MEMBER_EPOCH", count=2,
                    request_generation=0, topics=list("dcba")) | {"member_id": "w-id", "generation": 1}  # fmt: skip
    stranger = {**refused, "member_id": "", "client_id": "tool"}
    gone = rebalance(NOW - 5, cause("member_left"), outcome="empty", members=[])
    others = [event("joins_refused", client_id=name, client_host="/h", error="E") for name in ("a", "b", "b")]
    moved = fires("offsets_moved")[0]
    lines = [
        *told("twins", TWINS, found),
        *told("reads on", numbered([*stays, refused]), found, within=((1, "members"), (2,))),
        *told("two read on", numbered([*stays, refused, {**refused, "client_id": "v"}]), found, within=((2,), (3,))),
        *(
            f"of topics that nobody named: {found(numbered([*before, *({**one, 'topics': []} for one in refusals)]))}"
            for before in (stays, gone)
            for refusals in ([refused], [refused, {**refused, "client_id": "v"}])
        ),
        *told("stranger", [stranger], found),
        *told("stranger beside", numbered([*stays, stranger]), found, within=((2,),)),
        *told("gone", numbered([*gone, refused, {**refused, "client_id": "v"}]), found, within=((2,), (3,))),
        *told("refused, three times", others, found),
        *told("moved twice", [*moved, *moved], found),
    ]
    held("more_findings", lines)


TRANSACTIONS: dict[str, Record] = {
    "transaction": {
        "cause": "client", "committed": True, "client_id": "pay", "client_host": "/10.0.0.7", "open_ms": 900,
        "holder_id": "old", "holder_host": "/10.0.0.8", "timeout_ms": 60_000, "at_ms": NOW, "partitions": ["t-0"],
        "partition_count": 3, "completed_at_ms": NOW + 300, "delayed": {"t-1": "NOT_LEADER"}, "abandoned": ["t-2"],
    },
    "loaded": {"state": "Ongoing", "open_ms": 4_000, "partitions": ["t-0"], "partition_count": 1},
    "was_aborted": {"open_ms": 4_000, "timed_out": True, "timeout_ms": 3_000},
    "request_refused": {
        "client_id": "pay", "client_host": "/h", "given_epoch": 3, "producer_epoch": 4, "error": "PRODUCER_FENCED",
        "request": "EndTxn", "count": 2, "at_ms": NOW, "last_ms": NOW + 2_000, "state": "Ongoing",
    },
    "write_failed": {"state": "PrepareCommit", "error": "E", "count": 2, "at_ms": NOW, "last_ms": NOW + 2_000},
    "expired": {"idle_ms": 7 * 24 * 3_600_000},
    "of_later": {},
}  # fmt: skip


def test_transactions():
    lines: list[str] = []
    for kind, facts in TRANSACTIONS.items():
        lines += told(kind, {"kind": kind, **facts}, transactions.entry)
    for reason in ("timed_out", "fenced", "recovered"):
        lines += told(reason, {"kind": "transaction", **TRANSACTIONS["transaction"], "cause": reason},
                      transactions.entry)  # fmt: skip
    same = TRANSACTIONS["transaction"] | {"cause": "fenced", "holder_id": "pay", "holder_host": "/10.0.0.7"}
    lines += told("fenced by itself", {"kind": "transaction", **same}, transactions.entry)
    invalid = TRANSACTIONS["request_refused"] | {"error": "INVALID_TXN_STATE", "kind": "request_refused"}
    lines += told("refused", invalid, transactions.entry)
    facts = {"transactional_id": "pay-1", "state": "Ongoing", "producer_id": 4_000, "producer_epoch": 7,
             "client_id": "pay", "client_host": "/h", "start_ms": NOW, "timeout_ms": 60_000,
             "last_update_ms": NOW, "partitions": ["t-0"], "partition_count": 2}  # fmt: skip
    for state in ("Ongoing", "PrepareCommit", "PrepareAbort", "Empty"):
        at = {**facts, "state": state}
        lines += told(f"{state}, now", at, lambda one: transactions.now(one, NOW + 60_000))
        lines += told(f"{state}, soon", at, lambda one: transactions.now(one, NOW + 59_999))
        lines += told(f"{state}, heading", at, transactions.heading)
    forever = {**facts, "timeout_ms": 2_147_483_647}
    lines += told("for ever", forever, lambda one: transactions.now(one, NOW + 1), within=(("timeout_ms",),))
    held("transactions", lines)


def test_timelines():
    def lines_of(records: list[Record]) -> Any:
        return [(*line[:5], line.verdicts) for line in timeline(records, now_ms=NOW + 10_000)]

    gone = [because("member_left") | {"member_id": f"{at}"} for at in range(3)]
    records = rebalance(NOW, because("session_expired"), further_causes=gone, slowest_to_join=waited(3_000))
    read = event("partitions_read", rebalance_id=records[0]["rebalance_id"], topic="t", partition=3, unread_ms=4_500,
                 still_unread=0, partitions=1)  # fmt: skip
    began, _ = rebalance(NOW + 2_000, because("member_joined"))
    replaced = event("member_replaced", old_member_id="worker-1-id", new_member_id="anew")
    whole = numbered([*records, read, happened("coordinator_loaded"), replaced, began])
    around = (
        *((0, name) for name in whole[0]),
        *((1, name) for name in whole[1] if name != "members"),
        *((at,) for at in range(2, 6)),
    )
    lines = list(told("timeline", whole, lines_of, within=around))
    lines += told("replay", whole, lambda all_: [_generation(one) for one in replay.replay(all_)])
    lines += told("gaps", [*whole, *_later(whole)], _gaps, within=around)
    inferred = [{"kind": "rebalance_ended", "generation": at, "at_ms": NOW + at * 1_000} for at in range(20)]
    lines += told("filled", {"records": [*whole, *_later(whole)], "inferred": inferred}, _filled,
                  within=(("inferred",), ("records", 1, "generation"), ("records", 7)))  # fmt: skip
    lines.append(f"no records: {gaps.with_gaps([], inferred[:1])}")
    for count in (1, 2, 3):
        kept = of_last_rebalances([*whole, *_later(whole), happened("group_removed")], count)
        lines.append(f"the last {count}: {[one['kind'] for one in kept]}")
    held("timelines", lines)


def _later(whole: list[Record]) -> list[Record]:
    """Two rebalances after a gap."""
    later = numbered(
        [*rebalance(NOW + MINUTE, because("member_left")), *rebalance(NOW + 2 * MINUTE, because("poll_timeout"))]
    )
    for at, record in enumerate(later):
        reached = 20 + at // 2
        record |= {"from_generation": reached, "generation": reached + at % 2, "to_generation": reached + 1}
    return later


def _filled(facts: Record) -> Any:
    return [one for one in gaps.with_gaps(facts["records"], facts["inferred"]) if one not in facts["records"]]


def _gaps(records: list[Record]) -> Any:
    return [one for one in gaps.with_gaps(records, []) if one["kind"] == gaps.GAP]


def _generation(one: replay.Generation) -> Any:
    members = {name: owned if owned is None else sorted(owned) for name, owned in one.members.items()}
    return one.number, one.at_ms, members, one.complete


def test_a_healthy_group_at_the_thresholds_of_what_it_does_now():
    live = {**HEALTHY_LIVE, "state": "Empty", "commits_per_second": 60, "state_at_ms": NOW - 6 * 24 * 60 * MINUTE}
    live["members"] = [{**member("worker-1"), "longest_gap_ms": 29_700}, {**member("b"), "longest_gap_ms": 29_701}]
    held("live", list(told("live", live, lambda one: findings([], one, now_ms=NOW))))
