"""Constants made known to mypyc: what is no `Final` it looks up in the module's dictionary, each time it is used.

`_MOST = 32` becomes `_MOST: Final = 32`, which native code has in the instruction; another value it has in a variable
of its own. Members of enumerations, `ErrorCode.NONE`, are two look-ups, and become constants of the module too.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from enum import EnumMeta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import ModuleType

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")  # one letter is a type variable
_FUTURE = b"from __future__ import annotations"


def with_constants_final(source: str, module: ModuleType, variables: Collection[str] = ()) -> str:
    """The module's source with its constants `Final`, and enumerations' members as constants.

    `module` is the pure one, imported. `variables`: names written as constants that somebody sets all the same.
    """
    tree = ast.parse(source)
    changes = [*_members(tree, module), *_finals(tree, source, variables)]
    if not changes:
        return source
    lines = source.encode().split(b"\n")  # `ast` counts columns in bytes
    for first, last, at, until, text in sorted(changes, reverse=True):  # the last one first: places stay what they were
        lines[first : last + 1] = [lines[first][:at] + text.encode() + lines[last][until:]]
    lines.insert(lines.index(_FUTURE) + 1, b"from typing import Final")
    return b"\n".join(lines).decode()


_Change = tuple[int, int, int, int, str]
"""(first line, last line, column in the first, column in the last, what stands there instead), from 0."""


def _finals(tree: ast.Module, source: str, variables: Collection[str]) -> Iterator[_Change]:
    times = Counter(name for node in ast.walk(tree) for name in _assigned(node))
    for node in tree.body:
        names = _assigned(node)
        if not names or not all(
            _CONSTANT.fullmatch(name) and times[name] == 1 and name not in variables for name in names
        ):
            continue
        assert isinstance(node, (ast.Assign, ast.AnnAssign))
        place = node.lineno - 1, (node.end_lineno or node.lineno) - 1, node.col_offset, node.end_col_offset or 0
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                value = ast.get_source_segment(source, node.value)
                yield *place, f"{names[0]}: Final[{ast.unparse(node.annotation)}] = {value}"
        elif len(names) == 1:
            yield place[0], place[0], place[2], node.targets[0].end_col_offset or 0, f"{names[0]}: Final"
        elif isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(names):
            values = [ast.get_source_segment(source, each) for each in node.value.elts]
            yield *place, "\n".join(f"{name}: Final = {value}" for name, value in zip(names, values, strict=True))


def _assigned(node: ast.AST) -> list[str]:
    """The names that a statement assigns to, if that is all it assigns to."""
    if isinstance(node, ast.AnnAssign):
        targets: list[ast.expr] = [node.target]
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        targets = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    elif isinstance(node, ast.Global):
        return node.names
    else:
        return []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _members(tree: ast.Module, module: ModuleType) -> Iterator[_Change]:
    """Where functions name members; and a constant for each, after the imports or after the class."""
    passed = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.MatchValue)}
    used: dict[str, set[str]] = {}
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)) or id(node) in passed:
                continue
            cls = getattr(module, node.value.id, None)
            if isinstance(cls, EnumMeta) and node.attr in cls.__members__ and node.lineno == node.end_lineno:
                passed.add(id(node))  # a function inside another is walked twice
                used.setdefault(node.value.id, set()).add(node.attr)
                name = _name(node.value.id, node.attr)
                yield node.lineno - 1, node.lineno - 1, node.col_offset, node.end_col_offset or 0, name
    for cls_name, members in used.items():
        line = _known_from(tree, cls_name)
        text = "".join(f"{_name(cls_name, each)}: Final = {cls_name}.{each}\n" for each in sorted(members))
        yield line, line, 0, 0, text


def _name(cls: str, member: str) -> str:
    return f"{cls}_{member}"


def _known_from(tree: ast.Module, cls: str) -> int:
    """The line, from 0, from which on the class is there, and all imports are done."""
    after = 0
    for node in tree.body:
        imported = isinstance(node, (ast.Import, ast.ImportFrom))
        if imported or (isinstance(node, ast.ClassDef) and node.name == cls):
            after = node.end_lineno or node.lineno
    return after
