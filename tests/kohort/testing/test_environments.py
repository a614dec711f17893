"""Where brokers of `kohort.testing` are used: asyncio and trio, unittest, a notebook, xdist."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.kohort.testing.test_page import run_pytest
from tests.support.broker_process import ROOT, eventually

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
CELLS = (
    "from aiokafka import AIOKafkaProducer\nfrom kohort.testing import Broker\nbroker = Broker().open()",
    "async with AIOKafkaProducer(**broker.config('aiokafka')) as producer:\n"
    "    await producer.send_and_wait('greetings', b'hello')",
    "(await broker.aassert_produced('greetings', 'hello'))[0].text",
    "with broker.fork() as fork:\n    fork.produce('t', '2')\n    number = len(fork.records('t'))\nnumber",
    "print('waits', flush=True)\nbroker.assert_produced('greetings', 'nothing', within='1h')",
    "broker.assert_produced('greetings', 'hello')\nbroker.pid",
)
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
    [(ANYIO, ("-p", "no:asyncio"), 4), (SHARED, ("-n", "2"), 6)],
    ids=["anyio", "xdist"],
)
def test_with_pytest(tmp_path: Path, code: str, words: tuple[str, ...], passed: int):
    (tmp_path / "test_it.py").write_text(textwrap.dedent(code))
    done = run_pytest(tmp_path, *words)
    assert f"{passed} passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_with_unittest(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(textwrap.dedent(UNITTEST))
    command = [sys.executable, "-m", "unittest", "test_it"]
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=400
    )
    assert "Ran 3 tests" in done.stderr, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In Jupyter's kernel, whose event loop runs already; an interrupted cell leaves the broker as it was."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    kernel = KernelManager(kernel_name="python3")
    kernel.start_kernel(cwd=str(tmp_path))
    client = kernel.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(60)
        shown = [run_cell(kernel, client, cell) for cell in CELLS]
        assert shown[:5] == ["", "", "'hello'", "1", "KeyboardInterrupt"]
        pid = int(shown[5])
    finally:
        client.stop_channels()
        kernel.shutdown_kernel()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), what="the broker's end, with its kernel")


def run_cell(kernel: KernelManager, client: BlockingKernelClient, cell: str) -> str:
    """What it has shown; the name of the error that has ended it. One that has printed something is interrupted."""
    asked, shown = client.execute(cell), ""
    while True:
        message = client.get_iopub_msg(timeout=300)
        kind, content = message["msg_type"], message["content"]
        if message["parent_header"].get("msg_id") != asked:
            continue
        if kind == "stream":
            kernel.interrupt_kernel()
        elif kind == "execute_result":
            shown += content["data"]["text/plain"]
        elif kind == "error":
            shown += content["ename"]
        elif kind == "status" and content["execution_state"] == "idle":
            return shown
