"""How far groups were behind, with their rebalances marked: all of them, and one of them by partition."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from coordinator.why.terms import plural
from pipeline.report.data import POINTS_GREY, POINTS_SHOWN, Row, thin
from pipeline.report.drawing import STRONG, SYMBOLS, UNNAMED, Figure, entry, moment, text, time_layout
from pipeline.report.rebalance_figures import GUESSED, described, look_of

MARKS_SHOWN = 300
"""At most as many rebalances are marked on the lag, the newest."""
_STRIP_FROM = 0.86  # of the height, what is above it belongs to rebalances


def slots(lag_rows: Iterable[Row], growth_rows: Iterable[Row]) -> dict[str, int]:
    """Which groups have a colour, the same in every figure: those that were furthest behind, in messages and in seconds
    in turn; only what they leave goes to those that write most."""
    worst: dict[str, Counter[str]] = {"lag_messages": Counter(), "lag_seconds": Counter()}
    for row in lag_rows:
        for value, count in worst.items():
            if row.get(value):
                count[row["group_id"]] = max(count[row["group_id"]], row[value])
    largest: Counter[str] = Counter()
    for row in growth_rows:
        if row["group_id"] is not None:
            largest[row["group_id"]] += row["bytes"]
    behind, waited, written = (
        sorted(count, key=lambda group: (-count[group], group)) for count in (*worst.values(), largest)
    )
    in_turn = [
        order[at] for at in range(max(len(behind), len(waited))) for order in (behind, waited) if at < len(order)
    ]
    chosen = dict.fromkeys([*in_turn, *written])
    return {group: index for index, group in enumerate(list(chosen)[:STRONG])}


def lag(
    rows: Iterable[Row],
    value: str,
    unit: str,
    slots: Mapping[str, int],
    *,
    rebalances: Iterable[Row] = (),
    order: Sequence[str] = (),
) -> Figure | None:
    """A line for each group: the worst lag of its partitions, and a mark where it rebalanced. None: nothing is known.

    `order`: the groups of the page; a click on a line tells the place of its group in it.
    """
    series = _by(rows, "group_id")
    known = {group: points for group, points in series.items() if any(point[value] is not None for point in points)}
    if not known:
        return None
    worst = {group: max(point[value] or 0 for point in points) for group, points in known.items()}
    group_index = {group: index for index, group in enumerate(order)}
    traces: list[Figure] = []
    thinned: dict[str, list[Row]] = {}
    for group in sorted(known, key=lambda group: (-worst[group], group)):
        index, strong = slots.get(group, STRONG), group in slots
        points = thinned[group] = thin(known[group], value, POINTS_SHOWN if strong else POINTS_GREY)
        traces.append(
            _line(points, value, entry(group), index if strong else None)
            | {"hovertemplate": "%{y:,.1~f} " + unit + "<br>%{x|%Y-%m-%d %H:%M:%S}", "meta": group_index.get(group, -1)}
            # Coloured lines lie on top.
            | {"zorder": STRONG - index}
        )
    weak = sum(group not in slots for group in known)
    if weak:
        line = {"color": "@muted", "width": 1}
        name = plural(weak, "other group")
        traces.append({"type": "scatter", "mode": "lines", "name": name, "x": [None], "y": [None], "line": line})
        traces[-1]["legendgroup"] = UNNAMED["legendgroup"]
    coloured = {group: points for group, points in thinned.items() if group in slots}
    traces += _unknown({entry(group): points for group, points in coloured.items()}, value)
    marks = [row for row in rebalances if row["group_id"] in coloured]
    traces += _on_lines(marks, coloured, value, group_index)
    layout = time_layout(340, [trace["name"] for trace in traces if trace.get("showlegend", True)])
    layout["yaxis"] = {"title": {"text": unit}, "rangemode": "tozero", "tickformat": "~s"}
    layout["hovermode"] = "closest"
    return {"data": traces, "layout": layout}


def partitions(rows: Iterable[Row], rebalances: Sequence[Row]) -> Figure | None:
    """One group: the lag of its worst partitions, and above them its rebalances, whose ends reach down through them."""
    series = {f"{topic}-{partition}": points for (topic, partition), points in _by(rows, "topic", "partition").items()}
    known = {name: one for name, one in series.items() if any(point["lag_messages"] is not None for point in one)}
    if not known:
        return None
    worst = {name: max(point["lag_messages"] or 0 for point in points) for name, points in known.items()}
    order = sorted(known, key=lambda name: (-worst[name], name))
    traces: list[Figure] = []
    for index, name in enumerate(order):
        points = known[name]
        trace = _line(points, "lag_messages", text(name), index if index < STRONG else None)
        trace["customdata"] = [
            None if point["lag_seconds"] is None else round(point["lag_seconds"]) for point in points
        ]
        trace["hovertemplate"] = "%{y:,} messages, oldest %{customdata:,} s<br>%{x|%Y-%m-%d %H:%M:%S}"
        traces.append(trace)
    traces += _unknown({text(name): points for name, points in series.items()}, "lag_messages")
    marked = sorted(rebalances, key=lambda row: row["finished_at"])[-MARKS_SHOWN:]
    traces += _strip(marked)
    layout = time_layout(400, [trace["name"] for trace in traces if trace.get("showlegend", True)])
    layout["yaxis"] = {"title": {"text": "messages"}, "rangemode": "tozero", "tickformat": "~s"}
    layout["yaxis"]["domain"] = [0, _STRIP_FROM - 0.03 if marked else 1]
    if marked:
        layout["yaxis2"] = {"domain": [_STRIP_FROM, 1], "range": [-1, 1], "fixedrange": True, "tickvals": [0]}
        layout["yaxis2"] |= {"ticktext": ["rebalances"], "showgrid": False, "zeroline": False}
    layout["shapes"] = [_band(row) for row in marked]
    layout["hovermode"] = "closest"
    return {"data": traces, "layout": layout}


def _by(rows: Iterable[Row], *key: str) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[key[0]] if len(key) == 1 else tuple(row[name] for name in key)].append(row)
    return {name: sorted(points, key=lambda point: point["at"]) for name, points in found.items()}


def _line(points: Sequence[Row], value: str, name: str, slot: int | None) -> Figure:
    """No dashes: a gap in a line means that the lag is not known. Coloured lines differ by their marks too."""
    strong = slot is not None
    return {
        "type": "scatter",
        "mode": "lines+markers" if strong else "lines",
        "name": name,
        "x": [moment(point["at"]) for point in points],
        "y": [point[value] for point in points],
        "line": {"color": f"@c{slot}" if strong else "@muted", "width": 2 if strong else 1, "shape": "linear"},
        **({"marker": {"symbol": SYMBOLS[slot], "size": 7, "maxdisplayed": 12}} if slot is not None else {}),
        "opacity": 1 if strong else 0.55,
        "connectgaps": False,
        **({} if strong else UNNAMED),
    }


def _unknown(series: Mapping[str, Sequence[Row]], value: str) -> list[Figure]:
    """Where lag is not known: a broad grey bar on the ground, that says whose."""
    x: list[str | None] = []
    whose: list[str] = []
    for name, points in series.items():
        if all(point[value] is not None for point in points):
            continue
        for first, last in _gaps(points, value):
            x += [moment(first), moment(last), None]
            whose += [name, name, ""]
    if not x:
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "lag unknown",
            "x": x,
            "y": [None if at is None else 0 for at in x],
            "text": whose,
            "hovertemplate": "lag of %{text} unknown here<extra></extra>",
            "line": {"color": "@muted", "width": 7},
            "marker": {"symbol": "line-ns-open", "size": 12, "color": "@muted"},
            "opacity": 0.6,
            "connectgaps": False,
        }
    ]


def _gaps(points: Sequence[Row], value: str) -> Iterable[tuple[datetime, datetime]]:
    first: datetime | None = None
    for point in points:
        if point[value] is None:
            first = first or point["at"]
        elif first is not None:
            yield first, point["at"]
            first = None
    if first is not None:
        yield first, points[-1]["at"]


def _on_lines(
    rows: Iterable[Row], series: Mapping[str, Sequence[Row]], value: str, group_index: Mapping[str, int]
) -> list[Figure]:
    """Marks on the lines of the groups that rebalanced: what went wrong, what somebody did, what was inferred."""
    newest = sorted(rows, key=lambda row: row["finished_at"])[-MARKS_SHOWN * 2 :]
    moments = {group: [point["at"] for point in points] for group, points in series.items()}
    kinds: dict[bool, list[tuple[Row, float]]] = {False: [], True: []}
    for row in newest:
        at = bisect_right(moments[row["group_id"]], row["finished_at"]) - 1
        height = series[row["group_id"]][max(at, 0)][value] or 0
        kinds[look_of(row).wrong].append((row, height))
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "rebalance: something went wrong" if wrong else "rebalance",
            "x": [moment(row["finished_at"]) for row, _ in marked],
            "y": [height for _, height in marked],
            "text": [described(row) for row, _ in marked],
            "customdata": [group_index.get(row["group_id"], -1) for row, _ in marked],
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {
                "symbol": "x-thin" if wrong else "line-ns",
                "size": 11 if wrong else 15,
                "color": "@warn" if wrong else "@ink",
                "line": {"width": 2, "color": "@warn" if wrong else "@ink"},
            },
            "zorder": STRONG + 1,
        }
        for wrong, marked in kinds.items()
        if marked
    ]


def _strip(rows: Sequence[Row]) -> list[Figure]:
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_name[look_of(row).name].append(row)
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": text(name),
            "yaxis": "y2",
            "x": [moment(row["finished_at"]) for row in marked],
            "y": [0] * len(marked),
            "text": [described(row) for row in marked],
            "hovertemplate": "%{text}<extra></extra>",
            "marker": look_of(marked[0]).marker(),
        }
        for name, marked in by_name.items()
    ]


def _band(row: Row) -> Figure:
    """From the start of a rebalance to its end, through the whole height; a line where no start is known."""
    look = look_of(row)
    start = row["started_at"] if row["source"] != GUESSED and row["started_at"] is not None else row["finished_at"]
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": moment(start),
        "x1": moment(row["finished_at"]),
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "opacity": 0.35,
        "fillcolor": look.colour,
        "line": {"width": 1, "color": look.colour},
    }
