"""Constants of native modules: what becomes `Final`, what does not, and that it stays the same program."""

import ast
import sys
import types

from tools.compiled.constants import with_constants_final

SOURCE = '''"""A module."""

from __future__ import annotations

from enum import Enum, IntEnum


class Colour(IntEnum):
    RED = 1
    GREEN = 2


_MOST = 32  # é: columns are counted in bytes
_ONE, _TWO = Colour.RED, (2, 3)
_TABLE: dict[str, int] = {
    "a": _MOST,
}
LEVEL = 0
COUNT = 0
SET_BY_TESTS = 1
T = 5


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
    text = with_constants_final(SOURCE, pure, ("SET_BY_TESTS",))
    written = _module(text, "written")

    for colour in pure.Colour:
        assert pure.told(colour) == written.told(written.Colour(colour))
    assert (pure.count(), pure.count()) == (written.count(), written.count())
    finals = {
        node.target.id
        for node in ast.parse(text).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "Final" in ast.unparse(node)
    }
    assert finals == {"_MOST", "_ONE", "_TWO", "_TABLE", "LEVEL", "Colour_GREEN", "Colour_RED", "State_OPEN"}
    assert "case Colour.RED:" in text
    assert "colour is Colour_GREEN and state is State_OPEN" in text
    assert "return Colour_RED.name" in text


def test_a_module_without_constants_is_left_alone() -> None:
    """Not even the import is added."""
    source = "from __future__ import annotations\n\n\ndef one() -> int:\n    return 1\n"

    assert with_constants_final(source, _module(source, "plain")) == source
