"""The other process of `Runtime.in_process`, from both ends. Belongs to `broker.loop.loop_runtime`.

Not a pool of `multiprocessing`: its children outlive a parent that is killed, and a cleaner that goes on writing into a
directory which the next broker already serves is a danger. This child ends when its standard input does, whatever it is
doing, and the kernel closes that however the parent ends.
"""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BufferedReader

_NICENESS = 5  # requests come first


class WorkerDied(Exception):
    """The child ended in the middle of a work; nobody knows how far it came."""


class WorkerProcess:
    """The parent's end. Called from one thread at a time, and never from the event loop's."""

    def __init__(self) -> None:
        import subprocess  # noqa: PLC0415  start-up does not pay for it

        program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
        # In a session of its own: the terminal's Ctrl-C is for the broker, which ends its child itself.
        self._process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )

    def run(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The result of `work(*arguments)`. Raises: what `work` raises; WorkerDied, and then this worker is done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump((work, arguments), self._process.stdin)
            self._process.stdin.flush()
            result, error = pickle.load(self._process.stdout)
        except Exception as failure:  # whatever an answer that is none, or half of one, may raise
            self.kill()
            with suppress(OSError):
                self._process.stdin.close()  # what is left in its buffer would be complained of later
            raise WorkerDied(f"the worker process ended: {failure or 'no answer'}") from failure
        if error is not None:
            try:
                raise error
            finally:
                del error  # it knows this frame: together they, and what was asked for, would wait for the collector
        return result

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()


def main() -> None:
    """The child: take works from standard input, one after the other, until it ends."""
    import threading  # noqa: PLC0415  of the child alone

    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a work prints must not get among the answers
        os.nice(_NICENESS)
        works: BufferedReader = sys.stdin.buffer  # type: ignore[assignment] # typeshed names the wider BinaryIO
        while True:
            try:
                work, arguments = pickle.load(works)
            except EOFError:
                return
            watch = threading.Thread(target=_end_with_the_parent, args=(works,), daemon=True)
            watch.start()
            pickle.dump(_outcome(work, arguments), answers)
            answers.flush()
            watch.join()


def _end_with_the_parent(works: BufferedReader) -> None:
    """Wait, beside the work, until the next one is there or the parent is gone."""
    if not works.peek(1):
        os._exit(0)


def _outcome(work: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    try:
        return work(*arguments), None
    except Exception as error:
        return None, error
