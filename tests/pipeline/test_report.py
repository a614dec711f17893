"""The report page: what is in it, what is escaped, what is left out. No Spark: a page is made of rows."""

import html
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeline.report import ReportData, choose_groups, render, thin
from pipeline.report.data import POINTS_GREY, shortened
from pipeline.report.drawing import text
from pipeline.report.figures import growth, ownership
from pipeline.report.findings import of_rows
from pipeline.report.lag_figures import lag, partitions, slots
from pipeline.report.rebalance_figures import described, rebalances

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
EVIL = "<script>alert(1)</script>"


def group(name: str, **facts: Any) -> dict[str, Any]:
    return {
        "group_id": name,
        "type": "classic",
        "state": "Stable",
        "generation": 3,
        "members": 2,
        "topics": 1,
        "partitions": 6,
        "last_rebalance_at": NOON,
        "last_commit_at": NOON,
        "rebalances_24h": 1,
        "lag_messages": 0,
        **facts,
    }


def rebalance(name: str, **facts: Any) -> dict[str, Any]:
    return {
        "group_id": name,
        "source": "ledger",
        "from_generation": 3,
        "to_generation": 4,
        "missing_generations": 0,
        "started_at": NOON - timedelta(seconds=3),
        "finished_at": NOON,
        "duration_ms": 3000,
        "sync_ms": 5,
        "trigger": "member_joined",
        "reason": None,
        "members_before": 1,
        "members_after": 2,
        "joined": ["b"],
        "left": [],
        "leader_changed": False,
        "protocol": "range",
        "partitions_total": 6,
        "partitions_moved": 3,
        "stopped_ms": 3000,
        "slowest_member": "a",
        "log_offset": 7,
        **facts,
    }


def stay(name: str, member: str, **facts: Any) -> dict[str, Any]:
    return {
        "group_id": name,
        "topic": "orders",
        "partition": 0,
        "member_id": member,
        "group_instance_id": None,
        "client_id": member,
        "client_host": "/10.0.0.1",
        "from_generation": 3,
        "to_generation": None,
        "owned_from": NOON,
        "owned_to": None,
        "ended_by": None,
        "source": "generation",
        **facts,
    }


def reset(name: str, **facts: Any) -> dict[str, Any]:
    return {
        "group_id": name,
        "topic": "orders",
        "partition": 0,
        "at": NOON,
        "kind": "back",
        "from_offset": 9000,
        "to_offset": 0,
        "distance": -9000,
        "set_by": "outsider",
        "member_id": None,
        "client_id": None,
        **facts,
    }


def evil_data() -> ReportData:
    growth = {
        "group_id": EVIL,
        "window_start": NOON,
        "commits": 7,
        "tombstones": 1,
        "group_records": 2,
        "bytes": 700,
        "share": 1.0,
        "commits_per_second": 7 / 3600,
        "verdict": "commit_per_message",
    }
    stuck = {
        "group_id": EVIL,
        "topic": EVIL,
        "partition": 0,
        "stuck_since": NOON,
        "committed_offset": None,
        "commits_since": 0,
        "log_end_offset": 9,
        "lag_messages": 9,
        "owner_member_id": EVIL,
        "owner_client_host": EVIL,
        "verdict": "no_commits",
    }
    return ReportData(
        source=EVIL,
        made_at=NOON,
        groups=[group(EVIL, lag_messages=9)],
        lag=[{"group_id": EVIL, "at": NOON, "lag_messages": 9, "lag_seconds": 2.5}],
        rebalances=[rebalance(EVIL, reason=EVIL, trigger=EVIL, joined=[EVIL], slowest_member=EVIL)],
        membership=[stay(EVIL, EVIL, client_host=EVIL, topic=EVIL)],
        growth=[growth],
        stuck=[stuck],
        findings=[{"group_id": EVIL, "rule": "storm", "weight": "warning", "text": EVIL}],
        unknown=[EVIL],
        others=[group(EVIL)],
        partitions=[
            {"group_id": EVIL, "topic": EVIL, "partition": 0, "at": NOON, "lag_messages": 9, "lag_seconds": 2.5}
        ],
        resets=[reset(EVIL, topic=EVIL, client_id=EVIL, kind=EVIL, set_by=EVIL)],
        timeline=[told(EVIL, EVIL, EVIL)],
    )


def told(group_id: str, text: str, *below: str) -> dict[str, Any]:
    return {"group_id": group_id, "at": NOON, "generations": "1 -> 2", "took_ms": 300, "text": text, "below": below}


def test_text_of_the_data_is_shown_and_not_run():
    """PL34: wherever a name goes, it arrives escaped: in tables, options, figures, the title."""
    page = render(evil_data())

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    block = page.split('<script type="application/json" id="figures">')[1].split("</script>")[0]
    figures = json.loads(block)
    assert set(figures) == {"lag-messages", "lag-seconds", "rebalances", "growth", "commits", "owners-0", "lag-0"}
    assert "<script>alert" not in str(figures)
    assert figures["lag-messages"]["data"][0]["name"] == text(EVIL)


def test_the_page_asks_nobody_for_anything():
    """Nothing is loaded: no address in an attribute, and a policy that forbids it."""
    page = render(evil_data())
    ours = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)

    assert not re.search(r"""(src|href)=["']?(https?:)?//""", ours)
    assert "default-src 'none'" in ours
    assert "{{" not in ours


def test_what_happened_to_a_group_is_told_line_by_line():
    page = render(ReportData("s", NOON, [group("g")], timeline=[told("g", "b left", "nothing moved", "b: it ended")]))

    assert "<h3>What happened</h3>" in page
    assert "<td>1 -&gt; 2</td><td class=number>300</td><td>b left<br>nothing moved<br>b: it ended</td>" in page
    assert "What happened" not in render(ReportData("s", NOON, [group("g")]))


def test_an_empty_directory_gives_a_page_that_says_so():
    page = render(ReportData(source="empty", made_at=NOON, groups=[]))

    assert "No group has a record in these logs." in page
    assert "nothing is in these logs" in page
    assert 'id="figures">{}</script>' in page


def test_a_long_series_keeps_its_ends_and_its_peaks():
    """At most 2,000 points; a single spike among 100,000 is still there."""
    rows = [{"at": NOON + timedelta(seconds=i), "v": 0 if i != 54_321 else 7, "group_id": "g"} for i in range(100_000)]

    kept = thin(rows, "v")

    assert len(kept) <= 2000
    assert (kept[0], kept[-1]) == (rows[0], rows[-1])
    assert max(row["v"] for row in kept) == 7
    assert kept == sorted(kept, key=lambda row: row["at"])


def test_lines_without_a_colour_have_fewer_points_and_their_peaks():
    """Of forty groups' lines 32 are grey: with as many points as the others they were most of the page."""
    rows = [
        {"group_id": name, "at": NOON + timedelta(seconds=i), "lag_messages": 900 if i == 777 else i % 7}
        for name in ("grey", "blue")
        for i in range(1900)
    ]
    figure = lag(rows, "lag_messages", "messages", {"blue": 0})

    assert figure is not None
    counts = {trace["name"]: len(trace["y"]) for trace in figure["data"]}
    assert counts["blue"] == 1900
    assert counts["grey"] <= POINTS_GREY
    assert {max(trace["y"]) for trace in figure["data"] if trace["name"] in ("grey", "blue")} == {900}


def test_a_column_that_nobody_has_anything_in_is_left_out():
    """Offsets of groups with members do not expire: thirteen columns left no room for names."""
    groups = [group("g"), group("h")]
    assert "offsets expire" not in render(ReportData("s", NOON, groups))
    groups[1]["offsets_expire_at"] = NOON
    assert "offsets expire" in render(ReportData("s", NOON, groups))


def test_a_rebalance_that_leaves_nobody_behind_is_described():
    """Of how many partitions is not known then: the ledger says None."""
    assert "<br>4 partitions moved" in described(rebalance("g", partitions_moved=4, partitions_total=None))
    assert "<br>3 of 6 partitions moved" in described(rebalance("g"))


def test_a_group_that_keeps_up_has_caught_up():
    """It is behind by what was written since its last commit: that is no rest of an outage."""
    hour = {"worst_lag_messages": 16_484, "worst_lag_seconds": 1_621.0, "worst_lag_at": NOON}

    def said(now: int, partitions: int) -> str:
        row = group("g", lag_messages=now, partitions=partitions, **hour)
        return str(of_rows([row], [], [], [], [], [])[0]["text"])

    assert said(430, 1).startswith("was 16,484 messages behind, the oldest had waited 27 min; it has caught up")
    assert said(4_300, 1).endswith("; 4,300 at the end")
    assert said(800, 4).startswith("was 16,484 messages behind in one partition, ")
    assert said(800, 4).endswith("; it has caught up")
    assert said(16_484, 100).endswith("; 16,484 in all partitions together at the end"), "all of it may be that one's"
    assert said(17_066, 4).endswith("; 17,066 in all partitions together at the end")


def test_the_worst_lag_is_that_of_a_partition_whatever_all_of_another_group_are_at_the_end():
    """Of a group with many partitions the sum at the end may be more than any partition ever was behind."""
    hour = {"worst_lag_seconds": 9.0, "worst_lag_at": NOON}
    rows = [
        group("worst", lag_messages=0, worst_lag_messages=10_000, **hour),
        group("many", lag_messages=20_000, worst_lag_messages=7_777, **hour),
    ]
    page = render(ReportData("s", NOON, rows))
    assert "<dt>worst lag</dt><dd>10,000</dd>" in page


def test_a_group_is_the_worst_also_where_only_its_end_is_known():
    """The moments before are not known where its topics' logs were not read."""
    hour = {"worst_lag_seconds": 9.0, "worst_lag_at": NOON}
    rows = [group("known", worst_lag_messages=10, **hour), group("at the end", lag_messages=20_000)]
    page = render(ReportData("s", NOON, rows))
    assert "<dt>worst lag</dt><dd>20,000</dd><dd class=small>messages of one group, at the end</dd>" in page
    rows.append(group("behind, too", lag_messages=30_000, worst_lag_messages=9_000, **hour))
    assert "<dt>worst lag</dt><dd>9,000</dd>" in render(ReportData("s", NOON, rows)), "the worst at the end is another"


def test_a_log_that_is_unknown_for_a_while_is_a_gap_and_not_a_zero():
    rows = [
        {"group_id": "g", "at": NOON + timedelta(minutes=i), "lag_messages": None if i == 1 else 5} for i in range(3)
    ]
    figure = lag(rows, "lag_messages", "messages", {"g": 0})

    assert figure is not None
    assert figure["data"][0]["y"] == [5, None, 5]
    assert figure["data"][0]["connectgaps"] is False
    assert lag([row | {"lag_messages": None} for row in rows], "lag_messages", "messages", {}) is None


def test_forty_groups_are_shown_and_the_others_named():
    shown, others = choose_groups([group(f"g{i}", lag_messages=i) for i in range(50)])

    assert [row["group_id"] for row in shown][:2] == ["g49", "g48"]
    assert (len(shown), [row["group_id"] for row in others]) == (40, [f"g{i}" for i in range(9, -1, -1)])


def test_a_group_is_chosen_by_its_worst_moment_and_not_by_its_end():
    """Of 89 groups each had its hour; those that still lag a little do not push out one that has caught up."""
    caught_up = group("was-down", lag_messages=0, worst_lag_messages=80_000, worst_lag_seconds=3_600.0)
    slow = group("few-but-old", lag_messages=0, worst_lag_messages=3, worst_lag_seconds=7_200.0)
    shown, _ = choose_groups([*(group(f"g{i}", lag_messages=10 + i) for i in range(87)), caught_up, slow])

    assert {row["group_id"] for row in shown[:2]} == {"was-down", "few-but-old"}


def test_a_group_that_rebalances_is_shown_though_all_others_are_behind():
    """Among 300 groups with a lag the only one that rebalanced had no figure."""
    behind = [group(f"g{i}", lag_messages=10 + i, rebalances_24h=0) for i in range(300)]
    shown, _ = choose_groups([*behind, group("restless", lag_messages=0, rebalances_24h=5)])

    assert "restless" in [row["group_id"] for row in shown[:3]]
    once = [group(f"deployed-{i}", lag_messages=0, rebalances_24h=1) for i in range(100)]
    shown, _ = choose_groups([*behind, *once])
    assert not [row for row in shown if row["group_id"].startswith("deployed")], "a deployment is no news"


def test_rebalances_of_groups_without_a_figure_are_not_denied():
    page = render(ReportData("s", NOON, [group("g")], facts={"ledger": 5}))
    assert "None of the groups with figures; 5 rebalances of others." in page
    assert "No rebalance left a trace" not in page
    assert "No rebalance left a trace" in render(ReportData("s", NOON, [group("g")]))


def test_the_time_axes_begin_with_what_happened_and_not_with_its_hour():
    """A minute of lag was a stroke at the right edge: growth is told by hours, and the hour had begun long before."""
    at = NOON + timedelta(minutes=50)
    rows = [{"group_id": "g", "at": at + timedelta(seconds=i), "lag_messages": i, "lag_seconds": 0.0} for i in range(9)]
    hour = evil_data().growth[0] | {"group_id": "g"}
    page = render(ReportData("s", NOON, [group("g", last_commit_at=at)], lag=rows, growth=[hour]))
    shown = re.search(r'data-window="([^"]*)"', page)

    assert shown is not None
    assert json.loads(html.unescape(shown[1]))[0].startswith(f"{at - timedelta(seconds=1):%Y-%m-%d %H:%M:%S}")

    days = [hour | {"window_start": NOON - timedelta(hours=hours)} for hours in range(72)]
    page = render(ReportData("s", NOON, [group("g", last_commit_at=at)], lag=rows, growth=days))
    shown = re.search(r'data-window="([^"]*)"', page)
    assert shown is not None
    assert json.loads(html.unescape(shown[1]))[0] < f"{days[-1]['window_start']:%Y-%m-%d %H:%M:%S}", (
        "three days of growth"
    )


def test_colour_tells_nothing_alone_and_a_dash_is_never_a_gap():
    """Lines are whole where lag is known, and differ in their marks, so that the page is readable in grey."""
    rows = [{"group_id": f"g{i}", "at": NOON, "lag_messages": i} for i in range(6)]
    figure = lag(rows, "lag_messages", "messages", {f"g{i}": i for i in range(6)})

    assert figure is not None
    assert len({trace["marker"]["symbol"] for trace in figure["data"]}) == 6
    assert not any("dash" in trace["line"] for trace in figure["data"])


def test_where_lag_is_unknown_a_bar_says_so():
    known = [None, 5, None, None, 7]
    rows = [
        {"group_id": "g", "at": NOON + timedelta(minutes=i), "lag_messages": value} for i, value in enumerate(known)
    ]
    figure = lag(rows, "lag_messages", "messages", {"g": 0})

    assert figure is not None
    [bar] = [trace for trace in figure["data"] if trace["name"] == "lag unknown"]
    assert [x and x[11:16] for x in bar["x"]] == ["12:00", "12:01", None, "12:02", "12:04", None]


def test_rebalances_are_marked_on_the_lag():
    """On the line of their group, and through the lines of its partitions; what went wrong stands out."""
    points = [
        {"group_id": "g", "topic": "t", "partition": 0, "at": NOON + timedelta(minutes=i), "lag_messages": i}
        | {"lag_seconds": 1.0}
        for i in range(9)
    ]
    steps = [
        rebalance("g", finished_at=NOON + timedelta(minutes=3)),
        rebalance("g", finished_at=NOON + timedelta(minutes=5), trigger="session_expired"),
    ]
    whole = lag(points, "lag_messages", "messages", {"g": 0}, rebalances=steps, order=["g"])
    one = partitions(points, steps)

    assert whole is not None
    assert one is not None
    marks = {trace["name"]: trace["y"] for trace in whole["data"] if trace["mode"] == "markers"}
    assert marks == {"rebalance": [3], "rebalance: something went wrong": [5]}
    assert whole["data"][0]["meta"] == 0
    assert [shape["fillcolor"] for shape in one["layout"]["shapes"]] == ["@c0", "@warn"]


def test_colours_go_to_those_that_were_furthest_behind():
    """Who writes most gets what they leave: a page that is about lag must not spend its colours on chatter."""
    behind = [{"group_id": f"b{i}", "at": NOON, "lag_messages": 10 - i, "lag_seconds": i} for i in range(6)]
    chatty = [{"group_id": f"c{i}", "bytes": 10**9} for i in range(6)]

    assert set(list(slots(behind, chatty))[:6]) == {f"b{i}" for i in range(6)}
    assert len(slots(behind, chatty)) == 8


def test_many_groups_leave_room_for_the_figure():
    """Of forty lines eight are named in the legend and the others are one entry; a long legend adds to the height."""
    rows = [{"group_id": f"g{i}", "at": NOON, "lag_messages": i} for i in range(40)]
    figure = lag(rows, "lag_messages", "messages", {f"g{i}": i for i in range(8)})
    few = lag(rows[:8], "lag_messages", "messages", {f"g{i}": i for i in range(8)})
    long = [row | {"group_id": row["group_id"] + "x" * 100} for row in rows]
    wide = lag(long, "lag_messages", "messages", {row["group_id"]: i for i, row in enumerate(long[:8])})

    assert figure is not None
    assert few is not None
    assert wide is not None
    named = [trace["name"] for trace in figure["data"] if trace.get("showlegend", True)]
    assert sorted(named) == sorted([*(f"g{i}" for i in range(8)), "32 other groups"])
    assert len(figure["data"]) == 41
    heights = [one["layout"]["height"] for one in (few, figure, wide)]
    assert heights[0] <= heights[1] <= heights[0] + 20 < heights[2]


def test_many_members_are_one_entry_of_the_legend():
    rows = [stay("g", f"m{i:02}", partition=i, client_id=f"m{i:02}") for i in range(20)]
    figure = ownership(rows, NOON + timedelta(hours=1))

    assert figure is not None
    named = [trace["name"] for trace in figure["data"] if trace.get("showlegend", True)]
    assert named == [*(f"m{i:02}" for i in range(8)), "12 other members"]


def test_a_bar_of_one_hour_is_an_hour_wide():
    figure = growth(evil_data().growth, {})

    assert figure is not None
    assert figure["data"][0]["width"] == pytest.approx(3_600_000, rel=0.2)


def test_names_are_not_endless_nor_empty_nor_control_the_page():
    """In tables, lists and figures alike."""
    names = ["", "x" * 3000, "a\nb"]
    groups = [group(name) for name in names]
    page = render(ReportData(source="s", made_at=NOON, groups=[], others=groups))

    assert "<td class=name>&quot;&quot;</td>" in page
    assert "x" * 120 + "…" in page
    assert "x" * 121 not in page
    assert "a\\x0ab" in page


def test_counts_are_of_all_there_is_and_not_of_what_is_shown():
    """Rebalances by source, stuck partitions, resets, groups."""
    stuck = [evil_data().stuck[0] | {"group_id": f"g{i}"} for i in range(300)]
    facts = {"records": 9, "stuck": 3_000, "resets": 12, "ledger": 5_000, "inferred": 70}
    told = {"rebalances": [rebalance("g")], "stuck": stuck, "resets": [reset("g")], "facts": facts}
    page = render(ReportData("s", NOON, [group("a")], others=[group("b")], left_out=5, **told))

    assert "<dd>5,070</dd><dd class=small>5,000 told by the ledger, 70 inferred</dd>" in page
    assert "<dt>stuck partitions</dt><dd>3,000</dd>" in page
    assert "<dt>groups</dt><dd>7</dd>" in page
    assert "2,700 others are not listed" in page
    assert "11 others are not listed" in page


def findings(one: dict[str, Any], **rows: Any) -> list[tuple[str, str]]:
    """(rule, weight) of what is found about one group."""
    given = {"membership": [], "rebalances": [], "stuck": [], "resets": [], "told": [], **rows}
    return [(row["rule"], row["weight"]) for row in of_rows([one], *given.values())]


def test_lag_stuck_partitions_and_resets_are_findings_on_any_kafka():
    hour = group("g", worst_lag_messages=80_000, worst_lag_seconds=3_600.0, worst_lag_at=NOON)
    spans = [stay("g", member, partition=i) for i, member in enumerate("ab")]
    stuck = [evil_data().stuck[0] | {"group_id": "g", "verdict": "no_progress"}]

    assert findings(group("g")) == []
    assert findings(hour, membership=spans) == [("behind", "warning")]
    assert findings(group("g"), stuck=stuck) == [("stuck", "warning")]
    assert findings(group("g"), resets=[reset("g")]) == [("reset", "warning")]
    assert findings(group("g"), resets=[reset("g", set_by="owner", distance=-3)]) == [("reset", "note")]
    assert findings(group("g"), resets=[reset("g")], told=[{"group_id": "g", "rule": "offsets_moved"}]) == []


def test_who_owned_what_is_said_only_where_it_is_known():
    """A group that assigns itself has no owners that a log knows of; many findings leave the lag on the screen."""
    hour = group("g", worst_lag_messages=80_000, worst_lag_seconds=3_600.0, worst_lag_at=NOON)
    alone, gone = [
        of_rows([hour], spans, [], [], [], [])[0]["text"]
        for spans in ([], [stay("g", "a", owned_from=NOON - timedelta(hours=9), owned_to=NOON - timedelta(hours=2))])
    ]
    found = [{"group_id": f"g{i}", "rule": "behind", "weight": "warning", "text": "was behind"} for i in range(40)]

    assert "owned" not in alone
    assert gone.endswith("Nobody owned its partitions then")
    assert "<summary>37 more</summary>" in render(ReportData("s", NOON, [], findings=found))


def test_what_happened_to_many_groups_at_once_is_told_once():
    """One cause takes many groups down; what else was wrong must not be below forty sentences of the same."""
    found = [
        {"group_id": f"g{i}", "rule": "behind", "weight": "warning", "text": f"was {i} behind", "first_at": at}
        for i, at in enumerate([*(NOON + timedelta(seconds=i) for i in range(30)), NOON + timedelta(hours=2)])
    ]
    found += [dict(found[0], rule="reset", text="was set back", group_id=f"r{i}") for i in range(2)]

    page = render(ReportData("s", NOON, [], findings=found))
    first = page[page.index("<ul class=findings>") : page.index("<summary>1 more</summary>")]

    assert "the same at that time: 29 more groups" in first
    assert [name for name in ("was 0 behind", "was 29 behind", "was 30 behind", "r0") if name in first] == [
        "was 0 behind",
        "was 29 behind",
        "was 30 behind",
        "r0",
    ]
    assert first.index("was 29 behind") < first.index("</details>") < first.index("was 30 behind")


def test_a_single_member_that_starts_and_stops_is_no_warning():
    """What waits while a batch job is not running; a member that hangs is one, alone or not."""
    rested = group("g", worst_lag_messages=80_000, worst_lag_seconds=3_600.0, worst_lag_at=NOON, lag_messages=80_000)
    steps = [rebalance("g", members_before=0, members_after=1), rebalance("g", members_before=1, members_after=0)]
    stuck = [evil_data().stuck[0] | {"group_id": "g", "verdict": "no_owner"}]

    assert findings(rested, rebalances=steps, stuck=stuck) == [("behind", "note"), ("stuck", "note")]
    assert findings(rested, membership=[stay("g", "a", owned_from=NOON - timedelta(hours=9))], rebalances=steps) == [
        ("behind", "warning")
    ]


def test_a_group_whose_offsets_are_about_to_expire_says_when():
    page = render(ReportData("s", NOON, [group("g", offsets_expire_at=NOON + timedelta(days=7))]))

    assert "<td class=when>2026-11-28 12:00</td>" in page


def test_the_rest_of_the_writers_is_no_group():
    """One entry of the figure, the last line of the table, though it is more than any group."""
    one = evil_data().growth[0]
    rows = [one | {"group_id": name, "bytes": count} for name, count in (("a", 5), ("all other groups", 7), (None, 99))]
    figure = growth(rows, slots([], rows))
    page = render(ReportData("s", NOON, [], growth=rows))

    assert figure is not None
    assert [(trace["name"], trace["y"]) for trace in figure["data"]] == [
        ("all other groups", [7.0]),
        ("a", [5.0]),
        ("all other groups", [99.0]),
    ]
    assert figure["data"][-1]["marker"]["color"] == "@muted"
    lines = re.findall("<td class=name>(.*?)</td>", page)
    assert lines == ["all other groups", "a", "all others"]


def test_long_names_are_told_apart_by_their_ends():
    rows = [rebalance(f"team.service-with-a-rather-long-name-indeed-{i}") for i in range(2)]
    figure = rebalances(rows, [row["group_id"] for row in rows])

    assert figure is not None
    assert figure["layout"]["yaxis"]["ticktext"] == [f"team.service…me-indeed-{i}" for i in range(2)]
    assert shortened("short", 40) == "short"
