"""The oracle itself: on golden bytes, on written histories, on what compaction and transactions leave."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings

from tests.pipeline import oracle
from tests.pipeline.histories import T0, Step, histories, write
from tests.pipeline.oracle.records import group_record


def record(key: str, value: str | None) -> oracle.Record:
    data = None if value is None else bytes.fromhex(value)
    return oracle.Record("__consumer_offsets", 0, 0, T0, 0, bytes.fromhex(key), data, [], 0)


KEY = "000100016700017400000003"


def test_the_golden_bytes_of_commits_say_what_kafka_wrote():
    """v3, v4 and v1 of one commit, and the v4 value that Kafka 4.3.1 wrote (PL03, PL04)."""
    v3 = group_record(record(KEY, "0003000000000000002a0000000500016d0000018bcfe56800"))
    assert (v3["group_id"], v3["topic"], v3["partition"], v3["committed_offset"]) == ("g", "t", 3, 42)
    assert (v3["leader_epoch"], v3["metadata"], v3["committed_at"], v3["expires_at"]) == (5, "m", T0, None)
    v1 = group_record(record(KEY, "0001000000000000002a00016d0000018bcfe568000000018bd50bc400"))
    assert (v1["leader_epoch"], v1["expires_at"]) == (None, T0 + 86_400_000)
    v4 = group_record(
        record(KEY, "000400000000000000c80000000001000001a1fd36f3d7010010116059d71678442faf440e03d6c2e9eb")
    )
    assert (v4["committed_offset"], v4["metadata"], v4["topic_id"]) == (200, "", "EWBZ1xZ4RC-vRA4D1sLp6w")


def test_what_nobody_knows_is_kept_with_the_reason():
    """PL06, PL07."""
    assert group_record(record("00", None))["problem"] == "key too short"
    assert group_record(record("002a0001", "00"))["problem"] == "unknown type 42"
    later = group_record(record(KEY, "0005" + "00" * 30))
    assert (later["record_type"], later["group_id"]) == ("offset_commit", "g")
    assert later["problem"] == "unknown value version 5 of offset_commit"
    assert later["committed_offset"] is None


def test_a_state_follows_the_log_not_the_clock(tmp_path: Path):
    """PL08, PL36: the second commit counts, though the clock stepped back before it."""
    commits: list[Step] = [
        ("commit", "s0", "orders", 0, 10, 3, "", False),
        ("clock", -5_000),
        ("commit", "s0", "orders", 0, 20, 3, "", False),
    ]
    rows = oracle.group_records(oracle.LogDirectory(write([*commits, ("end", False, False)], tmp_path / "a")).records())
    assert [row["committed_offset"] for row in oracle.state_at(rows, T0 + 10_000, {})] == [20]
    rows = oracle.group_records(
        oracle.LogDirectory(
            write([*commits, ("tombstone", "s0", "orders", 0), ("end", False, False)], tmp_path / "b")
        ).records()
    )
    assert len(oracle.offset_commits(rows)) == 3
    assert oracle.state_at(rows, T0 + 10_000, {}) == []


def test_an_aborted_transaction_and_an_open_one_are_left_out(tmp_path: Path):
    """PL11: 3 commits each; only the one that committed is seen, and nothing from the open one on."""
    steps: list[Step] = [
        ("transaction", "g0", 3, "abort"),
        ("transaction", "g0", 3, "commit"),
        ("end", False, True),
    ]
    directory = oracle.LogDirectory(write(steps, tmp_path / "log"))
    assert len(directory.records()) == 3 + 3 + 2 + 1
    assert len(directory.records(committed=True)) == 3
    assert [log.open_transaction_from for log in directory.of("__consumer_offsets")].count(8) == 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_every_history_can_be_read_and_folded(tmp_path_factory, steps: list[Step]):
    """Compaction keeps the newest record of every key, so the end state is that of the uncompacted log."""
    *body, (_, _, leave_open) = steps
    ends = []
    for compact in (False, True):
        directory = oracle.LogDirectory(
            write([*body, ("end", compact, leave_open)], tmp_path_factory.mktemp("h") / "log")
        )
        rows = oracle.group_records(directory.records(committed=True))
        ends.append(sorted(map(str, oracle.state_at(rows, 2**60, {}))))
        generations = oracle.group_generations(rows)
        owned = oracle.membership(generations)
        assert all(span["owned_to"] is None or span["ended_by"] for span in owned)
        assert len(oracle.rebalances(generations)) <= len(generations)
        oracle.consumer_group_records(rows, directory.topic_names())
    assert ends[0] == ends[1]
