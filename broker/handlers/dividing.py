"""Requests of very many partitions, answered as many small ones of their kind, each of which is a step.

What such a request asks is asked of each partition by itself (APIs that promise something about all of them together
are not among those that are divided), so the answers to its parts, one behind the other, are its answer.
"""

from __future__ import annotations

from copy import copy
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

from broker.handlers.context import CloseConnection, Deferred
from broker.handlers.gathering import Gathering, Steps
from broker.loop.slices import InThread
from protocol.schema.declaration import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.broker import Broker
    from broker.handlers.context import RequestContext

    Handler = Callable[[Broker, RequestContext, Any], Any]

MOST = 64
"""Partitions, or members, that are looked after in one step."""

_JOINED_AT_ONCE = 64
"""Parts: the answers to more of them are joined in a thread."""

R = TypeVar("R", bound=Struct)


class Divided:
    """How the requests of an API fall into parts, and how their answers come together again.

    `lists` is the field of the request that holds topics, and `entries` the field of a topic that holds partitions
    (None: the list itself is what is divided). `answers` and `answer_entries` are those of the response, `key` the
    fields that tell one topic's answer from another's.
    """

    def __init__(
        self,
        handle: Handler,
        *,
        lists: str,
        entries: str | None,
        answers: str,
        answer_entries: str | None = None,
        key: tuple[str, ...] = ("name",),
        most: int = MOST,
    ) -> None:
        update_wrapper(self, handle)  # it is found, named and read as the handler of its API
        self.undivided = handle
        """For requests of no more than `most` topics and partitions."""
        self.most = most
        self._lists = lists
        self._entries = entries
        self._answers = answers
        self._answer_entries = answer_entries
        self._key = key

    def __call__(self, broker: Broker, context: RequestContext, request: Any) -> Any:
        """The handler: as it is for a request of few partitions, and in parts for others."""
        if self.is_short(request):
            return self.undivided(broker, context, request)
        deferred = Deferred()
        deferred.holds = True
        broker.runtime.in_slices(
            self._in_parts(broker, context, request, deferred),
            _nothing,
            deferred.fail,
            owner=context.session,
            wanted=lambda: not deferred.gone,
        )
        deferred.raise_failure()
        return deferred

    def is_short(self, request: Any) -> bool:
        """Whether it need not be divided."""
        topics = getattr(request, self._lists) or ()
        count = len(topics)
        if self._entries is None or count > self.most:
            return count <= self.most
        for topic in topics:
            count += len(getattr(topic, self._entries) or ())
        return count <= self.most

    def _in_parts(self, broker: Broker, context: RequestContext, request: Any, deferred: Deferred) -> Steps[None]:
        parts: list[tuple[Any, bool]] = yield InThread(lambda: self.divide(request))

        def respond(answers: list[Any]) -> None:
            broker.runtime.in_slices(
                self._joining([(answer, part[1]) for answer, part in zip(answers, parts, strict=True)]),
                deferred.complete,
                deferred.fail,
                owner=context.session,
                wanted=lambda: not deferred.gone,
            )

        gathering = Gathering(len(parts), respond)
        for index in range(len(parts)):
            part, continues = parts[index]
            parts[index] = None, continues  # all of them at once would be much to let go of
            answer = self.undivided(broker, context, part)
            if not isinstance(answer, Deferred):
                gathering.put(index, answer)
            elif answer.done:
                _Part(deferred, gathering, index).deferred_completed(answer)
            else:
                answer.connection = _Part(deferred, gathering, index)
            yield None

    def _joining(self, answers: list[tuple[Any, bool]]) -> Steps[Any]:
        """The answer: those to a few parts are joined at once, those to many in a thread."""
        if len(answers) <= _JOINED_AT_ONCE:
            return self.join(answers)
        joined = yield InThread(lambda: self.join(answers))
        return joined

    def divide(self, request: R) -> list[tuple[R, bool]]:
        """Requests of few partitions each, and whether the first topic of each is the last one of the part before."""
        parts: list[tuple[R, bool]] = []
        topics: list[Any] = []
        room, continues = self.most, False

        def close(goes_on: bool) -> None:
            nonlocal topics, room, continues
            parts.append((_with(request, self._lists, topics), continues))
            topics, room, continues = [], self.most, goes_on

        for topic in getattr(request, self._lists):
            entries = [topic] if self._entries is None else getattr(topic, self._entries) or []
            at = 0
            while True:
                some = entries[at : at + room]
                at += len(some)
                whole = self._entries is None or len(some) == len(entries)
                topics.append(topic if whole else _with(topic, self._entries or "", some))
                room -= len(some) or 1
                if room <= 0:
                    close(at < len(entries))
                if at >= len(entries):
                    break
        if topics:
            close(False)
        return parts

    def join(self, answers: Sequence[tuple[Any, bool]]) -> Any:
        """One answer of those to the parts: the first one's own fields, an error of any of them, and all topics."""
        joined = answers[0][0]
        if joined is None:
            return None  # nobody waits for it
        topics: list[Any] = list(getattr(joined, self._answers))
        last = {self._key_of(topic): topic for topic in topics}
        for answer, continues in answers[1:]:
            if getattr(answer, "error_code", 0) and not joined.error_code:
                joined.error_code = answer.error_code
            told = getattr(answer, self._answers)
            for topic in told:
                before = last.get(self._key_of(topic)) if continues and self._answer_entries else None
                if before is not None and self._answer_entries is not None:
                    getattr(before, self._answer_entries).extend(getattr(topic, self._answer_entries))
                else:
                    topics.append(topic)
            if not (continues and len(told) == 1):
                last = {self._key_of(topic): topic for topic in told}
        setattr(joined, self._answers, topics)
        return joined

    def _key_of(self, topic: Any) -> tuple[Any, ...]:
        if self._answer_entries is None:
            return ()
        return tuple(getattr(topic, name) for name in self._key)


class _Part:
    """In the place of a connection: takes the answer to one part."""

    __slots__ = ("_deferred", "_gathering", "_index")

    def __init__(self, deferred: Deferred, gathering: Gathering, index: int) -> None:
        self._deferred = deferred
        self._gathering = gathering
        self._index = index

    def deferred_completed(self, deferred: Deferred) -> None:
        response, deferred.response = deferred.response, None
        if isinstance(response, CloseConnection):
            self._deferred.complete(response)
        else:
            self._gathering.put(self._index, response)

    def failed(self, _: Any, error: Exception) -> None:
        self._deferred.fail(error)


def _with(whole: R, field: str, value: Any) -> R:
    """A copy with another value in one field."""
    made = copy(whole)
    setattr(made, field, value)
    return made


def _nothing(_: None) -> None:
    """The answers come by themselves."""
