"""What a handler is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Request:
    """One request: the decoded parts of the path that stand for something, the query, the headers (lower case)."""

    __slots__ = ("headers", "parts", "query")

    def __init__(self, parts: dict[str, str], query: dict[str, str], headers: Mapping[str, str]) -> None:
        self.parts = parts
        self.query = query
        self.headers = headers
