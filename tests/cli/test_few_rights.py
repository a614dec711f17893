"""Who may not look at `__consumer_offsets`, as few users may, is told of their groups all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Member, Run, committed_group, fill, kohort
from tests.support.broker_process import QUICK_GROUPS, Kohort, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kohort]:
    """A broker with the group `billing`, which has read all ten records of `orders`."""
    settings = {
        **QUICK_GROUPS,
        "authorizer.class.name": STANDARD,
        "allow.everyone.if.no.acl.found": "true",
        "kohort.ledger.enable": "false",
    }
    with Kohort(tmp_path_factory.mktemp("closed"), settings) as running:
        fill(running.address, "orders", partitions=1)
        committed_group(running.address, "billing", "orders", reads=10)
        at = ("--bootstrap-server", running.address)
        denied = ("--deny-principal", "User:*", "--operation", "Describe", "--topic", "__consumer_offsets")
        assert kohort("acls", "add", *denied, *at).code == 0
        eventually(lambda: "__consumer_offsets" not in kohort("topics", "list", *at).out, what="the right to be gone")
        yield running


@pytest.fixture
def run(closed: Kohort) -> Run:
    return lambda *words, stdin="": kohort(*words, "--bootstrap-server", closed.address, stdin=stdin)


def test_a_group_is_told_of(run: Run) -> None:
    (row,) = run("groups", "describe", "billing").rows()
    assert (row["TOPIC"], row["CURRENT-OFFSET"]) == ("orders", "10")
    assert run("why", "billing").out.startswith("group billing: Empty")
    assert run("groups", "describe", "nobody").err == "kohort: group 'nobody' does not exist\n"


def test_a_plan_is_what_is_carried_out(run: Run) -> None:
    words = ("groups", "reset-offsets", "billing", "--topic", "orders", "--shift-by", "-1")
    planned = run(*words)
    assert [row["NEW-OFFSET"] for row in planned.rows()] == ["9"]
    assert run(*words, "--execute").rows() == planned.rows()


def test_a_plan_for_a_group_at_work_is_refused(run: Run, closed: Kohort, members: Callable[..., Member]) -> None:
    member = members(closed.address, "working", "orders")
    eventually(lambda: member.poll() or member.seen > 0, deadline_s=60, what="a record", every_s=0)
    refused = run("groups", "reset-offsets", "working", "--topic", "orders", "--to-earliest")
    assert (refused.code, "is inactive, but the current state is Stable" in refused.err) == (1, True)
