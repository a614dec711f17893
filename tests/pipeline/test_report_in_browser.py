"""The report in a real browser: drawn, silent, alone, in light and dark, on the screen and on paper."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.report import render
from tests.pipeline.browser import Chromium, need_chromium
from tests.pipeline.capture import unpack
from tests.pipeline.oracle_report import report_data
from tests.pipeline.test_report import EVIL, evil_data

pytestmark = pytest.mark.slow

DRAWN = """[...document.querySelectorAll('.figure')].map((figure) => [
  figure.id || figure.dataset.figure,
  figure.querySelectorAll('.scatterlayer path, .barlayer path').length,
])"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    need_chromium()
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def test_the_page_draws_every_figure_and_asks_nobody(chromium: Chromium, tmp_path: Path):
    """No console error, no request but for the file itself, no wider than 1280 px; each figure has marks in it."""
    directory, _ = unpack("kafka-4.3.1", tmp_path)
    page = tmp_path / "report.html"
    page.write_text(render(report_data(directory)))

    for scheme in ("light", "dark"):
        chromium.scheme(scheme)
        chromium.open(page)
        marks = dict(chromium.evaluate(DRAWN))
        assert set(marks) == {"lag-messages", "lag-seconds", "rebalances", "owners", "growth", "commits"}
        assert all(marks.values()), marks
        assert chromium.evaluate("document.documentElement.scrollWidth") <= 1280
        chromium.screenshot(tmp_path / f"{scheme}.png")

    assert chromium.problems == []
    assert set(chromium.requests) == {page.resolve().as_uri()}
    assert page.stat().st_size < 6_000_000


def test_the_colours_follow_when_the_reader_changes_them(chromium: Chromium, tmp_path: Path):
    """Also without loading anew: figures are drawn again in the other colours, and white to be printed."""
    directory, _ = unpack("kohort", tmp_path)
    page = tmp_path / "report.html"
    page.write_text(render(report_data(directory)))
    background = "document.querySelector('[data-figure] .main-svg').style.background"
    chromium.scheme("light")
    chromium.open(page)
    light = chromium.evaluate(background)
    again = f"new Promise((done) => setTimeout(() => done({background}), 500))"

    chromium.scheme("dark")
    dark = chromium.evaluate(again)
    chromium.scheme("dark", media="print")
    paper = chromium.evaluate(again)
    printed = chromium.pdf()
    chromium.scheme("light")

    assert light != dark
    assert paper == light
    assert printed.startswith(b"%PDF")


def test_a_choice_of_group_shows_its_owners_and_zooming_moves_all_time_axes(chromium: Chromium, tmp_path: Path):
    directory, _ = unpack("kafka-4.3.1", tmp_path)
    page = tmp_path / "report.html"
    page.write_text(render(report_data(directory)))
    chromium.open(page)

    shown = chromium.evaluate(
        """(async () => {
          const choice = document.getElementById('owners-group');
          const seen = [];
          for (const option of choice.options) {
            choice.value = option.value;
            choice.dispatchEvent(new Event('change'));
            await new Promise((done) => setTimeout(done, 300));
            seen.push([option.text, document.getElementById('owners').data.map((trace) => trace.name)]);
          }
          return seen;
        })()"""
    )
    chromium.evaluate(
        """Plotly.relayout(document.querySelector('[data-figure=lag-messages]'),
             {'xaxis.range[0]': '2026-11-21 14:55:50', 'xaxis.range[1]': '2026-11-21 14:55:55'})
             .then(() => new Promise((done) => setTimeout(done, 500)))"""
    )
    ranges = chromium.evaluate(
        "[...document.querySelectorAll('.figure')].map((figure) => figure.layout.xaxis.range[0].slice(0, 19))"
    )

    assert {name: sorted(owners) for name, owners in shown} == {
        "next": ["next-a", "next-b"],
        "kp": ["kp-a", "kp-b"],
        "librd": ["librd-a", "librd-b"],
        "aio": ["aio-a", "aio-b"],
    }
    assert set(ranges) == {"2026-11-21 14:55:50"}


def test_a_group_named_as_a_script_is_shown(chromium: Chromium, tmp_path: Path):
    """PL34 in a browser: the name is read as it is, in a table and in the figures, and nothing runs."""
    page = tmp_path / "evil.html"
    page.write_text(render(evil_data()))
    before = len(chromium.problems)
    chromium.open(page)

    assert chromium.evaluate("document.querySelector('#groups td').textContent") == EVIL
    labels = chromium.evaluate(
        "[...document.querySelectorAll('.legendtext, .ytick text')].map((one) => one.textContent)"
    )
    assert EVIL in labels
    assert chromium.evaluate("document.querySelectorAll('script').length") == 3
    assert chromium.problems[before:] == []
