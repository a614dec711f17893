"""No variable of a scope keeps a function that was made in it: native functions keep the whole scope in turn.

In CPython a nested function holds the variables that it uses itself. In native code all nested functions of a scope
hold one environment, with each variable that any of them uses; of a generator, with all of its variables. What stands
in it and keeps one of these functions waits for the garbage collector, which does not look at everything. Nested
functions stand in it themselves where one of them refers to another, or to a function from anywhere, `len` included,
that the scope refers to as well: the compiler (mypy 2.4) takes that for one of the scope.
"""

import ast
import builtins
import importlib
from collections.abc import Container, Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType

import pytest

from tools.compiled.tree import NATIVE

pytestmark = pytest.mark.usefixtures("parser_alone")

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = {("broker/network/memory.py", "look")}
"""For the life of a process."""
Nested = ast.FunctionDef | ast.Lambda


def kept(source: str, functions: Container[str] = ()) -> list[tuple[str, int]]:
    """Variables that keep a function of their scope while another one, or the same, uses them; and the line.

    `functions` are those that the module knows.
    """
    found = []
    for scope in ast.walk(ast.parse(source)):
        if isinstance(scope, ast.FunctionDef):
            found += _kept_in(scope, functions)
    return found


def _kept_in(scope: ast.FunctionDef, functions: Container[str]) -> list[tuple[str, int]]:
    nodes = list(_own(scope))
    nested = [node for node in nodes if isinstance(node, Nested)]
    defined = {node.name: node.lineno for node in nested if isinstance(node, ast.FunctionDef)}
    variables = _variables(scope)
    is_generator = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes)
    captured = variables - set(defined) if is_generator else set()
    for one in nested:
        captured |= variables & _used(one) - _variables(one)
    mentioned = {node.id for node in nodes if isinstance(node, ast.Name)} - variables
    twice = any(name in functions for one in nested for name in mentioned & _used(one))
    found = [(name, line) for name, line in defined.items() if name in captured or twice]
    for node in nodes:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None or not _mentions(node.value, defined):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        found += [(name, node.lineno) for name in map(_owner, targets) if name in captured and name != "self"]
    return found


def _own(scope: Nested) -> Iterator[ast.AST]:
    """What stands in it, nested functions as one, without what these do."""
    waiting: list[ast.AST] = list(scope.body) if isinstance(scope, ast.FunctionDef) else [scope.body]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Nested):
            waiting += [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
        else:
            waiting += ast.iter_child_nodes(node)


def _variables(scope: Nested) -> set[str]:
    names = {node.arg for node in ast.walk(scope.args) if isinstance(node, ast.arg)}
    for node in _own(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
    return names


def _used(scope: Nested) -> set[str]:
    return {node.id for node in ast.walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _mentions(value: ast.AST, defined: dict[str, int]) -> bool:
    """Whether it may keep a nested function. What is yielded others have; what one returns does not keep it."""
    if isinstance(value, ast.Yield):
        return False
    for node in ast.walk(value):
        if isinstance(node, ast.Lambda):
            return True
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Name) and child.id in defined and not _is_called(node, child):
                return True
    return isinstance(value, ast.Name) and value.id in defined


def _is_called(node: ast.AST, name: ast.Name) -> bool:
    return isinstance(node, ast.Call) and node.func is name


def _owner(target: ast.AST) -> str | None:
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None


def _modules() -> Iterator[Path]:
    for name in NATIVE:
        place = ROOT / name.replace(".", "/")
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        yield from (file for file in files if file.exists() and file.stem != "__init__")


def test_no_native_scope_keeps_what_keeps_it() -> None:
    found = {}
    for path in _modules():
        name = path.relative_to(ROOT)
        module = importlib.import_module(".".join(name.with_suffix("").parts))
        known = vars(builtins) | vars(module)
        functions = {name for name, one in known.items() if isinstance(one, FunctionType | BuiltinFunctionType)}
        found |= {(str(name), variable): line for variable, line in kept(path.read_text(), functions)}
    assert found.keys() == ALLOWED, found


def test_the_check_sees_what_stayed_in_memory() -> None:
    """OffsetFetch, DescribeGroups and others kept their request and their answer so: 700 MB in six minutes."""
    answer = "def handle(request):\n    kept = Answer(lambda results: results)\n    ask(lambda one: kept.put(one))\n"
    assert kept(answer) == [("kept", 2)]
    assert kept(answer.replace("kept.put", "request.put")) == []
    assert kept(answer.replace("lambda results: results", "module_level")) == []
    attribute = "def handle(promise):\n    def gone(): forget(promise)\n    promise.on_gone = partial(gone, 1)\n"
    assert kept(attribute) == [("promise", 3)]
    sibling = "def handle():\n    def end(): ask(1)\n    def begin(): end()\n    begin()\n"
    assert kept(sibling) == [("end", 2)]
    generator = "def handle():\n    def end(): ask(1)\n    kept = Answer(end)\n    yield kept\n"
    assert kept(generator) == [("kept", 3)]
    assert kept("def handle():\n    def steps(): yield 1\n    kept = run(steps())\n    return lambda: kept\n") == []
    twice = "def handle():\n    def ask(one): refuse(one)\n    ask(refuse)\n"
    assert kept(twice, {"refuse"}) == [("ask", 2)]
    assert kept(twice, {"ask"}) == []
