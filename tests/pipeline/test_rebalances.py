"""Rebalances and who owned what: inferred, told by the ledger, and of KIP-848 groups."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.decode.schemas import CONSUMER_GROUP_RECORDS, GROUP_GENERATIONS, LEDGER_EVENTS
from pipeline.transformations import membership, rebalances
from tests.pipeline.rows import at, consumer, frame, generation, member, parts, shuffled

INTERVAL = ("member_id", "from_generation", "to_generation", "owned_from", "owned_to", "ended_by")


def intervals(df: Any, *more: str) -> list[tuple[Any, ...]]:
    names = (*INTERVAL, *more)
    rows = df.orderBy("topic", "partition", "owned_from", "member_id").selectExpr(
        *[
            f"to_utc_timestamp({name}, current_timezone()) {name}" if name.startswith("owned") else name
            for name in names
        ]
    )
    return [tuple(row) for row in rows.collect()]


def naive(seconds: float) -> Any:
    return at(seconds).replace(tzinfo=None)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_pl18_two_generations_make_an_inferred_rebalance(spark: SparkSession, ansi: str) -> None:
    """PL18: a and b at 3, c besides at 4."""
    rows = [generation(1, 1, 3, member("a", [0, 1]), member("b", [2])), generation(9, 20, 4, *threesome())]
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for partitions in (1, 2, 7):
            found = rebalances(shuffled(frame(spark, GROUP_GENERATIONS, rows), partitions))
            [row] = found.collect()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert (row.source, row.from_generation, row.to_generation, row.missing_generations) == ("inferred", 3, 4, 0)
    assert (row.joined, row.left, row.trigger, row.reason, row.started_at) == (["c"], [], None, None, None)
    assert (row.members_before, row.members_after, row.leader_changed, row.protocol) == (2, 3, False, "range")
    assert (row.partitions_total, row.partitions_moved, row.sync_ms, row.log_offset) == (3, 1, 1000, 9)


def threesome() -> list[dict[str, Any]]:
    return [member("a", [0]), member("b", [2]), member("c", [1])]


def test_pl18_where_the_ledger_knows_the_rebalance_its_row_is_kept(spark: SparkSession) -> None:
    """PL18: trigger and reason are what the coordinator and c's client said."""
    generations = [generation(1, 1, 3, member("a", [0]), member("b", [2])), generation(9, 20, 4, *threesome())]
    common = {"log_partition": 7, "group_id": "g", "rebalance_id": "3@18", "version": 1}
    events = [
        common | {"log_offset": 50, "kind": "rebalance_began", "members_before": 2},
        common
        | {"log_offset": 51, "logged_at": at(21), "kind": "rebalance_ended", "outcome": "stable", "from_generation": 3}
        | {"to_generation": 4, "trigger": "member_joined", "reason": "rebalance: new member", "began_at": at(18)}
        | {"ended_at": at(20), "duration_ms": 2000, "sync_ms": 100, "stopped_ms": 1900, "slowest_member": "b"}
        | {"members_after": 3, "joined": ["c"], "partitions_total": 3, "partitions_moved": 1, "protocol": "range"},
        common | {"log_offset": 52, "kind": "rebalance_ended", "outcome": "superseded", "to_generation": 5},
        {"log_partition": 7, "log_offset": 53, "kind": "unknown", "problem": "version 9"},
    ]
    found = rebalances(frame(spark, GROUP_GENERATIONS, generations), frame(spark, LEDGER_EVENTS, events))
    [row] = found.collect()
    assert (row.source, row.trigger, row.reason) == ("ledger", "member_joined", "rebalance: new member")
    assert (row.members_before, row.members_after, row.joined, row.left) == (2, 3, ["c"], [])
    assert (row.duration_ms, row.sync_ms, row.stopped_ms, row.slowest_member) == (2000, 100, 1900, "b")
    assert row.started_at is not None
    assert row.log_offset == 51


def test_pl19_generations_that_left_no_record_are_counted(spark: SparkSession) -> None:
    """PL19: 3 and 9 follow each other after compaction."""
    rows = [generation(1, 1, 3, member("a", [0])), generation(9, 20, 9, member("a", [0]))]
    [row] = rebalances(frame(spark, GROUP_GENERATIONS, rows)).collect()
    assert (row.from_generation, row.to_generation, row.missing_generations) == (3, 9, 5)
    assert (row.joined, row.left, row.partitions_moved) == ([], [], 0)


def test_pl20_a_static_member_under_a_new_id_is_no_rebalance_and_leaves_no_gap(spark: SparkSession) -> None:
    """PL20: i1-x becomes i1-y in the same generation."""
    rows = [
        generation(1, 1, 3, member("i1-x", [0], group_instance_id="i1")),
        generation(2, 9, 3, member("i1-y", [0], group_instance_id="i1")),
    ]
    generations = frame(spark, GROUP_GENERATIONS, rows)
    assert rebalances(generations).count() == 0
    assert intervals(membership(generations), "group_instance_id") == [
        ("i1-x", 3, 3, naive(1), naive(9), "reassigned", "i1"),
        ("i1-y", 3, None, naive(9), None, None, "i1"),
    ]
    # Replaced together with a rebalance, it neither joined nor left, and nothing moved.
    later = frame(spark, GROUP_GENERATIONS, [rows[0], rows[1] | {"generation": 4}])
    [row] = rebalances(later).collect()
    assert (row.joined, row.left, row.partitions_moved) == ([], [], 0)


def test_a_member_whose_record_does_not_tell_its_instance_yet_keeps_its_partitions(spark: SparkSession) -> None:
    """Values before version 3 have no instance ids: the member id alone says that nothing moved."""
    plain, static = member("a", [0, 1]), member("a", [0, 1], group_instance_id="i1")
    for before, after in ((plain, static), (static, plain)):
        rows = [generation(1, 1, 3, before), generation(9, 20, 4, after, member("b", [2]))]
        [row] = rebalances(frame(spark, GROUP_GENERATIONS, rows)).collect()
        assert (row.partitions_total, row.partitions_moved, row.joined, row.left) == (3, 1, ["b"], [])


def test_pl21_ownership_goes_on_through_generations_and_ends_with_a_reason(spark: SparkSession) -> None:
    """PL21: orders-0 belongs to a in 3 to 5, to b in 6, then the group is empty, then removed."""
    rows = [generation(n, n, n, member("a", [0]), member("b", [1])) for n in (3, 4, 5)]
    rows += [generation(6, 6, 6, member("a", [1]), member("b", [0])), generation(7, 7, 7), generation(8, 8, None)]
    rows += [generation(9, 9, 1, member("z", [0])), generation(10, 10, None)]
    for partitions in (1, 2, 7):
        generations = shuffled(frame(spark, GROUP_GENERATIONS, rows), partitions)
        found = membership(generations).where("partition = 0")
        assert intervals(found) == [
            ("a", 3, 5, naive(3), naive(6), "reassigned"),
            ("b", 6, 6, naive(6), naive(7), "group_empty"),
            ("z", 1, 1, naive(9), naive(10), "group_removed"),
        ]


def test_a_group_that_comes_back_after_its_tombstone_begins_anew(spark: SparkSession) -> None:
    """Also where the tombstone is gone: a generation never falls within one life."""
    for between in ([generation(5, 5, None)], []):
        rows = [generation(1, 1, 7, member("a", [0])), *between, generation(9, 9, 1, member("b", [0]))]
        [row] = rebalances(frame(spark, GROUP_GENERATIONS, rows)).collect()
        assert (row.from_generation, row.to_generation, row.missing_generations) == (None, 1, 0)
        assert (row.members_before, row.joined, row.left, row.leader_changed) == (None, ["b"], [], True)
        assert row.partitions_moved == 1


def test_a_group_that_becomes_empty_has_rebalanced(spark: SparkSession) -> None:
    """Everyone left, and every partition went to nobody, as the ledger counts it."""
    rows = [generation(1, 1, 3, member("a", [0, 1])), generation(2, 2, 4)]
    [row] = rebalances(frame(spark, GROUP_GENERATIONS, rows)).collect()
    assert (row.members_after, row.left, row.partitions_total, row.partitions_moved) == (0, ["a"], 0, 2)


def test_pl22_groups_of_other_protocols_have_rebalances_but_no_partitions(spark: SparkSession) -> None:
    """PL22: connect's assignments are its own."""
    workers = [member("w1", None, undecoded="protocol type connect"), member("w2", None)]
    rows = [generation(n, n, n, *workers[:n], protocol_type="connect") for n in (1, 2)]
    generations = frame(spark, GROUP_GENERATIONS, rows)
    [row] = rebalances(generations).collect()
    assert (row.joined, row.partitions_total, row.partitions_moved) == (["w2"], None, None)
    assert membership(generations).count() == 0


def test_groups_do_not_mix(spark: SparkSession) -> None:
    """Every window is a group's own."""
    rows = [generation(n, n, n, member("a", [0]), group_id=g) for n in (1, 2, 3) for g in ("g", "h")]
    found = rebalances(frame(spark, GROUP_GENERATIONS, rows))
    assert sorted((row.group_id, row.to_generation) for row in found.collect()) == [
        (g, n) for g in ("g", "h") for n in (2, 3)
    ]


def joining(offset: int, at_s: float, member_id: str, epoch: int, **members: list[int]) -> list[dict[str, Any]]:
    """A member comes into group k, and everybody's new target is written."""
    rows = [consumer(offset, at_s, "member_metadata", member_id, client_id="c", client_host="/10.0.0.1")]
    rows += [consumer(offset + 1, at_s, "metadata", group_epoch=epoch)]
    for index, (name, owned) in enumerate(members.items()):
        rows.append(consumer(offset + 2 + index, at_s, "target_assignment_member", name, partitions=parts(*owned)))
    return [*rows, consumer(offset + 8, at_s, "target_assignment_metadata", target_epoch=epoch)]


def current(
    offset: int, at_s: float, name: str, epoch: int, *owned: int, revoking: tuple[int, ...] = ()
) -> dict[str, Any]:
    return consumer(
        offset, at_s, "current_member_assignment", name, member_epoch=epoch, previous_member_epoch=epoch - 1,
        member_state="Stable", partitions=parts(*owned, epoch=epoch), pending_revocation=parts(*revoking),
    )  # fmt: skip


def test_a_consumer_group_has_rebalanced_when_every_member_has_come_to_the_epoch(spark: SparkSession) -> None:
    """KIP-848: b joins at 100 s; a lets go at 103 s, b has its partitions at 105 s."""
    rows = [*joining(1, 1, "a", 1, a=[0, 1, 2, 3]), current(10, 1, "a", 1, 0, 1, 2, 3)]
    rows += [*joining(20, 100, "b", 2, a=[0, 1], b=[2, 3]), current(30, 101, "a", 1, 0, 1, revoking=(2, 3))]
    rows += [current(31, 103, "a", 2, 0, 1), current(32, 105, "b", 2, 2, 3)]
    # b leaves: its records go, the epoch rises, a takes over.
    rows += [consumer(40 + i, 200, kind, "b", gone=True) for i, kind in enumerate(KINDS)]
    rows += [consumer(43, 200, "metadata", group_epoch=3)]
    rows += [consumer(44, 201, "target_assignment_member", "a", partitions=parts(0, 1, 2, 3))]
    rows += [consumer(45, 201, "target_assignment_metadata", target_epoch=3), current(46, 202, "a", 3, 0, 1, 2, 3)]
    generations = frame(spark, GROUP_GENERATIONS, [])
    for partitions in (1, 7):
        records = shuffled(frame(spark, CONSUMER_GROUP_RECORDS, rows), partitions)
        first, second = rebalances(generations, consumer_records=records).orderBy("to_generation").collect()
        assert (first.source, first.from_generation, first.to_generation, first.joined) == ("epoch", 1, 2, ["b"])
        assert (first.duration_ms, first.partitions_total, first.partitions_moved) == (5000, 4, 2)
        assert (second.to_generation, second.left, second.duration_ms, second.partitions_moved) == (3, ["b"], 2000, 2)
        found = membership(generations, records).where("partition = 2")
        assert intervals(found) == [
            ("a", 1, 1, naive(1), naive(103), "reassigned"),
            ("b", 2, 2, naive(105), naive(200), "reassigned"),
            ("a", 3, None, naive(202), None, None),
        ]


KINDS = ("current_member_assignment", "target_assignment_member", "member_metadata")


def test_a_consumer_group_whose_last_member_leaves_is_empty(spark: SparkSession) -> None:
    """And one that is removed with its member, as in a migration, is removed."""
    alive = [*joining(1, 1, "a", 1, a=[0]), current(10, 1, "a", 1, 0)]
    gone = [consumer(20 + i, 9, kind, "a", gone=True) for i, kind in enumerate(KINDS)]
    for last, ended_by in (({"group_epoch": 2}, "group_empty"), ({"gone": True}, "group_removed")):
        rows = [*alive, *gone, consumer(30, 9, "metadata", **last)]
        records = frame(spark, CONSUMER_GROUP_RECORDS, rows)
        found = membership(frame(spark, GROUP_GENERATIONS, []), records)
        assert intervals(found) == [("a", 1, 1, naive(1), naive(9), ended_by)]


def test_membership_never_overlaps(spark: SparkSession) -> None:
    """The auditor of 7.5: in no generation has a partition two owners, static replacements apart."""
    rows = [generation(n, n, n, member("a", range(n % 4)), member("b", range(n % 4, 4))) for n in range(1, 12)]
    found = membership(frame(spark, GROUP_GENERATIONS, rows)).collect()
    seen = [(row.partition, n) for row in found for n in range(row.from_generation, (row.to_generation or 11) + 1)]
    assert len(seen) == len(set(seen)) == 44
