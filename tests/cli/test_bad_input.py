"""Whatever goes wrong is one sentence on standard error and the right exit code, in a process as users start it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cli
from cli import VERBS, main
from cli.errors import Failed, UsageError, WrongInput
from tests.cli.conftest import kohort, kohort_process
from tests.support.broker_process import ROOT, need

if TYPE_CHECKING:
    from tests.support.broker_process import BrokerProcess


def one_sentence(error: str) -> str:
    """The only line of standard error."""
    (line,) = error.splitlines()
    assert line.startswith("kohort: ")
    return line


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("num.partitions=many", "num.partitions"),
        ("kohort.durability=perhaps", "perhaps"),
        ("log.segment.bytes=7", "at least 1048576"),
        ("listeners=nowhere", "nowhere"),
        ("no equals sign", "it takes key=value"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(override: str, words: str) -> None:
    ended = kohort("serve", "--override", override)
    assert ended.code == 2
    assert words in one_sentence(ended.err)


def test_a_wrong_setting_of_the_environment_or_a_file_is_the_same(tmp_path: Path) -> None:
    ended = kohort_process("serve", KAFKA_NUM_PARTITIONS="many")
    assert ended.code == 2
    assert "many" in one_sentence(ended.err)
    config = tmp_path / "server.properties"
    config.write_text("num.partitions=many\n")
    ended = kohort_process("serve", str(config))
    assert ended.code == 2
    assert "many" in one_sentence(ended.err)


def test_a_port_in_use_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listener = f"listeners=PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        data = f"log.dirs={tmp_path / 'data'}"
        ended = kohort_process("serve", "--override", listener, "--override", data)
    assert ended.code == 1
    assert "address already in use; stop what listens there" in one_sentence(ended.err)
    assert not (tmp_path / "data").exists()


def test_a_directory_in_use_is_named_with_what_to_do(broker: BrokerProcess) -> None:
    """By another Kohort; Apache Kafka takes the same lock."""
    listener = ("--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "kohort.http.listener=")
    ended = kohort_process("serve", *listener, "--override", f"log.dirs={broker.data}")
    assert ended.code == 1
    assert f"{broker.data} is in use by another process" in one_sentence(ended.err)
    ended = kohort_process("graduate", "--override", f"log.dirs={broker.data}")
    assert ended.code == 1
    assert "is in use by another process" in ended.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away; others see it in test_process")
def test_a_directory_of_another_user_is_named_with_its_owner(tmp_path: Path) -> None:
    need("setpriv")
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, 65_534, 65_534)
    overrides = (f"log.dirs={data}", "listeners=PLAINTEXT://127.0.0.1:0", "kohort.http.listener=")
    words = [sys.executable, "-m", "kohort", "serve", *(word for one in overrides for word in ("--override", one))]
    # Root may write everywhere; without these two rights it is a user like any other.
    like_others = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    done = subprocess.run([*like_others, *words], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    assert f"{data} belongs to uid 65534, this process runs as uid 0: chown it" in one_sentence(done.stderr)
    assert list(data.iterdir()) == []


def test_no_verb_and_an_unknown_one_list_the_verbs() -> None:
    for words in ((), ("fly",)):
        ended = kohort(*words)
        assert ended.code == 2
        assert all(f"  {verb}" in ended.err for verb in VERBS)
    assert kohort("--help").code == 0


def test_a_verb_that_is_not_installed_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A room that is not there, and a package that it needs."""
    monkeypatch.setitem(VERBS, "fly", "nowhere.cli:main")
    ended = kohort("fly")
    assert (ended.code, ended.err) == (1, "kohort: kohort fly is not part of this installation\n")

    def needs_wings(_: list[str]) -> int:
        raise ModuleNotFoundError("No module named 'wings'", name="wings")

    monkeypatch.setattr(cli, "entry", lambda *_: needs_wings)
    ended = kohort("fly")
    assert (ended.code, ended.err) == (1, "kohort: kohort fly needs the Python package wings, which is not installed\n")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Failed("it rained"), 1, "kohort: it rained\n"),
        (WrongInput("line 3 is blue"), 2, "kohort: line 3 is blue\n"),
        (UsageError("no such word"), 2, "kohort: no such word\nkohort fly --help tells how\n"),
        (KeyboardInterrupt(), 130, "kohort: interrupted\n"),
    ],
)
def test_what_a_verb_raises_is_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    def fly(_: list[str]) -> int:
        raise error

    monkeypatch.setitem(VERBS, "fly", "x:y")
    monkeypatch.setattr(cli, "entry", lambda *_: fly)
    assert main(["fly"]) == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (("topics", "create", "x", "--partitions", "0"), "kohort topics create"),
        (("topics", "create"), "kohort topics create"),
        (("topics", "create", "x", "--colour", "red"), "kohort topics create"),
        (("topics", "--colour", "red"), "kohort topics"),
        (("topics",), "kohort topics"),
        (("topics", "fly"), "kohort topics"),
        (("transactions", "abort"), "kohort transactions abort"),
        (("storage", "format", "--add-scram", "alice"), "kohort storage format"),
        (("storage", "dump", "--offset", "x"), "kohort storage dump"),
        (("produce", "x", "--acks", "5"), "kohort produce"),
        (("kafka-topics.sh", "--create", "--topic", "x", "--partitions", "0"), "kafka-topics.sh"),
    ],
)
def test_the_help_that_tells_how_is_that_of_the_command(words: tuple[str, ...], program: str) -> None:
    ended = kohort(*words)
    assert ended.code == 2
    assert ended.err.splitlines()[-1] == f"{program} --help tells how"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_behind_standard_output_is_one_sentence(broker: BrokerProcess) -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "kohort", "groups", "list", "--json", "-b", broker.address]
        done = subprocess.run(words, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=400, check=False)
    assert done.returncode == 1
    assert one_sentence(done.stderr) == "kohort: cannot write: no space left on device"


def test_health_takes_kafkas_spelling(broker: BrokerProcess) -> None:
    for words in ((broker.address,), ("-b", broker.address), ("--bootstrap-server", broker.address)):
        assert kohort("health", *words).code == 0
    for words in (("-b",), ("--nonsense",), ("a:1", "b:2")):
        assert kohort("health", *words).code == 2


def test_the_broker_starts_without_what_only_other_verbs_need() -> None:
    """The start path: neither argparse nor the client library, and nothing of the verbs."""
    script = (
        "import gc, sys; from cli import main; main(['serve', '--override', 'x']); print(gc.isenabled(), *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"argparse", "confluent_kafka", "logging", "json", "csv", "cli.options"}
    assert "cli.serve" in loaded
    assert "True" in loaded, "garbage is looked for again when no broker was started"
