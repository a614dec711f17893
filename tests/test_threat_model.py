"""docs/security.md says what an attacker can do, and each sentence names the test that holds it."""

from __future__ import annotations

import re

from tests.support.scenarios import ROOT

PAGE = ROOT / "docs" / "security.md"
_SECTION = re.compile(r"^## What an attacker can do$(.*?)^## ", re.MULTILINE | re.DOTALL)
_HELD = re.compile(r"^- [a-z].*\(\[test\]\((\S+) \"(test_\w+)\"\)\)\.$")


def test_each_sentence_names_a_test_that_is_there() -> None:
    section = _SECTION.search(PAGE.read_text())
    assert section is not None
    sentences = [line for line in section[1].splitlines() if line.startswith("- ")]
    for sentence in sentences:
        held = _HELD.match(sentence)
        assert held, sentence
        source = (PAGE.parent / held[1]).resolve().read_text()
        assert re.search(rf"^(async )?def {held[2]}\(", source, re.MULTILINE), sentence
    assert len(sentences) > 25
