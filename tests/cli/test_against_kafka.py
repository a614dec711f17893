"""`kohort groups` and Kafka's own ConsumerGroupCommand say the same of the same groups, on Kohort and on Kafka."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Ended, Member, committed_group, fill, kohort, until_owned
from tests.support.broker_process import QUICK_GROUPS, ROOT, Kafka, Kohort, need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module", params=[Kohort, Kafka])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Kohort, then Apache Kafka."""
    need("java", "mvn")
    with request.param(tmp_path_factory.mktemp("either"), QUICK_GROUPS) as running:
        yield running


def theirs(broker: BrokerProcess, tool: str, *words: str) -> Ended:
    """Kafka's own tool."""
    done = subprocess.run(
        [str(ROOT / "tools" / "kafka"), "run", tool, *words, "--bootstrap-server", broker.address],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Ended(done.returncode, done.stdout, "")


def both(broker: BrokerProcess, command: str, *words: str) -> tuple[Ended, Ended]:
    """(ours, theirs) of one command about groups."""
    own = ["--kafka-columns"] if command == "describe" else []
    ours = kohort("groups", command, *words, *own, "-b", broker.address)
    other = theirs(broker, GROUPS, f"--{command}", *words)
    assert ours.code == other.code == 0, (ours, other)
    return ours, other


def table(ended: Ended) -> list[list[str]]:
    """Heads and rows, a list of cells each; sorted, since Kafka's tool leaves rows in the order of a hash."""
    lines = [line.split() for line in ended.out.splitlines() if line.strip() and "no active members" not in line]
    return sorted(line for line in lines if not line[0].startswith("WARN"))


def test_described_groups_are_the_same(either: BrokerProcess, members: Callable[..., Member]) -> None:
    """Heads and rows: offsets, members and states, plain and verbose, of a live and an empty group."""
    fill(either.address, "orders", 5)
    live = [members(either.address, "live", "orders", client_id=f"w{number}") for number in range(2)]
    static = [members(either.address, "static", "orders", client_id="s", group_instance_id="till-7")]
    until_owned(live, 5, 50)
    modern = [members(either.address, "modern", "orders", client_id="m", group_protocol="consumer") for _ in range(2)]
    until_owned(static, 5, 50)
    until_owned(modern, 5, 50)
    committed_group(either.address, "empty", "orders", reads=20)

    for view in ((), ("--members",), ("--state",)):
        for more in ((), ("--verbose",)):
            ours, other = both(either, "describe", "--all-groups", *view, *more)
            assert table(ours) == table(other), (view, more)
            assert {line[0] for line in table(ours)} >= {"GROUP", "live", "static", "modern"}
            if view and more:
                epochs = [line for line in table(ours) if line[0] == "modern"]
                assert all("3" in line for line in epochs), epochs
    ours, other = both(either, "list")
    assert sorted(ours.out.split()) == sorted(other.out.split())
    for option in ("--state", "--type"):
        ours, other = both(either, "list", option)
        assert table(ours) == table(other)


def test_planned_and_exported_offsets_are_the_same(either: BrokerProcess) -> None:
    """The kinds of goals of reset-offsets; the exported file of one tool is the other's input."""
    fill(either.address, "plans", 3)
    committed_group(either.address, "planner", "plans", reads=30)
    for goal in (
        ("--to-earliest",),
        ("--to-offset", "4"),
        ("--shift-by", "-3"),
        ("--by-duration", "PT1H"),
    ):
        words = ("--group", "planner", "--topic", "plans", *goal, "--dry-run")
        ours, other = both(either, "reset-offsets", *words)
        assert table(ours) == table(other), goal
    words = ("--group", "planner", "--topic", "plans:0,2", "--to-offset", "4", "--dry-run", "--export")
    ours, other = both(either, "reset-offsets", *words)
    assert sorted(ours.out.split()) == sorted(other.out.split())
    plan = either.directory / "plan.csv"
    plan.write_text(other.out)
    both(either, "reset-offsets", "--group", "planner", "--from-file", str(plan), "--execute")
    ours, other = both(either, "describe", "--group", "planner")
    assert table(ours) == table(other)


def test_described_topics_are_the_same(either: BrokerProcess) -> None:
    """What Kafka's tool says of replicas that may be elected (Elr) is not ours to say; the rest is the same."""
    made = kohort(
        "topics", "create", "same", "--partitions", "3", "--config", "retention.ms=1000", "-b", either.address
    )
    assert made.code == 0
    ours = kohort("topics", "describe", "same", "-b", either.address).out.splitlines()
    other = theirs(either, TOPICS, "--describe", "--topic", "same").out.splitlines()
    head, their_head = (line.rpartition("\tConfigs: ") for line in (ours[0], other[0]))
    assert (head[0], set(head[2].split(","))) == (their_head[0], set(their_head[2].split(",")))
    assert [line.partition("\tElr")[0].rstrip() for line in other[1:]] == ours[1:]


def test_clusters_and_offsets_are_told_the_same(either: BrokerProcess) -> None:
    """kafka-cluster.sh and kafka-get-offsets.sh by the names that our image has them under."""
    fill(either.address, "told", 4)

    def ours(*words: str) -> Ended:
        return kohort(*words, "--bootstrap-server", either.address)

    assert ours("kafka-cluster", "cluster-id").out == theirs(either, CLUSTER, "cluster-id").out
    for words in (
        ("--topic", "tol."),
        ("--topic", "told", "--time", "-2", "--partitions", "0,2"),
        ("--topic", "told", "--time", "4102444800000"),
        ("--topic-partitions", "to.*:1-3", "--time", "max-timestamp"),
    ):
        mine, other = ours("kafka-get-offsets", *words), theirs(either, OFFSETS, *words)
        assert mine.out == other.out, words
        assert mine.code == other.code == 0
    assert theirs(either, OFFSETS, "--topic", "nothing").code == ours("kafka-get-offsets", "--topic", "nothing").code


def test_what_one_tool_deletes_the_other_does_not_see(either: BrokerProcess) -> None:
    fill(either.address, "gone", 2)
    committed_group(either.address, "leaving", "gone", reads=20)
    assert kohort("groups", "delete-offsets", "leaving", "--topic", "gone:0", "-b", either.address).code == 0
    rows = theirs(either, GROUPS, "--describe", "--group", "leaving").rows()
    assert [row["PARTITION"] for row in rows if row["GROUP"] == "leaving"] == ["1"]
    assert kohort("groups", "delete", "leaving", "-b", either.address).code == 0
    assert "leaving" not in theirs(either, GROUPS, "--list").out.split()
    assert kohort("topics", "delete", "gone", "-b", either.address).code == 0
    assert "gone" not in theirs(either, TOPICS, "--list").out.split()
