"""The program as its user meets it: the ready line, the ways not to start, the end."""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from broker import process
from broker.handlers.api_versions import TELEMETRY
from broker.handlers.dispatch import HANDLERS
from protocol.api_keys import ApiKey
from protocol.frames import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker_process import ROOT, eventually
from tests.support.certificates import Authority
from tests.support.connections import Harness
from tests.support.wire import Wire


class Program:
    """`python -m kohort ARGUMENTS`, its lines and its end."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None, before: Sequence[str] = ()) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "kohort", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean | (environment or {}),
        )

    def ready(self) -> tuple[str, int]:
        """(the ready line, the port in it)."""
        line = self.process.stdout.readline()
        match = re.fullmatch(r"kohort ready on \S+:(\d+) in (\d+) ms \(\w+, CPython [\d.]+\)\n", line)
        assert match, line + self.process.stderr.read()
        return line, int(match[1])

    def end(self) -> tuple[int, str, str]:
        """(exit code, standard output, standard error), once it has ended by itself or by a signal."""
        out, err = self.process.communicate(timeout=300)
        return self.process.returncode, out, err

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[type[Program]]:
    """serve(key=value, ...) on a directory of the test's own and a free port."""
    programs: list[Program] = []

    def start(*arguments: str, data: Path | None = None, **environment: str) -> Program:
        words = [f"--override=log.dirs={data or tmp_path / 'data'}"]
        if not any("listeners" in argument for argument in arguments):
            words.append("--override=listeners=PLAINTEXT://127.0.0.1:0")
        if not any("kohort.http.listener" in argument for argument in arguments):
            words.append("--override=kohort.http.listener=127.0.0.1:0")
        programs.append(Program("serve", *words, *arguments, environment=environment))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()


def ask_versions(port: int) -> int:
    """Ask for the API versions; return how many APIs there are."""
    with socket.create_connection(("127.0.0.1", port), timeout=300) as client:
        client.sendall(encode_request(ApiVersionsRequest(), 0, 1))
        head = client.recv(4, socket.MSG_WAITALL)
        frame = head + client.recv(int.from_bytes(head), socket.MSG_WAITALL)
    return len(decode_response(ApiKey.API_VERSIONS, 0, frame)[1].api_keys)


def test_the_ready_line_names_the_real_port_and_sigterm_ends_it(serve, tmp_path: Path):
    program = serve()
    _, port = program.ready()
    # Those of clients' metrics are offered while there is a subscription.
    assert ask_versions(port) == len(HANDLERS) - len(TELEMETRY)
    assert int((tmp_path / "data" / ".lock").read_text()) == program.process.pid

    program.process.send_signal(signal.SIGTERM)
    code, _, err = program.end()

    assert code == 0
    assert "Traceback" not in err
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "data" / ".lock").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_signal_is_lost_that_comes_right_after_the_ready_line(serve, number: int):
    program = serve()
    program.ready()
    program.process.send_signal(number)

    assert program.end()[0] == 0


def test_sigint_ends_it_too_and_the_next_start_is_a_clean_one(serve):
    first = serve()
    first.ready()
    first.process.send_signal(signal.SIGINT)
    assert first.end()[0] == 0

    second = serve()
    second.ready()
    second.process.send_signal(signal.SIGTERM)
    assert "unclean" not in second.end()[2]


def test_a_second_process_on_the_same_directory_is_refused_with_one_sentence(serve):
    serve().ready()
    second = serve()
    code, _, err = second.end()

    assert code == 1
    assert "in use by another process" in err
    assert len(err.splitlines()) == 1


def test_a_port_in_use_is_one_sentence_and_touches_no_file(serve, tmp_path: Path):
    _, port = serve().ready()
    other = tmp_path / "other"
    code, _, err = serve(f"--override=listeners=PLAINTEXT://127.0.0.1:{port}", data=other).end()

    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}: address already in use; stop what listens there, or" in err
    assert len(err.splitlines()) == 1
    assert not other.exists()


def test_a_directory_that_cannot_be_is_one_sentence(serve, tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("not a directory")
    code, _, err = serve(data=file).end()

    assert code == 1
    assert "not a directory" in err
    assert len(err.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_one_sentence(serve, tmp_path: Path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    code, _, err = serve(data=locked / "data").end()

    assert code == 1
    assert "Permission denied" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--override=num.partitions=none",), "num.partitions"),
        (("--override=log.segment.bytes=7",), "at least 1048576"),
        (("--override=listeners=SSL://127.0.0.1:0",), "ssl.keystore.location: it is missing"),
        (("--override=listeners=SASL_PLAINTEXT://127.0.0.1:0",), "GSSAPI on listener SASL_PLAINTEXT is not supported"),
        (("nowhere.properties",), "No such file"),
        (("--nonsense",), "no such option"),
        (("--override",), "key=value"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_exit_code_2(serve, arguments: tuple[str, ...], words: str):
    code, out, err = serve(*arguments).end()

    assert code == 2
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_with_users_the_directory_is_its_owners_alone(serve, tmp_path: Path):
    """SE71"""
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    words = (
        "--override=listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "--override=sasl.enabled.mechanisms=SCRAM-SHA-256",
        f"--override=listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={jaas}",
    )
    data = tmp_path / "data"
    first = serve(*words)
    first.ready()
    assert data.stat().st_mode & 0o777 == 0o700
    assert not [path for path in data.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    first.process.terminate()
    first.end()
    data.chmod(0o755)

    code, _, err = serve(*words).end()
    open_to_all = serve(*words, "--override=kohort.allow.open.directory=true")
    open_to_all.ready()
    open_to_all.process.terminate()
    warned = open_to_all.end()[2]

    assert code == 2
    assert f"log.dirs={data}: others may look into it (mode 0755)" in err
    assert "directory_open_to_others" in warned


@pytest.mark.parametrize("secret", [True, False])
def test_a_broker_with_secrets_leaves_no_core_dump(serve, secret: bool):
    """Keys and passwords are in its memory. A byte is none to Linux, and to who gathers dumps."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    words = (
        "--override=listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "--override=sasl.enabled.mechanisms=PLAIN",
        f'--override=listener.name.sasl_plaintext.plain.sasl.jaas.config={module} required user_a="b";',
    )
    before, hard = resource.getrlimit(resource.RLIMIT_CORE)
    program = serve(*(words if secret else ()))
    program.ready()
    expected = min(1, hard) if hard >= 0 else 1
    assert resource.prlimit(program.process.pid, resource.RLIMIT_CORE) == (expected if secret else before, hard)
    program.process.terminate()
    program.end()


def test_who_is_connected_is_served_when_descriptors_run_out(serve):
    """SE74: whoever comes then waits in the queue, and is served when some are given back."""
    program = serve()
    _, port = program.ready()
    address = f"127.0.0.1:{port}"
    with Wire(address) as known:
        pid = program.process.pid
        limit = len(list(Path(f"/proc/{pid}/fd").iterdir())) + 100
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
        ask = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        there: list[Wire] = []
        with pytest.raises(TimeoutError):
            for _ in range(200):
                there.append(Wire(address, timeout_s=3))
                there[-1].call(ask, 3)
        assert len(there) > 50
        assert known.create_topic("late", 1) == 0  # which opens files
        for one in there:
            one.close()
        with Wire(address) as again:
            assert again.create_topic("u", 1) == 0
    program.process.terminate()
    code, _, err = program.end()
    assert code == 0
    assert "descriptors_short" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("words", "code"), [((), 2), (("fly",), 2), (("--help",), 0), (("serve", "--help"), 0)])
def test_no_command_and_a_wrong_one_tell_how_to_use_it(words: tuple[str, ...], code: int):
    program = Program(*words)
    ended, out, err = program.end()

    assert ended == code
    assert "usage: kohort serve" in (out if code == 0 else err)


def test_each_listener_tells_its_own_address(serve):
    """containers: Metadata and FindCoordinator answer by the listener that was asked."""
    program = serve(
        "--override=listeners=INSIDE://127.0.0.1:0,HOST://[::1]:0",
        "--override=advertised.listeners=INSIDE://broker.inside:19092,HOST://localhost:0",
        "--override=listener.security.protocol.map=INSIDE:PLAINTEXT,HOST:PLAINTEXT",
    )
    line = program.process.stdout.readline()
    match = re.fullmatch(
        r"kohort ready on 127\.0\.0\.1:(\d+) and \[::1\]:(\d+) in \d+ ms \(\w+, CPython [\d.]+\)\n", line
    )
    assert match, line + program.process.stderr.read()

    told = []
    for host, port in (("127.0.0.1", match[1]), ("::1", match[2])):
        with Wire(f"{host}:{port}") as wire:
            (node,) = wire.call(MetadataRequest(topics=[]), 1).brokers
            eventually(lambda wire=wire: wire.coordinator_error("g") == 0)
            coordinator = wire.call(FindCoordinatorRequest(key="g"), 1)
            assert (coordinator.host, coordinator.port) == (node.host, node.port)
            told.append((node.host, node.port))

    assert told == [("broker.inside", 19092), ("localhost", int(match[2]))]


def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    class Never:
        """A broker whose end does not come."""

        quiet = False

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(process.os, "_exit", leave)
    harness = Harness()
    harness.runtime.stop_listening = lambda: None
    ending = process._Ending(Never(), harness.runtime, harness.server)
    ending.begin()
    harness.runtime.turn()
    with pytest.raises(SystemExit) as ended:
        ending.begin()

    assert ended.value.code == 1
    assert "second signal" in capsys.readouterr().err


def test_an_end_that_fails_is_an_end_all_the_same(capfd: pytest.CaptureFixture[str]):
    class Broken:
        quiet = True

        def stop(self, done: object) -> None:
            raise RuntimeError("a bug")

    harness = Harness()
    stopped: list[bool] = []
    harness.runtime.stop_listening = lambda: None
    harness.runtime.stop = lambda: stopped.append(True)
    ending = process._Ending(Broken(), harness.runtime, harness.server)
    ending.begin()
    harness.runtime.turn()

    assert stopped == [True]
    assert not ending.clean
    assert "stop_failed" in capfd.readouterr().err


def test_a_loop_that_falls_does_not_wait_for_a_cleaning(tmp_path: Path):
    program = f"""
import time
from broker.config.settings_sources import gather
from broker.loop.loop_runtime import LoopRuntime
from broker.process import serve
def fall(runtime):
    runtime.in_process(time.sleep, (600,), print, print)
    raise RuntimeError("the loop fell")
LoopRuntime.run = fall
sources = gather(None, {{}}, ["log.dirs={tmp_path / "data"}", "listeners=PLAINTEXT://127.0.0.1:0"])
serve(sources, json_logs=False)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, "RuntimeError: the loop fell"), ended


@pytest.mark.parametrize(("there_are", "span_ns"), [(2.0, 150_000), (1.9, 0)])
def test_the_loop_stays_awake_as_set_where_there_are_two_processors(tmp_path: Path, there_are: float, span_ns: int):
    program = f"""
from broker import process
from broker.config.settings_sources import gather
from broker.loop.loop_runtime import LoopRuntime
process.processors = lambda: {there_are}
def tell(runtime):
    print("looks for", runtime.busy_polling._span_ns)
LoopRuntime.run = tell
settings = ["log.dirs={tmp_path / "data"}", "listeners=PLAINTEXT://127.0.0.1:0", "kohort.busy.poll.us=150"]
process.serve(gather(None, {{}}, settings), json_logs=False)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout == f"looks for {span_ns}\n", ended


def test_an_unknown_setting_is_warned_of_and_settings_come_from_the_environment(serve):
    program = serve(KAFKA_NUM_PARTITONS="3", KAFKA_KOHORT_LOG_FORMAT="json")
    program.ready()
    program.process.send_signal(signal.SIGTERM)
    code, _, err = program.end()

    assert code == 0
    assert '"event": "unknown_setting"' in err
    assert "num.partitons" in err


def test_a_setting_that_stands_twice_in_the_file_is_warned_of_and_the_last_counts(tmp_path: Path):
    """As after `kohort certificates ... >> server.properties`."""
    config = tmp_path / "server.properties"
    config.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:1\nlog.dirs={tmp_path / 'data'}\nkohort.http.listener=\n"
        "listeners=PLAINTEXT://127.0.0.1:0\n"
    )
    program = Program("serve", str(config))
    try:
        program.ready()
        program.process.send_signal(signal.SIGTERM)
        code, _, err = program.end()
    finally:
        program.kill()

    assert code == 0
    (line,) = (line for line in err.splitlines() if "setting_repeated" in line)
    assert line.endswith("WARN setting_repeated key=listeners lines=1,4 line_that_counts=4")


def test_the_official_images_documented_environment(tmp_path: Path):
    """What apache/kafka's page on Docker Hub tells to give, word for word but for the ports."""
    documented = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://localhost:0,CONTROLLER://localhost:9093",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:0",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_KOHORT_HTTP_LISTENER": "127.0.0.1:0",
    }
    program = Program("serve", environment=documented)
    try:
        line, port = program.ready()
        assert f"localhost:{port}" in line
        with Wire(f"127.0.0.1:{port}") as wire:
            (node,) = wire.call(MetadataRequest(topics=[]), 1).brokers
            assert (node.host, node.port) == ("localhost", port)
            assert wire.create_topic("t", -1) == 0
            assert len(wire.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 4).topics[0].partitions) == 3
        program.process.send_signal(signal.SIGTERM)
        code, _, err = program.end()
        assert (code, [text for text in ("Traceback", "warning", "unknown_setting") if text in err]) == (0, [])
    finally:
        program.kill()


def with_hosts(path: Path, *addresses: str) -> list[str]:
    """What a command begins with so that `localhost` is these, for the system's own resolver. Skips where none may."""
    path.write_text("".join(f"{address} localhost\n" for address in addresses))
    mount = f'mount --bind {path} /etc/hosts && exec "$@"'
    begin = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "-"]
    try:
        found = subprocess.run(
            [*begin, "getent", "ahosts", "localhost"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no other /etc/hosts for one process: {error}")
    told = {line.split()[0] for line in found.splitlines()}
    if told != set(addresses):
        pytest.skip(f"localhost is {told} all the same")
    return begin


def answers_at(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=10) as peer:
            peer.sendall(encode_request(ApiVersionsRequest(), 0, 9))
            return peer.recv(4, socket.MSG_WAITALL) != b""
    except ConnectionRefusedError:
        return False


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
@pytest.mark.parametrize(
    ("host", "addresses", "bound"),
    [
        ("localhost", ["::1", "127.0.0.1"], {"127.0.0.1"}),
        ("localhost", ["127.0.0.1", "::1"], {"127.0.0.1"}),
        ("localhost", ["::1"], {"::1"}),
        ("", ["::1", "127.0.0.1"], {"127.0.0.1", "::1"}),
    ],
    ids=["::1 first", "127.0.0.1 first", "::1 alone", "no host"],
)
def test_a_listener_answers_where_java_would_have_it(tmp_path: Path, host: str, addresses: list[str], bound: set[str]):
    """By the system's resolver: a name is its first address of IPv4, as InetAddress has it; no name is all addresses.

    Whoever asks for `localhost` and tries all of its addresses, as clients do, is answered in any case.
    """
    program = Program(
        "serve",
        f"--override=log.dirs={tmp_path / 'data'}",
        f"--override=listeners=PLAINTEXT://{host}:0",
        "--override=kohort.http.listener=127.0.0.1:0",
        before=with_hosts(tmp_path / "hosts", *addresses),
    )
    try:
        _, port = program.ready()
        assert {address for address in ("127.0.0.1", "::1") if answers_at(address, port)} == bound
        assert bound & set(addresses)
    finally:
        program.kill()


def test_a_node_that_is_not_the_directorys_is_refused(serve):
    first = serve()
    first.ready()
    first.process.send_signal(signal.SIGTERM)
    first.end()
    code, _, err = serve("--override=node.id=7").end()

    assert code == 1
    assert "belongs to node 1" in err
    assert "Traceback" not in err


def test_it_says_how_long_its_start_took_and_is_small_when_idle(serve):
    """Budget: 60 MB. How long a start takes is for benchmarks/start.py: a busy machine says nothing about it."""
    program = serve()
    line, _ = program.ready()
    pages = int(Path(f"/proc/{program.process.pid}/statm").read_text().split()[1])

    told = re.search(r" in (\d+) ms", line)
    assert told and int(told[1]) > 0
    assert pages * os.sysconf("SC_PAGE_SIZE") < 60 * 1024 * 1024


@pytest.mark.skipif("_ssl" in sys.builtin_module_names, reason="this Python has it built in")
def test_openssl_is_loaded_only_where_something_is_encrypted(serve, tmp_path):
    """asyncio and uvloop import it for what nothing here uses (docs/decisions/openssl.md)."""
    path = tmp_path / "server.pem"
    path.write_bytes(Authority().issue("localhost").pem())

    def loaded(*arguments: str) -> bool:
        program = serve(*arguments)
        program.ready()
        return "_ssl." in Path(f"/proc/{program.process.pid}/maps").read_text()

    assert not loaded(f"--override=log.dirs={tmp_path / 'plain'}")
    assert loaded(
        f"--override=log.dirs={tmp_path / 'encrypted'}",
        "--override=listeners=SSL://127.0.0.1:0",
        "--override=ssl.keystore.type=PEM",
        f"--override=ssl.keystore.location={path}",
    )


def test_asyncio_goes_without_openssl_and_others_import_it_later():
    program = """
import sys
from broker.loop.event_loop import new_event_loop
loop = new_event_loop()
assert type(loop).__module__ == "uvloop" and "_ssl" not in sys.modules
assert loop.run_until_complete(loop.run_in_executor(None, int, "5")) == 5
import asyncio, ssl
assert asyncio.sslproto.ssl is None
assert ssl.create_default_context().verify_mode is ssl.CERT_REQUIRED and "_ssl" in sys.modules
new_event_loop().close()
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_the_start_imports_nothing_that_it_does_not_need():
    unwanted = [
        "construct", "hypothesis", "structlog", "multiprocessing.pool", "concurrent.futures.process", "uuid",
        "ssl", "cryptography", "hashlib", "hmac", "re2",
        "broker.handlers.acls", "broker.handlers.transactions", "protocol.messages.describe_configs",
        "coordinator.why.findings",
    ]  # fmt: skip
    program = "import sys, broker.process; print(*[name for name in sys.argv[1:] if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", program, *unwanted], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert result.stdout.split() == []
