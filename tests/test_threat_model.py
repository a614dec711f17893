"""docs/security.md says what an attacker can do, and each sentence names the test that holds it."""

from __future__ import annotations

import re

from tests.support.scenarios import ROOT

PAGE = ROOT / "docs" / "security.md"
_HELD = re.compile(r"^- [a-z].*\(\[test\]\((\S+) \"(test_\w+)\"\)\)\.$")


def test_each_sentence_names_a_test_that_is_there() -> None:
    """All that the page says but its first paragraph, which says what it is."""
    title, _, sentences = PAGE.read_text().split("\n\n", 2)
    assert title == "# What an attacker can do"
    held = 0
    for sentence in sentences.splitlines():
        if not sentence or sentence.startswith("## An attacker with"):
            continue
        named = _HELD.match(sentence)
        assert named, sentence
        source = (PAGE.parent / named[1]).resolve().read_text()
        assert re.search(rf"^(async )?def {named[2]}\(", source, re.MULTILINE), sentence
        held += 1
    assert held > 35
