"""A large mapping of a value, of which a change copies what is new and not what is old.

A group of ten thousand members gets ten thousand joins, each of which makes a new group: ten thousand copies of a dict
of ten thousand. Here a copy shares the dict at its bottom, which nobody changes any more, and copies what was written
since. When that is many, both become a new bottom; many is the root of twice the whole, with which a change of n copies
least, that root, half of it in either way. Whoever kept an old one has what it was: a refused append goes back to it as
to any value, and a thread may read it.

A dict is the quicker one to read and stays one up to `SMALL_MAX` entries. The order of the keys is a dict's.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from typing import Any, Generic, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")

SMALL_MAX = 256

_GONE: Any = object()
_ABSENT: Any = object()


def changeable(mapping: Mapping[K, V]) -> MutableMapping[K, V]:
    """A copy to be changed by who asks for it, until it is part of a value."""
    if type(mapping) is dict:
        return mapping.copy() if len(mapping) <= SMALL_MAX else _mapping(Layered(mapping, {}, len(mapping)))
    return _mapping(mapping.copy()) if isinstance(mapping, Layered) else dict(mapping)


def plain(mapping: Mapping[K, V]) -> dict[K, V]:
    """A copy that is a dict: for who takes much away, and looks at what is left each time."""
    if isinstance(mapping, Layered):
        mapping = mapping.whole()
    # `dict` takes nine times as long as `copy` for one that something was ever deleted from.
    return mapping.copy() if type(mapping) is dict else dict(mapping)


def including(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    """Another one, with the key."""
    copy = changeable(mapping)
    copy[key] = value
    return copy


def without(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    """Another one that lacks the key, if it was there."""
    copy = changeable(mapping)
    copy.pop(key, None)
    return copy


def _without_gone(whole: dict[K, V], recent: dict[K, V], size: int) -> dict[K, V]:
    if size * 2 < len(whole):  # where much was deleted a dict has room for it for ever
        return {key: value for key, value in whole.items() if value is not _GONE}
    for key, value in recent.items():
        if value is _GONE:
            del whole[key]
    return whole


def _mapping(layered: Layered[K, V]) -> MutableMapping[K, V]:
    return cast("MutableMapping[K, V]", layered)


class Layered(Generic[K, V]):  # noqa: PLW1641  # no more hashable than a dict
    """See the module. `bottom` is not to be changed by anybody any more.

    It is registered as a mapping and does not inherit from one, which no native class can.
    """

    __slots__ = ("_bottom", "_merged", "_recent", "_size")

    def __init__(self, bottom: dict[K, V], recent: dict[K, V], size: int) -> None:
        self._bottom = bottom
        self._recent = recent  # `_GONE` for a key of the bottom that was deleted
        self._size = size
        self._merged: dict[K, V] | None = None  # both, once somebody wanted to see all

    def copy(self) -> Layered[K, V]:
        """Another one with the same content, to be changed."""
        recent = len(self._recent)
        if self._merged is not None or recent * recent > 2 * self._size:
            return Layered(self.whole(), {}, self._size)
        return Layered(self._bottom, self._recent.copy(), self._size)

    def whole(self) -> dict[K, V]:
        """All of it, as a dict that is not to be changed by anybody."""
        if not self._recent:
            return self._bottom
        whole = self._merged
        if whole is None:
            whole = self._bottom | self._recent
            if len(whole) != self._size:
                whole = _without_gone(whole, self._recent, self._size)
            self._merged = whole
        return whole

    def _settle(self) -> None:
        self._bottom, self._recent, self._merged = self.whole(), {}, None

    def get(self, key: Any, default: Any = None) -> Any:
        """As of a dict."""
        found = self._recent.get(key, _ABSENT)
        if found is _ABSENT:
            return self._bottom.get(key, default)
        return default if found is _GONE else found

    def __getitem__(self, key: K) -> V:
        found = self.get(key, _ABSENT)
        if found is _ABSENT:
            raise KeyError(key)
        return found  # type: ignore[no-any-return]  # a value

    def __contains__(self, key: object) -> bool:
        return self.get(key, _ABSENT) is not _ABSENT

    def __setitem__(self, key: K, value: V) -> None:
        if self._recent.get(key) is _GONE:
            self._settle()  # it comes back as the last one
        self._size += key not in self
        self._recent[key] = value
        self._merged = None

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._size -= 1
        self._merged = None
        if key in self._bottom:
            self._recent[key] = _GONE
        else:
            del self._recent[key]

    def pop(self, key: Any, default: Any = _ABSENT) -> Any:
        """As of a dict. Raises: KeyError."""
        found = self.get(key, _ABSENT)
        if found is not _ABSENT:
            del self[key]
            return found
        if default is _ABSENT:
            raise KeyError(key)
        return default

    def update(self, other: Mapping[K, V]) -> None:
        """As of a dict, from a mapping."""
        for key, value in other.items():
            self[key] = value

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return iter(self.whole())

    def keys(self) -> KeysView[K]:
        """Of a dict that is not changed any more, as all views here."""
        return self.whole().keys()

    def values(self) -> ValuesView[V]:
        """In the order of the keys."""
        return self.whole().values()

    def items(self) -> ItemsView[K, V]:
        """In the order of the keys."""
        return self.whole().items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Layered):
            return self.whole() == other.whole()
        return self.whole() == dict(other) if isinstance(other, Mapping) else NotImplemented

    def __repr__(self) -> str:
        return f"Layered({self.whole()!r})"


MutableMapping.register(Layered)
