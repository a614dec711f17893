"""Where brokers of `kohort.testing` are used: asyncio and trio, unittest, a notebook, xdist."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT
from tests.testing.test_page import run_pytest

ANYIO = """
    import anyio
    import pytest
    from kohort.testing import Broker

    @pytest.fixture(params=["asyncio", "trio"])
    def anyio_backend(request):
        return request.param

    @pytest.mark.anyio
    async def test_waiting_lets_others_work(kohort):
        async def write():
            await anyio.sleep(0.05)
            kohort.produce("t", "x")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await kohort.aassert_produced("t", "x")

    @pytest.mark.anyio
    async def test_it_is_a_context(anyio_backend):
        async with Broker(topics={"t": 1}) as broker:
            broker.produce("t", "x")
            await broker.aassert_produced("t", "x")
"""
UNITTEST = """
    import unittest
    from kohort.testing import Broker

    class Greetings(unittest.TestCase):
        def setUp(self):
            self.broker = self.enterContext(Broker(topics={"t": 1}))

        def test_sync(self):
            self.broker.produce("t", "x")
            self.broker.assert_produced("t", "x")

        def test_a_fault_that_was_never_hit(self):
            self.broker.faults.on("Fetch").optional().drop()

    class Later(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self):
            self.broker = await self.enterAsyncContext(Broker())

        async def test_async(self):
            self.broker.produce("t", "x")
            await self.broker.aassert_produced("t", "x")
"""
CELLS = """
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    for cell in (
        "from aiokafka import AIOKafkaProducer\\nfrom kohort.testing import Broker\\nbroker = Broker().open()",
        "async with AIOKafkaProducer(**broker.config('aiokafka')) as producer:\\n"
        "    await producer.send_and_wait('greetings', b'hello')",
        "found = (await broker.aassert_produced('greetings', 'hello'))[0].text",
        "with broker.fork() as fork:\\n    fork.produce('t', '2')\\n    number = len(fork.records('t'))",
        "broker.close()",
    ):
        done = shell.run_cell(cell)
        done.raise_error()
    print(shell.user_ns["found"], shell.user_ns["number"])
"""
SHARED = """
    import pytest

    @pytest.mark.parametrize("number", range(6))
    def test_each_has_its_own(kohort, kohort_proc, number, worker_id):
        assert kohort.topics == {}
        kohort.produce("t", number)
        kohort_proc.produce(f"of-{worker_id}", number)
        assert all(topic == f"of-{worker_id}" for topic in kohort_proc.topics)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "words", "passed"),
    [(ANYIO, ("-p", "no:asyncio"), 4), (UNITTEST, (), 3), (SHARED, ("-n", "2"), 6)],
    ids=["anyio", "unittest", "xdist"],
)
def test_with_pytest(tmp_path: Path, code: str, words: tuple[str, ...], passed: int):
    (tmp_path / "test_it.py").write_text(textwrap.dedent(code))
    done = run_pytest(tmp_path, *words)
    assert f"{passed} passed" in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "words"),
    [(UNITTEST, ("-m", "unittest", "test_it")), (CELLS, ("test_it.py",))],
    ids=["unittest", "notebook"],
)
def test_without_pytest(tmp_path: Path, code: str, words: tuple[str, ...]):
    (tmp_path / "test_it.py").write_text(textwrap.dedent(code))
    command = [sys.executable, *words]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello 1" in done.stdout or "Ran 3 tests" in done.stderr, done.stdout + done.stderr
