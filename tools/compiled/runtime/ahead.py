"""What was written ahead of time: the codecs of hot APIs and of some records, in one module each.

It is loaded when it is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

TREE = "compiled"
MODULES: dict[
    str, tuple[str, int | None]
] = {}  # class -> (the module of its codec, the elements of its arrays at most)
_CODECS = __name__.replace("schema.ahead", "codecs")


def new(cls: Any) -> Any:
    """An instance of a declared class, whose fields are all about to be set."""
    return cls.__new__(cls)


def decoder(cls: Any, version: int, most_elements: int | None) -> Any:
    """`decode(buffer, position) -> (message, end)`, or None."""
    return _written("decode", cls, version, most_elements)


def encoder(cls: Any, version: int) -> Any:
    """`encode(message) -> buffers`, or None."""
    return _written("encode", cls, version, None)


def frame_encoder(cls: Any, version: int, most_elements: int | None) -> Any:
    """`encode(response, correlation_id) -> buffers`, or None."""
    return None if most_elements is None else _written("encode", cls, version, most_elements)


def _written(what: str, cls: Any, version: int, most_elements: int | None) -> Any:
    module, most = MODULES.get(cls.__name__, ("", 0))
    if not module or most != most_elements:
        return None
    return getattr(import_module(f"{_CODECS}.{module}"), f"{what}_{cls.__name__}_{version}", None)


def freeze(instance: Any) -> None:
    """Native instances cannot change their class: that nobody changes a default is seen in the pure tree."""
