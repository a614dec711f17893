"""Constants of native modules: what becomes `Final`, what does not, and that it stays the same program."""

import ast
import sys
import types

import pytest

from tools.compiled.constants import with_constants_final

pytestmark = pytest.mark.usefixtures("parser_alone")

SOURCE = '''"""A module."""

from __future__ import annotations

from enum import Enum, IntEnum
from collections import namedtuple
from socket import AF_INET, SHUT_RD, SHUT_WR, SOMAXCONN
from string import Formatter
from tarfile import GNU_FORMAT
from typing import NamedTuple, cast


class Colour(IntEnum):
    RED = 1
    GREEN = 2


class Point(NamedTuple):
    x: int
    y: int


Size = namedtuple("Size", "width height")
_new = tuple.__new__
_first, *_rest = 1, 2, 3
for _last in (1, 2):
    pass
SHUT_WR = SHUT_WR + 1
_MOST = 32  # é: columns are counted in bytes
_ONE, _TWO = Colour.RED, (2, 3)
_TABLE: dict[str, int] = {
    "a": _MOST,
}
LEVEL = 0
COUNT = 0
SET_BY_TESTS = 1
T = 5


def placed(at: Point | None = None) -> Point:
    """Where it is."""
    point: Point = at or _new(Point, (SOMAXCONN, GNU_FORMAT))
    match point:
        case Point(x=1):
            return Point(0, 0)
    return cast(Point, point) if type(point) is Point and Formatter else point


def others(AF_INET: int = 3) -> tuple[object, ...]:
    """Names that are given more than once, or by more than an import."""
    from socket import SO_REUSEADDR as SHUT_RD
    return AF_INET, SHUT_RD, SHUT_WR, Size(1, 2), _first, _rest, _last


class State(Enum):
    OPEN = 1


def count() -> int:
    """As many as were asked for."""
    global COUNT
    COUNT += 1
    return COUNT


def told(colour: Colour, state: State = State.OPEN) -> str:
    """What they are."""
    match colour:
        case Colour.RED:
            return "red"
    if "é" and colour is Colour.GREEN and state is State.OPEN:
        return f"green{_MOST}{_ONE:d}{_TWO[0]}{_TABLE['a']}"
    return Colour.RED.name
'''


def _module(source: str, name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, name, "exec"), vars(module))
    del sys.modules[name]
    return module


def test_constants_become_final_and_the_program_stays_what_it_is() -> None:
    """`told` and `count` say the same; patterns keep their members, since a bare name there would take anything."""
    pure = _module(SOURCE, "pure")
    text = with_constants_final(SOURCE, pure, ("SET_BY_TESTS",), native=("tarfile",))
    written = _module(text, "written")

    for colour in pure.Colour:
        assert pure.told(colour) == written.told(written.Colour(colour))
    assert (pure.count(), pure.count()) == (written.count(), written.count())
    finals = {
        node.target.id
        for node in ast.parse(text).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "Final" in ast.unparse(node)
    }
    constants = {"_MOST", "_ONE", "_TWO", "_TABLE", "LEVEL", "_new", "Colour_GREEN", "Colour_RED", "State_OPEN"}
    assert finals == constants | {"SOMAXCONN_known", "Point_known"}
    assert pure.others() == written.others()
    for each in (None, (1, 2), (3, 4)):
        assert pure.placed(each and pure.Point(*each)) == written.placed(each and written.Point(*each))
    assert "point: Point = at or _new(Point_known, (SOMAXCONN_known, GNU_FORMAT))" in text
    assert "case Point(x=1):" in text
    assert "cast(Point, point) if type(point) is Point_known" in text
    assert "case Colour.RED:" in text
    assert "colour is Colour_GREEN and state is State_OPEN" in text
    assert "return Colour_RED.name" in text


def test_a_module_without_constants_is_left_alone() -> None:
    """Not even the import is added."""
    source = "from __future__ import annotations\n\n\ndef one() -> int:\n    return 1\n"

    assert with_constants_final(source, _module(source, "plain")) == source
