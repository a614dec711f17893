"""A value that is never shown: passwords, keys, JAAS lines."""

from __future__ import annotations

HIDDEN = "[hidden]"


class Secret:
    """Holds a text that only TLS and SASL may read, by `reveal`; printed it is `[hidden]`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._text)

    def reveal(self) -> str:
        """The text itself."""
        return self._text
