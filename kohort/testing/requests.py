"""What clients have asked a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as its client has sent it. `body` has the fields of its version, by Kafka's names in snake case.

    Bytes are base64, record data is its size, topic ids are as Kafka prints them, with the topic's name.
    """

    api: str
    version: int
    client_id: str
    at_ms: int
    body: dict[str, Any]

    def __str__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.body.items() if value not in (None, "", [], -1))
        return f"{self.api} v{self.version} of {self.client_id or '(no id)'}: {told[:200]}"
