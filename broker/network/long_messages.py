"""Requests and answers of many elements: read and written in a thread, and let go of a few objects at a time.

A megabyte of partitions is a hundred thousand objects. To make them, to write them and to free them takes some tens of
milliseconds each, and none of it can be done in part: the codecs are straight-line code, and Python frees all that an
object alone has held before it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.handlers.context import Encoded
from broker.loop.slices import InThread, Until
from protocol.schema import Struct

if TYPE_CHECKING:
    from collections.abc import Generator

    from broker.handlers.context import AnswerRoute
    from broker.handlers.dispatch import Route
    from broker.network.slots import Slot

_FREED_A_STEP = 512


class Decoded:
    """A request, the position after it, and all the objects that it consists of."""

    __slots__ = ("end", "parts", "request")

    def __init__(self, request: Any, end: int, parts: list[object]) -> None:
        self.request = request
        self.end = end
        self.parts = parts


def decoded(
    route: Route, frame: bytes, position: int, slot: Slot | None
) -> Generator[InThread | Until | None, Any, Decoded]:
    """The request in `frame`, once it has its `slot`, which it leaves if that fails. Raises: ProtocolError."""

    def read() -> Decoded:
        request, end = route.decode_long(frame, position)
        return Decoded(request, end, parts_of(request))

    try:
        if slot is not None and not slot.goes_on:
            yield Until(slot.wait)
        result: Decoded = yield InThread(read)
    except BaseException:  # GeneratorExit: nobody waits for the answer any more
        if slot is not None:
            slot.leave()
        raise
    return result


def encoded(
    route: AnswerRoute, answer: list[Any], correlation_id: int
) -> Generator[InThread, Any, tuple[Encoded, list[object]]]:
    """What the one message in `answer`, which is taken out of it, becomes; and the objects that it consisted of.

    Raises: EncodeError.
    """

    def write() -> tuple[Encoded, list[object]]:
        response = answer.pop()
        return Encoded(route.encode_long(response, correlation_id)), parts_of(response)

    result: tuple[Encoded, list[object]] = yield InThread(write)
    return result


def parts_of(message: Any) -> list[object]:
    """Everything that `message` alone may hold, it included, what is inside before what it is in."""
    parts: list[Any] = [message]
    at = 0
    lists: set[int] = set()  # some are in many places
    while at < len(parts):
        part = parts[at]
        at += 1
        if part.__class__ is list:
            if part and id(part) not in lists:
                lists.add(id(part))
                parts += [inner for inner in part if inner.__class__ is list or isinstance(inner, Struct)]
        else:
            for field in part.FIELDS:
                inner = getattr(part, field.name)
                if inner.__class__ is list or isinstance(inner, Struct):
                    parts.append(inner)
    parts.reverse()
    return parts


def let_go(parts: list[object]) -> Generator[None, None, None]:
    """Forget the parts of a message that nobody else holds, the outermost first: each then holds nothing alone."""
    while parts:
        del parts[-_FREED_A_STEP:]
        yield
