"""The tree that is compiled: that its source can be written and run, and when `python -m kohort` takes it."""

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from kohort._checkout import _compiled
from protocol.schema.ahead import TREE
from tools.compiled import check
from tools.compiled.__main__ import publish
from tools.compiled.values import with_named_tuples_quoted

pytestmark = pytest.mark.usefixtures("parser_alone")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the compiled tree, as it stands before the compiler has it."""
    out = tmp_path_factory.mktemp("compiled") / "tree"
    command = [sys.executable, "-m", "tools.compiled", "--source", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.skipif(TREE == "compiled", reason="the pure tree is what it is made of")
def test_its_source_passes_the_tests_of_the_rules(tree: Path) -> None:
    """Dataclasses and messages that were written out behave as those that were declared."""
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        f"pythonpath={tree} .",
        "tests/coordinator/classic/test_heartbeat_and_leave.py",
    ]
    words += ["tests/coordinator/offsets/test_commit_and_fetch.py", "tests/protocol/test_frames.py"]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_it_says_what_it_is(tree: Path) -> None:
    """The ready line, `--version` and `/readyz` have it from there."""
    program = (
        "from broker.loop.running import tree_and_interpreter; import broker.process; print(tree_and_interpreter()[0])"
    )
    command = [sys.executable, "-P", "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "compiled", done.stderr


def test_values_are_not_made_when_the_program_starts(tree: Path) -> None:
    """Interpreted ones are written out too, with their slots; `fields` and `replace` find what they need when asked."""
    program = """
import dataclasses
made, make = [], dataclasses._process_class
dataclasses._process_class = lambda cls, *words: made.append(cls.__module__) or make(cls, *words)
import broker.process
from broker.config.listeners import Listener
print([name for name in made if name.split('.')[0] in ('coordinator', 'storage', 'broker')])
listener = dataclasses.replace(Listener('A', 'h', 1, 'b', 2), port=3)
print(listener, hasattr(listener, '__dict__'), listener == Listener('A', 'h', 3, 'b', 2))
from coordinator.events import RebalanceEnded
print([(one.name, one.default) for one in dataclasses.fields(RebalanceEnded)][-2:])
"""
    command = [sys.executable, "-P", "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "[]",
        "Listener(name='A', host='h', port=3, advertised_host='b', advertised_port=2, "
        "protocol=<SecurityProtocol.PLAINTEXT: 0>) False True",
        "[('stopped_ms', None), ('session_timeout_ms', None)]",
    ], done.stderr


def test_a_class_that_cannot_be_native_is_seen(tmp_path: Path) -> None:
    """In both directions, unless the tree says what is to be done about it."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.py").write_text("class Base: ...\nclass Open: ...\n")
    (tmp_path / "room" / "b.py").write_text("class One(Base): ...\nclass Two(Open): ...\n")

    assert check.misfits(tmp_path, ["room"], {"room.b"}, {"Open": ""}) == [
        "room.b.One is native, and its base Base of room.a is not"
    ]
    assert check.misfits(tmp_path, ["room"], {"room.a"}, {"Open": ""}) == [
        "room.b.One is interpreted, and its base Base of room.a is native"
    ]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose compiled tree is newer than its one source."""
    monkeypatch.delenv("KOHORT_PURE", raising=False)
    built = tmp_path / "build" / "compiled"
    for folder in (tmp_path / "protocol" / "schema", built / "protocol"):
        folder.mkdir(parents=True)
    source, stamp = tmp_path / "protocol" / "schema" / "a.py", built / "stamp"
    source.write_text("")
    stamp.write_text(EXTENSION_SUFFIXES[0])
    os.utime(source, (1_000, 1_000))
    os.utime(stamp, (2_000, 2_000))
    return tmp_path


def test_a_tree_that_fits_is_taken(checkout: Path) -> None:
    """Made for this interpreter, and newer than every source."""
    assert _compiled(str(checkout)) == str(checkout / "build" / "compiled")


@pytest.mark.parametrize("why", ["asked for", "older", "other interpreter", "other rooms", "unfinished"])
def test_otherwise_the_sources_are_run(why: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were no other tree."""
    stamp = checkout / "build" / "compiled" / "stamp"
    if why == "asked for":
        monkeypatch.setenv("KOHORT_PURE", "1")
    elif why == "older":
        os.utime(checkout / "protocol" / "schema" / "a.py", (3_000, 3_000))
    elif why == "other interpreter":
        stamp.write_text(".cpython-399-x86_64-linux-gnu.so")
        os.utime(stamp, (2_000, 2_000))
    elif why == "other rooms":
        (checkout / "protocol").rename(checkout / "messages")
    else:
        stamp.unlink()

    assert _compiled(str(checkout)) is None


def test_a_tree_that_a_process_runs_on_stays_when_another_is_made(checkout: Path) -> None:
    """It loads codecs as it needs them, out of the tree that it was started on; later that one goes, too."""
    out = checkout / "build" / "compiled"
    out.rename(first := out.with_name("compiled.first"))
    publish(first, out)
    start = "import sys; from kohort._checkout import _compiled; print(_compiled(sys.argv[1])); sys.stdin.read()"
    command = [sys.executable, "-c", start, str(checkout)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().strip() == str(first)

        shutil.copytree(first, second := out.with_name("compiled.second"))
        publish(second, out)

        assert first.is_dir()
        assert out.resolve() == second
    shutil.copytree(second, third := out.with_name("compiled.third"))
    publish(third, out)

    assert sorted(path.name for path in out.parent.iterdir()) == ["compiled", "compiled.third"]
    assert _compiled(str(checkout)) == str(third)


def test_a_tree_of_a_time_when_it_was_no_link_is_replaced(checkout: Path) -> None:
    """`build/compiled` was a folder once."""
    out = checkout / "build" / "compiled"
    shutil.copytree(out, new := out.with_name("compiled.new"))

    publish(new, out)

    assert out.resolve() == new
    assert sorted(path.name for path in out.parent.iterdir()) == ["compiled", "compiled.new"]


def test_annotations_of_named_tuples_are_strings() -> None:
    """mypyc would look up a native class that is imported for type checkers only, and end the process."""
    source = '''
class Unread(NamedTuple):
    """Of a partition."""

    since: Mapping[str, Member]  # a comment
    sign_ms: int = 3


class Other:
    since: Member
'''
    assert with_named_tuples_quoted(source) == source.replace("Mapping[str, Member]", '"Mapping[str, Member]"').replace(
        "sign_ms: int", 'sign_ms: "int"'
    )


def test_what_native_code_is_not_tested_with_is_there() -> None:
    """Who renames or removes such a test does so in the list, too, which is sorted."""
    lines = (ROOT / "tests" / "compiled" / "not_native.txt").read_text().splitlines()
    assert lines == sorted(set(lines))
    for line in lines:
        file, _, test = line.partition("=")[2].partition("::")
        assert (ROOT / file).is_file(), line
        assert not test or f"def {test}(" in (ROOT / file).read_text(), line
