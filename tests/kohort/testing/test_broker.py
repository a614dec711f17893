"""`kohort.testing.Broker`: real clients, and what is left behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer

from kohort.testing import Broker, BrokerDied, Refused, process
from kohort.testing.external import External
from kohort.testing.records import difference
from kohort.testing.waiting import span_ms
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.kohort.testing.test_page import run_pytest
from tests.support.broker_process import ROOT, eventually
from tests.support.wire import Wire


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as one:
        yield one


def test_a_client_s_records_are_seen_and_a_test_s_records_are_read(broker: Broker):
    broker.create_topic("orders", partitions=4)
    producer = Producer({**broker.config("confluent-kafka"), "partitioner": "murmur2_random"})
    for number in range(20):
        producer.produce("orders", b"%d" % number, key=b"k%d" % number, headers=[("at", b"home")])
    producer.flush()
    found = broker.records("orders")
    assert sorted(int(record.text) for record in found) == list(range(20))
    assert {record.headers for record in found} == {(("at", b"home"),)}

    for number in range(20):
        broker.produce("orders", {"number": number}, key=f"k{number}")
    for record in broker.records("orders"):
        twins = [other for other in broker.records("orders") if other.key == record.key]
        assert {twin.partition for twin in twins} == {record.partition}, (
            "a key has its partition, as in Java's producer"
        )

    consumer = Consumer({**broker.config("librdkafka"), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    read = [consumer.poll(10) for _ in range(40)]
    consumer.close()
    assert sum(b"number" in message.value() for message in read) == 20


def test_each_library_is_told_in_its_own_words(broker: Broker):
    """Of the others clients are seen elsewhere: in this file, docs/testing.md, examples/testing."""
    producer = KafkaProducer(**broker.config("kafka-python"))
    producer.send("t", b"x").get(20)
    producer.close()
    broker.assert_produced("t", "x")
    address = broker.bootstrap_servers
    assert broker.config("java") == broker.config("confluent_kafka") == {"bootstrap.servers": address}
    assert broker.config("faststream") == broker.config("aiokafka") == {"bootstrap_servers": address}
    assert broker.config("spark") == {"kafka.bootstrap.servers": address}


def test_each_broker_is_new_and_their_process_is_the_same():
    with Broker() as first:
        first.produce("t", "one")
        first_address, pid = first.bootstrap_servers, first.pid
    with Broker() as second:
        assert second.pid == pid
        assert second.topics == {}
        with Broker() as beside:
            assert beside.pid != pid
            assert beside.bootstrap_servers != second.bootstrap_servers
    assert first_address
    with pytest.raises(Refused, match="this broker is closed"):
        first.records("t")


@pytest.mark.parametrize("key_type", [0, 1], ids=["group", "transaction"])
def test_the_first_who_asks_for_a_coordinator_is_told_of_it(key_type: int):
    """Kafka says COORDINATOR_NOT_AVAILABLE, and librdkafka lets a second pass; a full disk has it said here too."""
    asks = FindCoordinatorRequest(key="shop", key_type=key_type)
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        assert wire.call(asks, 2).error_code == ErrorCode.NONE
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        broker.disk_full()
        broker.clock.freeze()
        assert wire.call(asks, 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.disk_freed()
        eventually(lambda: wire.call(asks, 2).error_code == ErrorCode.NONE, what="a coordinator")


def test_aborted_records_are_left_out_where_only_committed_ones_are_asked_for(broker: Broker):
    producer = Producer({**broker.config("confluent-kafka"), "transactional.id": "t"})
    producer.init_transactions()
    for value, end in (("kept", producer.commit_transaction), ("gone", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("t", value)
        producer.flush()
        end()
    broker.produce("t", "plain")
    broker.assert_produced("t", "kept", "gone", "plain")
    broker.assert_produced("t", "kept", "plain", committed=True)


def test_what_is_wrong_is_said(broker: Broker):
    broker.create_topic("t", partitions=2)
    for act, said in (
        (lambda: broker.create_topic("t"), "TOPIC_ALREADY_EXISTS"),
        (lambda: broker.create_topic("a b"), "INVALID_TOPIC"),
        (lambda: broker.create_topic("c", configs={"retention.ms": "soon"}), "retention.ms"),
        (lambda: broker.records("u"), "there is no topic 'u'; there are t"),
        (lambda: broker.produce("t", "x", partition=2), "t has no partition 2: it has 2"),
        (lambda: broker.produce("t", object()), "it takes bytes, text, None, or what JSON has"),
        (lambda: broker.config("kafkajs"), "it takes one of aiokafka, confluent-kafka"),
        (lambda: broker.config(3), "it takes one of aiokafka, confluent-kafka"),
        (lambda: span_ms("soon"), "it takes a number of seconds, or text like '45s'"),
        (lambda: span_ms("1001 years"), "it takes a number of seconds, or text like '45s'"),
        (lambda: span_ms(1e18), "no span of time of at most 100 years"),
        (lambda: span_ms("9" * 400 + "s"), "no span of time of at most 100 years"),
        (lambda: span_ms(None), "it takes a number of seconds, or text like '45s'"),
        (lambda: span_ms(float("inf")), "it takes a number of seconds, or text like '45s'"),
        (lambda: broker.create_topic("c", partitions="3"), "partitions='3': it takes a whole number"),
        (lambda: broker.produce("t", "x", partition=-1), "partition=-1: it takes a whole number from 0 on"),
        (lambda: broker.produce("t", "x", timestamp_ms="now"), "timestamp_ms='now': it takes a whole number"),
        (lambda: Broker({"num.partitions": "many"}).open(), "num.partitions"),
        (lambda: Broker({"num.partitoins": 1}).open(), "there is no setting num.partitoins"),
        (lambda: Broker().topics, "has not been opened"),
        (lambda: External("here:1").records("t"), "needs a broker that Kohort has started"),
    ):
        with pytest.raises(Refused, match=said):
            act()
    broker.produce("t", "it serves on")


def test_a_broker_that_died_says_how():
    broker = Broker().open()
    os.kill(broker.pid, signal.SIGKILL)
    with pytest.raises(BrokerDied, match="by SIGKILL"):
        broker.produce("t", "x")
    with pytest.raises(BrokerDied, match="by SIGKILL"):
        broker.close()
    with Broker() as other:
        other.produce("t", "x")


@pytest.mark.slow
def test_a_broker_that_dies_among_tests_fails_those_that_need_it(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent("""
            import os, signal

            def test_its_end(kohort_proc):
                os.kill(kohort_proc.pid, signal.SIGSEGV)
                os.waitid(os.P_PID, kohort_proc.pid, os.WEXITED | os.WNOWAIT)

            def test_later(kohort_proc):
                kohort_proc.topics

            def test_without_it(kohort):
                kohort.produce("t", "x")

            def test_that_fails_by_itself():
                assert "its own" == "fault"
        """)
    )
    done = run_pytest(tmp_path)
    assert done.stdout.count("BrokerDied: the broker's process has ended, by SIGSEGV") >= 2, done.stdout
    for told in ("3 failed, 1 passed, 1 error", "E       AssertionError: assert 'its own' == 'fault'"):
        assert told in done.stdout, done.stdout


def test_differences_are_shown_line_by_line(broker: Broker):
    broker.produce("t", "a", "b")
    with pytest.raises(AssertionError) as told:
        broker.assert_produced("t", "a", "c", within=0)
    assert str(told.value).splitlines()[1:] == ["    'a'", "  - 'c'", "  + 'b'"]
    with pytest.raises(AssertionError, match="there is no topic 'u'"):
        broker.assert_produced("u", "a", within=0)
    broker.create_topic("wide", partitions=3)
    for name in ("ann", "bob", "cid", "dan"):
        broker.produce("wide", {"of": name}, key=name)
    found = broker.records("wide")
    assert difference("wide", found, [(name, {"of": name}) for name in ("dan", "ann", "cid", "bob")]) is None
    assert "+ 'dan'" in str(difference("wide", found, [(name, {"of": name}) for name in ("ann", "cid", "bob")]))


async def test_coroutines_wait_while_their_clients_go_on():
    async with Broker() as broker:

        async def write() -> None:
            await asyncio.sleep(0)
            broker.produce("t", "x")

        writing = asyncio.create_task(write())
        await broker.aassert_produced("t", "x")
        await writing


def test_who_was_interrupted_while_it_waited_gets_the_right_answers(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C, or a timeout by a signal, in the middle of a command."""
    broker.produce("t", "x")
    real = process.json.loads

    def interrupted(line: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(process.json, "loads", interrupted)
    with pytest.raises(KeyboardInterrupt):
        broker.topics  # noqa: B018
    monkeypatch.setattr(process.json, "loads", real)
    taken = broker._life.running()
    taken._socket.sendall(b'{"do": "topics", "id": 0}\n')  # an answer that nobody reads
    assert broker.groups == []
    assert broker.topics == {"t": 1}


UNTOUCHED = """
    import gc, logging, signal, sys, threading

    def own():
        told = gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()
        told += sys.getswitchinterval(), threading.active_count()
        logs = logging.root.level, logging.root.handlers[:], sorted(logging.root.manager.loggerDict)
        return told, logs, [signal.getsignal(number) for number in signal.valid_signals()]

    before = own()
    from kohort.testing import Broker
    with Broker() as broker:
        broker.produce("t", "x")
        broker.assert_produced("t", "x")
        assert own() == before, (own(), before)
    assert own() == before
    heavy = {'uvloop', 'construct', 'structlog', 'asyncio', 'broker', 'protocol', 'storage', 'coordinator', 'pytest'}
    print(sorted(heavy & set(sys.modules)))
"""


def test_the_process_of_the_tests_is_left_as_it_is(tmp_path: Path):
    """Nothing of the broker is imported; signals, collector, logging and threads stay, and no event loop is made."""
    command = [sys.executable, "-c", textwrap.dedent(UNTOUCHED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_a_test_run_that_is_killed_leaves_nothing(tmp_path: Path):
    program = """
        import os, signal
        from kohort.testing import Broker
        broker = Broker(topics={"t": 1}).open()
        print(broker.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    pid = int(done.stdout)

    eventually(
        lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text(), what="its end"
    )
    eventually(lambda: not list(tmp_path.iterdir()), what="an empty folder")


def test_a_fork_does_not_take_its_parent_s_broker(broker: Broker):
    child = os.fork()
    if not child:
        try:
            broker.topics  # noqa: B018
        except Refused:
            with Broker() as own:
                own.produce("t", "x")
            process.end_all()
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    broker.produce("t", "still here")


PLUGIN = """
    import pytest
    from kohort.testing import factories

    @pytest.mark.parametrize("number", range(4))
    def test_fresh(kohort, number):
        assert kohort.topics == {}
        kohort.produce("t", number)

    def test_failing(kohort):
        kohort.assert_produced("t", "x", within=0)

    def test_outside(kohort_noproc):
        assert kohort_noproc.config("aiokafka") == {"bootstrap_servers": "elsewhere:9092"}

    @pytest.mark.asyncio
    async def test_coroutine(kohort):
        kohort.produce("t", "x")
        await kohort.aassert_produced("t", "x")
"""


@pytest.mark.slow
def test_the_plugin_in_two_workers(tmp_path: Path):
    """xdist; a test that fails is shown the broker's log; an address from outside."""
    (tmp_path / "test_it.py").write_text(textwrap.dedent(PLUGIN))
    done = run_pytest(tmp_path, "-n", "2", "--kohort-bootstrap-servers", "elsewhere:9092")
    assert "1 failed" in done.stdout, done.stdout
    assert "Kohort at 127.0.0.1" in done.stdout
    assert "FAILED test_it.py::test_failing" in done.stdout


def test_what_is_meant_for_tests_is_not_meant_for_the_broker(tmp_path: Path):
    """Warnings as errors, coverage, a clock that stands still (as freezegun's do); and nothing warns."""
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent("""
            import time
            from pathlib import Path

            import pytest
            from kohort.testing import Broker

            def test_it(kohort, monkeypatch):
                with kohort.fork() as other:
                    path = kohort.snapshot().path
                    environment = Path(f"/proc/{other.pid}/environ").read_bytes()
                    assert b"PYTHONWARNINGS" not in environment and b"COVERAGE" not in environment
                assert not path.exists()
                monkeypatch.setattr(time, "monotonic", lambda: 0.0)
                with pytest.raises(AssertionError):
                    kohort.assert_produced("t", "x", within="50ms")
        """)
    )
    done = run_pytest(tmp_path, "-W", "error", "-p", "no:asyncio", PYTHONWARNINGS="error", COVERAGE_PROCESS_START="x")
    assert "1 passed" in done.stdout, done.stdout


THOUSAND = """
    import json, os, tempfile
    from pathlib import Path
    from kohort.testing import Broker

    def descriptors(pid):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))

    def threads(pid):
        return len(list(Path(f"/proc/{pid}/task").iterdir()))

    def memory_bytes(pid):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    seen = []
    for number in range(1_000):
        with Broker(topics={"t": 3}) as one:
            one.produce("t", "x")
            pid, own = one.pid, os.getpid()
            if number in (99, 999):
                seen.append((descriptors(pid), threads(pid), descriptors(own), threads(own), pid, memory_bytes(pid)))
        assert list(Path(tempfile.gettempdir()).iterdir()) == []
    print(json.dumps(seen))
"""


@pytest.mark.slow
def test_a_thousand_brokers_leave_nothing(tmp_path: Path):
    """Counted in a process of its own: in this one clients of other tests come and go."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(THOUSAND)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen[0][:5] == seen[1][:5]
    assert seen[1][5] - seen[0][5] < 20_000_000, seen
