"""What a handler gives back: an answer, at once or in pieces, or a promise of one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from broker.loop.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from broker.loop.runtime import Runtime

log = get_logger(__name__)

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


class Answer:
    """One answer. A body that is no `bytes` is made piece by piece while it is sent, in slices (`Runtime.in_slices`):
    an empty piece says that some work was done, and lets others have their turn.
    """

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        body: bytes | Iterator[bytes],
        content_type: str = JSON,
        status: int = 200,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.body = body
        self.content_type = content_type
        self.status = status
        self.headers = headers


class Later:
    """An answer that comes later, exactly once. `complete` may be called before or after somebody waits for it."""

    __slots__ = ("_answer", "_waiter")

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._waiter: Callable[[Answer], None] | None = None

    def complete(self, answer: Answer) -> None:
        """Here it is; the first one counts."""
        if self._answer is None:
            self._answer = answer
            if self._waiter is not None:
                self._waiter(answer)

    def when_there(self, waiter: Callable[[Answer], None]) -> None:
        """Call `waiter` with it, perhaps at once."""
        self._waiter = waiter
        if self._answer is not None:
            waiter(self._answer)


def worked_out(runtime: Runtime, steps: Generator[None, None, Answer]) -> Later:
    """The answer that `steps` lead to, taken in slices."""
    later = Later()

    def failed(_: Exception) -> None:
        log.exception("http_failed")
        later.complete(problem(500, "the broker failed to make this answer; its log says how"))

    runtime.in_slices(steps, later.complete, failed, owner=later)
    return later


def dump(value: Any) -> bytes:
    """JSON as it is sent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "replace")


def json_answer(value: Any, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """A small JSON value."""
    return Answer(dump(value) + b"\n", JSON, status, headers)


def problem(status: int, sentence: str, **facts: Any) -> Answer:
    """A refusal: one sentence, and what helps to put it right."""
    return json_answer({"error": sentence, **facts}, status)


def json_list(head: dict[str, Any], name: str, items: Iterable[Any]) -> Iterator[bytes]:
    """A JSON object with one long list, made item by item: `head`'s fields, then `name`."""
    start = dump(head)[:-1] + (b"," if head else b"")
    yield start + dump(name) + b":["
    first = True
    for item in items:
        yield dump(item) if first else b"," + dump(item)
        first = False
    yield b"]}\n"
