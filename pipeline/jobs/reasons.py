"""What Spark raised, as one sentence: the words of whoever failed first, and never none.

Spark wraps what a Python worker raised into its own error, several times over. The pipeline's own errors are found by
their names. Of any other exception the last line of the innermost traceback counts; where that says no more than the
exception's name (a failed assertion, an empty message), the line of code that raised it is told too.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import NoReturn

from pipeline.errors import DataError, EnvironmentMissing, UsageError

_OURS = re.compile(r"^.*?\b(?:pipeline|storage|protocol)[\w.]*\.(\w+): (.+)$", re.MULTILINE)
_CONDITION = re.compile(r"\[([A-Z_.]+)\] ?([^\n]*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Caused by|): ([\w.$]+(?:Exception|Error): .+)$", re.MULTILINE)
_TRACE = "Traceback (most recent call last):"
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$")
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+), in (.+)$')


def explain(error: Exception) -> NoReturn:
    """Raise the pipeline's own error that lies at the bottom of one of Spark's, or what says most about another.

    Raises: UsageError, EnvironmentMissing, DataError.
    """
    text = str(error)
    found = _OURS.findall(text)
    if found:
        name, message = found[-1]
        kind = {"UsageError": UsageError, "EnvironmentMissing": EnvironmentMissing}.get(name, DataError)
        raise kind(message.strip()) from error
    raised = _of_python(text)
    if raised is not None:
        name, sentence = raised
        if name in ("ModuleNotFoundError", "ImportError"):
            raise EnvironmentMissing(
                f"Spark's Python lacks a package: {sentence}. Workers need what the driver has: "
                "pip install 'kohort[spark]' on every executor, or name their interpreter in PYSPARK_PYTHON"
            ) from error
        raise DataError(f"Spark's Python failed: {sentence}") from error
    raise DataError(_of_spark(text, type(error).__name__)) from error


def _of_python(text: str) -> tuple[str, str] | None:
    """(exception, sentence) of the innermost traceback; None where there is none."""
    for block in reversed(text.split(_TRACE)[1:]):
        frame: re.Match[str] | None = None
        code = ""
        lines = block.lstrip("\r").splitlines()
        for number, line in enumerate(lines):
            if line.startswith((" ", "\t")) or not line:
                place = _FRAME.match(line)
                if place:
                    frame, code = place, lines[number + 1].strip() if number + 1 < len(lines) else ""
                continue
            raised = _RAISED.match(line.rstrip())
            if raised is None:
                break
            name, words = raised[1].rpartition(".")[2], (raised[2] or "").strip()
            if words:
                return name, f"{name}: {words}"
            if frame is None:
                return name, name
            return name, f"{name} in {frame[3]} ({PurePath(frame[1]).name}, line {frame[2]}): {code}"
    return None


def _of_spark(text: str, name: str) -> str:
    """Spark's own words: the line that names a condition says more than the first of a trace, and the last cause more
    than what it led to."""
    named = _CONDITION.search(text)
    if named and named[1] == "USER_RAISED_EXCEPTION":
        return named[2]
    causes = _CAUSE.findall(text)
    if named and named[2].strip() and not named[2].rstrip().endswith(":"):
        return f"Spark: [{named[1]}] {named[2]}"
    if causes:
        return f"Spark: {causes[-1].strip()}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line for line in lines if not line.endswith(":")), lines[0] if lines else "")
    return f"Spark: {said or name + ' without a word'}"
