"""What somebody meets who has just installed Kohort: an untouched broker, options out of place, odd names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from cli import main, why_reading
from cli.errors import UsageError
from cli.tables import text_table
from tests.cli.conftest import Member, Run, fill, kohort, until_owned
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, Kohort, eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_broker_that_nobody_has_asked_for_a_group_answers_at_once(tmp_path: Path) -> None:
    """The library gives up on a coordinator that is not there within 0.3 s, and would be silent for 30 s."""
    with Kohort(tmp_path, QUICK_GROUPS) as fresh:
        # A time limit that ran out would be another sentence.
        ended = kohort("groups", "describe", "nobody", "-b", fresh.address, "--timeout", "25000")
        assert (ended.code, ended.err) == (1, "kohort: group 'nobody' does not exist\n")


@pytest.mark.parametrize("place", ["before the command", "behind it"])
def test_options_stand_before_the_command_or_behind_it(broker: BrokerProcess, name: str, place: str) -> None:
    """-b, --json and --timeout are those of the verb as well as of its commands."""
    options = ["-b", broker.address, "--json", "--timeout", "20000"]
    words = [*options, "create"] if place == "before the command" else ["create", *options]
    assert kohort("topics", *words, name).code == 0
    words = [*options, "list"] if place == "before the command" else ["list", *options]
    assert name in json.dumps(kohort("topics", *words).json)


def test_an_option_before_the_verb_is_told_where_it_belongs() -> None:
    ended = kohort("-b", "127.0.0.1:9092", "topics", "list")
    assert ended.code == 2
    assert ended.err == "kohort: -b: the verb comes first, its options behind it: kohort VERB -b ...\n"


def test_names_that_clients_choose_cannot_break_a_table() -> None:
    """A line break or an escape sequence in a client id stays in its cell, and does nothing to a terminal."""
    table = text_table(["CLIENT-ID", "HOST"], [["two\nlines", "h"], ["\x1b[31mred", "h"], ["ümlaut 漢字", "h"]])
    assert table.splitlines() == [
        "CLIENT-ID   HOST",
        "two\\nlines  h",
        "\\x1b[31mred h",
        "ümlaut 漢字   h",
    ]


def test_why_tells_of_odd_names_and_passes_over_what_others_wrote(
    broker: BrokerProcess, run: Run, name: str, members: Callable[..., Member]
) -> None:
    """A client id with a line break stays on its line; records of ours with fields missing are no records."""
    fill(broker.address, name)
    group = f"{name}\nsecond line"
    member = members(broker.address, group, name, client_id="odd\nclient")
    until_owned([member], 3, 30)
    producer = Producer({"bootstrap.servers": broker.address})
    for garbage in ({}, {"at_ms": 1}, {"at_ms": 1, "rebalance_id": 7}, {"at_ms": 1, "rebalance_id": "x"}):
        for kind in ("rebalance_began", "rebalance_ended", "member_replaced"):
            text = json.dumps({"kind": kind, "group_id": group, **garbage})
            for partition in range(50):
                producer.produce("__kohort_rebalances", key=group, value=text, partition=partition)
    assert not producer.flush(120)

    def told() -> Any:
        ended = run("why", group)
        return ended if "odd\\nclient" in ended.out else None

    ended = eventually(told, deadline_s=60)
    assert ended.code == 0
    heading, *lines = ended.out.splitlines()
    assert heading.startswith(f"group {name}\\nsecond line: Stable, generation 1, 1 member")
    assert not any(line.startswith(("client", "second line")) for line in lines)


def test_why_takes_an_http_address_or_says_that_it_is_none(broker: BrokerProcess, name: str) -> None:
    """A wrong one is refused before anybody is asked; one where no HTTP is spoken is said, and the records told."""
    for place, taken in (
        ("127.0.0.1:9644", "127.0.0.1:9644"),
        ("http://host:1/", "host:1"),
        ("[::1]:9644", "[::1]:9644"),
    ):
        assert why_reading.http_place(place) == taken
    for wrong in ("a b", "9644", "host:", "host:70000", "https://host:9644", "::1:9644"):
        with pytest.raises(UsageError, match=r"--http .*: it takes HOST:PORT"):
            why_reading.http_place(wrong)
    assert main(["why", name, "-b", broker.address, "--http", "a b"]) == 2


def test_why_does_not_take_another_clusters_group_for_its_own(
    broker: Kohort, run: Run, name: str, members: Callable[..., Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two brokers on a machine, one port 9644: what the other says of a group of the same name is left out."""
    fill(broker.address, name)
    until_owned([members(broker.address, name, name)], 3, 30)
    finding = {"rule": "tight_heartbeat", "severity": "warning", "says": "of another cluster", "facts": {}}
    answer: dict[str, Any] = {"cluster_id": "another", "findings": [finding]}
    monkeypatch.setattr(why_reading, "_get", lambda url: (answer, True))
    ended = run("why", name, "--http", "127.0.0.1:1")
    assert ended.code == 0
    assert "of another cluster" not in ended.out
    assert ended.err == "kohort: --http 127.0.0.1:1: no broker of this cluster tells of the group there\n"

    answer["cluster_id"] = cluster_of(broker)
    assert "of another cluster" in run("why", name, "--http", "127.0.0.1:1").out


def cluster_of(broker: BrokerProcess) -> str:
    """The broker's cluster id."""
    return str(AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=400).cluster_id)
