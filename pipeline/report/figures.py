"""The figures of the report, as plain dicts in the form that plotly.js draws.

No figure holds a colour of its own: `@c0` to `@c7`, `@ink`, `@muted`, `@grid` are names that the page replaces, by
light or dark. What colour tells is told twice, by dash, marker, pattern or label, so that nothing is lost in grey.
Every text that comes from the data passes `text`: plotly reads a few tags in the texts it draws.
"""

from __future__ import annotations

import html
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pipeline.report.data import POINTS_SHOWN, Row, shortened, shown_name, thin

Figure = dict[str, Any]
STRONG = 8
"""So many series have a colour; the rest of them share a grey."""
PARTITIONS_SHOWN = 60
_UNNAMED = {"showlegend": False, "legendgroup": "others"}
"""In a legend the grey series are one entry: forty lines of it would leave no room for the figure."""
_TICK, _ENTRY = 40, 60
_LEGEND_PX, _ROW_PX, _SIGN_PX = 1080, 20, 7
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "triangle-down", "cross", "x", "star")
_PATTERNS = ("", "/", "x", "-", "|", "+", ".", "\\")


def text(value: object) -> str:
    """Text of the data as plotly shall show it, not read it; over-long names are cut."""
    return html.escape(shown_name(value), quote=False)


def entry(group: str) -> str:
    """A group's name in a legend."""
    return html.escape(shortened(shown_name(group), _ENTRY), quote=False)


def moment(at: datetime) -> str:
    """As plotly reads a moment. Axes have no zone: all are UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def span(ms: float | None) -> str:
    """A span as people say it."""
    if ms is None:
        return "unknown"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if abs(ms) >= size:
            return f"{ms / size:.1f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{ms:.0f} ms"


def slots(lag_rows: Iterable[Row], growth_rows: Iterable[Row]) -> dict[str, int]:
    """Which groups have a colour, and which: the same one in every figure. The worst and the largest in turn."""
    worst: Counter[str] = Counter()
    for row in lag_rows:
        worst[row["group_id"]] = max(worst[row["group_id"]], row["lag_messages"] or 0)
    largest: Counter[str] = Counter()
    for row in growth_rows:
        if row["group_id"] is not None:
            largest[row["group_id"]] += row["bytes"]
    orders = [sorted(count, key=lambda group: (-count[group], group)) for count in (worst, largest)]
    longest = max(map(len, orders))
    chosen = dict.fromkeys(order[index] for index in range(longest) for order in orders if index < len(order))
    return {group: index for index, group in enumerate(list(chosen)[:STRONG])}


def lag(rows: Iterable[Row], value: str, unit: str, slots: Mapping[str, int]) -> Figure | None:
    """A line for each group: the worst lag of its partitions. None when nothing is known."""
    series: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        series[row["group_id"]].append(row)
    known = {group: points for group, points in series.items() if any(point[value] is not None for point in points)}
    if not known:
        return None
    worst = {group: max(point[value] or 0 for point in points) for group, points in known.items()}
    traces: list[Figure] = []
    for group in sorted(known, key=lambda group: (-worst[group], group)):
        points = thin(sorted(known[group], key=lambda point: point["at"]), value)
        index, strong = slots.get(group, STRONG), group in slots
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": entry(group),
                "x": [moment(point["at"]) for point in points],
                "y": [point[value] for point in points],
                "line": {
                    "color": f"@c{index}" if strong else "@muted",
                    "dash": _DASHES[index] if strong else "solid",
                    "width": 2 if strong else 1,
                    "shape": "linear",
                },
                "opacity": 1 if strong else 0.55,
                "connectgaps": False,
                "hovertemplate": "%{y:,.1~f} " + unit + "<br>%{x|%Y-%m-%d %H:%M:%S}",
                # Coloured lines lie on top.
                "zorder": STRONG - index,
                **({} if strong else _UNNAMED),
            }
        )
    weak = sum(group not in slots for group in known)
    if weak:
        line = {"color": "@muted", "width": 1}
        name = f"{weak} other group{'s' if weak > 1 else ''}"
        traces.append({"type": "scatter", "mode": "lines", "name": name, "x": [None], "y": [None], "line": line})
        traces[-1]["legendgroup"] = _UNNAMED["legendgroup"]
    layout = _time_layout(340, [trace["name"] for trace in traces if trace.get("showlegend", True)])
    layout["yaxis"] = {"title": {"text": unit}, "rangemode": "tozero", "tickformat": "~s"}
    layout["hovermode"] = "closest"
    return {"data": traces, "layout": layout}


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
    counted = Counter(_trigger(row) for row in rows if row["source"] != "inferred")
    names = [name for name, _ in counted.most_common(STRONG - 1)]
    traces: list[Figure] = []
    for index, name in enumerate([*names, "other trigger"]):
        mine = [
            row
            for row in rows
            if row["source"] != "inferred"
            and (_trigger(row) == name or (index == len(names) and _trigger(row) not in names))
        ]
        traces += _bars(mine, name, index)
    guessed = [row for row in rows if row["source"] == "inferred"]
    if guessed:
        marker = {"symbol": "circle-open", "size": 9, "color": "@ink", "line": {"width": 1.5}}
        traces.append(_dots(guessed, "inferred: trigger and start unknown", marker))
    layout = _time_layout(150 + 26 * len(order))
    layout["yaxis"] = _categories([text(group) for group in order])
    return {"data": traces, "layout": layout}


def ownership(rows: Sequence[Row], end: datetime) -> Figure | None:
    """Strips of one group: who owned each partition, from when to when; open ends reach to `end`."""
    if not rows:
        return None
    places = sorted({(row["topic"], row["partition"]) for row in rows})[:PARTITIONS_SHOWN]
    wanted = set(places)
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
                **({} if strong else _UNNAMED),
            }
        )
    if len(members) > STRONG:
        traces[STRONG] |= {"showlegend": True, "name": f"{len(members) - STRONG} other members"}
    named = [trace["name"] for trace in traces if trace.get("showlegend", True)]
    layout = _time_layout(130 + 24 * len(places), named)
    layout["barmode"] = "overlay"
    layout["yaxis"] = _categories([text(f"{topic}-{partition}") for topic, partition in places])
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
    layout = _time_layout(320, [trace["name"] for trace in traces])
    layout["barmode"] = "stack"
    layout["bargap"] = 0.15
    layout["yaxis"] = {"title": {"text": unit}, "rangemode": "tozero", "tickformat": ticks}
    return {"data": traces, "layout": layout}


def _pattern(slot: int) -> Figure:
    shape = _PATTERNS[slot] if slot < STRONG else ""
    return {"shape": shape, "fillmode": "overlay", "fgopacity": 0.45, "size": 7}


def _bars(rows: Sequence[Row], name: str, index: int) -> list[Figure]:
    """A line from start to end of each, and its end as a mark that hovering names."""
    if not rows:
        return []
    colour = f"@c{index}"
    x: list[str | None] = []
    y: list[str | None] = []
    for row in rows:
        if row["started_at"] is not None:
            x += [moment(row["started_at"]), moment(row["finished_at"]), None]
            y += [text(row["group_id"]), text(row["group_id"]), None]
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "line": {"color": colour, "width": 8},
        "opacity": 0.6,
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": text(name),
    }
    marker = {"symbol": _SYMBOLS[index], "size": 10, "color": colour, "line": {"color": "@paper", "width": 1}}
    return [line, _dots(rows, name.replace("_", " "), marker)]


def _dots(rows: Sequence[Row], name: str, marker: Figure) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": text(name),
        "legendgroup": text(name),
        "x": [moment(row["finished_at"]) for row in rows],
        "y": [text(row["group_id"]) for row in rows],
        "text": [_story(row) for row in rows],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": marker,
    }


def _story(row: Row) -> str:
    """A rebalance in a few lines, for its mark."""
    before = "new" if row["from_generation"] is None else row["from_generation"]
    lines = [f"<b>{text(row['group_id'])}</b> generation {before} → {row['to_generation']}"]
    if row["source"] == "inferred":
        lines.append("inferred from two records: trigger and start unknown")
    else:
        lines.append(f"{text(_trigger(row).replace('_', ' '))}, took {span(row['duration_ms'])}")
    if row["reason"]:
        lines.append(f"“{text(row['reason'])}”")
    lines.append(f"{row['members_after']} members" + "".join(_people(row, what) for what in ("joined", "left")))
    if row["partitions_moved"] is not None:
        lines.append(f"{row['partitions_moved']} of {row['partitions_total']} partitions moved")
    if row["stopped_ms"]:
        lines.append(f"stood still for up to {span(row['stopped_ms'])}")
    if row["slowest_member"]:
        lines.append(f"waited longest for {text(row['slowest_member'])}")
    if row["missing_generations"]:
        lines.append(f"{row['missing_generations']} rebalances before it left no record")
    return "<br>".join(lines)


def _people(row: Row, what: str) -> str:
    people = row[what] or []
    if not people:
        return ""
    names = ", ".join(text(name) for name in people[:3]) + (f" and {len(people) - 3} more" if len(people) > 3 else "")
    return f"<br>{what}: {names}"


def _trigger(row: Row) -> str:
    return str(row["trigger"] or ("group epoch" if row["source"] == "epoch" else "unknown trigger"))


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


def _categories(names: list[str]) -> Figure:
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": names,
        "automargin": True,
        "range": [len(names) - 0.5, -0.5],
        "tickmode": "array",
        "tickvals": names,
        "ticktext": [html.escape(shortened(html.unescape(name), _TICK), quote=False) for name in names],
        "showgrid": True,
        "fixedrange": True,
    }


def _time_layout(height: int, named: Sequence[object] = ()) -> Figure:
    """`named`: the entries of the legend, which is given rows of its own."""
    widest = max((len(str(name)) * _SIGN_PX + 50 for name in named), default=1)
    rows = -(-len(named) // max(_LEGEND_PX // widest, 1))
    return {
        "height": height + _ROW_PX * max(rows - 1, 0),
        # Room above for the buttons, below for the second line of a date; the legend adds its own.
        "margin": {"l": 64, "r": 16, "t": 30, "b": 44},
        "xaxis": {"type": "date", "hoverformat": "%Y-%m-%d %H:%M:%S"},
        "legend": {"orientation": "h", "x": 0, "yref": "container", "y": 0, "yanchor": "bottom"},
        "showlegend": True,
    }
