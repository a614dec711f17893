"""Rebalances along time: a line for each group, and how each is told by colour, mark and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coordinator.why.terms import plural
from pipeline.report.data import POINTS_SHOWN, Row
from pipeline.report.drawing import Figure, categories, moment, span, text, time_layout

GUESSED = "inferred"


class Look(NamedTuple):
    """How a kind of rebalance is drawn. `wrong`: something failed, nobody wanted it."""

    name: str
    colour: str
    symbol: str
    wrong: bool = False

    def marker(self) -> Figure:
        """Of its marks."""
        if self.symbol.endswith("-open"):
            return {"symbol": self.symbol, "size": 9, "color": self.colour, "line": {"width": 1.5}}
        return {"symbol": self.symbol, "size": 11, "color": self.colour, "line": {"color": "@paper", "width": 1}}


# What went wrong is red on every page, and what somebody did keeps its colour from page to page.
_LOOKS: Mapping[str, Look] = {
    "session_expired": Look("session expired", "@warn", "x", wrong=True),
    "poll_timeout": Look("poll timeout", "@warn", "diamond", wrong=True),
    "join_timeout": Look("join timeout", "@warn", "cross", wrong=True),
    "sync_timeout": Look("sync timeout", "@warn", "triangle-left", wrong=True),
    "rebalance_timeout": Look("rebalance timeout", "@warn", "hexagon", wrong=True),
    "append_failed": Look("append failed", "@warn", "star", wrong=True),
    "over_capacity": Look("over capacity", "@warn", "pentagon", wrong=True),
    "coordinator_restarted": Look("coordinator restarted", "@warn", "hourglass", wrong=True),
    "member_joined": Look("member joined", "@c0", "triangle-up"),
    "member_left": Look("member left", "@c3", "triangle-down"),
    "member_removed": Look("member removed", "@c3", "square"),
    "static_replaced": Look("static member replaced", "@c6", "circle"),
    "partitions_changed": Look("partitions changed", "@c2", "square"),
    "subscription_changed": Look("subscription changed", "@c2", "diamond"),
    "regex_changed": Look("regex changed", "@c2", "cross"),
    "assignor_changed": Look("assignor changed", "@c2", "star"),
    "migrated": Look("migrated", "@c4", "star"),
    "leader_rejoined": Look("leader rejoined", "@c5", "circle"),
    "cooperative_followup": Look("cooperative followup", "@muted", "circle"),
}
_UNSAID = {GUESSED: Look("inferred: trigger and start unknown", "@ink", "circle-open")}
_UNSAID["epoch"] = Look("group epoch", "@c1", "circle-open")


def look_of(row: Row) -> Look:
    """How a rebalance is drawn: by its trigger, or by where it is known from."""
    if row["source"] == GUESSED or not row["trigger"]:
        return _UNSAID.get(row["source"], Look("unknown trigger", "@muted", "star"))
    trigger = str(row["trigger"])
    return _LOOKS.get(trigger, Look(trigger.replace("_", " "), "@muted", "star"))


def rebalances(rows: Sequence[Row], groups: Sequence[str]) -> Figure | None:
    """A line for each group: a bar from start to end of each rebalance, marked by its trigger.

    A rebalance that was only inferred from two generations has no start: an open circle.
    """
    wanted = set(groups)
    rows = [row for row in rows if row["group_id"] in wanted]
    if not rows:
        return None
    rows = sorted(rows, key=lambda row: row["finished_at"])[-POINTS_SHOWN:]
    order = [group for group in groups if any(row["group_id"] == group for row in rows)]
    looks = Counter(look_of(row) for row in rows)
    traces: list[Figure] = []
    # What went wrong is named first, and lies on top.
    for look in sorted(looks, key=lambda look: (not look.wrong, -looks[look], look.name)):
        traces += _bars([row for row in rows if look_of(row) == look], look, groups)
    layout = time_layout(150 + 26 * len(order), [trace["name"] for trace in traces if trace.get("showlegend", True)])
    layout["yaxis"] = categories([text(group) for group in order])
    layout["hovermode"] = "closest"
    return {"data": traces, "layout": layout}


def _bars(rows: Sequence[Row], look: Look, groups: Sequence[str]) -> list[Figure]:
    """A line from start to end of each, and its end as a mark that hovering names."""
    x: list[str | None] = []
    y: list[str | None] = []
    for row in rows:
        if row["started_at"] is not None and row["source"] != GUESSED:
            x += [moment(row["started_at"]), moment(row["finished_at"]), None]
            y += [text(row["group_id"]), text(row["group_id"]), None]
    group_index = {group: index for index, group in enumerate(groups)}
    marks = {
        "type": "scatter",
        "mode": "markers",
        "name": text(look.name),
        "legendgroup": text(look.name),
        "x": [moment(row["finished_at"]) for row in rows],
        "y": [text(row["group_id"]) for row in rows],
        "text": [described(row) for row in rows],
        "customdata": [group_index[row["group_id"]] for row in rows],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": look.marker(),
        "zorder": 2 if look.wrong else 1,
    }
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": text(look.name),
        "x": x,
        "y": y,
        "line": {"color": look.colour, "width": 8},
        "opacity": 0.6,
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": text(look.name),
    }
    return [line, marks] if x else [marks]


def described(row: Row) -> str:
    """A rebalance in a few lines, for its mark."""
    before = "new" if row["from_generation"] is None else row["from_generation"]
    lines = [f"<b>{text(row['group_id'])}</b> generation {before} → {row['to_generation']}"]
    if row["source"] == "inferred":
        lines.append("inferred from two records: trigger and start unknown")
    else:
        lines.append(f"{text(look_of(row).name)}, took {span(row['duration_ms'])}")
    if row["reason"]:
        lines.append(f"“{text(row['reason'])}”")
    lines.append(
        plural(row["members_after"] or 0, "member") + "".join(_people(row, what) for what in ("joined", "left"))
    )
    if row["partitions_moved"] is not None:
        moved, total = row["partitions_moved"], row["partitions_total"]  # None: nobody is in the group any more
        of_all = plural(moved, "partition") if total is None else f"{moved} of {plural(total, 'partition')}"
        lines.append(f"{of_all} moved")
    if row["stopped_ms"]:
        lines.append(f"stood still for up to {span(row['stopped_ms'])}")
    if row["slowest_member"]:
        lines.append(f"waited longest for {text(row['slowest_member'])}")
    if row["missing_generations"]:
        lines.append(f"{plural(row['missing_generations'], 'rebalance')} before it left no record")
    return "<br>".join(lines)


def _people(row: Row, what: str) -> str:
    people = row[what] or []
    if not people:
        return ""
    names = ", ".join(text(name) for name in people[:3]) + (f" and {len(people) - 3} more" if len(people) > 3 else "")
    return f"<br>{what}: {names}"
