"""`kohort groups` against a broker, with real clients as members."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import Member, Run, committed_group, fill, kohort, until_owned
from tests.support.broker_process import eventually
from tests.support.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.broker_process import BrokerProcess


def offsets(run: Run, group: str) -> dict[int, tuple[Any, Any, Any]]:
    """(current offset, log end offset, lag) by partition."""
    (described,) = run("groups", "describe", group, "--json").json
    return {
        row["partition"]: (row["current_offset"], row["log_end_offset"], row["lag"]) for row in described["offsets"]
    }


def resets(run: Run, group: str, *words: str) -> list[int]:
    """The new offsets of partitions 0, 1, 2."""
    rows = run("groups", "reset-offsets", group, *words, "--json").json
    return [row["new_offset"] for row in sorted(rows, key=lambda row: row["partition"])]


def test_a_live_group_is_described_with_its_members(
    run: Run, broker: BrokerProcess, name: str, members: Callable[..., Member]
) -> None:
    """Who reads each partition and how far behind; members with what they are assigned; the state."""
    fill(broker.address, name)
    both = [members(broker.address, name, name, client_id=f"w{number}") for number in range(2)]
    until_owned(both, 3, 30)

    rows = run("groups", "describe", name).rows()
    assert [row["PARTITION"] for row in sorted(rows, key=lambda row: row["PARTITION"])] == ["0", "1", "2"]
    assert {(row["GROUP"], row["TOPIC"], row["CURRENT-OFFSET"], row["LAG"]) for row in rows} == {
        (name, name, "10", "0")
    }
    assert {row["CLIENT-ID"] for row in rows} == {"w0", "w1"}
    assert all(row["CONSUMER-ID"].startswith(row["CLIENT-ID"]) and row["HOST"] == "/127.0.0.1" for row in rows)
    assert "LEADER-EPOCH" in run("groups", "describe", name, "--verbose").rows()[0]

    listed = run("groups", "describe", "--group", name, "--members", "--verbose").rows()
    assert sorted(int(row["#PARTITIONS"]) for row in listed) == [1, 2]
    assert all(row["CURRENT-ASSIGNMENT"].startswith(f"{name}:") for row in listed)
    (state,) = run("groups", "describe", name, "--state").out.splitlines()[2:]
    assert state.split() == [name, broker.address, "(1)", "range", "Stable", "2"]

    (described,) = run("groups", "describe", name, "--json").json
    assert (described["state"], described["type"], described["member_count"]) == ("Stable", "Classic", 2)
    assert sum(len(member["partitions"]) for member in described["members"]) == 3
    assert name in run("groups", "list", "--state", "stable").out

    refused = run("groups", "delete", name)
    assert (refused.code, "not empty" in refused.err) == (1, True)
    refused = run("groups", "reset-offsets", name, "--all-topics", "--to-earliest", "--execute")
    assert (refused.code, "is inactive, but the current state is Stable" in refused.err) == (1, True)
    refused = run("groups", "delete-offsets", name, "--topic", name)
    assert refused.code == 1
    assert refused.out.count("Error: ") == 3


def test_a_group_of_the_consumer_protocol_is_described_with_its_epochs(
    run: Run, broker: BrokerProcess, name: str, members: Callable[..., Member]
) -> None:
    """GROUP-EPOCH, TARGET-ASSIGNMENT-EPOCH, and the epoch of each member (KIP-848)."""
    fill(broker.address, name)
    both = [members(broker.address, name, name, group_protocol="consumer") for _ in range(2)]
    until_owned(both, 3, 30)

    (state,) = run("groups", "describe", name, "--state", "--verbose").rows()
    epoch = int(state["GROUP-EPOCH"])
    assert (state["STATE"], state["ASSIGNMENT-STRATEGY"]) == ("Stable", "uniform")
    assert state["TARGET-ASSIGNMENT-EPOCH"] == str(epoch)
    listed = run("groups", "describe", name, "--members", "--verbose").rows()
    assert {(row["CURRENT-EPOCH"], row["TARGET-EPOCH"]) for row in listed} == {(str(epoch), str(epoch))}
    assert {row["TARGET-ASSIGNMENT"] for row in listed} == {row["CURRENT-ASSIGNMENT"] for row in listed}
    (described,) = run("groups", "describe", name, "--json").json
    assert (described["type"], described["epoch"], described["target_epoch"]) == ("Consumer", epoch, epoch)
    assert [member["epoch"] for member in described["members"]] == [epoch, epoch]


def test_static_members_show_their_instance(
    run: Run, broker: BrokerProcess, name: str, members: Callable[..., Member]
) -> None:
    fill(broker.address, name, partitions=1)
    until_owned([members(broker.address, name, name, group_instance_id="till-7")], 1, 10)
    (row,) = run("groups", "describe", name, "--members").rows()
    assert row["GROUP-INSTANCE-ID"] == "till-7"


def test_an_empty_group_has_offsets_and_lag(run: Run, broker: BrokerProcess, name: str) -> None:
    """Without members the rows stay, and what is missing is a dash."""
    fill(broker.address, name)
    committed_group(broker.address, name, name, reads=30)
    fill_more(broker.address, name)
    ended = run("groups", "describe", name)
    assert ended.code == 0
    assert f"'{name}' has no active members" in ended.err
    assert sum(int(row["LAG"]) for row in ended.rows()) == 1
    assert {row["CONSUMER-ID"] for row in ended.rows()} == {"-"}
    assert run("groups", "describe", name, "--members", "--json").json[0]["members"] == []


def fill_more(address: str, topic: str) -> None:
    """One more record."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address})
    producer.produce(topic, value="more", partition=0)
    assert producer.flush(120) == 0


def test_offsets_are_reset_to_every_goal(run: Run, broker: BrokerProcess, name: str) -> None:
    """A dry run says what an execution does, and does nothing."""
    fill(broker.address, name)
    committed_group(broker.address, name, name, reads=30)
    scope = ("--topic", name)
    assert resets(run, name, *scope, "--to-earliest") == [0, 0, 0]
    assert resets(run, name, *scope, "--to-latest") == [10, 10, 10]
    assert resets(run, name, *scope, "--to-current") == [10, 10, 10]
    assert resets(run, name, *scope, "--to-offset", "7") == [7, 7, 7]
    assert resets(run, name, *scope, "--to-offset", "70") == [10, 10, 10]
    assert resets(run, name, *scope, "--shift-by", "-4") == [6, 6, 6]
    assert resets(run, name, "--all-topics", "--shift-by", "-400") == [0, 0, 0]
    assert resets(run, name, *scope, "--to-datetime", "2020-01-01T00:00:00.000") == [0, 0, 0]
    assert resets(run, name, *scope, "--by-duration", "P1D") == [0, 0, 0]
    assert resets(run, name, *scope, "--by-duration", "PT0S") == [10, 10, 10]
    assert resets(run, name, *scope, "--to-offset", "2", "--dry-run") == [2, 2, 2]
    assert [found[0] for found in offsets(run, name).values()] == [10, 10, 10]

    assert resets(run, name, "--topic", f"{name}:0,2", "--to-offset", "3", "--execute") == [3, 3]
    assert offsets(run, name) == {0: (3, 10, 7), 1: (10, 10, 0), 2: (3, 10, 7)}


def test_a_plan_is_exported_and_carried_out_from_its_file(
    run: Run, broker: BrokerProcess, name: str, text_file: Callable[[str], str]
) -> None:
    fill(broker.address, name)
    committed_group(broker.address, name, name, reads=30)
    plan = run("groups", "reset-offsets", name, "--topic", name, "--to-offset", "4", "--export").out
    assert plan == f"{name},0,4\n{name},1,4\n{name},2,4\n"
    done = run("groups", "reset-offsets", "--group", name, "--from-file", text_file(plan), "--execute")
    assert [row["NEW-OFFSET"] for row in done.rows()] == ["4", "4", "4"]
    assert [found[0] for found in offsets(run, name).values()] == [4, 4, 4]
    with_group = f"{name},{name},1,99\n"
    done = run("groups", "reset-offsets", name, "--from-file", "-", "--execute", stdin=with_group)
    assert "Value will be set to 10" in done.err
    assert offsets(run, name)[1] == (10, 10, 0)


def test_offsets_of_a_group_to_come_can_be_set(run: Run, broker: BrokerProcess, name: str) -> None:
    """As with Kafka's tool: a group exists from its first offset on."""
    fill(broker.address, name)
    assert resets(run, name, "--topic", name, "--to-latest", "--execute") == [10, 10, 10]
    assert [found[2] for found in offsets(run, name).values()] == [0, 0, 0]


def test_a_record_of_a_time_is_found(run: Run, broker: BrokerProcess, name: str) -> None:
    """--to-datetime names the first record that is not older; a time is in UTC unless it says a zone."""
    fill(broker.address, name)
    five_ago = time.time() - 5.5
    utc = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(five_ago))
    (found,) = set(resets(run, name, "--topic", name, "--to-datetime", utc + ".000"))
    assert 2 <= found <= 6
    zoned = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(five_ago + 3600)) + "+01:00"
    assert set(resets(run, name, "--topic", name, "--to-datetime", zoned)) == {found}


def test_offsets_and_groups_are_deleted(run: Run, broker: BrokerProcess, name: str) -> None:
    fill(broker.address, name)
    committed_group(broker.address, name, name, reads=30)
    done = run("groups", "delete-offsets", name, "--topic", f"{name}:1")
    assert (done.code, done.rows("TOPIC")[0]["STATUS"]) == (0, "Successful")
    assert sorted(offsets(run, name)) == [0, 2]
    both = run("groups", "delete", name, f"{name}-never")
    assert both.code == 1
    assert f"Deleted group {name}." in both.out
    assert f"'{name}-never'" in both.err
    assert name not in run("groups", "list").out.split()


def test_an_unknown_group_is_named_with_its_nearest(run: Run, broker: BrokerProcess, name: str) -> None:
    """5: bad input, an unknown group."""
    fill(broker.address, name, partitions=1)
    committed_group(broker.address, name, name, reads=10)
    ended = run("groups", "describe", name[:-1])
    assert ended.code == 1
    assert ended.err.startswith(f"kohort: group '{name[:-1]}' does not exist; did you mean '{name}'")
    ended = run("groups", "reset-offsets", "nobody", "--all-topics", "--to-earliest")
    assert (ended.code, ended.err) == (1, "kohort: group 'nobody' has no committed offsets\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("orders,0,5\norders,zero,5\n", "line 2: partition 'zero' is no number"),
        ("orders,0,5\n\norders,1,-5\n", "line 3: offset '-5' is no number"),
        ("orders,0\n", "line 1 has 2 fields: it takes topic,partition,offset"),
        ("other,orders,0,5\n", "line 1 is for group 'other'"),
        ("orders,0,5\norders,0,6\n", "line 2 names orders-0 a second time"),
        ('orders,0,5\n"orders,0', "line 2: unexpected end of data"),
        (",0,5\n", "line 1 has no topic"),
        ("\n", "has no lines"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(
    run: Run, text_file: Callable[[str], str], text: str, words: str
) -> None:
    """5: bad input, a malformed file for --from-file; nothing is changed."""
    ended = run("groups", "reset-offsets", "g", "--from-file", text_file(text), "--execute")
    assert ended.code == 2
    assert words in ended.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("reset-offsets", "g", "--topic", "t"), "one of the arguments --to-earliest"),
        (("reset-offsets", "g", "--topic", "t", "--to-earliest", "--to-latest"), "not allowed with"),
        (("reset-offsets", "g", "--to-earliest"), "name a --topic, or --all-topics"),
        (("reset-offsets", "g", "--topic", "t", "--all-topics", "--to-earliest"), "not both"),
        (("reset-offsets", "--topic", "t", "--to-earliest"), "name a GROUP"),
        (("reset-offsets", "g", "--topic", "t:x", "--to-earliest"), "it takes TOPIC or TOPIC:0,1,2"),
        (("reset-offsets", "g", "--topic", "t", "--to-datetime", "noon"), "it takes a time"),
        (("reset-offsets", "g", "--topic", "t", "--by-duration", "1h"), "it takes a duration"),
        (("reset-offsets", "g", "--from-file", "/nowhere"), "/nowhere: no such file"),
        (("describe",), "name a GROUP"),
        (("describe", "g", "--all-groups"), "exclude each other"),
        (("describe", "g", "--members", "--state"), "not allowed with"),
        (("delete-offsets", "a", "b", "--topic", "t"), "takes one GROUP"),
        (("describe", "g", "--command-config", "/nowhere"), "/nowhere: no such file"),
        (("describe", "g", "--timeout", "0"), "positive number"),
        (("fly",), "invalid choice"),
        ((), "needs a command"),
    ],
)
def test_what_makes_no_command_is_refused(run: Run, words: tuple[str, ...], sentence: str) -> None:
    """Exit code 2 and a sentence."""
    ended = run("groups", *words) if words else kohort("groups")
    assert ended.code == 2
    assert sentence in ended.err


def test_an_unknown_topic_or_partition_is_refused(run: Run, broker: BrokerProcess, name: str) -> None:
    """5: bad input, an unknown topic."""
    fill(broker.address, name, partitions=1)
    ended = run("groups", "reset-offsets", "g", "--topic", f"{name}x", "--to-earliest", "--execute")
    assert ended.code == 1
    assert ended.err.startswith(f"kohort: topic '{name}x' does not exist; did you mean '{name}'")
    ended = run("groups", "reset-offsets", "g", "--topic", f"{name}:3", "--to-earliest", "--execute")
    assert (ended.code, "none of number 3" in ended.err) == (1, True)


def test_an_unreachable_broker_is_one_sentence() -> None:
    """5: bad input, an unreachable broker; the time limit is not waited for."""
    began = time.monotonic()
    ended = kohort("groups", "list", "-b", "127.0.0.1:1", "--timeout", "120000")
    assert (ended.code, ended.err) == (1, "kohort: 127.0.0.1:1 cannot be reached: connection refused\n")
    assert time.monotonic() - began < 120
    assert kohort("groups", "list", "-b", "nonsense").code == 2


def test_a_port_where_no_kafka_answers_is_one_sentence() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ended = kohort("groups", "list", "-b", address, "--timeout", "1500")
    assert ended.code == 1
    assert ended.err.startswith(f"kohort: {address} accepts, and does not answer as Kafka does")


def test_settings_of_javas_clients_are_taken(run: Run, text_file: Callable[[str], str]) -> None:
    """--command-config: what only the JVM knows is left out, a wrong value is named."""
    fine = text_file("client.id=me\nkey.deserializer=org.x.Y\nrequest.timeout.ms=9000\n")
    assert run("groups", "list", "--command-config", fine).code == 0
    wrong = run("groups", "list", "--command-config", text_file("security.protocol=PIGEON\n"))
    assert wrong.code == 2
    assert "security.protocol" in wrong.err


def test_groups_that_the_client_library_cannot_name(run: Run, broker: BrokerProcess, name: str) -> None:
    """Ids come from clients: an empty one, and two that differ behind a zero byte, leave the others as they are."""
    fill(broker.address, name, partitions=1, records=1)
    with Wire(broker.address) as wire:
        eventually(lambda: wire.coordinator_error(name) == 0)
        for group_id in ("", f"{name}\0a", f"{name}\0b", name):
            assert wire.commit(group_id, name, {0: 0}) == {0}
    try:
        ended = run("groups", "describe", "--all-groups")
        assert ended.code == 0
        assert "cannot ask for the offsets of the group whose id is empty" in ended.err
        assert [row["TOPIC"] for row in ended.rows() if row["GROUP"] == name] == [name]
        for words in (("describe",), ("delete-offsets", "--all-topics"), ("reset-offsets", "--all-topics")):
            more = ("--to-earliest",) if words[0] == "reset-offsets" else ()
            ended = run("groups", words[0], "", *words[1:], *more)
            assert (ended.code, ended.err.count("\n")) == (1, 1), ended
            assert "whose id is empty" in ended.err
        assert run("groups", "describe", "", "--state").code == 0
    finally:
        assert run("groups", "delete", "").code == 0
