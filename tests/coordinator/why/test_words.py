"""Sentences out of records, as people read them in `kohort why`."""

from __future__ import annotations

import pytest

from coordinator.cause import TRIGGERS
from coordinator.classic.rebalance_tracking import cause_record
from coordinator.consumer.causes import migrated_cause, regex_cause
from coordinator.consumer.group import ConsumerMember
from coordinator.why import cause_words, terms, words
from tests.coordinator.why.records import NOW, cause, member, rebalance


@pytest.mark.parametrize(
    ("ms", "said"),
    [(0, "0.0 s"), (304, "0.3 s"), (61_000, "61.0 s"), (200_000, "3 min 20 s"), (7_500_000, "2 h 5 min"),
     (3 * 86_400_000, "3 days"), (None, "-")],
)  # fmt: skip
def test_durations_are_rounded_as_people_say_them(ms: int | None, said: str):
    """Ledger 5."""
    assert terms.duration(ms) == said


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (cause("session_expired", "worker-2", "10.0.0.7", session_timeout_ms=45_000, last_heard_ms=45_010),
         "worker-2 (10.0.0.7) was silent for 45.0 s, its session timeout"),
        (cause("member_joined", "worker-3", "10.0.0.9"), "worker-3 (10.0.0.9) joined"),
        (cause("poll_timeout", "worker-2", "10.0.0.7", reason="consumer poll timeout has expired."),
         'worker-2 (10.0.0.7) left: "consumer poll timeout has expired"'),
        (cause("subscription_changed", topics_added=["refunds"], topics_removed=[]),
         'worker-1 (10.0.0.1) subscribed to "refunds"'),
        (cause("partitions_changed", topics={"t": [3, 6]}), "t has 6 partitions instead of 3, which worker-1"),
        (cause("member_removed", by_client_id="admin", by_client_host="/10.0.0.2"), "was removed by admin (10.0.0.2)"),
        (cause("member_left", instance_id="cart-1"), "cart-1 (10.0.0.1) left"),
    ],
)  # fmt: skip
def test_a_cause_is_told_with_who_and_how(why: dict, said: str):
    """Ledger 5: the words of the example."""
    assert said in cause_words.cause(why)


def test_every_trigger_has_its_own_sentence():
    """Ledger 3: none is told by its bare name, with details or without."""
    for trigger in TRIGGERS:
        assert trigger not in cause_words.cause(cause(trigger))
    assert cause_words.cause(None) == "the cause is not known"


def test_what_followed_names_the_waiting_the_moves_and_the_standstill():
    """Ledger 5. RL25: a wait for the initial delay is told as the setting, not as a member."""
    waited = {"member_id": "m", "client_id": "worker-1", "client_host": "/h", "instance_id": None, "after_ms": 3_100}
    _, ended = rebalance(NOW, cause("member_left"), slowest_to_join=waited, partitions_moved=4, stopped_ms=3_200)
    assert words.consequences(ended) == (
        "waited 3.1 s for worker-1 to rejoin; 4 of 12 partitions moved; those who gained or lost stood still for 3.2 s"
    )
    _, first = rebalance(NOW, cause("member_joined"), initial_delay_ms=3_000, stopped_ms=3_000, mode="eager")
    assert words.consequences(first).startswith("waited 3.0 s for more members, as group.initial.rebalance.delay.ms")


def test_members_that_share_a_name_are_told_apart():
    """By their hosts, on one host by the beginning of their member ids; a new process under an old name by neither."""

    def told(first: str, second: str, changes: tuple[str, str] = ("left", "stayed")) -> str:
        _, ended = rebalance(NOW, cause("member_joined", "lib", second))
        ended["members"] = [
            {**member("lib", change, host=where), "member_id": f"lib-{number}2345678-9"}
            for number, where, change in zip("12", (first, second), changes, strict=True)
        ]
        ended["slowest_to_join"] = {**ended["members"][0], "after_ms": 3_100}
        ended["further_causes"] = [{**cause("member_left", "lib", first), "member_id": "lib-12345678-9"}]
        return f"{words.causes(ended)}; {words.consequences(ended)}"

    apart = told("10.0.0.1", "10.0.0.2")
    assert "also: lib (10.0.0.1) left" in apart
    assert "waited 3.1 s for lib (10.0.0.1) to rejoin" in apart
    together = told("10.0.0.1", "10.0.0.1")
    assert "also: lib-12345678 left" in together
    assert "waited 3.1 s for lib-12345678 to rejoin" in together
    assert "also: lib left" in told("10.0.0.1", "10.0.0.1", ("expired", "joined"))


def test_refused_commits_are_told_with_both_generations():
    """Ledger 5."""
    record = {"kind": "commits_refused", "client_id": "worker-2", "client_host": "/h", "error": "ILLEGAL_GENERATION",
              "count": 14, "request_generation": 5, "generation": 6}  # fmt: skip
    assert words.event(record) == "worker-2's commits were refused 14 times: generation 5, the group was at 6"


def test_a_group_that_goes_over_to_another_protocol_is_told_with_what_somebody_did():
    """Both have an old and a new: the pattern, and the protocol."""
    why = regex_cause(NOW, ConsumerMember("m", regex="a.*"), ConsumerMember("m", regex="b.*", client_id="c"))
    moved = cause_record(migrated_cause(why, "classic", "consumer"))
    assert (
        cause_words.cause(moved) == "c subscribed to the pattern b.*, and the group went over to the consumer protocol"
    )
    assert (moved["detail"]["old"], moved["detail"]["new"]) == ("classic", "consumer")


@pytest.mark.parametrize(
    ("late", "count", "said"),
    [
        (0, 1, "t-3 went unread for 4.5 s"),
        (0, 2, "2 partitions went unread, t-3 longest: 4.5 s"),
        (1, 2, "t-3 went unread for 4.5 s and was not read again in that time"),
        (2, 2, "t-3 and 1 more went unread for 4.5 s and were not read again in that time"),
    ],
)
def test_how_long_partitions_went_unread(late: int, count: int, said: str):
    assert (
        words.unread({"topic": "t", "partition": 3, "unread_ms": 4_500, "still_unread": late, "partitions": count})
        == said
    )


def test_refused_commits_are_one_line_whatever_was_traced_between_them():
    """aiokafka goes on with no member id; a trace or the end of unread time is no line of its own."""
    told = {"kind": "commits_refused", "client_id": "a", "client_host": "/h", "error": "UNKNOWN_MEMBER_ID", "count": 1}
    first, second = {**told, "at_ms": 0, "member_id": "m"}, {**told, "at_ms": 76, "member_id": ""}
    between = [{"kind": "departure_traced", "at_ms": 50}, {"kind": "partitions_read", "at_ms": 60}]
    found = words.folded([first, *between, second])
    assert [one["kind"] for one in found] == ["commits_refused", "departure_traced", "partitions_read"]
    assert words.event(found[0]) == "a's commits were refused 2 times in 1.1 s: it is no member"
    ended = {"kind": "rebalance_ended", "at_ms": 60}
    assert words.folded([first, ended, second]) == [first, ended, second]
    stale = {**told, "error": "ILLEGAL_GENERATION", "at_ms": 0}
    assert len(words.folded([{**stale, "request_generation": 1}, {**stale, "request_generation": 2}])) == 2
