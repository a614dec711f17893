"""The scenario lists and the tests that cite them stay together."""

from tests.support import scenarios


def test_every_cited_scenario_can_be_looked_up():
    """An id in a test stands in docs/scenarios; one that does not is a slip of the pen."""
    known = {name for ids in scenarios.defined().values() for name in ids}

    unknown = {name: sorted(files) for name, files in scenarios.cited().items() if name not in known}

    assert not unknown


def test_no_scenario_is_listed_twice():
    """One id, one line."""
    pages = (scenarios.ROOT / "docs" / "scenarios").glob("*.md")
    ids = [family + number for page in pages for family, number in scenarios.DEFINED.findall(page.read_text())]

    assert len(ids) == len(set(ids)) > 400
