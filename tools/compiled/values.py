"""Dataclasses written out: what mypyc takes for native classes, with everything that `dataclasses` would have made.

The sources say `@value` or `@dataclass(slots=True)`; a native class needs its constructor, comparison and
representation as code. `fields` and `replace` of `dataclasses` work on the result, since it carries descriptions.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

DECORATORS = {"value", "dataclass"}


def expanded(source: str, module: ModuleType, *, native: bool = True) -> str:
    """The module's source with its dataclasses written out. `module` is the pure one, imported.

    Those of a module that stays interpreted are written out too, with their slots: making them when it is imported is a
    third of a start.
    """
    lines = source.splitlines()
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef) and _decorator(node)]
    described = []
    for node in reversed(classes):  # the last one first, so that the lines of the others stay where they are
        cls = getattr(module, node.name)
        writer = _Expansion(node, cls, source)
        lines[node.end_lineno : node.end_lineno] = writer.methods()
        fields = writer.fields() if native else writer.slots()
        for first, last, text in reversed(fields):
            lines[first - 1 : last] = text
        decorator = _decorator(node)
        assert decorator is not None
        del lines[decorator.lineno - 1 : decorator.end_lineno]
        described.append(f"    ({node.name}, {writer.description()}),")
    if not described:
        return source
    if "Any" not in _names(source):
        lines.insert(lines.index("from __future__ import annotations") + 1, "from typing import Any")
    lines += ["", "from protocol.schema.native import describe", "describe((", *reversed(described), "))"]
    return "\n".join(lines) + "\n"


def with_named_tuples_quoted(source: str) -> str:
    """The source with what the fields of its `NamedTuple`s are annotated with as strings.

    mypyc looks their types up when the module is imported, which ends the process when one is a native class that is
    imported for type checkers only; strings it leaves alone.
    """
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef) or not any(ast.unparse(base) == "NamedTuple" for base in node.bases):
            continue
        for item in node.body:
            if isinstance(item, ast.AnnAssign):
                at, line = item.annotation, lines[item.lineno - 1]
                assert at.end_lineno == item.lineno, f"an annotation of several lines: {line}"
                lines[item.lineno - 1] = f'{line[: at.col_offset]}"{ast.unparse(at)}"{line[at.end_col_offset :]}'
    return "\n".join(lines) + "\n"


def _decorator(node: ast.ClassDef) -> ast.expr | None:
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(called, ast.Name) and called.id in DECORATORS:
            return decorator
    return None


class _Expansion:
    """Writes the methods of one class."""

    def __init__(self, node: ast.ClassDef, cls: Any, source: str) -> None:
        self.node, self.cls = node, cls
        self.known = _names(source)
        self.own = {
            item.target.id: item
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and not _is_class_var(item)
        }
        self.params = cls.__dataclass_params__
        self.methods_there = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}

    def description(self) -> str:
        """What `describe` is told of each field: (name, type), with its default, or with None and its factory."""
        told = []
        for field in dataclasses.fields(self.cls):
            parts = [repr(field.name), repr(str(field.type))]
            if field.default_factory is not dataclasses.MISSING:
                parts += ["None", self._factory(field)]
            elif field.default is not dataclasses.MISSING:
                parts.append(self._default(field))
            told.append(f"({', '.join(parts)})")
        return f"[{', '.join(told)}]"

    def fields(self) -> list[tuple[int, int, list[str]]]:
        """(first line, last line, what stands there instead): the class's own fields, without their defaults."""
        result = []
        for name, item in self.own.items():
            if item.value is not None:
                annotation = ast.unparse(item.annotation)
                result.append((item.lineno, item.end_lineno or item.lineno, [f"    {name}: {annotation}"]))
        return result

    def slots(self) -> list[tuple[int, int, list[str]]]:
        """The same for a class that stays interpreted: its slots stand before its first field."""
        names = "".join(f'"{name}", ' for name in self.own)
        said = [f"    __slots__ = ({names})"] if "__slots__" in vars(self.cls) else []
        lines = []
        for name, item in self.own.items():
            bare = [*said, f"    {name}: {ast.unparse(item.annotation)}"]
            lines.append((item.lineno, item.end_lineno or item.lineno, bare))
            said = []
        return lines

    def methods(self) -> list[str]:
        """`__init__`, `__repr__`, `__eq__` and, if frozen, `__hash__`: those that the class does not have itself.

        A value gets a `__copy__` for `coordinator.values.altered` too.
        """
        result: list[str] = []
        made = {"__init__": self.params.init, "__repr__": self.params.repr, "__eq__": self.params.eq}
        made["__hash__"] = self.params.eq and self.params.frozen
        for name, wanted in made.items():
            if wanted and name not in self.methods_there:
                result += ["", *getattr(self, name.strip("_"))()]
        decorator = _decorator(self.node)
        if isinstance(decorator, ast.Name) and decorator.id == "value":
            result += ["", *self.copy()]
        return result

    def init(self) -> list[str]:
        parameters, body = ["self"], []
        for field in dataclasses.fields(self.cls):
            # What a field of another module's class is annotated with may have no name here.
            used = {name.id for name in ast.walk(ast.parse(str(field.type))) if isinstance(name, ast.Name)}
            annotation = str(field.type) if used <= self.known else "Any"
            parameter = f"{field.name}: {annotation}"
            value = field.name
            if field.default_factory is not dataclasses.MISSING:
                factory = self._factory(field)
                if not field.init:
                    body.append(f"        self.{field.name} = {factory}()")
                    continue
                parameter = f"{field.name}: {annotation} | None = None"
                value = f"{factory}() if {field.name} is None else {field.name}"
            elif field.default is not dataclasses.MISSING:
                default = self._default(field)
                if not field.init:
                    body.append(f"        self.{field.name} = {default}")
                    continue
                parameter += f" = {default}"
            elif not field.init:
                continue
            if field.kw_only and "*" not in parameters:
                parameters.append("*")
            parameters.append(parameter)
            body.append(f"        self.{field.name} = {value}")
        alias = next((f.name for f in dataclasses.fields(self.cls) if f.name != "key" and self._is_key(f.name)), None)
        if alias is not None:
            body.append(f"        self.key = {alias}")
        if hasattr(self.cls, "__post_init__"):
            body.append("        self.__post_init__()")
        return [f"    def __init__({', '.join(parameters)}) -> None:", *(body or ["        pass"])]

    def _is_key(self, name: str) -> bool:
        """Whether `key` is another name of this field's slot (`coordinator.outcome.GroupInput`)."""
        return getattr(self.cls, "key", None) is getattr(self.cls, name)

    def _default(self, field: dataclasses.Field[Any]) -> str:
        item = self.own.get(field.name)
        if item is not None and item.value is not None:
            value = item.value
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
                value = next(keyword.value for keyword in value.keywords if keyword.arg == "default")
            return ast.unparse(value)
        return repr(field.default)

    def _factory(self, field: dataclasses.Field[Any]) -> str:
        item = self.own.get(field.name)
        if item is None:
            return getattr(field.default_factory, "__name__", "None")
        assert isinstance(item.value, ast.Call)
        text = ast.unparse(next(keyword.value for keyword in item.value.keywords if keyword.arg == "default_factory"))
        return f"({text})" if text.startswith("lambda") else text

    def repr(self) -> list[str]:
        shown = ", ".join(f"{f.name}={{self.{f.name}!r}}" for f in dataclasses.fields(self.cls) if f.repr)
        return ["    def __repr__(self) -> str:", f'        return f"{self.cls.__qualname__}({shown})"']

    def eq(self) -> list[str]:
        compared = [f.name for f in dataclasses.fields(self.cls) if f.compare]
        same = " and ".join(f"self.{name} == other.{name}" for name in compared) or "True"
        return [
            "    def __eq__(self, other: object) -> bool:",
            f"        if not isinstance(other, {self.cls.__name__}) or type(other) is not type(self):",
            "            return NotImplemented",
            f"        return {same}",
        ]

    def hash(self) -> list[str]:
        compared = "".join(f"self.{f.name}, " for f in dataclasses.fields(self.cls) if f.compare)
        return ["    def __hash__(self) -> int:", f"        return hash(({compared}))"]

    def copy(self) -> list[str]:
        content = ", ".join(f"self.{field.name}" for field in dataclasses.fields(self.cls))
        return [f"    def __copy__(self) -> {self.cls.__name__}:", f"        return {self.cls.__name__}({content})"]


def _names(source: str) -> set[str]:
    """Every name that a module's annotations may use."""
    names = set(vars(builtins))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def _is_class_var(item: ast.AnnAssign) -> bool:
    return ast.unparse(item.annotation).startswith("ClassVar")
