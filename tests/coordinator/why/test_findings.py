"""Each finding has one group on which it fires, and is silent on a healthy one (ledger 6)."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.why.findings import RULES, findings
from coordinator.why.window import Window
from tests.coordinator.why.records import MINUTE, NOW, Record, cause, healthy, member, rebalance

HEALTHY_LIVE = {
    "group_id": "g",
    "state": "Stable",
    "state_at_ms": NOW - 60 * MINUTE,
    "partitions_total": 12,
    "offsets": 12,
    "offsets_retention_ms": 7 * 24 * 60 * MINUTE,
    "commits_per_second": 2.4,
    "members": [{**member("worker-1"), "longest_gap_ms": 3_100}],
}


def waited(after_ms: int, client: str = "worker-1") -> Record:
    return {"member_id": f"{client}-id", "instance_id": None, "client_id": client, "client_host": "/10.0.0.1",
            "after_ms": after_ms}  # fmt: skip


def event(kind: str, **facts: Any) -> Record:
    return {"kind": kind, "at_ms": NOW, "group_id": "g", "generation": 6, **facts}


def series(count: int, why: Record, gap_ms: int = 10 * MINUTE, **facts: Any) -> list[Record]:
    return [record for at in range(count) for record in rebalance(NOW - (count - at) * gap_ms, why, **facts)]


def fires(rule: str) -> tuple[list[Record], dict[str, Any], list[str]]:
    """Records, live state, and what the sentence must say."""
    poll = cause("poll_timeout", "worker-2", "10.0.0.7", reason="consumer poll timeout has expired.")
    eager = {"mode": "eager", "protocol": "range"}
    match rule:
        case "repeat_offender":
            records = [*series(4, poll), *rebalance(NOW, cause("session_expired", "worker-2", "10.0.0.7")),
                       *series(4, cause("member_joined", "worker-9", "10.0.0.9"))]  # fmt: skip
            return (
                records,
                {},
                [
                    "worker-2 (10.0.0.7) was the cause of 5 of the last 9 rebalances (poll timeout 4, session 1)",
                    "max.poll.interval.ms",
                ],
            )
        case "slow_joiner":
            records = series(3, poll, slowest_to_join=waited(20_000), stopped_ms=21_000)
            return (
                records,
                {},
                [
                    "60.0 s were spent waiting for worker-1 (10.0.0.1), in 3 of 3 rebalances",
                    "stood still for 63.0 s of the last 30 min",
                ],
            )
        case "storm":
            records = series(7, cause("member_joined", "new", "10.0.0.3"), gap_ms=20_000)
            records[3]["outcome"] = "superseded"
            return records, {}, ["7 rebalances within 5 min, 1 of them superseded", "new (10.0.0.3) joined"]
        case "tight_heartbeat":
            live = {"members": [{**member("worker-1"), "longest_gap_ms": 31_000}]}
            return [], live, ["worker-1 (10.0.0.1)", "silent for 31.0 s", "45.0 s"]
        case "poll_timeout":
            return series(2, poll), {}, ["worker-2 (10.0.0.7) exceeded its poll interval 2 times"]
        case "deploy_churn":
            records = [
                record
                for at, client in enumerate(("a", "b", "c"))
                for record in [
                    *rebalance(NOW + at * MINUTE, cause("member_left", client), stopped_ms=2_000, **eager),
                    *rebalance(NOW + at * MINUTE + 9_000, cause("member_joined", client), stopped_ms=1_000, **eager),
                ]
            ]
            return records, {}, ["a, b, c left and came back 3 times", "static membership", "cooperative", "9.0 s"]
        case "eager_stop":
            records = series(4, poll, partitions_moved=3, partitions_total=11, **eager)
            return records, {}, ["range is eager", "all 44 partitions", "12 moved", "32 would have gone on"]
        case "idle_members":
            owners = [member("a", partitions={"t": "0"}), member("b", partitions={"t": "1"}), member("c")]
            return (
                series(1, poll, members=owners, partitions_total=2),
                {},
                ["3 members share 2 partitions: 1 has nothing to do"],
            )
        case "imbalance":
            return series(1, poll, imbalance=4, protocol="range"), {}, ["range gives one member 4 partitions more"]
        case "duplicate_instance":
            fenced = event(
                "member_fenced",
                instance_id="cart-1",
                client_host="/10.0.0.4",
                holder_client_host="/10.0.0.5",
                api="Heartbeat",
            )
            return [fenced], {}, ['"cart-1"', "10.0.0.4 and 10.0.0.5"]
        case "refused_joins":
            refused = event(
                "joins_refused", client_id="new", client_host="/10.0.0.9", error="INCONSISTENT_GROUP_PROTOCOL", count=7,
                protocols=["roundrobin"], group_protocols=["range"],
            )  # fmt: skip
            says = "new (10.0.0.9) cannot join: it offers roundrobin, and all members have only range in common"
            return [refused], {}, [says]
        case "commit_per_record":
            live = {**HEALTHY_LIVE, "commits_per_second": 1_200.0}
            return [], live, ["1,200 commits a second for 12 partitions", "GB a day"]
        case "refused_commits":
            refused = event(
                "commits_refused", client_id="worker-2", client_host="/10.0.0.7", error="ILLEGAL_GENERATION", count=14,
                request_generation=5, topics=["orders"],
            )  # fmt: skip
            return [refused], {}, ["14 commits of worker-2 (10.0.0.7) were refused", "orders", "twice"]
        case "offsets_expiring":
            live = {**HEALTHY_LIVE, "state": "Empty", "state_at_ms": NOW - 7 * 24 * 60 * MINUTE + 5 * 60 * MINUTE}
            return [], live, ["expire in 5 h"]
        case "offsets_moved":
            moved = event(
                "offsets_changed", by="client", client_id="admin", client_host="/10.0.0.9", truncated=0,
                offsets=[{"topic": "orders", "partition": 3, "from": 1_000, "to": 0}],
            )  # fmt: skip
            return [moved], {}, ["admin (10.0.0.9)", "orders-3 from 1000 to 0"]
    raise AssertionError(f"{rule} has no scenario")


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_fires_on_its_scenario(rule: str):
    """Ledger 6: the scenario of each, and what it must say."""
    records, live, said = fires(rule)
    finding = RULES[rule](Window(records, live, NOW))

    assert finding is not None
    assert finding["rule"] == rule
    assert finding["severity"] in ("warning", "hint")
    for words in said:
        assert words in finding["says"], finding["says"]


def test_a_healthy_group_has_no_finding():
    """Ledger 6: silence is an answer; also for a group of which nothing is known."""
    assert findings(healthy(), HEALTHY_LIVE, now_ms=NOW) == []
    assert findings([], now_ms=NOW) == []


def test_a_name_that_everybody_has_says_nothing():
    """Two processes of one machine under one client id: nobody in particular is the cause."""
    everybody = [member("app"), {**member("app"), "member_id": "other"}]
    records = series(5, cause("member_joined", "app"), members=everybody)

    assert RULES["repeat_offender"](Window(records, {}, NOW)) is None


def test_a_member_that_is_alone_holds_nobody_up():
    gone = cause("session_expired", "worker-2")
    waits = {"slowest_to_join": waited(2_000), "stopped_ms": 2_000}
    alone = series(3, gone, **waits, members=[member("worker-1"), member("worker-2", "expired")])
    assert "slow_joiner" not in {finding["rule"] for finding in findings(alone, {}, now_ms=NOW)}
    others = series(3, gone, **waits, members=[member("worker-1"), member("worker-3")])
    assert "slow_joiner" in {finding["rule"] for finding in findings(others, {}, now_ms=NOW)}


def test_who_is_not_asked_yet_is_not_slow():
    """The wait for its next heartbeat is none of its own; who hangs is not heard of either."""

    def told(after_ms: int, told_after_ms: int | None) -> set[str]:
        waits = {"slowest_to_join": {**waited(after_ms), "told_after_ms": told_after_ms}}
        records = series(3, cause("member_joined", "new"), **waits, members=[member("worker-1"), member("new")])
        return {finding["rule"] for finding in findings(records, {}, now_ms=NOW)}

    assert "slow_joiner" not in told(3_000, 2_900)
    assert "slow_joiner" not in told(3_000, None)
    assert "slow_joiner" in told(9_000, 2_900)
    assert "slow_joiner" in told(20_000, None)


def test_who_saw_what_an_administrator_did_has_caused_nothing():
    records = series(4, cause("partitions_changed", "leader", topics={"t": [3, 6]}))
    assert RULES["repeat_offender"](Window(records, {}, NOW)) is None


def test_a_deploy_that_rolls_through_three_members_is_no_storm():
    """One going and one coming of each, within a minute; if they do it again, it is one."""

    def rolled() -> list[Record]:
        return [
            record
            for at, client in enumerate(("a", "b", "c"))
            for trigger, ms in (("member_left", 0), ("member_joined", 9_000))
            for record in rebalance(
                NOW + at * 20_000 + ms, cause(trigger, client), members=[member("a"), member("b"), member("c")]
            )
        ]

    assert RULES["storm"](Window(rolled(), {}, NOW)) is None
    assert RULES["storm"](Window([*rolled(), *rolled()], {}, NOW)) is not None


def test_the_initial_delay_is_nothing_that_static_membership_would_save():
    records = [
        record
        for _ in range(2)
        for trigger, delay_ms in (("member_left", 0), ("member_joined", 3_000))
        for record in rebalance(NOW, cause(trigger, "a"), stopped_ms=3_000, initial_delay_ms=delay_ms)
    ]
    finding = RULES["deploy_churn"](Window(records, {}, NOW))
    assert finding is not None
    assert finding["facts"]["stopped_ms"] == 6_000


@pytest.mark.parametrize("trigger", ["session_expired", "member_left"])
def test_who_was_paused_or_too_slow_is_not_told_that_static_membership_would_have_saved_it(trigger: str):
    """A static member's session ends as soon as another's; and whose poll loop was slow was not deployed."""
    gone = cause(trigger, "a")
    trace = {"kind": "departure_traced", "member_id": "a-id", "saw": "returned", "same_connection": True, "at_ms": NOW}
    records = [
        record
        for _ in range(3)
        for one in (gone, cause("member_joined", "a"))
        for record in [*rebalance(NOW, one, stopped_ms=3_000), trace]
    ]
    assert RULES["deploy_churn"](Window(records, {}, NOW)) is None
    assert (
        RULES["deploy_churn"](Window([one for one in records if one != trace], {}, NOW)) is None
        or trigger == "member_left"
    )


def test_twins_that_replace_each_other_are_two_processes():
    """aiokafka: each of them joins anew when it hears of the other, and nobody is refused."""
    hosts = ["/10.0.0.4", "/10.0.0.5"]
    records = [
        event("member_replaced", instance_id="cart-1", old_client_id="cart", old_client_host=hosts[at % 2],
              client_id="cart", client_host=hosts[(at + 1) % 2]) | {"at_ms": NOW + at * 500}
        for at in range(14)
    ]  # fmt: skip
    finding = RULES["duplicate_instance"](Window(records, {}, NOW))
    assert finding is not None
    assert "cart (10.0.0.4) and cart (10.0.0.5): it changed hands 14 times" in finding["says"]
    assert RULES["duplicate_instance"](Window(records[:3], {}, NOW)) is None


def test_no_new_owner_is_told_of_where_nobody_is_in_the_group():
    records, _, _ = fires("refused_commits")
    gone = rebalance(NOW, cause("member_left"), outcome="empty", members=[])
    finding = RULES["refused_commits"](Window([*gone, *records], {}, NOW))
    assert finding is not None
    assert "nobody is in the group" in finding["says"]


@pytest.mark.parametrize(
    ("mode", "lost", "change", "severity"),
    [
        ("cooperative", {}, "stayed", "hint"),
        ("cooperative", {"other": "0"}, "stayed", "hint"),
        ("cooperative", {"orders": "0"}, "stayed", "warning"),
        ("cooperative", {}, "expired", "warning"),
        ("eager", {}, "stayed", "warning"),
    ],
)
def test_nothing_is_processed_twice_where_a_member_keeps_its_partitions(
    mode: str, lost: dict[str, str], change: str, severity: str
):
    """With an eager protocol it begins again from its last commit."""
    came = rebalance(NOW, cause("member_joined", "new"), mode=mode, members=[member("worker-1", change, lost=lost)])
    refused = event(
        "commits_refused", client_id="worker-1", client_host="/10.0.0.1", error="ILLEGAL_GENERATION", count=2,
        request_generation=came[1]["from_generation"], topics=["orders"],
    ) | {"member_id": "worker-1-id", "generation": came[1]["to_generation"]}  # fmt: skip
    finding = RULES["refused_commits"](Window([*came, refused], {}, NOW))
    assert finding is not None
    assert finding["severity"] == severity
    assert ("is processed twice, " in finding["says"]) == (severity == "warning")


def test_who_was_never_a_member_reads_nothing_twice():
    """A tool, or a consumer that assigns itself its partitions, under the id of a group that others read."""
    own = {"client_host": "/10.0.0.1", "error": "UNKNOWN_MEMBER_ID", "member_id": "", "count": 3, "topics": ["orders"]}
    came = rebalance(NOW, cause("member_joined", "worker-1"))
    for records, client, said in (
        (came, "tool", "partitions; nothing was set"),
        ([], "tool", "or one that left before; nothing was set"),
        (came, "worker-1", "is processed twice"),
    ):
        finding = RULES["refused_commits"](
            Window([*records, event("commits_refused", client_id=client, **own)], {}, NOW)
        )
        assert finding is not None
        assert said in finding["says"]
        assert ("processed twice" in finding["says"]) == (client == "worker-1")


def test_who_has_a_group_to_itself_may_start_and_stop():
    ways = [("member_joined", 0), ("member_left", 1)] * 4
    told = [rebalance(NOW + at, cause(trigger)) for at, (trigger, _) in enumerate(ways)]
    for (began, _), (_, before) in zip(told, ways, strict=True):
        began["members_before"] = before
    records = [record for pair in told for record in pair]
    assert RULES["repeat_offender"](Window(records, {}, NOW)) is None
    for began, _ in told:
        began["members_before"] += 1
    assert RULES["repeat_offender"](Window(records, {}, NOW)) is not None


def test_the_second_round_of_a_cooperative_protocol_accuses_nobody():
    waits = {"slowest_to_join": {**waited(2_400), "told_after_ms": 1_100}}
    records = rebalance(NOW, cause("member_joined", "new")) + rebalance(NOW, cause("cooperative_followup"), **waits)
    assert RULES["slow_joiner"](Window(records, {}, NOW)) is None


def test_who_was_refused_and_came_in_later_is_no_finding():
    records, _, _ = fires("refused_joins")
    came = rebalance(NOW + 1, cause("member_joined", "new"), members=[member("new", "joined", host="10.0.0.9")])
    assert RULES["refused_joins"](Window([*records, *came], {}, NOW)) is None
    earlier = [{**one, "at_ms": NOW - MINUTE} for one in came]
    assert RULES["refused_joins"](Window([*earlier, *records], {}, NOW)) is not None


def test_unknown_fields_and_triggers_do_no_harm():
    """Ledger 2: readers ignore what they do not know, and records may lack what is newer than they."""
    strange = cause("a_trigger_of_later", "x")
    records = [{**record, "later": 1} for record in rebalance(NOW, strange)]
    bare = {"kind": "rebalance_ended", "at_ms": NOW, "group_id": "g", "rebalance_id": "1@1", "outcome": "stable"}
    other = {"kind": "of_later", "at_ms": NOW, "group_id": "g"}

    assert (
        findings([*records, bare, other, {"kind": "rebalance_began", "at_ms": NOW, "group_id": "g"}], now_ms=NOW) == []
    )
