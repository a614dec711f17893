"""Requests of very many partitions, answered as many small ones of their kind, each of which is a step.

What such a request asks is asked of each partition by itself (APIs that promise something about all of them together
are not among those that are divided), so the answers to its parts, one behind the other, are its answer.
"""

from __future__ import annotations

from copy import copy
from functools import update_wrapper
from typing import TYPE_CHECKING, TypeVar, cast

from broker.handlers.context import CloseConnection, Deferred, Encoded
from broker.handlers.gathering import Gathering
from broker.loop.slices import InThread, Steps
from protocol.schema.declaration import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.broker import Broker
    from broker.handlers.context import Answer, AnswerRoute, Handle, Handler, RequestContext
    from protocol.schema import Message

MOST = 64
"""Partitions, or members, that are looked after in one step."""

_JOINED_AT_ONCE = 64
"""Parts: the answers to more of them are joined in a thread."""
_ERROR = "error_code"  # of a whole answer, where it has one

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
        self.undivided = cast("Handle", handle)
        """For requests of no more than `most` topics and partitions."""
        self.most = most
        self._lists = lists
        self._entries = entries
        self._answers = answers
        self._answer_entries = answer_entries
        self._key = key

    def __call__(self, broker: Broker, context: RequestContext, request: Message) -> Answer:
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
            wanted=deferred.is_wanted,
        )
        deferred.raise_failure()
        return deferred

    def is_short(self, request: Struct) -> bool:
        """Whether it need not be divided."""
        topics = getattr(request, self._lists) or ()
        count = len(topics)
        if self._entries is None or count > self.most:
            return count <= self.most
        for topic in topics:
            count += len(getattr(topic, self._entries) or ())
        return count <= self.most

    def _in_parts(self, broker: Broker, context: RequestContext, request: Message, deferred: Deferred) -> Steps[None]:
        parts: list[tuple[Message, bool]] = yield InThread(lambda: self.divide(request))
        continued = [one for _, one in parts]
        requests = [part for part, _ in reversed(parts)]
        del parts

        def respond(answers: list[Message | None]) -> None:
            broker.runtime.in_slices(
                self._joining(list(zip(answers, continued, strict=True))),
                deferred.complete,
                deferred.fail,
                owner=context.session,
                wanted=deferred.is_wanted,
            )

        gathering = Gathering(len(continued), respond)
        for index in range(len(continued)):
            # Each is let go of by itself: all of them at once would be much.
            answer = self.undivided(broker, context, requests.pop())
            if not isinstance(answer, Deferred):
                gathering.put(index, answer)
            elif answer.done:
                _Part(deferred, gathering, index).deferred_completed(answer)
            else:
                answer.connection = _Part(deferred, gathering, index)
            yield None

    def _joining(self, answers: list[tuple[Message | None, bool]]) -> Steps[Message | None]:
        """The answer: those to a few parts are joined at once, those to many in a thread."""
        if len(answers) <= _JOINED_AT_ONCE:
            return self.join(answers)
        joined: Message | None = yield InThread(lambda: self.join(answers))
        return joined

    def divide(self, request: R) -> list[tuple[R, bool]]:
        """Requests of few partitions each, and whether the first topic of each is the last one of the part before."""
        parts: list[tuple[R, bool]] = []
        topics: list[Struct] = []
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

    def join(self, answers: Sequence[tuple[R | None, bool]]) -> R | None:
        """One answer of those to the parts: the first one's own fields, an error of any of them, and all topics."""
        joined = answers[0][0]
        if joined is None:
            return None  # nobody waits for it
        topics: list[Struct] = list(getattr(joined, self._answers))
        last = {self._key_of(topic): topic for topic in topics}
        for answer, continues in answers[1:]:
            error = getattr(answer, _ERROR, 0)
            if error and not getattr(joined, _ERROR):
                setattr(joined, _ERROR, error)
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

    def _key_of(self, topic: Struct) -> tuple[object, ...]:
        if self._answer_entries is None:
            return ()
        return tuple(getattr(topic, name) for name in self._key)


class _Part:
    """In the place of a connection: takes the answer to one part."""

    __slots__ = ("_deferred", "_gathering", "_index")

    def __init__(self, deferred: Deferred, gathering: Gathering[Message | None], index: int) -> None:
        self._deferred = deferred
        self._gathering = gathering
        self._index = index

    def deferred_completed(self, deferred: Deferred) -> None:
        response, deferred.response = deferred.response, None
        if isinstance(response, CloseConnection):
            self._deferred.complete(response)
        else:
            assert not isinstance(response, (Exception, Encoded))  # short answers, not written yet
            self._gathering.put(self._index, response)

    def failed(self, _: AnswerRoute | None, error: Exception) -> None:
        self._deferred.fail(error)


def _with(whole: R, field: str, value: object) -> R:
    """A copy with another value in one field."""
    made = copy(whole)
    setattr(made, field, value)
    return made


def _nothing(_: None) -> None:
    """The answers come by themselves."""
