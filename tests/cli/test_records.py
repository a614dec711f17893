"""`kohort produce` and `kohort consume`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import Run, kohort
from tests.support.broker_process import ROOT, eventually

if TYPE_CHECKING:
    from tests.support.broker_process import BrokerProcess


def read(run: Run, topic: str, count: int) -> list[dict[str, Any]]:
    """The first records of a topic, by offset."""
    out = run("consume", topic, "--from-beginning", "--max-messages", str(count), "--json").out
    return sorted((json.loads(line) for line in out.splitlines()), key=lambda one: (one["partition"], one["offset"]))


def test_lines_become_records_and_lines_again(run: Run, name: str) -> None:
    """Keys, headers, nulls, compression; what was written is what is printed."""
    run("topics", "create", name)
    words = ("-K", ":", "-H", "from=test", "--null-marker", "NIL", "--compression", "zstd", "--acks", "all")
    sent = run("produce", name, *words, stdin="a:1\nb:two:2\nc:NIL\nd:\n")
    assert (sent.code, sent.out) == (0, "4 records acknowledged\n")
    records = read(run, name, 4)
    assert [(one["key"], one["value"]) for one in records] == [("a", "1"), ("b", "two:2"), ("c", None), ("d", "")]
    assert {one["timestamp_type"] for one in records} == {"CreateTime"}
    assert records[0]["headers"] == [{"key": "from", "value": "test"}]

    printed = run(
        *("consume", name, "--from-beginning", "--max-messages", "2", "--key-separator", "|"),
        *("--print-key", "--print-offset", "--print-partition", "--print-headers"),
    )
    assert printed.out == "Partition:0|Offset:0|from:test|a|1\nPartition:0|Offset:1|from:test|b|two:2\n"
    assert printed.err == "Processed a total of 2 messages\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives(run: Run, name: str, codec: str) -> None:
    run("topics", "create", name)
    assert run("produce", name, "--compression", codec, stdin="x" * 500 + "\n").code == 0
    assert read(run, name, 1)[0]["value"] == "x" * 500


def test_bytes_that_are_no_text_are_kept(run: Run, name: str) -> None:
    run("topics", "create", name)
    assert run("produce", name, stdin=b"\xff\x00\n").code == 0
    assert read(run, name, 1)[0]["value_base64"] == "/wA="


def test_what_nobody_acknowledges_is_said_to_be_sent(run: Run, name: str) -> None:
    """--acks 0: the client library calls what has left it delivered."""
    run("topics", "create", name)
    sent = run("produce", name, "--acks", "0", stdin="a\nb\n")
    assert (sent.code, sent.out) == (0, "2 records sent, none acknowledged (--acks 0)\n")
    told = run("produce", name, "--acks", "0", "--json", stdin="c\n")
    assert (told.code, told.json) == (0, {"acknowledged": 0, "failed": 0, "sent": 1})
    assert run("produce", name, "--json", stdin="d\n").json == {"acknowledged": 1, "failed": 0}
    assert len(read(run, name, 4)) == 4


def test_a_group_goes_on_where_it_was(run: Run, name: str) -> None:
    """--group commits what was printed and nothing more."""
    run("topics", "create", name)
    run("produce", name, stdin="".join(f"{number}\n" for number in range(9)))
    first = run("consume", name, "--group", name, "--from-beginning", "--max-messages", "4")
    assert first.out.split() == ["0", "1", "2", "3"]
    rest = run("consume", name, "--group", name, "--from-beginning", "--max-messages", "5")
    assert rest.out.split() == ["4", "5", "6", "7", "8"]
    (row,) = run("groups", "describe", name).rows()
    assert (row["CURRENT-OFFSET"], row["LAG"]) == ("9", "0")


def test_reading_alone_commits_nothing(run: Run, name: str) -> None:
    """Without --group no group appears; an offset and a partition say where to begin; silence ends it."""
    run("topics", "create", name, "--partitions", "2")
    run("produce", name, "--partition", "1", stdin="a\nb\nc\n")
    ended = run("consume", name, "--partition", "1", "--offset", "1", "--timeout-ms", "300")
    assert (ended.code, ended.out) == (0, "b\nc\n")
    assert "kohort-consume" not in run("groups", "list").out


def test_a_signal_ends_a_member_in_good_order(run: Run, broker: BrokerProcess, name: str) -> None:
    """Ctrl-C: it commits, leaves its group and says how much it has read."""
    run("topics", "create", name)
    run("produce", name, stdin="a\nb\n")
    words = ["consume", name, "-g", name, "--from-beginning", "-b", broker.address]
    with subprocess.Popen(
        [sys.executable, "-m", "kohort", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(2)] == ["a\n", "b\n"]
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
        assert process.stderr.read() == "Processed a total of 2 messages\n"

    def left() -> bool:
        (group,) = run("groups", "describe", name, "--json").json
        return group["state"] == "Empty" and group["offsets"][0]["current_offset"] == 2

    eventually(left, what="the member has left")


def test_a_reader_that_has_enough_is_no_trace(broker: BrokerProcess, run: Run, name: str) -> None:
    """`kohort consume ... | head -1`."""
    run("topics", "create", name)
    run("produce", name, stdin="line of text\n" * 20_000)
    command = (
        f"{sys.executable} -m kohort consume {name} --from-beginning --timeout-ms 3000 -b {broker.address} | head -1"
    )
    ended = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert ended.stdout == "line of text\n"
    assert "Traceback" not in ended.stderr
    assert "BrokenPipe" not in ended.stderr


@pytest.mark.parametrize(
    ("words", "stdin", "code", "sentence"),
    [
        (("produce", "T", "-K", ":"), "a:1\nb\n", 2, "line 2 has no key separator ':'"),
        (("produce", "T", "-H", "x"), "", 2, "it takes KEY=VALUE"),
        (("produce",), "", 2, "name one TOPIC"),
        (("produce", "T", "--acks", "5"), "", 2, "invalid choice"),
        (("produce", "T", "--partition", "7", "--timeout", "3000"), "a\n", 1, "Unknown partition"),
        (("produce", "T"), "x" * 3_000_000 + "\n", 1, "not acknowledged"),
        (("consume",), "", 2, "name a TOPIC"),
        (("consume", ""), "", 2, "name a TOPIC"),
        (("consume", "t", "--group", ""), "", 2, "--group takes a name"),
        (("consume", "T", "--offset", "soon"), "", 2, "it takes a number"),
        (("consume", "T", "--partition", "5"), "", 1, "none of number 5"),
        (("consume", "T", "-g", "g", "--offset", "3"), "", 2, "without --group"),
        (("consume", "^a"), "", 2, "needs --group"),
        (("consume", "T", "--isolation-level", "none"), "", 2, "invalid choice"),
    ],
)
def test_bad_input_is_one_sentence(
    run: Run, name: str, words: tuple[str, ...], stdin: str, code: int, sentence: str
) -> None:
    """What came before a bad line is sent; nothing ends in a trace."""
    run("topics", "create", name)
    ended = run(*(name if word == "T" else word for word in words), stdin=stdin)
    assert ended.code == code, ended
    assert sentence in ended.err
    if "-K" in words:
        assert ended.out == "1 record acknowledged\n"


def test_an_unknown_topic_is_named_with_its_nearest(run: Run, name: str) -> None:
    """5: bad input; a reader does not create topics."""
    run("topics", "create", name)
    ended = run("consume", f"{name}s", "-g", name)
    assert ended.code == 1
    assert ended.err.startswith(f"kohort: topic '{name}s' does not exist; did you mean '{name}'")
    assert f"{name}s" not in run("topics", "list").out.split()


def test_an_unreachable_broker_is_one_sentence() -> None:
    for verb in ("produce", "consume"):
        ended = kohort(verb, "t", "-b", "127.0.0.1:1")
        assert (ended.code, ended.err) == (1, "kohort: 127.0.0.1:1 cannot be reached: connection refused\n")
