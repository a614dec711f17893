"""Incidents, played by real clients: what a correct diagnosis says of each, and what it must not say.

Patterns are those of `tests.incidents.stage.Diagnosis`, with `*` as in file names. Whatever finding of weight is
neither asked for nor allowed is a false accusation too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.clients import harness
from tests.clients.harness import Worker
from tests.incidents.stage import SESSION_MS, Cable, Stage
from tests.support.broker_process import eventually
from tests.support.wire import Wire

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Incident:
    """`cheap`: played in every CI run; `alone`: the times in its files are no others'."""

    name: str
    play: Callable[[Stage], None]
    must: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    cheap: bool = False
    alone: bool = False


CORPUS: dict[str, Incident] = {}
CLIENTS = {
    "librdkafka": "confluent",
    "java": "java",
    "aiokafka": "aiokafka",
    "kafka-python": "kafka_python",
    "franz-go": "franz",
}
_ALIVE = ("verdict:hung:*", "verdict:paused:*", "verdict:too_slow:*", "verdict:cut_off:*", "verdict:broker_slow:*")


def _add(
    name: str,
    play: Callable[[Stage], None],
    must: tuple[str, ...] = (),
    never: tuple[str, ...] = (),
    may: tuple[str, ...] = (),
    *,
    cheap: bool = False,
    alone: bool = False,
) -> None:
    CORPUS[name] = Incident(name, play, must, never, may, cheap, alone)


# -- one member of two goes, each client in each way


def _died(client: str, **options: object) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        a, b = stage.members(client, "ab", **options)
        stage.begins()
        b.kill()
        harness.wait_until_shared([a])
        stage.until("cause:session_expired:b")

    return play


def _paused(client: str, **options: object) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        a, b = stage.members(client, "ab", **options)
        stage.begins()
        stage.pause(b)
        stage.until("cause:session_expired:b")
        stage.resume(b)
        stage.until("event:departure_traced")
        stage.back_again()
        harness.wait_until_shared([a, b])

    return play


def _closed(client: str, **options: object) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        a, b = stage.members(client, "ab", **options)
        stage.begins()
        b.leave()
        harness.wait_until_shared([a])
        stage.until("event:departure_traced")

    return play


def _slow_poll(client: str, **options: object) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        _, b = stage.members(client, "ab", **options)
        stage.begins()
        b.stall()
        eventually(
            lambda: any(said.split(":")[1] in ("member_left", "poll_timeout") for said in stage.diagnose_records()
                        if said.startswith("cause:"))
        )  # fmt: skip
        time.sleep(4)

    return play


for _name, _client in CLIENTS.items():
    _quick = _name == "librdkafka"
    _add(f"killed, {_name}", _died(_client), ("cause:session_expired:b", "verdict:died:b"), _ALIVE)
    _add(
        f"paused as a whole, {_name}",
        _paused(_client),
        ("cause:session_expired:b", "verdict:paused:b"),
        ("verdict:died:*", "verdict:too_slow:*", "verdict:hung:*"),
        ("finding:refused_commits:*", "finding:tight_heartbeat:*"),
        cheap=_quick,
    )
    _add(
        f"closed in good order, {_name}",
        _closed(_client),
        ("cause:member_left:b", "verdict:closed:b"),
        ("verdict:died:*", *_ALIVE),
    )
    if _client == "franz":
        continue  # it has no poll interval
    _add(
        f"poll loop too slow, {_name}",
        _slow_poll(_client),
        ("verdict:too_slow:b",),
        ("verdict:died:*", "verdict:closed:*", "verdict:paused:*", "verdict:*:a", "cause:member_left:a"),
        ("finding:refused_commits:*",),
        cheap=_quick,
    )
for _name in ("librdkafka", "java", "franz-go"):
    _new = {"assignor": "consumer"}
    _client = CLIENTS[_name]
    _add(
        f"consumer protocol: killed, {_name}",
        _died(_client, **_new),
        ("cause:session_expired:b", "verdict:died:b"),
        _ALIVE,
    )
    _add(
        f"consumer protocol: paused as a whole, {_name}",
        _paused(_client, **_new),
        ("cause:session_expired:b", "verdict:paused:b"),
        ("verdict:died:*", "verdict:too_slow:*", "verdict:hung:*"),
        ("finding:refused_commits:*", "finding:tight_heartbeat:*"),
    )
    _add(
        f"consumer protocol: closed, {_name}",
        _closed(_client, **_new),
        ("verdict:closed:b",),
        ("verdict:died:*", *_ALIVE),
    )
    if _name == "java":  # librdkafka 2.16 does not leave then
        _add(
            f"consumer protocol: poll loop too slow, {_name}",
            _slow_poll(_client, **_new),
            ("verdict:too_slow:b",),
            ("verdict:died:*", "verdict:closed:*"),
            ("finding:refused_commits:*",),
        )


# -- many members come and go


def _rolling(client: str, **options: object) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        workers = dict(zip("abc", stage.members(client, "abc", **options), strict=True))
        stage.begins()
        for name in "abc":
            workers.pop(name).leave()
            workers[name] = stage.member(client, name, **options)
            harness.wait_until_shared(list(workers.values()))
        stage.rested()

    return play


def _scaled_up(stage: Stage) -> None:
    workers = stage.members("confluent", "a")
    stage.begins()
    for name in "bcd":
        workers.append(stage.member("confluent", name))
        harness.wait_until_shared(workers)
    stage.rested()


def _scaled_down(stage: Stage) -> None:
    workers = stage.members("confluent", "abcd")
    stage.begins()
    while len(workers) > 1:
        workers.pop().leave()
        harness.wait_until_shared(workers)
    stage.rested()


def _crash_loop(stage: Stage) -> None:
    (a,) = stage.members("confluent", "a")
    stage.begins()
    for round_ in range(3):
        b = stage.member("confluent", "b")
        harness.wait_until_shared([a, b])
        b.kill()
        harness.wait_until_shared([a])
        eventually(lambda round_=round_: len(_expired(stage)) > round_, what="expired")  # type: ignore[misc]
    stage.rested()


def _expired(stage: Stage) -> list[object]:
    return [one for one in stage.records("rebalance_began") if one["cause"]["trigger"] == "session_expired"]


def _namesakes(stage: Stage, client: str, end: Callable[[Worker], None]) -> None:
    """Three processes of one client id on one host; who is killed is started anew at once."""
    a, b, c = stage.members(client, "abc", client_id="worker")
    stage.begins()
    end(b)
    if b.alive():
        stage.until("cause:session_expired:worker")
        harness.wait_until_shared([a, c])
        stage.resume(b)
        stage.back_again()
        harness.wait_until_shared([a, b, c])
    else:
        d = stage.member(client, "d", client_id="worker")
        stage.until("cause:session_expired:worker")
        harness.wait_until_shared([a, c, d])
    stage.rested()


_quiet = ("finding:storm:*", "finding:repeat_offender:*", "finding:slow_joiner:*", "finding:duplicate_instance:*")
_add(
    "rolling deploy, librdkafka",
    _rolling("confluent"),
    ("cause:member_left:b", "verdict:closed:a", "verdict:closed:b", "verdict:closed:c", "hint:deploy_churn"),
    (*_quiet, "verdict:died:*"),
)
_add("rolling deploy, java", _rolling("java"), ("verdict:closed:b", "hint:deploy_churn"), (*_quiet, "verdict:died:*"))
_add(
    "rolling deploy, franz-go",
    _rolling("franz"),
    ("verdict:closed:b", "hint:deploy_churn"),
    (*_quiet, "verdict:died:*"),
)
_add("scaled up", _scaled_up, ("cause:member_joined:d",), (*_quiet, "verdict:*"))
_add("scaled down", _scaled_down, ("cause:member_left:d", "verdict:closed:d"), (*_quiet, "verdict:died:*"))
_add(
    "poison record: a member dies again and again",
    _crash_loop,
    ("finding:repeat_offender:b", "verdict:died:b"),
    (*_ALIVE, "finding:*:a"),
)


_add(
    "rolling deploy, cooperative-sticky",
    _rolling("confluent", assignor="cooperative-sticky"),
    ("verdict:closed:a", "verdict:closed:b", "verdict:closed:c", "hint:deploy_churn"),
    (*_quiet, "verdict:died:*", "hint:eager_stop"),
    ("finding:refused_commits:*",),
)


def _removed_by_admin(stage: Stage) -> None:
    a, b = stage.members("confluent", "ab")
    stage.begins()
    member_id = b.seen("assigned")[-1]["member_id"]
    with Wire(stage.broker.address) as wire:
        leaver = MemberIdentity(member_id=member_id, reason="member was removed by an admin: it misbehaves")
        wire.call(LeaveGroupRequest(group_id=stage.group, members=[leaver]), 5)
    stage.until("cause:member_removed:b")
    harness.wait_until_shared([a, b])
    stage.rested()


_add(
    "a member is removed by an administrator",
    _removed_by_admin,
    ("cause:member_removed:b",),
    ("verdict:*:b", "cause:member_left:*", *_quiet),
    ("finding:refused_commits:*",),
)


for _name, _client in (("librdkafka", "confluent"), ("java", "java")):
    _add(
        f"killed, {_name}, and the others have its client id",
        lambda stage, client=_client: _namesakes(stage, client, Worker.kill),  # type: ignore[misc]
        ("cause:session_expired:worker", "verdict:died:worker", "event:partitions_read"),
        _ALIVE,
    )
    _add(
        f"paused as a whole, {_name}, and the others have its client id",
        lambda stage, client=_client: _namesakes(stage, client, stage.pause),  # type: ignore[misc]
        # Java's client may give the connection to its coordinator up: of the others nobody knows whose they are.
        ("cause:session_expired:worker", "verdict:paused:worker" if _client == "confluent" else "text:*it was paused*"),
        ("verdict:died:*", "verdict:too_slow:*", "verdict:cut_off:*", "verdict:rejoined:*", "text:*other requests*"),
        ("finding:refused_commits:*", "finding:tight_heartbeat:*"),
    )


# -- the network


def _cut(stage: Stage) -> None:
    with Cable(stage.second_port, stage.cable_port) as cable:
        a = stage.member("confluent", "a")
        b = stage.member("confluent", "b", bootstrap=cable.address)
        harness.wait_until_shared([a, b])
        stage.begins()
        cable.cut_up.set()
        stage.until("cause:session_expired:b")
        stage.rested()


def _evicted(stage: Stage) -> None:
    options = {"instance_id": "pod-7", "session_timeout_ms": 8_000, "rebalance_timeout_ms": 20_000}
    a = stage.member("confluent", "a", instance_id="pod-1")
    with Cable(stage.second_port, stage.cable_port, source="127.0.0.2") as first:
        b = stage.member("confluent", "b", bootstrap=first.address, **options)
        harness.wait_until_shared([a, b])
        stage.begins()
        b.kill()
    with Cable(stage.second_port, stage.cable_port, source="127.0.0.3") as second:
        again = stage.member("confluent", "b", bootstrap=second.address, **options)
        eventually(again.owned, deadline_s=60)
        stage.until("event:member_replaced")
        again.kill()
        stage.until("cause:session_expired:pod-7")
        harness.wait_until_shared([a])


_add(
    "the network to the broker is cut one way",
    _cut,
    ("cause:session_expired:b", "verdict:hung:b"),
    ("verdict:died:*", "verdict:too_slow:*", "verdict:closed:*"),
    ("finding:tight_heartbeat:*",),
)
_add(
    "evicted: a static member comes back on another address and dies there",
    _evicted,
    (
        "event:member_replaced",
        "cause:session_expired:pod-7",
        "verdict:died:pod-7",
        "text:*pod-7 (127.0.0.3) was silent*",
    ),
    ("text:*pod-7 (127.0.0.2) was silent*", "finding:duplicate_instance:*", *_ALIVE),
)


def _rescheduled(stage: Stage, end: Callable[[Worker, Cable], None], said: str) -> None:
    options = {"rebalance_timeout_ms": 20_000}
    a = stage.member("confluent", "a", **options)
    with Cable(stage.second_port, stage.cable_port, source="127.0.0.2") as first:
        b = stage.member("confluent", "b", bootstrap=first.address, **options)
        harness.wait_until_shared([a, b])
        stage.begins()
        end(b, first)
        harness.wait_until_shared([a])
        stage.until(said)
        stage.rested()
        b.kill()
    b = stage.member("confluent", "b", bootstrap=stage.cable("127.0.0.3").address, **options)
    harness.wait_until_shared([a, b])
    stage.rested()


_add(
    "Kubernetes: a pod is drained, and comes back on another address",
    lambda stage: _rescheduled(stage, lambda pod, _: pod.leave(), "cause:member_left:b"),
    ("cause:member_left:b", "verdict:closed:b", "text:*b (127.0.0.2) left*", "text:*b (127.0.0.3) joined*"),
    (*_quiet, *_ALIVE, "verdict:died:*", "text:*b (127.0.0.3) left*"),
)
_add(
    "Kubernetes: a pod is killed, and comes back on another address",
    lambda stage: _rescheduled(stage, lambda pod, _: pod.kill(), "cause:session_expired:b"),
    ("cause:session_expired:b", "verdict:died:b", "text:*b (127.0.0.2) was silent*", "text:*b (127.0.0.3) joined*"),
    (*_quiet, *_ALIVE, "verdict:closed:*", "text:*b (127.0.0.3) was silent*"),
)
_add(
    "Kubernetes: a node is lost, and its pod comes back on another address",
    lambda stage: _rescheduled(stage, lambda _, cable: cable.cut_up.set(), "cause:session_expired:b"),
    ("cause:session_expired:b", "text:*b (127.0.0.2) was silent*", "text:*b (127.0.0.3) joined*"),
    (*_quiet, "verdict:paused:*", "verdict:too_slow:*", "verdict:closed:*", "verdict:died:*"),
    ("finding:tight_heartbeat:*",),
)


# -- static members


def _static_restart(stage: Stage) -> None:
    options = {"session_timeout_ms": 20_000, "rebalance_timeout_ms": 30_000}
    a = stage.member("confluent", "a", instance_id="pod-1", **options)
    b = stage.member("confluent", "b", instance_id="pod-2", **options)
    harness.wait_until_shared([a, b])
    stage.begins()
    b.kill()
    again = stage.member("confluent", "b", instance_id="pod-2", **options)
    eventually(again.owned, deadline_s=60)
    stage.until("event:member_replaced")


def _static_gone(stage: Stage) -> None:
    a = stage.member("confluent", "a", instance_id="pod-1")
    b = stage.member("confluent", "b", instance_id="pod-2")
    harness.wait_until_shared([a, b])
    stage.begins()
    b.leave()  # a static member does not say that it goes
    harness.wait_until_shared([a])
    stage.until("cause:session_expired:pod-2")


def _twins(client: str) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        first = stage.member(client, "a", instance_id="pod-1")
        eventually(first.owned, deadline_s=60)
        stage.begins()
        stage.member(client, "twin", instance_id="pod-1")
        eventually(
            lambda: any(said.startswith("finding:duplicate_instance") for said in stage.diagnose_records()),
            what="duplicate",
        )

    return play


_add(
    "static member restarts in time",
    _static_restart,
    ("event:member_replaced",),
    ("cause:*", "verdict:*", "finding:duplicate_instance:*"),
)
_add("static member goes for good", _static_gone, ("cause:session_expired:pod-2", "verdict:died:pod-2"), _ALIVE)
for _name, _client in CLIENTS.items():
    if _client == "kafka_python":
        continue
    _add(
        f"twin instance ids, {_name}",
        _twins(_client),
        ("finding:duplicate_instance:pod-1",),
        ("verdict:died:*",),
        ("finding:refused_commits:*", "finding:repeat_offender:pod-1", "finding:storm:*"),
    )


# -- topics and offsets


def _admin(stage: Stage) -> AdminClient:
    return AdminClient({"bootstrap.servers": stage.broker.address})


def _grew(stage: Stage) -> None:
    stage.members("java", "ab")
    stage.begins()
    admin = _admin(stage)
    admin.create_partitions([NewPartitions(stage.topic, 9)])[stage.topic].result(30)
    eventually(lambda: any(said.startswith("cause:partitions_changed") for said in stage.diagnose_records()),
               deadline_s=400, every_s=1)  # fmt: skip
    stage.rested()


def _recreated(stage: Stage) -> None:
    stage.close()
    stage.members("confluent", "ab")
    stage.begins()
    admin = _admin(stage)
    admin.delete_topics([stage.topic])[stage.topic].result(30)
    admin.create_topics([NewTopic(stage.topic, 6)])[stage.topic].result(30)
    time.sleep(10)
    stage.rested()


def _reset(stage: Stage) -> None:
    workers = stage.members("confluent", "ab")
    eventually(lambda: all(one.seen("committed") for one in workers))
    for one in workers:
        one.leave()
    stage.begins()
    places = [TopicPartition(stage.topic, number, 0) for number in range(3)]
    admin = _admin(stage)
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(stage.group, places)])[stage.group].result(30)
    stage.until("event:offsets_changed")


def _idle(stage: Stage) -> None:
    workers = stage.members("confluent", "abcdef")
    stage.begins()
    workers.append(stage.member("confluent", "g"))
    stage.until("cause:member_joined:g")
    stage.rested()


def _stranger(stage: Stage) -> None:
    stage.members("confluent", "ab")
    stage.begins()
    own = {"bootstrap.servers": stage.broker.address, "group.id": stage.group, "enable.auto.commit": False}
    tool = Consumer({**own, "client.id": "tool"})
    place = TopicPartition(stage.topic, 0, 1)
    tool.assign([place])
    for _ in range(3):
        with suppress(KafkaException):
            tool.commit(offsets=[place], asynchronous=False)
    tool.close()
    stage.until("event:commits_refused")
    time.sleep(1.5)


_add(
    "a topic grows",
    _grew,
    ("cause:partitions_changed:*",),
    (*_quiet, "verdict:*", "cause:member_left:*"),
)
_add(
    "a topic is deleted and made anew",
    _recreated,
    ("event:offsets_changed", "text:*went with their topic*"),
    (*_quiet, "verdict:*", "cause:member_left:*", "text:*instead of 6*"),
    ("finding:refused_commits:*",),
)
_add(
    "offsets reset by an administrator",
    _reset,
    ("event:offsets_changed", "finding:offsets_moved:*"),
    ("cause:*",),
    cheap=True,
)
_add(
    "a consumer that assigns itself partitions commits for the group",
    _stranger,
    ("event:commits_refused", "hint:refused_commits", "text:*tool*no member*"),
    ("cause:*", "verdict:*", "text:*processed twice*"),
)
_add("more members than partitions", _idle, ("hint:idle_members", "cause:member_joined:g"), _quiet)


# -- the broker


def _broker_restarts(stage: Stage) -> None:
    stage.members("confluent", "ab", session_timeout_ms=20_000, rebalance_timeout_ms=30_000)
    stage.begins()
    stage.broker.restart()
    stage.until("event:coordinator_loaded")
    time.sleep(5)


def _broker_dies(stage: Stage) -> None:
    stage.members("confluent", "ab", session_timeout_ms=20_000, rebalance_timeout_ms=30_000)
    stage.begins()
    stage.broker.restart(kill=True)
    stage.until("event:coordinator_loaded")
    time.sleep(5)


def _broker_stands_still(stage: Stage) -> None:
    stage.members("confluent", "ab")
    stage.begins()
    stage.pause(stage.broker)
    time.sleep(SESSION_MS / 1_000 + 4)
    stage.resume(stage.broker)
    time.sleep(5)


_add(
    "broker restarts",
    _broker_restarts,
    ("event:coordinator_loaded",),
    ("verdict:*", "cause:session_expired:*"),
)
_add("broker is killed", _broker_dies, ("event:coordinator_loaded",), ("verdict:*", "cause:session_expired:*"))
_add(
    "broker stands still",
    _broker_stands_still,
    (),
    ("verdict:died:*", "verdict:hung:*", "verdict:paused:*", "verdict:too_slow:*"),
)


def _disk_is_full(stage: Stage) -> None:
    workers = stage.members("confluent", "ab")
    stage.begins()
    stage.trouble("full")
    workers.append(stage.member("confluent", "c"))
    time.sleep(6)
    stage.trouble("")
    harness.wait_until_shared(workers)
    stage.rested()


def _disk_is_full_for_commits(stage: Stage) -> None:
    stage.members("confluent", "ab")
    stage.begins()
    stage.trouble("full")
    time.sleep(2 * SESSION_MS / 1_000)
    stage.trouble("")
    time.sleep(3)


def _clock_steps(seconds: int) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        a, b = stage.members("confluent", "ab")
        stage.begins()
        stage.trouble(f"clock {seconds}")
        time.sleep(2 * SESSION_MS / 1_000)
        said = stage.diagnose_records()
        assert not any(one.startswith("cause:") for one in said), said
        b.kill()
        harness.wait_until_shared([a])
        stage.until("cause:session_expired:b")

    return play


_add(
    "the disk is full while a member joins",
    _disk_is_full,
    ("text:*could not be written*",),
    ("verdict:*", "cause:session_expired:*", "cause:member_left:*", *_quiet),
    ("finding:refused_commits:*",),
)
_add(
    "the disk is full for a while",
    _disk_is_full_for_commits,
    (),
    ("cause:*", "verdict:*"),
)
for _name, _seconds in (("forth", 3_600), ("back", -3_600)):
    _add(
        f"the clock is set {_name} by an hour, then a member dies",
        _clock_steps(_seconds),
        ("cause:session_expired:b", "verdict:died:b", "text:*was silent for 4.*"),
        (*_ALIVE, *_quiet, "verdict:*:a"),
        ("finding:commit_per_record:*",),  # while the broker's clock stands still more seem to come a second
        alone=True,
    )


# -- the group


def _slow_to_rejoin(stage: Stage) -> None:
    a, b = stage.members("confluent", "ab", stall_ms=5_000, rebalance_timeout_ms=20_000)
    stage.begins()
    b.stall()
    time.sleep(0.5)
    c = stage.member("confluent", "c", rebalance_timeout_ms=20_000)
    harness.wait_until_shared([a, b, c])
    stage.rested()


def _cooperative(stage: Stage) -> None:
    workers = stage.members("confluent", "ab", assignor="cooperative-sticky")
    stage.begins()
    workers.append(stage.member("confluent", "c", assignor="cooperative-sticky"))
    harness.wait_until_shared(workers)
    stage.rested()


_add(
    "one member is slow to rejoin",
    _slow_to_rejoin,
    ("cause:member_joined:c", "finding:slow_joiner:b"),
    ("finding:slow_joiner:a", "verdict:*", "finding:slow_joiner:c"),
    ("finding:refused_commits:*",),
)
_add(
    "cooperative protocol, a member joins",
    _cooperative,
    ("cause:member_joined:c", "cause:cooperative_followup:*"),
    (*_quiet, "hint:eager_stop", "verdict:*"),
    ("finding:refused_commits:*",),
)


def _mixed(stage: Stage) -> None:
    stage.members("confluent", "ab")
    stage.begins()
    stage.member("confluent", "c", assignor="roundrobin")
    stage.until("finding:refused_joins:c")
    time.sleep(2)


def _mixed_with_one_in_common(stage: Stage) -> None:
    (a,) = stage.members("confluent", "a")
    stage.begins()
    b = stage.member("confluent", "b", assignor="roundrobin,range")
    harness.wait_until_shared([a, b])
    stage.rested()


_add(
    "mixed assignors: a member with another one may not join",
    _mixed,
    ("finding:refused_joins:c", "text:*c (127.0.0.1) cannot join: it offers roundrobin*range*"),
    ("cause:*", "verdict:*"),
)
_add(
    "mixed assignors with one in common",
    _mixed_with_one_in_common,
    ("cause:member_joined:b",),
    (*_quiet, "verdict:*", "finding:refused_joins:*"),
)
