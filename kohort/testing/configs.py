"""How each client library is told where the broker is, in its own names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kohort.testing.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

_LIBRARIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "aiokafka": lambda address: {"bootstrap_servers": address},
    "confluent-kafka": lambda address: {"bootstrap.servers": address},
    "faststream": lambda address: {"bootstrap_servers": address},
    "java": lambda address: {"bootstrap.servers": address},
    "kafka-python": lambda address: {"bootstrap_servers": [address]},
    "librdkafka": lambda address: {"bootstrap.servers": address},
    "spark": lambda address: {"kafka.bootstrap.servers": address},
}


def config(library: str, address: str) -> dict[str, Any]:
    """Keyword arguments, or properties, of a client. Raises: Refused for a library that is not known."""
    name = str(library).lower().replace("_", "-")
    if name not in _LIBRARIES:
        raise Refused(f"config({library!r}): it takes one of {', '.join(_LIBRARIES)}")
    return _LIBRARIES[name](address)
