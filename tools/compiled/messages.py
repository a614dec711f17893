"""Messages of hot APIs and values of records as native classes: declarations stay, the rest is written out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType


def native(source: str, module: ModuleType) -> str:
    """A module of messages or of records with its classes written out. `module` is the pure one, imported."""
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        if not isinstance(node, ast.ClassDef) or not node.decorator_list:
            continue
        cls = getattr(module, node.name)
        first = node.decorator_list[0].lineno
        lines[first - 1 : node.end_lineno] = _class(node, cls)
    future = lines.index("from __future__ import annotations")
    lines.insert(future + 1, "from typing import Any, ClassVar, Final, cast")
    last_import = max(
        node.end_lineno or 0 for node in ast.parse("\n".join(lines)).body if isinstance(node, ast.ImportFrom)
    )
    lines[last_import:last_import] = [
        "from protocol.schema.native import named",
        "from protocol.schema.wire_types import Field",
        "",
        "OMITTED: Final[list[Any]] = []",
    ]
    return "\n".join(lines) + "\n"


def _class(node: ast.ClassDef, cls: Any) -> list[str]:
    declared = {
        item.target.id: item
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.value is not None
    }
    base = ast.unparse(node.bases[0])
    lines = [f"class {node.name}({base}):", f'    """{ast.get_docstring(node)}"""', ""]
    lines.append("    FIELDS: ClassVar[tuple[Field, ...]] = named({")
    lines += [f"        {name!r}: {ast.unparse(item.value)}," for name, item in declared.items() if item.value]
    lines.append("    })")
    if base == "Message":
        lines += [
            "    API_KEY: ClassVar[Any] = None"
            if cls.API_KEY is None
            else f"    API_KEY: ClassVar[ApiKey | None] = ApiKey.{cls.API_KEY.name}",
            f"    VERSIONS: ClassVar[tuple[int, int]] = {cls.VERSIONS}",
            f"    FLEXIBLE_FROM: ClassVar[int | None] = {cls.FLEXIBLE_FROM}",
            "    _decoders: ClassVar[dict[int, Any]] = {}",
            "    _encoders: ClassVar[dict[int, Any]] = {}",
        ]
    lines += ["    _shared_default: ClassVar[Struct | None] = None"] if base == "Struct" else []
    lines += [f"    {name}: {ast.unparse(item.annotation)}" for name, item in declared.items()]
    parameters, body, before = [], [], []
    for field in cls.FIELDS:
        annotation = ast.unparse(declared[field.name].annotation)
        default = field.default_value()
        if isinstance(default, list):
            written = "OMITTED"
            body.append(f"        self.{field.name} = [] if {field.name} is OMITTED else {field.name}")
        else:
            written = repr(default)
            if hasattr(default, "FIELDS"):
                name = type(default).__name__
                written = f"_DEFAULT_{name}"
                before.append(f"{written}: Final = cast({name}, {name}.shared_default())")
            body.append(f"        self.{field.name} = {field.name}")
        parameters.append(f"{field.name}: {annotation} = {written}")
    star = "*, " if parameters else ""
    lines += ["", f"    def __init__(self, {star}{', '.join(parameters)}) -> None:", *(body or ["        pass"])]
    return [*before, *([""] if before else []), *lines]
