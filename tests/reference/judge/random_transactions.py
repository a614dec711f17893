"""Random histories of two transactional ids on one topic, old requests and new ones mixed.

What is sent follows from the seed and from what was answered; so two brokers that answer alike are asked alike. After
whatever may end a transaction its markers are waited for: how long they take is nobody's promise.
"""

from __future__ import annotations

import random
from typing import Any

from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_data import list_offsets, topic
from tests.reference.judge.scenarios_transactions import (
    NOBODY,
    Pair,
    add,
    described,
    end,
    fresh,
    init,
    producers,
    read,
    settled,
    write,
)
from tests.support.broker_process import eventually

STEPS = 35


class History:
    """Two ids, the pairs that each has had, and the topic and group that they write to."""

    def __init__(self, script: Script, seed: int) -> None:
        self.s = script
        self.seed, self.random = seed, random.Random(f"transactions {seed}")
        self.topic = topic(script, retention_ms="-1")  # the records have times of long ago
        self.group = script.name()
        eventually(lambda: script.observer().coordinator_error(self.group) == 0)
        self.pairs: dict[str, list[Pair]] = {}
        for suffix in ("x", "y"):
            tid, pair = fresh(script, suffix)
            self.pairs[tid] = [pair]
        self.sequences: dict[tuple[Pair, int], int] = {}

    def play(self) -> None:
        acts = [self.write] * 4 + [self.end] * 3 + [self.add] * 2 + [self.commit, self.commit, self.fetch]
        acts += [self.init, self.look, self.old_turn, self.new_turn]
        for step in range(STEPS):
            # Its own numbers for each step: where one is answered otherwise, the next is not another one for that.
            self.random = random.Random(f"transactions {self.seed} {step}")
            self.random.choice(acts)()
        for tid, pairs in self.pairs.items():
            end(self.s, 3, tid, pairs[-1], commit=True)
            settled(self.s, tid)
            described(self.s, tid)
        read(self.s, self.topic)
        read(self.s, self.topic, 0)
        list_offsets(self.s, 5, {(self.topic, 0): -1, (self.topic, 1): -1}, isolation=1)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def who(self, wrong: float = 0.15) -> tuple[str, Pair]:
        """An id, and mostly its own pair."""
        tid = self.random.choice([*self.pairs])
        pair = self.pairs[tid][-1]
        if self.chance(wrong):
            others = [self.pairs[tid][0], (pair[0], pair[1] + 1), NOBODY, *[p[-1] for p in self.pairs.values()]]
            pair = self.random.choice(others)
        return tid, pair

    def now(self, tid: str, pair: Pair) -> None:
        if pair != self.pairs[tid][-1] and pair[0] >= 0:
            self.pairs[tid].append(pair)

    def write(self, version: int | None = None, who: tuple[str, Pair] | None = None) -> None:
        tid, pair = who or self.who()
        index = self.random.randrange(2)
        sequence = self.sequences.get((pair, index), 0)
        if self.chance(0.08):
            sequence += self.random.choice([-1, 1, 5])
        values = [b"%d" % self.random.randrange(1000) for _ in range(self.random.randint(1, 3))]
        version = version or self.random.choice([3, 9, 11, 12, 12, 12])
        answer = write(self.s, version, tid, pair, self.topic, max(sequence, 0), *values, index=index)
        if answer is not None and not answer.responses[0].partition_responses[0].error_code:
            known = self.sequences.get((pair, index), 0)
            self.sequences[pair, index] = max(known, max(sequence, 0) + len(values))

    def end(self, version: int | None = None, who: tuple[str, Pair] | None = None) -> None:
        tid, pair = who or self.who()
        version = self.random.choice([0, 2, 3, 4, 5, 5, 5]) if version is None else version
        after = end(self.s, version, tid, pair, commit=self.chance(0.6))
        settled(self.s, tid)
        if after != pair:
            self.now(tid, after)

    def add(self) -> None:
        tid, pair = self.who()
        which = self.random.choice([[0], [1], [0, 1], [0, 7]])
        add(self.s, self.random.choice([0, 1, 2, 3, 3]), tid, pair, (self.topic, which))

    def init(self) -> None:
        tid, pair = self.who()
        if self.chance(0.5):
            pair = (-1, -1)
        version = self.random.choice([1, 3, 4, 5])
        for _ in range(2):
            answer = init(self.s, version, tid, pair)
            settled(self.s, tid)
            if answer is None or answer.error_code != 51:  # CONCURRENT_TRANSACTIONS: what was open is aborted first
                break
        if answer is not None and not answer.error_code:
            self.now(tid, (answer.producer_id, answer.producer_epoch))

    def commit(self) -> None:
        tid, pair = self.who()
        version = self.random.choice([0, 2, 3, 4, 5, 5, 6])
        if version < 5 and self.chance(0.7):
            request = AddOffsetsToTxnRequest(
                transactional_id=tid, producer_id=pair[0], producer_epoch=pair[1], group_id=self.group
            )
            self.s.client().call(request, self.random.choice([0, 1, 2, 3]))
        place = TxnOffsetCommitRequestPartition(
            partition_index=self.random.choice([0, 0, 1, 9]), committed_offset=self.random.randrange(100)
        )
        of = TxnOffsetCommitRequestTopic(name=self.topic, topic_id=self.s.topic_id(self.topic), partitions=[place])
        more: dict[str, Any] = {}
        if version >= 3 and self.chance(0.15):
            more = {"generation_id_or_member_epoch": 3, "member_id": "nobody"}
        request = TxnOffsetCommitRequest(
            transactional_id=tid,
            group_id=self.group,
            producer_id=pair[0],
            producer_epoch=pair[1],
            topics=[of],
            **more,
        )
        self.s.client().call(request, version)

    def fetch(self) -> None:
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0, 1])]
        groups = [OffsetFetchRequestGroup(group_id=self.group, topics=topics)]
        self.s.client().call(OffsetFetchRequest(groups=groups, require_stable=self.chance(0.5)), 8)

    def look(self) -> None:
        tid, _ = self.who()
        described(self.s, tid)
        if self.chance(0.5):
            producers(self.s, self.topic, 0, 1)
        list_offsets(self.s, 5, {(self.topic, 0): -1}, isolation=self.random.randrange(2))

    def old_turn(self) -> None:
        """A whole transaction as clients before KIP-890 make it."""
        tid, pair = self.who(0)
        add(self.s, 3, tid, pair, (self.topic, [0, 1]))
        for _ in range(self.random.randint(1, 3)):
            self.write(11, (tid, pair))
        self.end(3, (tid, pair))

    def new_turn(self) -> None:
        """And as those after it do."""
        tid, pair = self.who(0)
        for _ in range(self.random.randint(1, 3)):
            self.write(12, (tid, pair))
        self.end(5, (tid, pair))


def play(script: Script, seed: int) -> None:
    """The history of this seed."""
    History(script, seed).play()
