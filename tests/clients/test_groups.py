"""Groups of each client: ownership, reading once per committed position, static members."""

import time
from collections.abc import Callable

import pytest

from tests.clients import harness
from tests.clients.harness import Worker
from tests.support.broker_process import BrokerProcess, eventually

SESSION_MS = 3000

# One assignor of each client in every run, the others in the long one.
QUICK = {
    ("aiokafka", "range"),
    ("confluent", "cooperative-sticky"),
    ("kafka_python", "sticky"),
    ("java", "roundrobin"),
    ("franz", "range"),
}
PAIRS = [
    pytest.param(client, assignor, marks=() if (client, assignor) in QUICK else pytest.mark.slow)
    for client, assignors in harness.ASSIGNORS.items()
    for assignor in assignors
]


def in_group(broker: BrokerProcess, name: str, assignor: str, **more: object) -> dict[str, object]:
    """The options of a group member."""
    return {
        "mode": "group",
        "bootstrap": broker.address,
        "topic": name,
        "group": name,
        "assignor": assignor,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": 10_000,
        "commit_every_ms": 100,
        **more,
    }


@pytest.mark.parametrize(("client", "assignor"), PAIRS)
def test_members_come_and_go_and_every_record_is_read_once(
    client: str, assignor: str, broker: BrokerProcess, spawn: Callable[..., Worker], name: str
):
    """CT01 to CT06: three consumers; one leaves, one dies, one joins late; CT05 of the histories at the end."""
    harness.create_topic(broker.address, name)
    options = in_group(broker, name, assignor)
    workers = [spawn(client, **options, client_id=f"{client}-{n}") for n in "abc"]
    writer = harness.Writer(broker.address, name)
    harness.wait_until_shared(workers)  # CT01
    a, b, c = workers

    a.leave()
    harness.wait_until_shared([b, c])  # CT02

    died = time.monotonic()
    b.kill()
    harness.wait_until_shared([c])  # CT03
    assert time.monotonic() - died > SESSION_MS / 1000 * 0.6, "expired before its session timeout"

    late = spawn(client, **options, client_id=f"{client}-late")
    harness.wait_until_shared([c, late])  # CT04

    written = writer.stop()
    assert not writer.errors
    harness.wait_until_read([*workers, late], written)
    for worker in (c, late):
        worker.leave()
    assert harness.check_owners([*workers, late]) >= 4
    harness.check_reads([*workers, late], written)  # CT05
    if assignor == "cooperative-sticky":
        # CT06: whoever stayed kept what it still owned while another joined or left.
        given_up = [len(e["partitions"]) for e in c.seen("revoked")]
        # At most 4 of 6 when it was there first, and 3 of 6 to the late one; with every rebalance it would be 11.
        assert sum(given_up[:-1]) <= 7, given_up


# What the first of two processes with one instance id is told when it commits. aiokafka's commits carry no instance id:
# the broker can only say UNKNOWN_MEMBER_ID, and aiokafka joins again, fencing the other in turn.
FENCED = {
    "aiokafka": ("CommitFailedError",),
    "confluent": ("FENCED_INSTANCE_ID",),
    "kafka_python": ("FencedInstanceIdError",),
    "franz": ("FENCED_INSTANCE_ID",),
    # The second when a heartbeat was told first: the member is no longer one, which is all that its commit knows.
    "java": ("FencedInstanceIdException", "CommitFailedException"),
}


@pytest.mark.parametrize("client", harness.CLIENTS)
def test_a_static_member_restarts_without_a_rebalance_and_a_second_one_fences_it(
    client: str, broker: BrokerProcess, spawn: Callable[..., Worker], name: str
):
    """CT07: a restart within the session timeout disturbs nobody. CT08: a second process with the same id fences."""
    harness.create_topic(broker.address, name)
    options = in_group(broker, name, "range", session_timeout_ms=20_000, rebalance_timeout_ms=30_000)
    first = spawn(client, **options, instance_id="i1", client_id=f"{client}-a")
    other = spawn(client, **options, instance_id="i2", client_id=f"{client}-b")
    harness.wait_until_shared([first, other])
    owned, untouched = first.owned(), len(other.seen("assigned"))
    generation = other.seen("assigned")[-1]["generation"]

    first.kill()
    again = spawn(client, **options, instance_id="i1", client_id=f"{client}-a2")
    eventually(again.owned, deadline_s=60)

    assert again.owned() == owned
    assert again.seen("assigned")[-1]["generation"] == generation
    assert len(other.seen("assigned")) == untouched

    writer = harness.Writer(broker.address, name)
    eventually(lambda: again.seen("committed"), deadline_s=60)
    second = spawn(client, **options, instance_id="i1", client_id=f"{client}-a3")
    refused = eventually(lambda: again.seen("commit_failed"), deadline_s=60, what="the first is fenced")
    again.kill()  # or aiokafka's two would go on fencing each other
    eventually(lambda: second.seen("committed"), deadline_s=60)
    writer.stop()

    assert any(error in refused[0]["error"] for error in FENCED[client]), refused
    assert second.seen("assigned")[0]["partitions"] == sorted(owned)
    told = [line for line in broker.log().splitlines() if name in line]
    assert second.seen("assigned")[0]["generation"] == generation, told
    if client != "kafka_python":  # as a leader that is new to the topic it may join again soon after, by its own choice
        assert second.seen("assigned")[-1]["generation"] == generation, told
        assert len(other.seen("assigned")) == untouched, told


@pytest.mark.parametrize(
    ("one", "two", "assignor"),
    [
        ("aiokafka", "confluent", "range"),
        pytest.param("kafka_python", "java", "roundrobin", marks=pytest.mark.slow),
        pytest.param("confluent", "java", "cooperative-sticky", marks=pytest.mark.slow),
        pytest.param("kafka_python", "confluent", "range", marks=pytest.mark.slow),
    ],
)
def test_members_of_two_clients_share_a_group(
    one: str, two: str, assignor: str, broker: BrokerProcess, spawn: Callable[..., Worker], name: str
):
    """CT13: what one client's leader assigns, the other understands."""
    harness.create_topic(broker.address, name)
    writer = harness.Writer(broker.address, name)
    options = in_group(broker, name, assignor)
    workers = [spawn(one, **options), spawn(two, **options)]
    harness.wait_until_shared(workers)
    workers.append(spawn(one, **options))
    harness.wait_until_shared(workers)
    written = writer.stop()
    harness.wait_until_read(workers, written)
    for worker in workers:
        worker.leave()

    harness.check_owners(workers)
    harness.check_reads(workers, written)
