"""The ledger replayed says what `__consumer_offsets` says, whatever happened to the group (ledger 4, RL17)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from broker.catalogue.internal_topics import OFFSETS_TOPIC
from broker.groups.ledger import reading
from coordinator.why.replay import Generation, replay
from protocol.errors import ErrorCode
from protocol.records.consumer_protocol import assigned_partitions
from protocol.records.group_records import GroupMetadataKey, GroupMetadataValue, decode_key, decode_value
from tests.support.ledger_fixture import Answer, House

PARTITIONS = 12
Owners = dict[str, frozenset[tuple[str, int]]]


def folded(house: House, group_id: str = "g") -> list[tuple[int, Owners]]:
    """Generation and owners of every record that the group left in `__consumer_offsets`."""
    found = []
    for index in range(4):
        partition = house.broker.partitions.get(OFFSETS_TOPIC, index)
        for record in reading.between(partition, 0, partition.log_end_offset):
            key = decode_key(record.key)
            if not isinstance(key, GroupMetadataKey) or key.group != group_id or record.value is None:
                continue
            value = decode_value(key, record.value)
            assert isinstance(value, GroupMetadataValue)
            owners = {member.member_id: assigned_partitions(member.assignment) for member in value.members}
            if value.generation > 0:
                found.append((value.generation, owners))
    return found


class Churn:
    """Clients of one group: they come, leave, die, come back, answer late; as real ones do, they follow the answers."""

    def __init__(self, house: House, rng: random.Random, members: int) -> None:
        self.house = house
        self.rng = rng
        self.limit = members
        self.members: dict[str, dict[str, Any]] = {}  # by client id: what the client knows
        self.callbacks: dict[str, list[tuple[int, frozenset[tuple[str, int]]]]] = {}
        self.number = 0

    def step(self) -> None:
        """Something happens, and some time passes, in which those that live follow up."""
        roll = self.rng.random()
        alive = list(self.members)
        if not alive or (roll < 0.35 and len(alive) < self.limit):
            self.come()
        elif roll < 0.5:
            self.leave(self.rng.choice(alive))
        elif roll < 0.6:
            self.members.pop(self.rng.choice(alive))  # dies
        elif roll < 0.65:
            self.come_back(self.rng.choice(alive))
        for _ in range(self.rng.randint(1, 8)):
            self.house.advance(self.rng.choice((100, 700, 2_000)))
            self.poll()

    def come(self) -> None:
        self.number += 1
        static = self.rng.random() < 0.3
        client = f"client-{self.number}"
        self.members[client] = {"id": "", "instance": client if static else None, "asked": None, "generation": -1}

    def come_back(self, client: str) -> None:
        """A static member restarts: it has forgotten its id."""
        known = self.members[client]
        if known["instance"] is not None:
            self.members[client] = {**known, "id": "", "asked": None, "generation": -1}

    def leave(self, client: str) -> None:
        known = self.members.pop(client)
        if known["id"] and known["instance"] is None:
            self.house.leave(known["id"], client=client)

    def poll(self) -> None:
        """Every client does what it would do now."""
        for client in self.rng.sample(list(self.members), len(self.members)):
            if self.rng.random() < 0.15:
                continue  # busy
            known = self.members.get(client)
            if known is not None:
                self.follow(client, known)

    def follow(self, client: str, known: dict[str, Any]) -> None:
        house = self.house
        asked: Answer | None = known["asked"]
        if asked is None:
            if known["generation"] < 0:
                known["asked"] = house.join(
                    known["id"], client=client, instance_id=known["instance"], session_ms=8_000, rebalance_ms=12_000
                )
                known["what"] = "join"
                known["id"] = known["asked"].member_id or known["id"]
                return
            beat = house.heartbeat(known["id"], known["generation"], instance_id=known["instance"])
            if beat.done and beat.response.error_code != 0:
                known["generation"] = -1
                if beat.response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                    known["id"] = ""
            return
        if not asked.done:
            return
        known["asked"] = None
        answer = asked.response
        if answer.error_code != 0:
            known["generation"] = -1
            if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                known["id"] = ""
        elif known["what"] == "join":
            known["id"] = answer.member_id
            plan = None
            if answer.leader == answer.member_id:
                ids = sorted(member.member_id for member in answer.members)
                numbers = list(range(PARTITIONS))
                self.rng.shuffle(numbers)
                plan = {member: {"t": sorted(numbers[at :: len(ids)])} for at, member in enumerate(ids)}
            known["asked"] = house.sync(
                known["id"], answer.generation_id, plan, client=client, instance_id=known["instance"]
            )
            known["what"], known["pending"] = "sync", answer.generation_id
        else:
            known["generation"] = known["pending"]
            owned = assigned_partitions(answer.assignment)
            self.callbacks.setdefault(known["id"], []).append((known["generation"], owned))

    def restart(self) -> None:
        """The broker dies and comes back; answers on their way are lost."""
        self.house.crash()
        self.house.start()
        for known in self.members.values():
            if known["asked"] is not None:
                known["asked"], known["generation"] = None, -1


def check(house: House, churn: Churn) -> list[Generation]:
    """Replayed, folded and what the clients were told agree."""
    told = list(replay(house.log()))
    fold: dict[int, list[Owners]] = {}
    for generation, owners in folded(house):
        fold.setdefault(generation, []).append(owners)
    last = [generation.number for generation in told]
    assert last == sorted(last), "the generations come in order"
    for generation in told:
        assert generation.complete
        assert dict(generation.members) in fold[generation.number], generation
    stable = {generation.number: generation for generation in told}
    for member_id, callbacks in churn.callbacks.items():
        for number, owned in callbacks:
            if number in stable and member_id in stable[number].members:
                assert stable[number].members[member_id] == owned, (member_id, number)
    # What is not told with its members was superseded before everybody had synced.
    untold = set(fold) - set(stable)
    ended = [record for record in house.log() if record["kind"] == "rebalance_ended"]
    superseded = {record["to_generation"] for record in ended if record["outcome"] in ("superseded", "interrupted")}
    goes_on = house.ledger.in_progress("g")
    if goes_on is not None:
        superseded.add(goes_on["generation"])
    assert untold <= superseded, (untold, superseded)
    return told


def moves_lead_from_one_to_the_next(house: House) -> None:
    """`moves` of each stable generation, applied to the owners before it, give the owners after it."""
    owners: dict[tuple[str, int], str] = {}
    for record in house.log():
        if record["kind"] == "member_replaced":
            old_id, new_id = record["old_member_id"], record["new_member_id"]
            owners = {key: new_id if owner == old_id else owner for key, owner in owners.items()}
        if record["kind"] != "rebalance_ended" or record["outcome"] not in ("stable", "empty", "interrupted"):
            continue
        after = next(replay([record]), None)
        if after is None:
            continue
        now = {key: member_id for member_id, owned in after.members.items() for key in owned or ()}
        if record["partitions_moved"] is not None and not record["moves_truncated"]:
            renamed = {m["instance_id"]: m["member_id"] for m in record["members"] if m["change"] == "replaced"}
            for topic, partition, before, to in record["moves"]:
                assert before is None or owners.get((topic, partition)) == before, record
                assert now.get((topic, partition)) == to
            still = {
                key: owner for key, owner in owners.items() if not any((t, p) == key for t, p, _, _ in record["moves"])
            }
            for key, owner in still.items():
                assert now[key] == owner or now[key] in renamed.values(), (key, owner, now[key])
            assert record["partitions_moved"] == len(record["moves"])
        owners = now


@pytest.mark.parametrize("seed", [1, 2, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 24))])
def test_the_replayed_ledger_is_the_fold_of_the_offsets_topic(seed: int, tmp_path: Path):
    """Ledger 4, a property: replaying began, ended and member_replaced gives generations, members and owners."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    house = House(tmp_path / "data")
    house.topic("t", PARTITIONS)
    house.coordinator()
    churn = Churn(house, rng, members=6)
    for at in range(40):
        churn.step()
        if rng.random() < 0.05:
            churn.restart()
        if at % 10 == 9:
            check(house, churn)
    told = check(house, churn)
    moves_lead_from_one_to_the_next(house)
    assert len(told) > 5


def test_rl17_fifty_members_churn_for_ten_minutes_of_virtual_time(tmp_path: Path):
    """RL17: against the rules; generations, owners and order are what the members were told."""
    rng = random.Random(50)
    house = House(tmp_path / "data")
    house.topic("t", PARTITIONS)
    house.coordinator()
    churn = Churn(house, rng, members=50)
    for _ in range(50):
        churn.come()
    start_ms = house.runtime.now_ms()
    while house.runtime.now_ms() - start_ms < 600_000:
        churn.step()
    told = check(house, churn)
    moves_lead_from_one_to_the_next(house)
    assert len(told) > 10
    assert sum(map(len, churn.callbacks.values())) > 300
