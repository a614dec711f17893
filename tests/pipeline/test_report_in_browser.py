"""The report in a real browser: drawn, silent, alone, in light and dark, on the screen and on paper."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.command_line import read
from pipeline.jobs import report
from pipeline.jobs.inputs import Inputs
from pipeline.report import ReportData, render
from pipeline.report.findings import of_rows
from tests.pipeline.browser import Chromium, need_chromium
from tests.pipeline.capture import unpack
from tests.pipeline.oracle_report import report_data
from tests.pipeline.test_report import EVIL, NOON, evil_data, group, rebalance
from tests.support.broker_process import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

DRAWN = """[...document.querySelectorAll('.figure')].map((figure) => [
  figure.id || figure.dataset.figure,
  figure.querySelectorAll('.scatterlayer path, .barlayer path').length,
])"""
OWNERS = """(() => {
  const owners = document.getElementById('owners');
  return owners.hidden || !owners.data ? [] : owners.data.map((trace) => trace.name);
})()"""


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
        assert set(marks) == {"lag-messages", "lag-seconds", "rebalances", "group-lag", "owners"} | {
            "growth",
            "commits",
        }
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

    chromium.scheme("dark")
    eventually(lambda: chromium.evaluate(background) != light, what="dark figures")
    chromium.scheme("dark", media="print")
    eventually(lambda: chromium.evaluate(background) == light, what="white figures on paper")
    printed = chromium.pdf()
    chromium.scheme("light")

    assert printed.startswith(b"%PDF")


def test_a_choice_of_group_shows_its_owners_and_zooming_moves_all_time_axes(chromium: Chromium, tmp_path: Path):
    directory, _ = unpack("kafka-4.3.1", tmp_path)
    page = tmp_path / "report.html"
    page.write_text(render(report_data(directory)))
    chromium.open(page)

    names = chromium.evaluate("[...document.getElementById('chosen-group').options].map((option) => option.text)")
    owners = {
        "next": ["next-a", "next-b"],
        "kp": ["kp-a", "kp-b"],
        "librd": ["librd-a", "librd-b"],
        "aio": ["aio-a", "aio-b"],
    }
    assert set(owners) < set(names)
    for place, name in enumerate(names):
        chromium.evaluate(
            "(() => { const choice = document.getElementById('chosen-group');"
            f" choice.value = choice.options[{place}].value; choice.dispatchEvent(new Event('change')); }})()"
        )
        eventually(partial(_shows, chromium, owners.get(name, [])), what=f"owners of {name}")
    chromium.evaluate(
        """Plotly.relayout(document.querySelector('[data-figure=lag-messages]'),
             {'xaxis.range[0]': '2026-11-21 14:55:50', 'xaxis.range[1]': '2026-11-21 14:55:55'}).then(() => 0)"""
    )
    ranges = (
        "[...document.querySelectorAll('.figure')].filter((figure) => figure.layout)"
        ".map((figure) => figure.layout.xaxis.range[0].slice(0, 19))"
    )
    eventually(lambda: set(chromium.evaluate(ranges)) == {"2026-11-21 14:55:50"}, what="all time axes there")


def _shows(chromium: Chromium, owners: list[str]) -> bool:
    return sorted(chromium.evaluate(OWNERS)) == owners


def test_a_click_on_what_was_wrong_shows_that_group_at_that_time(chromium: Chromium, tmp_path: Path):
    """One look and one click: from a finding to the lag of the group's partitions around it."""
    page = tmp_path / "report.html"
    rows = [group(f"g{i}", worst_lag_messages=100 - i, worst_lag_seconds=9.0, worst_lag_at=NOON) for i in range(60)]
    lags = [
        {"group_id": f"g{i}", "topic": "t", "partition": 0, "at": NOON + timedelta(minutes=at)}
        | {"lag_messages": i + at, "lag_seconds": 1.0}
        for i in range(2)
        for at in range(-300, 300)
    ]
    found = [{"group_id": "g1", "rule": "behind", "weight": "warning", "text": "was behind", "first_at": NOON}]
    data = ReportData("s", NOON, rows[:40], others=rows[40:], lag=lags, partitions=lags, findings=found)
    page.write_text(render(data))
    chromium.open(page)

    chromium.evaluate("document.querySelector('.findings [data-choose]').click()")
    shown = (
        "['lag-messages', 'group-lag'].map((name) => (document.getElementById(name)"
        " || document.querySelector(`[data-figure=${name}]`)).layout?.xaxis.range[0].slice(0, 16))"
    )
    rows_shown = "document.querySelectorAll('#groups tbody tr').length"

    eventually(lambda: chromium.evaluate(shown) == ["2026-11-21 11:58"] * 2, what="both figures around that time")
    assert chromium.evaluate("document.getElementById('chosen-group').selectedOptions[0].text") == "g1"
    assert chromium.evaluate(rows_shown) == 40
    search = "(() => { const box = document.querySelector('#groups input'); box.value = 'g5';"
    chromium.evaluate(search + " box.dispatchEvent(new Event('input')); })()")
    assert chromium.evaluate(rows_shown) == 11  # g5, g50 to g59: also those without figures
    chromium.evaluate(
        "[...document.querySelectorAll('#groups th')].find((one) => /worst lag/.test(one.textContent)).click()"
    )
    chromium.evaluate(
        "[...document.querySelectorAll('#groups th')].find((one) => /worst lag/.test(one.textContent)).click()"
    )
    assert chromium.evaluate("document.querySelector('#groups tbody td').textContent") == "g59"


def test_one_look_and_one_click_need_no_scrolling(chromium: Chromium, tmp_path: Path):
    """Paged at night, of thousands of groups many were down: on the first screen what is wrong, and the lag; after a
    click on a finding why, and the lag of that group. The table is read without guessing which heading is whose.
    """
    page = tmp_path / "report.html"
    hour = {"worst_lag_messages": 16_484, "worst_lag_seconds": 1_621.0, "worst_lag_at": NOON, "last_rebalance_at": NOON}
    groups = [group(f"payments-settlement-{i:04d}", last_commit_at=NOON, **hour) for i in range(5_000)]
    steps = [rebalance(row["group_id"], left=["worker-2-2b6f4f0e"], trigger="session_expired") for row in groups[:40]]
    lags = [
        {"group_id": row["group_id"], "topic": "t", "partition": 0, "at": NOON + timedelta(minutes=at)}
        | {"lag_messages": 7 * at + 2100, "lag_seconds": 1.0}
        for row in groups[:40]
        for at in range(-300, 300)
    ]
    found = of_rows(groups[:40], [], steps, [], [], [])
    shown = {"groups": groups[:40], "others": groups[40:], "lag": lags, "partitions": lags, "rebalances": steps}
    page.write_text(render(ReportData("s", NOON, findings=found, **shown)))
    assert page.stat().st_size < 9_000_000
    chromium.open(page)

    seen = "(element) => { const box = element.getBoundingClientRect(); return [box.top, box.bottom, innerHeight]; }"
    top, _, height = chromium.evaluate(f"({seen})(document.querySelector('[data-figure=lag-messages] .nsewdrag'))")
    assert height - top >= 200
    chromium.evaluate(
        "new Promise((done) => { addEventListener('scrollend', done, { once: true });"
        " document.querySelector('.findings [data-choose]').click(); })"
    )
    chromium.evaluate(
        "new Promise((done) => { const look = () => document.querySelector('#group-lag .nsewdrag') ? done(true)"
        " : requestAnimationFrame(look); look(); })"
    )
    parts = ("#group .findings[data-of]:not([hidden])", "#group-lag .nsewdrag")
    boxes = [chromium.evaluate(f"({seen})(document.querySelector('{part}'))") for part in parts]
    assert boxes[0][0] >= 0
    assert boxes[0][1] <= boxes[1][0]
    assert boxes[1][1] <= boxes[1][2]
    heads = "[...document.querySelectorAll('#groups th')].map((one) => { const range = document.createRange();"
    heads += " range.selectNodeContents(one); const box = range.getBoundingClientRect();"
    heads += " return [box.left, box.right, box.height]; })"
    words = chromium.evaluate(heads)
    assert min(after[0] - before[1] for before, after in pairwise(words)) >= 8
    assert max(word[2] for word in words) < 45  # two lines
    wide = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth).length"
    assert chromium.evaluate(wide) == 0
    assert chromium.evaluate("document.documentElement.scrollWidth") <= 1280


def test_the_page_that_the_job_made_is_drawn(chromium: Chromium, tmp_path: Path, spark: "SparkSession"):
    """Of what Apache Kafka left: every section has rows in it, nothing complains, and a rebalance is on the lag."""
    directory, _ = unpack("kafka-4.3.1", tmp_path)
    page = tmp_path / "job.html"
    before = len(chromium.problems)
    with Inputs(spark, read(["report", "--from", str(directory), "--to", str(page)])) as inputs:
        count = report.execute(inputs)
    chromium.open(page)

    marks = dict(chromium.evaluate(DRAWN))
    names = "document.querySelector('[data-figure=lag-messages]').data.map((trace) => trace.name)"
    assert {name for name, drawn in marks.items() if drawn} >= {"lag-messages", "group-lag", "rebalances", "owners"}
    assert "rebalance" in chromium.evaluate(names)
    assert chromium.evaluate("document.querySelectorAll('#groups tbody tr').length") == count
    assert chromium.problems[before:] == []


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
