"""Constants made known to mypyc: what is no `Final` it looks up in the module's dictionary, each time it is used.

`_MOST = 32` becomes `_MOST: Final = 32`, which native code has in the instruction; another value, `_pack = HEAD.pack`,
it has in a variable of its own. Members of enumerations, `ErrorCode.NONE`, are two look-ups, and become constants of
the module too; so do values that are imported, and named tuples, which are no native classes.
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

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+|_?[a-z][a-z0-9_]*")  # one letter is a type variable
_VALUE = re.compile(r"_?[A-Z][A-Z0-9_]+")
_FUTURE = b"from __future__ import annotations"


def with_constants_final(
    source: str, module: ModuleType, variables: Collection[str] = (), native: Collection[str] = ()
) -> str:
    """The module's source with its constants `Final`, and enumerations' members as constants.

    `module` is the pure one, imported. `variables`: names written as constants that somebody sets all the same.
    `native`: modules whose constants native code knows.
    """
    tree = ast.parse(source)
    changes = [*_members(tree, module), *_known(tree, module, variables, native), *_finals(tree, source, variables)]
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
    times = _times_bound(tree)
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
    targets: list[ast.expr] = []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        targets = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if len(names) == len(targets) else []


def _times_bound(tree: ast.Module) -> Counter[str]:
    """How often anything gets this name, anywhere: by assignment, import, loop, `with`, parameter, `global`, `del`."""
    return Counter(name for node in ast.walk(tree) for name in _bound(node))


def _bound(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.alias(name=name, asname=other):
            return [other or name.partition(".")[0]]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return names
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
    return []


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


def _known(
    tree: ast.Module, module: ModuleType, variables: Collection[str], native: Collection[str]
) -> Iterator[_Change]:
    """Where functions name imported values and named tuples; and a constant for each."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    imported = {each.asname or each.name: node.module for node in imports for each in node.names}
    values = {name for name, home in imported.items() if _VALUE.fullmatch(name) and home not in native}
    names = {name for name in values if not callable(getattr(module, name, None))}
    bound = {*imported, *(node.name for node in tree.body if isinstance(node, ast.ClassDef))}
    names |= {name for name in bound if hasattr(getattr(module, name, None), "_make")}
    times = _times_bound(tree)
    names = {name for name in names - set(variables) if times[name] == 1}
    skipped = {id(inner) for node in ast.walk(tree) for part in _types_of(node) for inner in ast.walk(part)}
    used = set[str]()
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            if isinstance(node, ast.Name) and node.id in names and id(node) not in skipped:
                skipped.add(id(node))  # a function inside another is walked twice
                used.add(node.id)
                yield node.lineno - 1, node.lineno - 1, node.col_offset, node.end_col_offset or 0, f"{node.id}_known"
    for name in used:
        line = _known_from(tree, name)
        yield line, line, 0, 0, f"{name}_known: Final = {name}\n"


def _types_of(node: ast.AST) -> Iterator[ast.AST]:
    """What of a node only says of which type something is, or must be the class itself."""
    for name in ("annotation", "returns", "cls"):
        part = getattr(node, name, None)
        if isinstance(part, ast.AST):
            yield part
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast":
        yield node.args[0]


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
