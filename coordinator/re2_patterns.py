"""Regular expressions in the syntax of RE2, whose time is linear in what is matched; Python's own may take for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re2


def compiled(pattern: str, *, max_mem_bytes: int | None = None) -> re2._Regexp:
    """The expression, ready to be matched. Raises: ValueError, with RE2's reason, when it is none or too large."""
    import re2  # noqa: PLC0415  3 MB and 10 ms, which few brokers need

    options = re2.Options()
    options.log_errors = False
    if max_mem_bytes is not None:
        options.max_mem = max_mem_bytes
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from error
