"""The page: one HTML file with everything in it, that asks nobody for anything.

A content security policy says so to the browser too: only the two scripts of this page run, known by their hashes, and
nothing may be loaded. Text of the data is escaped wherever it goes; as JSON it lies in a block that no script runs.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from importlib import resources
from typing import Any

from coordinator.why.terms import plural
from pipeline.report import figures, lag_figures, rebalance_figures
from pipeline.report.data import GROUPS_LISTED, GROUPS_SHOWN, POINTS_SHOWN, ReportData, Row
from pipeline.report.drawing import moment, span
from pipeline.report.tables import Cell, chosen, listed, named, number, table, when

_FINDINGS_SHOWN = 3
_TOGETHER = 3  # groups of which one rule says the same are one finding
_AT_ONCE = timedelta(minutes=2)
_SOURCES = {"ledger": "told by the ledger", "epoch": "by group epoch", "inferred": "inferred"}


def render(data: ReportData) -> str:
    """The page as text. Needs the package plotly, for its JavaScript."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415  a quarter of a second, for this verb only

    names = [row["group_id"] for row in data.groups]
    end = _end(data)
    drawn = _figures(data, names, end)
    group_index = {name: index for index, name in enumerate(names)}
    no_lag = "No partition log of a committed topic is at hand: lag is unknown."
    sections = {
        "facts": _facts(data, end),
        "findings": _findings(data.findings, group_index),
        "groups": _groups(data, group_index),
        "lag": _figure("lag-messages", drawn, no_lag) + _figure("lag-seconds", drawn, ""),
        "group": _one_group(data, names, drawn),
        "rebalances": _figure("rebalances", drawn, _no_rebalance(data)),
        "growth": _figure("growth", drawn, "Nothing was written.")
        + _figure("commits", drawn, "")
        + _growth_table(data.growth),
        "stuck": _stuck(data.stuck, data.facts.get("stuck", len(data.stuck)), group_index),
        "resets": _resets(data.resets, data.facts.get("resets", len(data.resets)), group_index),
        "unknown": listed(data.unknown) or "<p>Nothing: all records were read and understood.</p>",
    }
    return _fill(data, sections, drawn, get_plotlyjs())


def _figures(data: ReportData, names: Sequence[str], end: datetime) -> dict[str, Any]:
    """All figures by name: of all groups, and `lag-N` and `owners-N` of each that is shown."""
    slots = lag_figures.slots(data.lag, data.growth)
    given: dict[str, Any] = {"rebalances": data.rebalances, "order": names}
    found: dict[str, Any] = {
        "lag-messages": lag_figures.lag(data.lag, "lag_messages", "messages", slots, **given),
        "lag-seconds": lag_figures.lag(data.lag, "lag_seconds", "seconds", slots, **given),
        "rebalances": rebalance_figures.rebalances(data.rebalances, names),
        "growth": figures.growth(data.growth, slots),
        "commits": figures.commit_rates(data.growth, slots),
    }
    lags, steps, spans = (_by_group(rows) for rows in (data.partitions, data.rebalances, data.membership))
    for index, name in enumerate(names):
        found[f"lag-{index}"] = lag_figures.partitions(lags[name], steps[name])
        found[f"owners-{index}"] = figures.ownership(spans[name], end)
    return {name: figure for name, figure in found.items() if figure is not None}


def _fill(data: ReportData, sections: dict[str, str], drawn: dict[str, Any], plotly: str) -> str:
    template = resources.files(__package__).joinpath("template.html").read_text(encoding="utf-8")
    script = resources.files(__package__).joinpath("page.js").read_text(encoding="utf-8")
    # Escaped as JSON, so that no text of the data can end the block that it lies in.
    block = json.dumps(drawn, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    block = block.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    plotly = plotly.replace("</script", "<\\/script")
    values = {
        "title": html.escape(f"Consumer groups of {data.source}"),
        "source": html.escape(data.source),
        "made_at": when(data.made_at),
        "policy": " ".join(f"'{_hash(one)}'" for one in (plotly, script)),
        "points": f"{POINTS_SHOWN:,}",
        "window": _window(data),
        "figures": block,
        "script": script,
        "plotly": plotly,
        **sections,
    }
    # In one pass over the template: a value that looks like a placeholder stays what it is.
    parts = template.split("{{")
    return parts[0] + "".join(values[name] + rest for name, _, rest in (part.partition("}}") for part in parts[1:]))


def _window(data: ReportData) -> str:
    """What the time axes show at first, as JSON: a pair of moments, or null where nothing has a time."""
    moments = [row["at"] for row in data.lag] + [row["finished_at"] for row in data.rebalances]
    moments += [row["started_at"] for row in data.rebalances if row["started_at"]]
    windows = sorted({row["window_start"] for row in data.growth})
    if moments:
        # The window in which something else happened first may have begun long before the first record.
        windows = [start for start in windows if start <= min(moments)][:-1]
    moments += windows
    since, until = data.since or min(moments, default=None), data.until or max([*moments, _end(data)], default=None)
    if since is None or until is None or since >= until:
        return "null"
    edge = (until - since) / 50
    return html.escape(json.dumps([moment(since - edge), moment(until + edge)]))


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _end(data: ReportData) -> datetime:
    """The newest moment that the report knows of: how far open strips reach."""
    moments = [row["finished_at"] for row in data.rebalances] + [row["at"] for row in data.lag]
    moments += [row[name] for row in data.membership for name in ("owned_from", "owned_to") if row[name]]
    moments += [row["last_commit_at"] for row in data.groups if row["last_commit_at"]]
    return max(moments, default=data.made_at)


def _facts(data: ReportData, end: datetime) -> str:
    everybody = [*data.groups, *data.others]
    live = sum(row["members"] > 0 for row in everybody)
    told = {source: count for source, count in data.facts.items() if source in _SOURCES}
    told = told or Counter(row["source"] for row in data.rebalances)
    records = data.facts.get("records", 0)
    facts = [
        (
            "groups",
            number(len(everybody) + data.left_out),
            f"{plural(live, 'of them has members', 'of them have members')}",
        ),
        ("worst lag", *_worst(everybody)),
        ("rebalances", number(sum(told.values())), _told(told)),
        ("stuck partitions", number(data.facts.get("stuck", len(data.stuck))), "records wait and nothing moves"),
        ("records read", number(records), f"the newest from {when(end)}" if records else "nothing is in these logs"),
    ]
    return "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd><dd class=small>{html.escape(note)}</dd></div>"
        for name, value, note in facts
    )


def _worst(groups: Sequence[Row]) -> tuple[str, str]:
    known = [row for row in groups if row.get("worst_lag_messages") is not None or row["lag_messages"] is not None]
    if not known:
        return "unknown", "no log of a committed topic is here"
    # A partition's at its worst moment, where that is known of a group, and not the sum of all, which is known of the
    # end. Where that is all that is known of the worst at the end, it is said, unless a partition was worse.
    worst = max(known, key=lambda row: row["lag_messages"] or 0)
    at_worst = max(
        (row for row in known if row.get("worst_lag_at")), key=lambda row: row["worst_lag_messages"] or 0, default=None
    )
    if at_worst is not None and (worst.get("worst_lag_at") or at_worst["worst_lag_messages"] >= worst["lag_messages"]):
        worst = at_worst
    if not worst.get("worst_lag_at"):
        return number(worst["lag_messages"]), "messages of one group, at the end"
    waited = worst.get("worst_lag_seconds")
    oldest = "" if waited is None else f", the oldest {span(waited * 1000)}"
    return number(worst["worst_lag_messages"]), f"messages, at {when(worst['worst_lag_at'])}{oldest}"


def _no_rebalance(data: ReportData) -> str:
    told = sum(data.facts.get(source, 0) for source in _SOURCES)
    if told:
        return f"None of the groups with figures; {plural(told, 'rebalance')} of others."
    return "No rebalance left a trace in these logs."


def _told(of: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{of[source]:,} {word}" for source, word in _SOURCES.items() if of.get(source))
        or "none left a record"
    )


def _findings(rows: Sequence[Row], group_index: Mapping[str, int]) -> str:
    if not rows:
        return "<p>None.</p>"
    order = sorted(
        rows, key=lambda row: (row.get("weight") != "warning", group_index.get(row["group_id"], len(group_index)))
    )
    items: list[str] = []
    for alike in _together(order):
        if len(alike) >= _TOGETHER:
            items.append(_finding(alike[0], group_index, alike[1:]))
        else:
            items += [_finding(row, group_index) for row in alike]
    shown, more = items[:_FINDINGS_SHOWN], items[_FINDINGS_SHOWN:]
    # The lag must be on the first screen, under what is known of it.
    return f"<ul class=findings>{''.join(shown)}</ul>{_folded(f'{len(more):,} more', more)}"


def _folded(summary: str, items: Sequence[str]) -> str:
    """Findings that a click unfolds; nothing where there are none."""
    if not items:
        return ""
    return f"<details><summary>{summary}</summary><ul class=findings>{''.join(items)}</ul></details>"


def _together(rows: Iterable[Row]) -> list[list[Row]]:
    """What one rule says of groups at about the same time, which most often has one cause. Keeps the order."""
    found: list[list[Row]] = []
    of: dict[tuple[str, str], list[list[Row]]] = defaultdict(list)
    for row in rows:
        began, alike = row.get("first_at"), of[row["rule"], row["weight"]]
        for others in alike:
            if began is not None and abs(began - others[0]["first_at"]) <= _AT_ONCE:
                others.append(row)
                break
        else:
            found.append([row])
            if began is not None:
                alike.append(found[-1])
    return found


def _finding(row: Row, group_index: Mapping[str, int], others: Sequence[Row] = ()) -> str:
    first, last = row.get("first_at"), row.get("last_at")
    clock = ""
    if first is not None:
        until = f" &ndash; {when(last, '%H:%M:%S')}" if last is not None and last != first else ""
        clock = f" <span class=small>{when(first, '%m-%d %H:%M:%S')}{until}</span>"
    weight = "warning" if row.get("weight") == "warning" else "note"
    name = chosen(row["group_id"], group_index.get(row["group_id"]), first, last)
    said = f"the same at that time: {plural(len(others), 'more group')}"
    same = _folded(said, [_finding(other, group_index) for other in others])
    return f"<li class={weight}><b>{name}</b>{clock} {html.escape(row['text'])}{same}</li>"


def _groups(data: ReportData, group_index: Mapping[str, int]) -> str:
    def worst(row: Row) -> str:
        at = row.get("worst_lag_at")
        return when(at) if at is not None and row.get("worst_lag_messages") else "&ndash;"

    columns: list[tuple[str, Cell]] = [
        ("~group", lambda row: chosen(row["group_id"], group_index.get(row["group_id"]))),
        ("type", lambda row: html.escape(str(row["type"]).replace("_", " "))),
        ("state", lambda row: html.escape(str(row["state"]))),
        ("#members", lambda row: number(row["members"])),
        ("#partitions", lambda row: number(row["partitions"])),
        ("#worst lag", lambda row: number(row.get("worst_lag_messages"))),
        ("#longest wait, s", lambda row: number(_whole(row.get("worst_lag_seconds")))),
        ("@worst at", worst),
        ("#total at end", lambda row: number(row["lag_messages"])),
        ("#rebalances in 24 h", lambda row: number(row["rebalances_24h"])),
        ("@last rebalance", lambda row: when(row["last_rebalance_at"])),
        ("@last commit", lambda row: when(row["last_commit_at"])),
    ]
    listed_groups = [*data.groups, *data.others]
    # Those of groups with members do not: a column of dashes would take the room of names.
    if any(row.get("offsets_expire_at") for row in listed_groups):
        columns.append(("@offsets expire", lambda row: when(row.get("offsets_expire_at"), "%Y-%m-%d %H:%M")))
    notes = ""
    if data.others:
        notes = f"<p class=small>Figures show the {len(data.groups)} that were furthest behind at their worst moment "
        notes += "or rebalanced most; "
        notes += "a report with <code>--group</code> shows others.</p>"
    if data.left_out:
        notes += f"<p class=small>{plural(data.left_out, 'more group has', 'more groups have')} no row: "
        notes += f"the table ends at {GROUPS_LISTED:,}.</p>"
    return notes + (table(listed_groups, columns) or "<p>No group has a record in these logs.</p>")


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _growth_table(rows: Sequence[Row]) -> str:
    total: dict[str | None, Row] = {}
    for row in rows:
        one = total.setdefault(
            row["group_id"],
            {"group_id": row["group_id"], "commits": 0, "bytes": 0, "tombstones": 0, "busiest": 0.0, "verdict": None},
        )
        for name in ("commits", "bytes", "tombstones"):
            one[name] += row[name]
        one["busiest"] = max(one["busiest"], row["commits_per_second"])
        one["verdict"] = one["verdict"] or row["verdict"]
    everything = sum(row["bytes"] for row in total.values()) or 1
    order = sorted(total.values(), key=lambda row: (row["group_id"] is None, -row["bytes"], row["group_id"]))
    shown = order[:GROUPS_SHOWN] + [row for row in order[GROUPS_SHOWN:] if row["group_id"] is None]
    columns: list[tuple[str, Cell]] = [
        ("~group", lambda row: "all others" if row["group_id"] is None else named(row["group_id"])),
        ("#commits", lambda row: number(row["commits"])),
        ("#tombstones", lambda row: number(row["tombstones"])),
        ("#bytes", lambda row: number(row["bytes"])),
        ("#share", lambda row: f"{row['bytes'] / everything:.1%}"),
        ("#commits/s, busiest hour", lambda row: f"{row['busiest']:.3g}"),
        ("verdict", lambda row: html.escape((row["verdict"] or "").replace("_", " "))),
    ]
    return table(shown, columns)


def _stuck(rows: Sequence[Row], count: int, group_index: Mapping[str, int]) -> str:
    columns: list[tuple[str, Cell]] = [
        ("~group", lambda row: chosen(row["group_id"], group_index.get(row["group_id"]), row["stuck_since"])),
        ("~partition", lambda row: named(f"{row['topic']}-{row['partition']}")),
        ("@stuck since", lambda row: when(row["stuck_since"])),
        ("#committed", lambda row: number(row["committed_offset"])),
        ("#log end", lambda row: number(row["log_end_offset"])),
        ("#lag", lambda row: number(row["lag_messages"])),
        ("#commits since", lambda row: number(row["commits_since"])),
        ("~owner", lambda row: named(row["owner_member_id"] or "nobody")),
        ("verdict", lambda row: html.escape(row["verdict"].replace("_", " "))),
    ]
    return (table(rows, columns) + _not_listed(len(rows), count)) or "<p>None.</p>"


def _resets(rows: Sequence[Row], count: int, group_index: Mapping[str, int]) -> str:
    by = {"owner": "its owner", "outsider": "nobody in the group"}
    columns: list[tuple[str, Cell]] = [
        ("@at", lambda row: when(row["at"])),
        ("~group", lambda row: chosen(row["group_id"], group_index.get(row["group_id"]), row["at"])),
        ("~partition", lambda row: named(f"{row['topic']}-{row['partition']}")),
        ("kind", lambda row: html.escape(row["kind"])),
        ("#from", lambda row: number(row["from_offset"])),
        ("#to", lambda row: number(row["to_offset"])),
        ("#messages", lambda row: number(row["distance"])),
        ("by", lambda row: by.get(row["set_by"] or "", "unknown")),
        ("~client", lambda row: "&ndash;" if row["client_id"] is None else named(row["client_id"])),
    ]
    return (table(rows, columns) + _not_listed(len(rows), count)) or "<p>None.</p>"


def _not_listed(shown: int, count: int) -> str:
    return f"<p class=small>{plural(count - shown, 'other is', 'others are')} not listed.</p>" if count > shown else ""


def _one_group(data: ReportData, names: Sequence[str], drawn: Mapping[str, Any]) -> str:
    """A choice of group, a place for its figures, and what else the page says about each."""
    if not names:
        return "<p>No group has a record in these logs.</p>"
    options = "".join(f'<option value="{index}">{named(name)}</option>' for index, name in enumerate(names))
    found = _by_group(data.findings)
    spans, timelines = _by_group(data.membership), _by_group(data.timeline)
    # Why comes first: below two figures it was out of sight.
    above = [f"<p><label>group <select id=chosen-group>{options}</select></label></p>"]
    below = ["<div class=figure id=group-lag></div><h3>Who owned what</h3><div class=figure id=owners></div>"]
    for index, name in enumerate(names):
        said = "".join(_finding(row, {}) for row in found[name])
        if said:
            above.append(f'<ul class=findings data-of="{index}">{said}</ul>')
        notes = ""
        if f"lag-{index}" not in drawn:
            notes += "<p>Its lag is not known: no log of a topic that it commits is here.</p>"
        if f"owners-{index}" not in drawn:
            notes += "<p>It has had no assignment that could be read.</p>"
        if len({(row["topic"], row["partition"]) for row in spans[name]}) > figures.PARTITIONS_SHOWN:
            notes += f"<p class=small>Owners of the first {figures.PARTITIONS_SHOWN} partitions are shown.</p>"
        if timelines[name]:
            notes += "<h3>What happened</h3>" + table(timelines[name], _TIMELINE)
        below.append(f'<div data-of="{index}">{notes}</div>')
    return "".join([*above, *below])


_TIMELINE: Sequence[tuple[str, Cell]] = [
    ("@at", lambda row: when(row["at"])),
    ("generation", lambda row: html.escape(row["generations"])),
    ("#took, ms", lambda row: number(row["took_ms"])),
    ("what", lambda row: "<br>".join(map(html.escape, [row["text"], *row["below"]]))),
]


def _by_group(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["group_id"]].append(row)
    return found


def _figure(name: str, drawn: dict[str, Any], otherwise: str) -> str:
    if name in drawn:
        return f'<div class=figure data-figure="{name}"></div>'
    return f"<p>{html.escape(otherwise)}</p>" if otherwise else ""
