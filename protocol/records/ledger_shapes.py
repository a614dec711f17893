"""Whether a ledger record has the types that it declares: a client may write into the topic, and versions differ.

Made of the declarations in `protocol.records.ledger`; a field of another type is a fault, one that is missing is none,
unless readers reckon with it.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

_NEEDED = {
    "WaitedFor": ("after_ms",),
    "LedgerMember": ("member_id", "change"),
    "ChangedOffset": ("topic", "partition", "from", "to"),
}
"""Of what lies in records, by the name of its declaration."""
_MOMENT_MAX = 1 << 47  # ms since 1970: the year 6429
_OFFSET_MAX = 1 << 63
_OFFSETS = frozenset({"from", "to"})  # any that a client may commit
_PAIRS = "topics"  # of a detail: old and new partition counts by topic
_LISTS = frozenset({"topics_added", "topics_removed", "made_anew"})


def fault(record: Mapping[str, Any], declared: type) -> str | None:
    """The name of the first field that is needed and missing, or of another type than declared; None: there is none."""
    for name in _NEEDED.get(declared.__name__, ()):
        if name not in record:
            return name
    for name, kind in _fields(declared).items():
        if name in record and not _fits(record[name], kind, name):
            return name
    return None


@cache
def _fields(declared: type) -> Mapping[str, Any]:
    return get_type_hints(declared, include_extras=True)


def _fits(content: Any, kind: Any, name: str = "") -> bool:
    origin = get_origin(kind)
    if origin is NotRequired:
        return _fits(content, get_args(kind)[0], name)
    if origin is types.UnionType or origin is typing.Union:
        return any(_fits(content, one, name) for one in get_args(kind))
    if kind is type(None) or kind is None:
        return content is None
    if is_typeddict(kind):
        return isinstance(content, Mapping) and fault(content, kind) is None
    if origin is list:
        return isinstance(content, list) and all(_fits(one, get_args(kind)[0]) for one in content)
    if origin is tuple:
        of = get_args(kind)
        return (
            isinstance(content, (list, tuple))
            and len(content) == len(of)
            and all(_fits(one, each) for one, each in zip(content, of, strict=True))
        )
    if origin is not None:  # a mapping: partitions by topic, or the detail of a cause
        if not isinstance(content, Mapping):
            return False
        if name == "detail":
            return all(_is_detail(key, one) for key, one in content.items())
        return all(isinstance(one, str) and _is_spans(one) for one in content.values())
    if kind is int:
        most = _OFFSET_MAX if name in _OFFSETS else _MOMENT_MAX
        return isinstance(content, int) and not isinstance(content, bool) and abs(content) < most
    return isinstance(content, kind)


def _is_spans(text: str) -> bool:
    parts = text.split(",") if text else []
    return all(end.isdecimal() and len(end) < 8 for part in parts for end in part.split("-", 1))


def _is_detail(name: str, content: Any) -> bool:
    """Details are open: what sentences and verdicts reckon with is looked at."""
    if name.endswith("_ms") or name in ("size", "limit"):
        return content is None or _fits(content, int)
    if name in _LISTS:
        return isinstance(content, list) and all(isinstance(one, str) for one in content)
    if name == _PAIRS:
        pairs = content.values() if isinstance(content, Mapping) else [None]
        return all(_fits(pair, tuple[int, int]) for pair in pairs)
    if name == "protocols_changed":
        return _fits(content, tuple[list[str], list[str]])
    if name == "regexes":
        changes = content.values() if isinstance(content, Mapping) else [None]
        return all(
            isinstance(one, Mapping) and all(_fits(one.get(side, []), list[str]) for side in ("added", "removed"))
            for one in changes
        )
    if name == "connection":
        return isinstance(content, Mapping) and all(_is_detail(key, one) for key, one in content.items())
    return content is None or isinstance(content, (str, int, bool))
