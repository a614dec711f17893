"""Who owned what, and who fills the offsets log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from coordinator.why.terms import plural
from pipeline.report.data import POINTS_SHOWN, Row
from pipeline.report.drawing import STRONG, UNNAMED, Figure, categories, entry, moment, text, time_layout

PARTITIONS_SHOWN = 60
_PATTERNS = ("", "/", "x", "-", "|", "+", ".", "\\")


def ownership(rows: Sequence[Row], end: datetime) -> Figure | None:
    """Strips of one group: who owned each partition, from when to when; open ends reach to `end`."""
    if not rows:
        return None
    partitions = sorted({(row["topic"], row["partition"]) for row in rows})[:PARTITIONS_SHOWN]
    wanted = set(partitions)
    rows = sorted(
        (row for row in rows if (row["topic"], row["partition"]) in wanted), key=lambda row: row["owned_from"]
    )
    rows = rows[-POINTS_SHOWN:]
    members = [name for name, _ in Counter(_person(row) for row in rows).most_common()]
    traces: list[Figure] = []
    for index, member in enumerate(members):
        mine = [row for row in rows if _person(row) == member]
        strong = index < STRONG
        ends = [row["owned_to"] or max(end, row["owned_from"]) for row in mine]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": text(_label(mine[-1], rows)),
                "base": [moment(row["owned_from"]) for row in mine],
                "x": [
                    max((to - row["owned_from"]).total_seconds() * 1000, 1) for row, to in zip(mine, ends, strict=True)
                ],
                "y": [text(_place(row)) for row in mine],
                "text": [text(row["client_id"] or member) for row in mine],
                "textposition": "inside",
                "insidetextanchor": "start",
                "insidetextfont": {"color": "#ffffff" if strong else "@ink"},
                "constraintext": "both",
                "customdata": [_stay(row) for row in mine],
                "hovertemplate": "%{y}<br>%{customdata}<extra></extra>",
                "marker": {
                    "color": f"@c{index}" if strong else "@grid",
                    "line": {"color": "@paper", "width": 1},
                    "pattern": _pattern(index),
                },
                "width": 0.86,
                **({} if strong else UNNAMED),
            }
        )
    if len(members) > STRONG:
        traces[STRONG] |= {"showlegend": True, "name": plural(len(members) - STRONG, "other member")}
    named = [trace["name"] for trace in traces if trace.get("showlegend", True)]
    layout = time_layout(130 + 24 * len(partitions), named)
    layout["barmode"] = "overlay"
    layout["yaxis"] = categories([text(f"{topic}-{partition}") for topic, partition in partitions])
    return {"data": traces, "layout": layout}


def growth(rows: Sequence[Row], slots: Mapping[str, int]) -> Figure | None:
    """Bytes that groups wrote into `__consumer_offsets`, hour by hour, stacked."""
    return _hourly(rows, slots, "bytes", "bytes an hour", 1.0, "~s")


def commit_rates(rows: Sequence[Row], slots: Mapping[str, int]) -> Figure | None:
    """Commits a second of each group, hour by hour, stacked."""
    return _hourly(rows, slots, "commits", "commits a second", 1 / 3600, ",.3~g")


def _hourly(
    rows: Sequence[Row], slots: Mapping[str, int], value: str, unit: str, scale: float, ticks: str
) -> Figure | None:
    totals: Counter[str | None] = Counter()
    for row in rows:
        totals[row["group_id"]] += row[value]
    if not totals:
        return None
    top = [group for group, _ in totals.most_common() if group in slots]
    hours = sorted({row["window_start"] for row in rows})[-POINTS_SHOWN:]
    sums: dict[str | None, Counter[datetime]] = defaultdict(Counter)
    for row in rows:
        sums[row["group_id"] if row["group_id"] in top else None][row["window_start"]] += row[value]
    shown: list[str | None] = [*top, *([None] if None in sums else [])]
    traces = [
        {
            "type": "bar",
            "name": "all other groups" if group is None else entry(group),
            "x": [moment(hour) for hour in hours],
            "y": [sums[group][hour] * scale for hour in hours],
            "xperiod": 3_600_000,
            "xperiodalignment": "middle",
            # Of a single hour plotly would make a bar a millisecond wide, and label that.
            "width": 0.86 * 3_600_000,
            "marker": {
                "color": "@muted" if group is None else f"@c{slots[group]}",
                "line": {"color": "@paper", "width": 1},
                "pattern": _pattern(STRONG if group is None else slots[group]),
            },
            "hovertemplate": "%{y:,.3~f} " + unit + "<br>from %{x|%Y-%m-%d %H:%M}",
        }
        for group in shown
    ]
    layout = time_layout(320, [trace["name"] for trace in traces])
    layout["barmode"] = "stack"
    layout["bargap"] = 0.15
    layout["yaxis"] = {"title": {"text": unit}, "rangemode": "tozero", "tickformat": ticks}
    return {"data": traces, "layout": layout}


def _pattern(slot: int) -> Figure:
    shape = _PATTERNS[slot] if slot < STRONG else ""
    return {"shape": shape, "fillmode": "overlay", "fgopacity": 0.45, "size": 7}


def _person(row: Row) -> str:
    """Who a strip belongs to: a static member stays itself under new ids."""
    return str(row["group_instance_id"] or row["member_id"])


def _label(row: Row, rows: Sequence[Row]) -> str:
    """What people call a member: its instance id, or its client id, with some of its member id if others share it."""
    if row["group_instance_id"]:
        return str(row["group_instance_id"])
    namesakes = {_person(other) for other in rows if other["client_id"] == row["client_id"]}
    if row["client_id"] and len(namesakes) == 1:
        return str(row["client_id"])
    return f"{row['client_id']} …{row['member_id'][-8:]}".strip()


def _place(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _stay(row: Row) -> str:
    ended = "still owned" if row["owned_to"] is None else f"until {moment(row['owned_to'])[:19]}, {row['ended_by']}"
    who = f"{text(row['member_id'])}<br>{text(row['client_id'])} at {text(row['client_host'])}"
    generations = f"from generation {row['from_generation']}"
    if row["to_generation"] is not None:
        generations += f" to {row['to_generation']}"
    return f"{who}<br>{generations}<br>from {moment(row['owned_from'])[:19]}<br>{ended}"
