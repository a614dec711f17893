"""Which of eight quotas counts, and who shares its meter: Kohort and Apache Kafka come to the same."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.reference.beside import logged_in
from tests.reference.test_rights_beside_kafka import ALLOW, WRITE, acl, ask, give, there
from tests.support.broker_process import eventually
from tests.support.data_plane import batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.reference.beside import Side

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]

MUCH_BYTES, LITTLE_BYTES = 900_000, 100
Entity = tuple[tuple[str, str | None], ...]


def levels(client: str) -> dict[str, tuple[Entity, float]]:
    """In the order in which they count; each with its bytes a second, for a client of alice's.

    Alice's own and the users' default share a meter, so these lie farther from their neighbours than by a factor of 2.
    """
    alice, user, own, default = ("user", "alice"), ("user", None), ("client-id", client), ("client-id", None)
    return {
        "alice with this client": ((alice, own), 500),
        "alice with any client": ((alice, default), 1_000),
        "alice": ((alice,), 2_000),
        "any user with this client": ((user, own), 4_000),
        "any user with any client": ((user, default), 8_000),
        "any user": ((user,), 100),
        "this client": ((own,), 16_000),
        "any client": ((default,), 32_000),
    }


class Quotas:
    """What is set at one broker; on return it holds."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._marks: Iterator[int] = count(1)

    def alter(self, *changes: tuple[Entity, float | None]) -> None:
        """None: removed."""
        self._alter(*changes)
        # Kafka's broker takes changes one after the other: when the second of two is seen, the first is done.
        for _ in range(2):
            mark = next(self._marks)
            self._alter(((("ip", "10.9.9.9"),), mark), key="connection_creation_rate")
            eventually(lambda mark=mark: self._marked() == mark, what="a change of quotas is known")

    def _alter(self, *changes: tuple[Entity, float | None], key: str = "producer_byte_rate") -> None:
        entries = [
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[OpData(key=key, value=value or 0.0, remove=value is None)],
            )
            for entity, value in changes
        ]
        assert not any(one.error_code for one in ask(self._side, AlterClientQuotasRequest(entries=entries), 1).entries)

    def _marked(self) -> float:
        asked = [ComponentData(entity_type="ip", match_type=0, match="10.9.9.9")]
        entries = ask(self._side, DescribeClientQuotasRequest(components=asked, strict=True), 1).entries
        return entries[0].values[0].value if entries else 0.0


def metered(side: Side) -> Quotas:
    """Of a side where alice and bob may write to `metered`."""
    there(side, "metered")
    give(side, acl(ALLOW, WRITE, "metered"), acl(ALLOW, WRITE, "metered", principal="User:bob"))
    return Quotas(side)


def waits_ms(side: Side, user: str, client: str, size: int) -> int:
    """How long a client is told to wait for a request of about so many bytes, on a connection of its own."""
    topic = TopicProduceData(name="metered", partition_data=[PartitionProduceData(index=0, records=batch(b"v" * size))])
    with logged_in(side.sasl, user, client_id=client, timeout_s=60) as wire:
        answer: Any = wire.call(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


def counting(told_ms: int, quotas: dict[str, float]) -> str:
    """The quota by which these bytes take so long, ten seconds of which are free; none: nobody waits."""
    if not told_ms:
        return "none"
    rate = MUCH_BYTES / (told_ms / 1_000 + 10)
    return min(quotas, key=lambda name: max(quotas[name] / rate, rate / quotas[name]))


def test_of_eight_quotas_the_same_one_counts_as_with_kafka(sides: tuple[Side, Side]) -> None:
    """SE54: all eight are set and taken away one by one, each time for a new client of the same user."""
    told = []
    for side in sides:
        quotas = metered(side)
        found = []
        for number in range(9):
            before, after = (list(levels(f"level-{each}").values()) for each in (number - 1, number))
            gone: dict[Entity, float | None] = {entity: None for entity, _ in before} if number else {}
            quotas.alter(*(gone | dict(after[number:])).items())
            waited_ms = waits_ms(side, "alice", f"level-{number}", MUCH_BYTES)
            found.append(counting(waited_ms, {name: rate for name, (_, rate) in levels("").items()}))
        told.append(found)
    assert told[0] == told[1] == [*levels(""), "none"]


def test_a_meter_is_shared_by_the_same_clients_as_with_kafka(sides: tuple[Side, Side]) -> None:
    """SE54: who waits for what another client, or another user's client of the same name, has sent."""
    told = []
    for side in sides:
        quotas = metered(side)
        found = {}
        for number, (name, (entity, _)) in enumerate(levels("shared-a").items()):
            if ("client-id", "shared-a") in entity:
                continue
            quotas.alter((entity, 1_000))
            one, other = f"one-{number}", f"other-{number}"
            assert waits_ms(side, "alice", one, MUCH_BYTES) > 0
            small = [("alice", one), ("alice", other), ("bob", one)]
            found[name] = [waits_ms(side, user, client, LITTLE_BYTES) > 0 for user, client in small]
            quotas.alter((entity, None))
        told.append(found)
    assert told[0] == told[1]
    assert told[0] == {
        "alice with any client": [True, False, False],
        "alice": [True, True, False],
        "any user with any client": [True, False, False],
        "any user": [True, True, False],
        "any client": [True, False, True],
    }
