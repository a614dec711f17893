"""Which scenarios of `docs/scenarios` the tests cite.

A citation is an id in a docstring, a comment or a string (`J02`), or in a test's name (`test_j02_...`). An id is one
or two capitals of a family that `docs/scenarios` knows, and two digits.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFINED = re.compile(r"^- \*\*([A-Z]{1,2})(\d{2,})\*\*", re.MULTILINE)
IN_TEXT = re.compile(r"\b([A-Z]{1,2})(\d{2})\b(?!\w)")


def defined() -> dict[str, set[str]]:
    """The ids that stand in docs/scenarios, by family."""
    families: dict[str, set[str]] = {}
    for page in sorted((ROOT / "docs" / "scenarios").glob("*.md")):
        for family, number in DEFINED.findall(page.read_text()):
            families.setdefault(family, set()).add(family + number)
    return families


def cited() -> dict[str, set[str]]:
    """The ids that tests cite, each with the files that do."""
    families = defined()
    where: dict[str, set[str]] = {}
    for file in sorted((ROOT / "tests").rglob("*.py")):
        text = file.read_text()
        names = [word for name in re.findall(r"\bdef (test_\w+)", text) for word in name.upper().split("_")]
        for word in [*IN_TEXT.findall(text), *(match for name in names for match in IN_TEXT.findall(name))]:
            if word[0] in families:
                where.setdefault("".join(word), set()).add(str(file.relative_to(ROOT)))
    return where


def coverage() -> list[str]:
    """One line for each family: how many ids, how many cited, which not."""
    where = cited()
    lines = []
    for family, ids in defined().items():
        missing = sorted(ids - where.keys())
        some = "all" if not missing else "not cited: " + " ".join(missing) if len(missing) < len(ids) else "none cited"
        lines.append(f"{family:2} {len(ids) - len(missing):3} of {len(ids):3}  {some}")
    return lines
