"""How long partitions that moved were read by nobody: from the old owner's last sign to the new one's first fetch or
commit.

A fetch or commit pays for one look at `waiting`, which is empty but after a rebalance. Of a classic group all moves are
known when its rebalance ends; members of a consumer group take up what they are given while it goes on. Nobody but
the new owner asks for a partition from then on, so that the old one may have its client id and host, as a process that
died and was started anew has. Only one that was paused may come back and ask once more; and in several groups what a
client of one name fetches counts for all. A client may reach its coordinator over IPv4 and read over IPv6: then its
client id has to do, if no other member has it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from coordinator.events import GroupEvent, PartitionsRead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from broker.loop.runtime import Runtime
    from coordinator.events import PartitionsTaken
    from protocol.messages.fetch import FetchTopic
    from protocol.messages.offset_commit import OffsetCommitRequestTopic

GIVE_UP_MS = 5 * 60_000
WAITING_MAX = 100_000
SPANS_MAX = 200

_GONE = frozenset({"left", "expired", "removed"})
_TopicPartition = tuple[str, int]
_Client = tuple[str, str]


class _Round:
    """One rebalance whose moved partitions are awaited."""

    __slots__ = (
        "began_ms",
        "clients",
        "generation",
        "goes_on",
        "group_id",
        "owners",
        "rebalance_id",
        "shared",
        "took_ms",
    )

    def __init__(self, group_id: str, rebalance_id: str, generation: int, shared: frozenset[str]) -> None:
        self.group_id = group_id
        self.rebalance_id = rebalance_id
        self.generation = generation
        self.began_ms: dict[_TopicPartition, int] = {}  # of those that are not read yet: since when
        self.clients: dict[_TopicPartition, _Client] = {}  # who owns them now
        self.owners: dict[_TopicPartition, str] = {}  # the same by member id
        self.goes_on = False  # a rebalance of a consumer group: more may be taken
        self.shared = shared  # client ids that several members have
        self.took_ms: dict[_TopicPartition, int] = {}


class Unread:
    """A listener of the ledger's records; `tell` gets an event of each round."""

    def __init__(self, runtime: Runtime, tell: Callable[[GroupEvent], None]) -> None:
        self.waiting: dict[str, dict[_TopicPartition, tuple[_Round, ...]]] = {}
        """By client id, what is awaited of it, in one group or in several; handlers look."""
        self._runtime = runtime
        self._tell = tell
        self._rounds: dict[str, _Round] = {}  # by group
        self._nobodys: dict[str, dict[_TopicPartition, int]] = {}  # by group, partitions without an owner: since when
        self._count = 0

    def on_ledger(self, record: Mapping[str, Any]) -> None:
        """A rebalance has ended."""
        kind, group_id = record["kind"], record["group_id"]
        if kind == "group_removed":
            self._finish(group_id)
            self._nobodys.pop(group_id, None)
        if kind != "rebalance_ended" or record.get("outcome") not in ("stable", "empty"):
            return
        if record.get("group_type") == "consumer" and record["outcome"] == "stable":
            self._no_more_are_taken(group_id, record["rebalance_id"], record["to_generation"])
            return
        carried = self._finish(group_id)
        if record.get("partitions_moved") is None:
            return
        nobodys = self._nobodys.pop(group_id, {})
        clients = {m["member_id"]: (m["client_id"], m["client_host"]) for m in record["members"]}
        there = Counter(m["client_id"] for m in record["members"] if m.get("change") not in _GONE)
        shared = frozenset(name for name, count in there.items() if count > 1)
        one = _Round(group_id, record["rebalance_id"], record["to_generation"], shared)
        signs = _signs(record)
        for topic, partition, before, after in record["moves"]:
            tp = topic, partition
            since_ms = carried.get(tp) or (signs.get(before) if before else nobodys.get(tp))
            if since_ms is None:
                continue
            if after is None:
                nobodys[tp] = since_ms
            elif after in clients:
                one.began_ms[tp], one.clients[tp], one.owners[tp] = since_ms, clients[after], after
        left = {tp: at for tp, at in nobodys.items() if tp not in one.began_ms}
        if left and len(self._nobodys) < WAITING_MAX:
            self._nobodys[group_id] = left
        if one.began_ms and self._count + len(one.began_ms) <= WAITING_MAX:
            self._await(one, one.began_ms)

    def taken(self, event: GroupEvent, what: PartitionsTaken) -> None:
        """A member of a consumer group was given partitions: from now on it may read them."""
        group_id, one = event.group_id, self._rounds.get(event.group_id)
        nobodys, client = self._nobodys.get(group_id, {}), (what.client_id, what.client_host)
        new: dict[_TopicPartition, int] = {}
        for topic, partition, sign_ms in what.partitions:
            tp = topic, partition
            since_ms = nobodys.pop(tp, sign_ms)
            if one is not None and tp in one.began_ms:
                since_ms = one.began_ms.pop(tp)  # whom it was given before has not read it
                self._forget(one, tp)
            if since_ms is not None and self._count + len(new) < WAITING_MAX:
                new[tp] = since_ms
        if not nobodys:
            self._nobodys.pop(group_id, None)
        if one is None:
            if not new:
                return  # as for each of the thousands that a group begins with
            group = event.consumer_group
            there = Counter(member.acting[0] for member in group.members.values()) if group is not None else Counter()
            shared = frozenset(name for name, count in there.items() if count > 1)
            one = _Round(group_id, what.rebalance_id, event.generation, shared)
        one.rebalance_id, one.goes_on = what.rebalance_id, True  # one that supersedes another takes over its round
        for tp, since_ms in new.items():
            one.began_ms[tp], one.clients[tp], one.owners[tp] = since_ms, client, what.member_id
        if new:
            self._await(one, new)

    def _no_more_are_taken(self, group_id: str, rebalance_id: str, generation: int) -> None:
        """The rebalance of a consumer group has ended."""
        one = self._rounds.get(group_id)
        if one is not None and one.goes_on:
            one.goes_on, one.rebalance_id, one.generation = False, rebalance_id, generation
            if not one.began_ms:
                self._finish(group_id)

    def fetched(self, client: _Client, topics: Iterable[FetchTopic], name_of: Callable[[FetchTopic], str]) -> None:
        """This client reads these partitions."""
        mine = self.waiting.get(client[0])
        if mine is None:
            return
        now_ms = self._runtime.now_ms()
        for topic in topics:
            name = name_of(topic)
            for wanted in topic.partitions:
                tp = name, wanted.partition
                for one in mine.get(tp, ()):
                    if one.clients[tp] == client:
                        self._read(one, tp, now_ms)
                    elif _may_be(one.clients[tp], client):
                        self._read(one, tp, None if client[0] in one.shared else now_ms)

    def committed(self, group_id: str, member_id: str, topics: Iterable[OffsetCommitRequestTopic]) -> None:
        """This member commits what it has read of these partitions."""
        one = self._rounds.get(group_id)
        if one is None:
            return
        now_ms = self._runtime.now_ms()
        for topic in topics:
            for partition in topic.partitions:
                tp = topic.name, partition.partition_index
                if tp in one.began_ms and one.owners[tp] == member_id:
                    self._read(one, tp, now_ms)

    def _await(self, one: _Round, partitions: Iterable[_TopicPartition]) -> None:
        self._rounds[one.group_id] = one
        for tp in partitions:
            mine = self.waiting.setdefault(one.clients[tp][0], {})
            mine[tp] = (*mine.get(tp, ()), one)
            self._count += 1
        deadline_ms = self._runtime.now_ms() + GIVE_UP_MS
        self._runtime.timers.set(("unread", one.group_id), deadline_ms, lambda: self._gave_up(one.group_id))

    def _gave_up(self, group_id: str) -> None:
        self._finish(group_id)

    def _read(self, one: _Round, tp: _TopicPartition, now_ms: int | None) -> None:
        """`now_ms`: None when another of the same name may have read it, so that nothing can be told."""
        self._forget(one, tp)
        since_ms = one.began_ms.pop(tp)
        if now_ms is not None:
            one.took_ms[tp] = max(now_ms - since_ms, 0)
        if not one.began_ms and not one.goes_on:
            self._finish(one.group_id)

    def _forget(self, one: _Round, tp: _TopicPartition) -> None:
        client_id = one.clients[tp][0]
        mine = self.waiting.get(client_id, {})
        left = tuple(other for other in mine.pop(tp, ()) if other is not one)
        self._count -= 1
        if left:
            mine[tp] = left
        if not mine:
            self.waiting.pop(client_id, None)

    def _finish(self, group_id: str) -> Mapping[_TopicPartition, int]:
        """Tell of the group's round, if there is one; since when those are unread that nobody has read."""
        one = self._rounds.pop(group_id, None)
        if one is None:
            return {}
        self._runtime.timers.cancel(("unread", group_id))
        now_ms = self._runtime.now_ms()
        for tp in one.began_ms:
            self._forget(one, tp)
        took = one.took_ms | {tp: max(now_ms - at_ms, 0) for tp, at_ms in one.began_ms.items()}
        if not took:
            return {}
        worst = max(took, key=lambda tp: (took[tp], tp))
        spans = tuple([(*tp, ms) for tp, ms in sorted(took.items(), key=lambda item: -item[1])[:SPANS_MAX]])
        what = PartitionsRead(one.rebalance_id, len(took), len(one.began_ms), took[worst], *worst, spans)
        self._tell(GroupEvent(what, group_id, one.generation, now_ms))
        return one.began_ms


def _may_be(one: _Client, other: _Client) -> bool:
    """Whether they may be one process that speaks IPv4 and IPv6."""
    return one[0] == other[0] and (":" in one[1]) != (":" in other[1])


def _signs(record: Mapping[str, Any]) -> dict[str, int]:
    """When each member gave a last sign of reading what it had, ms since 1970."""
    began_ms = int(record["began_at_ms"])
    signs = {m["member_id"]: began_ms + (m.get("joined_after_ms") or 0) for m in record["members"]}
    for cause in (record["first_cause"], *record["further_causes"]):
        if cause and cause.get("member_id"):
            heard_ms = (cause.get("detail") or {}).get("last_heard_ms") or 0
            if cause["trigger"] not in ("member_joined", "subscription_changed", "leader_rejoined"):
                signs[cause["member_id"]] = int(cause["at_ms"]) - heard_ms
    return signs
