"""Quotas on connections: what the answers say, and that nobody is heard before his time (SE53 to SE58)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from broker.handlers.dispatch import HANDLERS
from broker.loop.slices import AT_ONCE_NS
from broker.network.throttling import ThrottledRoute
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.frame_cutter import FrameCutter
from protocol.frames import decode_response, encode_request
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sync_group import SyncGroupRequest
from tests.support.connections import Harness
from tests.support.data_plane import batch
from tests.support.whole_broker import Whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
USER = (("user", "ANONYMOUS"),)


class World:
    """A whole broker in virtual time, and connections to it."""

    def __init__(self, directory: Path) -> None:
        self.whole = Whole(directory)
        self.runtime = self.whole.runtime
        self.harness = Harness(HANDLERS, broker=self.whole.broker)
        self.admin = Client(self, client_id="admin")
        self.whole.create("t")

    def quota(self, key: str, value: float | None, entity: tuple[tuple[str, str | None], ...] = USER) -> ErrorCode:
        """Set a quota, or take it away."""
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        op = OpData(key=key, value=value or 0.0, remove=value is None)
        request = AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=[op])])
        answer = self.admin.ask(request, 1)
        return ErrorCode(answer.entries[0].error_code)


class Client:
    """One connection."""

    def __init__(self, world: World, client_id: str | None = "c") -> None:
        self.world = world
        self.client_id = client_id
        self.connection, self.transport = world.harness.connect()
        self.sent: list[tuple[int, int]] = []

    def send(self, request: Any, version: int) -> None:
        """Ask; the answer may come later."""
        self.sent.append((request.API_KEY, version))
        self.connection.data_received(encode_request(request, version, len(self.sent), self.client_id))
        self.world.runtime.turn()

    def answers(self) -> list[Any]:
        """All that came."""
        frames = FrameCutter(1 << 30).feed(bytes(self.transport.written))
        return [decode_response(*asked, frame)[1] for asked, frame in zip(self.sent, frames, strict=False)]

    def ask(self, request: Any, version: int) -> Any:
        """Ask; the answer that comes at once."""
        self.send(request, version)
        answers = self.answers()
        assert len(answers) == len(self.sent), "no answer"
        return answers[-1]

    def produce(self, size: int = 8_100, acks: int = -1) -> None:
        """A Produce request of about so many bytes."""
        data = PartitionProduceData(index=0, records=batch(b"v" * (size - 140)))
        self.send(ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[_topic(data)]), 9)

    def fetch(self, offset: int = 0, session: tuple[int, int] = (0, -1), max_bytes: int = 1 << 20) -> Any:
        """A Fetch of topic t, answered at once."""
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            session_id=session[0],
            session_epoch=session[1],
            topics=[FetchTopic(topic="t", partitions=[partition])],
        )
        return self.ask(request, 11)


def _topic(data: PartitionProduceData) -> TopicProduceData:
    return TopicProduceData(name="t", partition_data=[data])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.whole.forget()


def test_who_writes_too_fast_is_told_how_long_to_wait_and_is_not_heard_before(world: World) -> None:
    """SE55: 2,000 bytes a second and requests of some 8,100."""
    assert world.quota("producer_byte_rate", 2_000) is ErrorCode.NONE
    client = Client(world)
    for _ in range(3):
        client.produce()
    told = [answer.throttle_time_ms for answer in client.answers()]
    assert told[:2] == [0, 0]
    assert told[2] == pytest.approx(2_100, abs=100)
    assert world.whole.broker.partitions.get("t", 0).log_end_offset == 3, "what is throttled is appended all the same"

    client.produce()
    world.runtime.advance(told[2] - 1)
    assert len(client.answers()) == 3
    world.runtime.advance(1)
    assert [answer.throttle_time_ms for answer in client.answers()][3] == pytest.approx(6_150, abs=150)


def test_who_would_wait_for_longer_than_an_answer_can_say_is_answered(world: World) -> None:
    world.quota("producer_byte_rate", 1)
    for _ in range(3):
        client = Client(world)
        client.produce(900_000)
    assert [one.throttle_time_ms for one in client.answers()] == [2**31 - 1]


def test_a_user_quota_is_one_meter_and_a_client_quota_one_for_each(world: World) -> None:
    """SE54"""
    world.quota("producer_byte_rate", 2_000)
    one, other = Client(world, "one"), Client(world, "other")
    one.produce(16_000)
    other.produce(16_000)
    assert other.answers()[0].throttle_time_ms > 0

    world.quota("producer_byte_rate", None)
    world.runtime.advance(60_000)
    world.quota("producer_byte_rate", 2_000, (("client-id", None),))
    one.produce(16_000)
    other.produce(16_000)
    assert [each.answers()[-1].throttle_time_ms for each in (one, other)] == [0, 0]


def test_without_quotas_nothing_stands_between_a_connection_and_its_handlers(world: World) -> None:
    client = Client(world)
    client.ask(HEARTBEAT, 1)
    assert client.connection.caller.routes is world.harness.server.routes.made
    world.quota("producer_byte_rate", 1, (("user", "somebody"),))
    assert client.connection.caller.routes is world.harness.server.routes.made
    world.quota("producer_byte_rate", 1)
    client.ask(HEARTBEAT, 1)
    (route,) = client.connection.caller.routes.values()
    assert isinstance(route, ThrottledRoute)
    world.quota("producer_byte_rate", None)
    client.ask(HEARTBEAT, 1)
    assert client.connection.caller.routes is world.harness.server.routes.made


def test_a_client_without_a_name_is_held_too(world: World) -> None:
    world.quota("producer_byte_rate", 2_000, (("user", None),))
    nameless = Client(world, None)
    nameless.produce(50_000)
    assert nameless.answers()[0].throttle_time_ms > 0


def test_who_wants_no_answer_is_not_heard_either(world: World) -> None:
    world.quota("producer_byte_rate", 2_000)
    client = Client(world)
    client.produce(50_000, acks=0)
    client.sent.clear()
    client.send(HEARTBEAT, 1)
    assert client.answers() == []
    world.runtime.advance(16_000)
    assert len(client.answers()) == 1


def test_a_fetch_over_the_quota_is_empty_and_goes_on_in_its_session(world: World) -> None:
    """SE56"""
    Client(world).produce(9_000)
    world.quota("consumer_byte_rate", 1_000)
    client = Client(world)
    first = client.fetch(session=(0, 0))
    assert (first.throttle_time_ms, len(first.responses), first.session_id > 0) == (0, 1, True)
    second = client.fetch(session=(first.session_id, 1))
    assert second.throttle_time_ms == pytest.approx(8_000, abs=200)
    assert (second.error_code, second.session_id, second.responses) == (0, first.session_id, [])
    world.runtime.advance(second.throttle_time_ms)
    assert client.fetch(session=(first.session_id, 2)).throttle_time_ms > 0, "the first is in its windows still"
    world.runtime.advance(second.throttle_time_ms)
    last = client.fetch(session=(first.session_id, 3))
    assert (last.throttle_time_ms, len(last.responses)) == (0, 1), "what was not told did not count"


def test_a_session_that_would_begin_with_an_empty_answer_does_not(world: World) -> None:
    Client(world).produce(9_000)
    world.quota("consumer_byte_rate", 500)
    client = Client(world)
    answer = client.fetch(session=(0, 0))
    assert answer.throttle_time_ms > 0
    assert answer.session_id == 0
    assert len(world.whole.broker.partitions.fetch_sessions) == 0


def test_a_fetch_is_cut_to_what_the_quota_allows_in_all_windows(world: World) -> None:
    writer = Client(world)
    for _ in range(5):
        writer.produce(3_000)
    world.quota("consumer_byte_rate", 700)
    answer = Client(world).fetch()
    (partition,) = answer.responses[0].partitions
    assert answer.throttle_time_ms == 0
    assert len(partition.records) < 7_000


def test_request_percentage_counts_the_loops_time_and_delays_for_one_window_at_most(world: World) -> None:
    world.quota("request_percentage", 1)
    client = Client(world)
    assert client.ask(HEARTBEAT, 1).throttle_time_ms == 0
    world.runtime.step_ns = 100_000_000  # each look at the clock finds a tenth of a second gone
    client.send(HEARTBEAT, 1)
    world.runtime.step_ns = 0
    assert client.answers()[1].throttle_time_ms == 1_000
    client.send(HEARTBEAT, 1)
    assert len(client.answers()) == 2
    world.runtime.advance(1_000)
    assert len(client.answers()) == 3


def test_request_percentage_counts_every_slice_of_a_request(world: World) -> None:
    """A request that takes turns costs them all."""
    world.quota("request_percentage", 0.05)  # five milliseconds of ten seconds
    client = Client(world)
    world.runtime.step_ns = AT_ONCE_NS  # each look at the clock is the last of its slice
    assert client.ask(HEARTBEAT, 1).throttle_time_ms == 0
    op = OpData(key="producer_byte_rate", value=1.0)
    many = [EntryData(entity=[EntityData(entity_type="user", entity_name=f"u{n}")], ops=[op]) for n in range(800)]
    client.send(AlterClientQuotasRequest(entries=many, validate_only=True), 1)
    assert client.answers()[1].throttle_time_ms == 1_000


def test_what_is_exempt_from_request_percentage_does_not_count_with_the_next_request(world: World) -> None:
    """A Produce that wants no answer costs nothing. Source: Kafka's KafkaApis (sendNoOpResponseExemptThrottle)."""
    world.quota("request_percentage", 1)
    client = Client(world)
    world.runtime.step_ns = 100_000_000
    client.produce(acks=0)
    client.sent.clear()
    world.runtime.step_ns = 0
    assert client.ask(HEARTBEAT, 1).throttle_time_ms == 0


def test_who_changed_a_quota_is_told_though_the_request_names_it_twice(world: World) -> None:
    """The first wish is done, the second refused, and the answer only says the refusal, as Kafka's."""
    entity = [EntityData(entity_type="user", entity_name="u")]
    twice = [EntryData(entity=entity, ops=[OpData(key="producer_byte_rate", value=rate)]) for rate in (1.0, 2.0)]
    answer = world.admin.ask(AlterClientQuotasRequest(entries=twice), 1)
    assert [one.error_code for one in answer.entries] == [ErrorCode.INVALID_REQUEST]
    told = [line for line in world.whole.log.getvalue().splitlines() if "quota_set" in line]
    assert len(told) == 1
    assert "value=1.0" in told[0]


@pytest.mark.parametrize(("version", "refused"), [(5, False), (7, True)])
def test_partitions_cost_what_the_quota_gives_back_slowly(world: World, version: int, refused: bool) -> None:
    """SE57: older versions are done and wait; newer ones are refused while others are owed."""
    world.quota("controller_mutation_rate", 1)
    client = Client(world)

    def create(name: str) -> tuple[int, int]:
        topic = CreatableTopic(name=name, num_partitions=30, replication_factor=1)
        client.send(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), version)
        answer = client.answers()[-1]
        return answer.topics[0].error_code, answer.throttle_time_ms

    error, waits_ms = create("one")
    assert (error, waits_ms) == (0, 0 if refused else 19_000)
    world.runtime.advance(waits_ms)
    error, waits_ms = create("two")
    assert error == (ErrorCode.THROTTLING_QUOTA_EXCEEDED if refused else 0)
    assert waits_ms == (19_000 if refused else 30_000)
    world.runtime.advance(waits_ms)
    assert create("two")[0] == (0 if refused else ErrorCode.TOPIC_ALREADY_EXISTS)


def test_a_crowd_of_topics_is_held_to_the_quota_and_none_is_too_wide(world: World) -> None:
    """SE67: too many partitions in one change are POLICY_VIOLATION; a thousand topics are for the quota to allow."""
    client = Client(world)

    def create(*topics: CreatableTopic) -> Any:
        client.send(CreateTopicsRequest(topics=list(topics), timeout_ms=1_000), 7)
        for _ in range(20):
            world.runtime.advance(10)
        return client.answers()[-1]

    wide = create(CreatableTopic(name="wide", num_partitions=10_001, replication_factor=1))
    assert wide.topics[0].error_code == ErrorCode.POLICY_VIOLATION
    world.quota("controller_mutation_rate", 1)
    many = [CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(1_000)]
    codes = Counter(topic.error_code for topic in create(*many).topics)
    assert set(codes) == {0, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert 0 < codes[0] <= 12


def test_topics_that_come_by_themselves_cost_too(world: World) -> None:
    world.quota("controller_mutation_rate", 0.1)
    client = Client(world)

    def look(name: str) -> Any:
        client.send(MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True), 9)
        answer = client.answers()[-1]
        return answer.topics[0].error_code, answer.throttle_time_ms

    assert [look(f"t{number}") for number in range(4)] == [
        (0, 0),
        (0, 0),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
    ]


def test_a_group_member_that_is_held_for_longer_than_its_session_is_out(world: World) -> None:
    """SE58: heartbeats on the connection wait too, as in Kafka."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"m")
    joining = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    client = Client(world)
    world.whole.commit("g", 1)  # which makes __consumer_offsets
    world.runtime.turn()
    client.send(joining, 3)
    world.runtime.advance(1_000)
    member_id, generation = client.answers()[-1].member_id, client.answers()[-1].generation_id
    assert member_id
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    client.send(SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id, assignments=[]), 3)
    assert client.ask(heartbeat, 1).error_code == 0

    world.quota("producer_byte_rate", 1_000)
    client.produce(40_000)
    client.send(heartbeat, 1)
    world.runtime.advance(20_000)
    assert len(client.answers()) == len(client.sent) - 1, "the heartbeat is not heard yet"
    world.runtime.advance(20_000)
    assert client.answers()[-1].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_is_only_asked_for_changes_nothing(world: World) -> None:
    request = AlterClientQuotasRequest(
        entries=[
            EntryData(
                entity=[EntityData(entity_type="user", entity_name="u")],
                ops=[OpData(key="producer_byte_rate", value=1.0)],
            )
        ],
        validate_only=True,
    )
    assert world.admin.ask(request, 1).entries[0].error_code == 0
    assert not world.whole.broker.catalogue.state.kept.quotas


def test_who_names_an_entity_twice_in_another_order_is_answered(world: World) -> None:
    parts = [EntityData(entity_type="user", entity_name="u"), EntityData(entity_type="client-id", entity_name="c")]
    entries = [
        EntryData(entity=entity, ops=[OpData(key="producer_byte_rate", value=5.0)]) for entity in (parts, parts[::-1])
    ]
    (told,) = world.admin.ask(AlterClientQuotasRequest(entries=entries), 1).entries
    assert (told.error_code, told.entity[0].entity_type) == (ErrorCode.INVALID_REQUEST, "user")


def test_quotas_are_there_after_a_restart(world: World, tmp_path: Path) -> None:
    world.quota("producer_byte_rate", 2_000)
    world.quota("connection_creation_rate", 3, (("ip", None),))
    world.whole.stop()
    again = World(tmp_path)
    again.whole.create("t")
    client = Client(again)
    client.produce(50_000)
    assert client.answers()[0].throttle_time_ms > 0
    assert again.whole.broker.quotas.of_address("10.0.0.1") == 3
    again.whole.forget()


@pytest.mark.parametrize("then", [2_000, None])
def test_a_peer_that_goes_while_it_is_muted_leaves_no_timer(world: World, then: float | None) -> None:
    """Nor if the quota is taken away meanwhile."""
    world.quota("producer_byte_rate", 2_000)
    client = Client(world)
    client.produce(50_000)
    world.quota("producer_byte_rate", then)
    assert ("mute", id(client.connection.requests)) in world.runtime.timers
    client.transport.closed = True
    client.connection.connection_lost(None)
    assert ("mute", id(client.connection.requests)) not in world.runtime.timers


def test_times_are_counted_with_everybodys(world: World) -> None:
    world.quota("producer_byte_rate", 2_000)
    client = Client(world)
    world.runtime.step_ns = 1_000
    client.ask(HEARTBEAT, 1)
    client.connection.end()
    route = world.harness.server.routes.made[ApiKey.HEARTBEAT << 16 | 1]
    assert sum(route.durations) == 1
    assert route.total_ns > 0


def test_a_request_of_many_partitions_is_measured_like_any_other(world: World) -> None:
    """It is read in a thread and handled in parts."""
    world.quota("producer_byte_rate", 1e6)
    client = Client(world)
    parts = [PartitionProduceData(index=index, records=batch(b"v")) for index in range(100)]
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=parts)])
    client.send(request, 9)
    world.runtime.advance(100)
    assert not client.connection.closed
    codes = [part.error_code for part in client.answers()[0].responses[0].partition_responses]
    assert codes[0] == ErrorCode.NONE
    assert len(codes) == 100
