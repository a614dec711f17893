"""Options that several verbs have are declared once."""

from __future__ import annotations

import ast
from pathlib import Path

from cli import VERSION
from cli.options import BOOTSTRAP, COMMAND_CONFIG, COMMAND_PROPERTY, CONTAINER, JSON, OVERRIDE

CLI = Path(__file__).parents[2] / "cli"
TABLES = {"__init__.py", "arguments.py", "options.py"}


def test_what_verbs_and_kafkas_tools_share_is_spelled_in_the_tables_alone():
    """Not `--topic` and `--timeout`, which mean something else to some."""
    shared = (BOOTSTRAP, COMMAND_CONFIG, COMMAND_PROPERTY, CONTAINER, JSON, OVERRIDE)
    spellings = {VERSION, *(spelling for one in shared for spelling in one.spellings)}
    again = [
        f"{path.relative_to(CLI)}:{node.lineno}"
        for path in sorted(CLI.rglob("*.py"))
        if str(path.relative_to(CLI)) not in TABLES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in spellings
    ]
    assert not again
