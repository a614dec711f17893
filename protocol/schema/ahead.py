"""What may have been written ahead of time, where otherwise code is compiled when it is first asked for.

In this tree nothing was. In the compiled one (`make compiled`) a module takes this one's place that knows the codecs
of hot APIs and of some records, whose messages are native classes there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.schema.wire_types import Composite

TREE = "pure"

new = object.__new__
"""An instance of a declared class, whose fields are all about to be set."""


def decoder(cls: type[Composite], version: int, most_elements: int | None) -> Callable[[bytes, int], Any] | None:
    """What `protocol.schema.decoder.compile_decoder` would compile, or None."""
    return None


def encoder(cls: type[Composite], version: int) -> Callable[[Any], Any] | None:
    """What `protocol.schema.encoder.compile_encoder` would compile, or None."""
    return None


def frame_encoder(cls: type[Composite], version: int, most_elements: int | None) -> Callable[[Any, int], Any] | None:
    """What `protocol.schema.encoder.compile_frame_encoder` would compile, or None."""
    return None


def freeze(instance: Any) -> None:
    """Let nobody change this default, which many messages share."""
    cls = type(instance)
    instance.__class__ = type(cls.__name__, (_Frozen, cls), {"__slots__": ()})


class _Frozen:
    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is a shared default: assign a new one instead")
