"""`offsets.commit.timeout.ms`: what is not on disk in time is told to whoever waits, and holds once it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.coordinators.batches import OutcomeBatch
from coordinator.group import GroupState
from coordinator.offsets.inputs import DeleteGroup, DescribeGroup
from coordinator.outcome import Outcome
from protocol.errors import ErrorCode
from tests.support.group_leader_fixture import Leading, committed, fetched
from tests.support.heard import Heard
from tests.support.whole_broker import Whole

if TYPE_CHECKING:
    from pathlib import Path

LATE = ErrorCode.COORDINATOR_NOT_AVAILABLE
TIMEOUT_MS, TENTH_MS = 5_000, 500


def slow() -> Leading:
    """A leader whose log takes records and commits none."""
    broker = Leading()
    broker.partition.hold = True
    return broker


def test_a_commit_that_is_not_on_disk_in_time_is_refused_and_counts_when_it_is():
    broker = slow()
    answer = broker.commit("g", 7)
    broker.runtime.advance(TIMEOUT_MS - 1)
    assert not answer.done

    broker.runtime.advance(TENTH_MS + 1)
    assert committed(answer) == [LATE]

    broker.partition.commit()
    broker.partition.hold = False
    assert committed(answer) == [LATE]
    assert fetched(broker.fetch()) == [7]


def test_a_commit_that_is_on_disk_in_time_is_acknowledged_and_nothing_looks_after_it_any_more():
    broker = slow()
    answer = broker.commit("g", 7)
    broker.runtime.advance(TIMEOUT_MS - 1)
    broker.partition.commit()
    assert committed(answer) == [ErrorCode.NONE]

    assert ("commits", "group", "0") in broker.runtime.timers
    broker.runtime.advance(TENTH_MS)
    assert ("commits", "group", "0") not in broker.runtime.timers


def test_nothing_looks_after_a_commit_that_waits_for_no_disk():
    broker = Leading()
    answer = broker.commit("g", 7)
    broker.turn()
    assert committed(answer) == [ErrorCode.NONE]
    assert ("commits", "group", "0") not in broker.runtime.timers


def test_each_waits_from_its_own_beginning():
    """Three commits, two of them in one turn, and what comes behind them without records of its own."""
    broker = slow()
    first, second = broker.commit("g", 1), broker.commit("h", 2)
    broker.runtime.advance(2_000)
    behind = broker.heartbeat("nobody", group_id="g")
    third = broker.commit("g", 3)
    broker.runtime.advance(TIMEOUT_MS - 2_000 + TENTH_MS)
    assert committed(first) == committed(second) == [LATE]
    assert not behind.done
    assert not third.done

    broker.runtime.advance(2_000)
    assert behind.response.error_code == LATE
    assert committed(third) == [LATE]


def test_commits_that_keep_coming_do_not_put_off_the_look_at_the_first():
    """One comes between every two looks; nobody is told before its time."""
    broker = slow()
    commits = []
    for offset in range(14):
        commits.append(broker.commit("g", offset))
        broker.runtime.advance(TENTH_MS - 100)

    assert committed(commits[0]) == [LATE]
    assert not any(commit.done for commit in commits[2:])


def test_how_many_were_told_is_a_line_and_looks_that_tell_nobody_are_none(capsys):
    broker = slow()
    for group_id in ("g", "h", "i"):
        broker.commit(group_id)
    broker.runtime.advance(TIMEOUT_MS)
    assert "not_committed_in_time" not in capsys.readouterr().err

    broker.runtime.advance(TIMEOUT_MS)
    [said] = [line for line in capsys.readouterr().err.splitlines() if "not_committed_in_time" in line]
    assert "WARN group_records_not_committed_in_time partition=0 answered=3" in said


def test_what_waits_in_a_batch_is_late_after_so_many_looks_of_its_own():
    """Three at every look but the second; the first of all is a call of our own, which waits on."""
    batch = OutcomeBatch()
    step = Outcome(None)
    told = []
    for look in range(6):
        if look != 1:
            batch.steps += [(None if look == number == 0 else "event", f"{look}.{number}", step) for number in range(3)]
        told.append([key for _, key, _ in batch.overdue(2)])

    assert told == [[], [], ["0.1", "0.2"], [], ["2.0", "2.1", "2.2"], ["3.0", "3.1", "3.2"]]
    assert [key for _, key, _ in batch.steps] == ["0.0", "4.0", "4.1", "4.2", "5.0", "5.1", "5.2"]


def test_requests_that_only_wait_for_others_are_told_too():
    broker = Leading()
    (member,) = broker.stable_group()
    broker.partition.hold = True
    commit = broker.commit("g", 7, member_id=member, generation=1)
    heartbeat, fetch = broker.heartbeat(member), broker.fetch()
    described = Heard()
    broker.leader.submit(DescribeGroup("g", 5, described))
    broker.runtime.advance(TIMEOUT_MS + TENTH_MS)

    assert committed(commit) == [LATE]
    assert heartbeat.response.error_code == LATE
    # Not an empty answer, which some clients take for "nothing is committed".
    assert fetch.response.error_code == ErrorCode.NOT_COORDINATOR
    assert described.response.error_code == LATE

    broker.partition.commit()
    assert broker.heartbeat(member).response.error_code == 0


def test_who_comes_after_others_were_told_waits_as_they_did():
    """The batch is on its way still, and may be lost."""
    broker = Leading()
    (member,) = broker.stable_group()
    broker.partition.hold = True
    commit = broker.commit("g", 7, member_id=member, generation=1)
    broker.runtime.advance(TIMEOUT_MS + TENTH_MS)
    assert committed(commit) == [LATE]

    heartbeat = broker.heartbeat(member)
    assert not heartbeat.done
    broker.partition.commit()
    assert heartbeat.response.error_code == 0


def test_a_bug_in_an_answer_that_is_late_is_told_with_its_group(capsys):
    """And keeps nobody else waiting."""

    class Broken(Heard):
        def complete(self, response: object) -> None:
            raise RuntimeError("a bug")

    broker = slow()
    commit = broker.commit("g", 7)
    broker.leader.submit(DescribeGroup("broken", 5, Broken()))
    described = Heard()
    broker.leader.submit(DescribeGroup("g", 5, described))
    broker.runtime.advance(TIMEOUT_MS + TENTH_MS)

    assert committed(commit) == [LATE]
    assert described.response.error_code == LATE
    [said] = [line for line in capsys.readouterr().err.splitlines() if "group_step_failed" in line]
    assert "group_id=broken" in said


def test_what_others_wait_for_is_not_kept_from_them():
    """A member leaves behind a commit that hangs: who waited for it to join is let in."""
    broker = Leading()
    first, second = broker.stable_group(2)
    broker.partition.hold = True
    waiting = broker.join(second, protocols=(("range", b"other"),))
    broker.commit("other", 1)
    joined = broker.join(first)
    broker.turn()
    assert not waiting.done
    broker.runtime.advance(TIMEOUT_MS + TENTH_MS)

    assert waiting.response.error_code == 0
    assert waiting.response.generation_id == 2
    assert joined.response.error_code == LATE


def test_an_assignment_that_is_not_on_disk_in_time_sends_everybody_back_to_joining():
    """S05: and when it is there later, it changes nothing any more."""
    broker = Leading()
    joins = [broker.join(), broker.join()]
    broker.runtime.advance(6_000)
    leader, follower = (joined.response.member_id for joined in joins)
    broker.partition.hold = True
    syncs = [broker.sync(follower, 1), broker.sync(leader, 1, {leader: b"a", follower: b"b"})]
    broker.runtime.advance(TIMEOUT_MS + TENTH_MS)

    assert [sync.response.error_code for sync in syncs] == [LATE, LATE]
    group = broker.leader.shard.groups["g"]
    assert group.state is GroupState.PREPARING_REBALANCE
    broker.partition.commit()
    group = broker.leader.shard.groups["g"]
    assert group.state is GroupState.PREPARING_REBALANCE
    assert [member.assignment for member in group.members.values()] == [b"", b""]


def test_m11_a_replacement_that_is_not_on_disk_in_time_gives_the_old_id_back():
    broker = Leading()
    (old,) = broker.stable_group(instance_id="i")
    broker.partition.hold = True
    answer = broker.join(instance_id="i", version=5)
    broker.runtime.advance(TIMEOUT_MS + TENTH_MS)

    assert answer.response.error_code == LATE
    broker.partition.commit()
    broker.partition.hold = False
    assert broker.heartbeat(old, instance_id="i").response.error_code == 0


def test_a_removed_group_stays_removed_though_its_tombstones_are_late():
    broker = Leading()
    broker.commit("g", 7)
    broker.turn()
    broker.partition.hold = True
    answer = Heard()
    broker.leader.submit(DeleteGroup("g", answer))
    broker.runtime.advance(TIMEOUT_MS + TENTH_MS)

    assert answer.response.error_code == LATE
    assert "g" not in broker.leader.shard.groups
    assert "g" not in broker.leader.shard.offsets


def test_a_new_group_stays_though_its_first_record_is_late():
    broker = slow()
    answer = broker.join(version=9)
    broker.runtime.advance(TIMEOUT_MS + TENTH_MS)

    assert answer.response.error_code == LATE
    assert broker.leader.shard.groups["g"].pending_members


def test_a_log_that_fails_after_some_were_told_answers_the_others():
    broker = slow()
    first = broker.commit("g", 1)
    broker.runtime.advance(TIMEOUT_MS - 1_000)
    second = broker.commit("g", 2)
    broker.runtime.advance(1_000 + TENTH_MS)
    assert committed(first) == [LATE]
    assert not second.done

    broker.partition.fail()
    assert committed(second) == [ErrorCode.NOT_COORDINATOR]
    broker.runtime.advance(60_000)
    assert committed(first) == [LATE]


def test_reads_of_the_whole_shard_wait_on():
    broker = slow()
    broker.commit("g", 1)
    calls: list[str] = []
    broker.turn()
    broker.leader.when_settled(lambda: calls.append("settled"))
    broker.runtime.advance(3 * TIMEOUT_MS)
    assert calls == []
    broker.partition.commit()
    assert calls == ["settled"]


@pytest.mark.parametrize(("timeout_ms", "told_after_ms"), [(1, 11), (19, 22), (1_000, 1_100)])
def test_the_setting_counts_where_an_fsync_is_waited_for(tmp_path: Path, timeout_ms: int, told_after_ms: int):
    """`kohort.durability=always`, a disk that hangs, and then does not. Looks are whole milliseconds apart."""
    whole = Whole(tmp_path, kohort__durability="always", offsets__commit__timeout__ms=str(timeout_ms))
    assert whole.create("t") is ErrorCode.NONE
    whole.commit("g", 1)
    whole.runtime._eager_workers = False
    answer = whole.send_commit("g", 2)
    whole.runtime.turn()
    whole.runtime.advance(told_after_ms - 1)
    assert not answer.done
    whole.runtime.advance(1)
    assert committed(answer) == [LATE]

    whole.runtime._eager_workers = True
    whole.runtime.turn()
    assert whole.committed("g") == 2
