"""The page: one HTML file with everything in it, that asks nobody for anything.

A content security policy says so to the browser too: only the two scripts of this page run, known by their hashes, and
nothing may be loaded. Text of the data is escaped wherever it goes; as JSON it lies in a block that no script runs.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from pipeline.report import figures
from pipeline.report.data import GROUPS_SHOWN, POINTS_SHOWN, ReportData, Row, shown_name

_Cell = Callable[[Row], str]
_SOURCES = {"ledger": "told by the ledger", "epoch": "by group epoch", "inferred": "inferred"}
_CLASSES = {"#": "number", "@": "when", "~": "name"}
_STUCK_SHOWN, _STUCK_LISTED = 40, 200


def render(data: ReportData) -> str:
    """The page as text. Needs the package plotly, for its JavaScript."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415  a quarter of a second, for this verb only

    names = [row["group_id"] for row in data.groups]
    end = _end(data)
    slots = figures.slots(data.lag, data.growth)
    drawn: dict[str, Any] = {
        "lag-messages": figures.lag(data.lag, "lag_messages", "messages", slots),
        "lag-seconds": figures.lag(data.lag, "lag_seconds", "seconds", slots),
        "rebalances": figures.rebalances(data.rebalances, names),
        "growth": figures.growth(data.growth, slots),
        "commits": figures.commit_rates(data.growth, slots),
    }
    strips = [(name, [row for row in data.membership if row["group_id"] == name]) for name in names]
    owned = {f"owners-{index}": figures.ownership(rows, end) for index, (_, rows) in enumerate(strips) if rows}
    all_figures = {name: figure for name, figure in {**drawn, **owned}.items() if figure is not None}
    sections = {
        "facts": _facts(data, end),
        "findings": _findings(data.findings),
        "groups": _groups(data),
        "lag": _figure("lag-messages", all_figures, "No partition log of a committed topic is at hand: lag is unknown.")
        + _figure("lag-seconds", all_figures, ""),
        "rebalances": _figure("rebalances", all_figures, "No rebalance left a trace in these logs."),
        "ownership": _ownership(strips, all_figures),
        "growth": _figure("growth", all_figures, "Nothing was written.")
        + _figure("commits", all_figures, "")
        + _growth_table(data.growth),
        "stuck": _stuck(data.stuck, data.facts.get("stuck", len(data.stuck))),
        "unknown": _list(data.unknown) or "<p>Nothing: all records were read and understood.</p>",
        "left_out": _left_out(data.left_out),
    }
    return _fill(data, sections, all_figures, get_plotlyjs())


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
        "made_at": _when(data.made_at),
        "policy": " ".join(f"'{_hash(one)}'" for one in (plotly, script)),
        "points": f"{POINTS_SHOWN:,}",
        "figures": block,
        "script": script,
        "plotly": plotly,
        **sections,
    }
    # In one pass over the template: a value that looks like a placeholder stays what it is.
    parts = template.split("{{")
    return parts[0] + "".join(values[name] + rest for name, _, rest in (part.partition("}}") for part in parts[1:]))


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _end(data: ReportData) -> datetime:
    """The newest moment that the report knows of: how far open strips reach."""
    moments = [row["finished_at"] for row in data.rebalances] + [row["at"] for row in data.lag]
    moments += [row[name] for row in data.membership for name in ("owned_from", "owned_to") if row[name]]
    moments += [row["last_commit_at"] for row in data.groups if row["last_commit_at"]]
    return max(moments, default=data.made_at)


def _facts(data: ReportData, end: datetime) -> str:
    live = sum(row["members"] > 0 for row in data.groups)
    worst = max((row["lag_messages"] for row in data.groups if row["lag_messages"] is not None), default=None)
    told = {source: count for source, count in data.facts.items() if source in _SOURCES}
    told = told or Counter(row["source"] for row in data.rebalances)
    records = data.facts.get("records", 0)
    facts = [
        ("groups", _number(len(data.groups) + len(data.left_out)), f"{live} of those shown have members"),
        ("rebalances", _number(sum(told.values())), _told(told)),
        (
            "largest lag",
            "unknown" if worst is None else _number(worst),
            "messages of one group, at the end",
        ),
        ("stuck partitions", _number(data.facts.get("stuck", len(data.stuck))), "records wait and nothing moves"),
        ("records read", _number(records), f"the newest from {_when(end)}" if records else "nothing is in these logs"),
    ]
    return "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd><dd class=small>{html.escape(note)}</dd></div>"
        for name, value, note in facts
    )


def _told(of: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{of[source]:,} {word}" for source, word in _SOURCES.items() if of.get(source))
        or "none left a record"
    )


def _findings(rows: Sequence[Row] | None) -> str:
    if rows is None:
        return "<p>Nobody looked: findings are made of the rebalance ledger, and there is none here.</p>"
    if not rows:
        return "<p>None.</p>"
    order = sorted(rows, key=lambda row: (row.get("weight") != "warning", row["group_id"]))
    items = [
        f"<li class={'warning' if row.get('weight') == 'warning' else 'note'}>"
        f"<b>{_name(row['group_id'])}</b> {html.escape(row['text'])}</li>"
        for row in order
    ]
    return f"<ul class=findings>{''.join(items)}</ul>"


def _groups(data: ReportData) -> str:
    columns: list[tuple[str, _Cell]] = [
        ("~group", lambda row: _name(row["group_id"])),
        ("type", lambda row: html.escape(str(row["type"]).replace("_", " "))),
        ("state", lambda row: html.escape(str(row["state"]))),
        ("#generation", lambda row: _number(row["generation"])),
        ("#members", lambda row: _number(row["members"])),
        ("#partitions", lambda row: _number(row["partitions"])),
        ("#lag", lambda row: _number(row["lag_messages"])),
        ("#rebalances in 24 h", lambda row: _number(row["rebalances_24h"])),
        ("@last rebalance", lambda row: _when(row["last_rebalance_at"])),
        ("@last commit", lambda row: _when(row["last_commit_at"])),
        ("@offsets expire", lambda row: _when(row.get("offsets_expire_at"), "%Y-%m-%d %H:%M")),
    ]
    return _table(data.groups, columns) or "<p>No group has a record in these logs.</p>"


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
    columns: list[tuple[str, _Cell]] = [
        ("~group", lambda row: "all others" if row["group_id"] is None else _name(row["group_id"])),
        ("#commits", lambda row: _number(row["commits"])),
        ("#tombstones", lambda row: _number(row["tombstones"])),
        ("#bytes", lambda row: _number(row["bytes"])),
        ("#share", lambda row: f"{row['bytes'] / everything:.1%}"),
        ("#commits/s, busiest hour", lambda row: f"{row['busiest']:.3g}"),
        ("verdict", lambda row: html.escape((row["verdict"] or "").replace("_", " "))),
    ]
    return _table(shown, columns)


def _stuck(rows: Sequence[Row], count: int) -> str:
    columns: list[tuple[str, _Cell]] = [
        ("~group", lambda row: _name(row["group_id"])),
        ("~partition", lambda row: _name(f"{row['topic']}-{row['partition']}")),
        ("@stuck since", lambda row: _when(row["stuck_since"])),
        ("#committed", lambda row: _number(row["committed_offset"])),
        ("#log end", lambda row: _number(row["log_end_offset"])),
        ("#lag", lambda row: _number(row["lag_messages"])),
        ("#commits since", lambda row: _number(row["commits_since"])),
        ("~owner", lambda row: _name(row["owner_member_id"] or "nobody")),
        ("verdict", lambda row: html.escape(row["verdict"].replace("_", " "))),
    ]
    shown, more = rows[:_STUCK_SHOWN], rows[_STUCK_SHOWN:_STUCK_LISTED]
    hidden = ""
    if more:
        rest = f"<p>{count - _STUCK_LISTED:,} others are not listed.</p>" if count > _STUCK_LISTED else ""
        hidden = f"<details><summary>{count - _STUCK_SHOWN:,} more</summary>{_table(more, columns)}{rest}</details>"
    return _table(shown, columns) + hidden or "<p>None.</p>"


def _ownership(strips: Sequence[tuple[str, Sequence[Row]]], drawn: dict[str, Any]) -> str:
    options = [
        f'<option value="owners-{index}">{_name(name)}</option>'
        for index, (name, _) in enumerate(strips)
        if f"owners-{index}" in drawn
    ]
    if not options:
        return "<p>No group has had an assignment that could be read.</p>"
    cut = [
        name
        for name, rows in strips
        if len({(row["topic"], row["partition"]) for row in rows}) > figures.PARTITIONS_SHOWN
    ]
    note = (
        f"<p class=small>Of {', '.join(map(_name, cut))}: the first {figures.PARTITIONS_SHOWN} partitions.</p>"
        if cut
        else ""
    )
    chooser = f"<label>group <select id=owners-group>{''.join(options)}</select></label>"
    return f"{chooser}<div class=figure id=owners></div>{note}"


def _figure(name: str, drawn: dict[str, Any], otherwise: str) -> str:
    if name in drawn:
        return f'<div class=figure data-figure="{name}"></div>'
    return f"<p>{html.escape(otherwise)}</p>" if otherwise else ""


def _left_out(names: Sequence[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(map(_name, names[:2_000])) + (" …" if len(names) > 2_000 else "")
    return (
        f"<p>{GROUPS_SHOWN} groups are shown: those that lag most, then those that rebalance most.</p>"
        f"<details><summary>The names of the other {len(names):,}</summary><p>{shown}</p></details>"
    )


def _table(rows: Sequence[Row], columns: Sequence[tuple[str, _Cell]]) -> str:
    """Columns whose heading begins with # are numbers, with @ moments, with ~ names, which may be long."""
    if not rows:
        return ""
    kinds = [_CLASSES.get(heading[0]) for heading, _ in columns]
    classes = [f" class={kind}" if kind else "" for kind in kinds]
    head = "".join(
        f"<th{kind} scope=col>{heading.lstrip('#@~')}</th>" for kind, (heading, _) in zip(classes, columns, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{cell(row)}</td>" for kind, (_, cell) in zip(classes, columns, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _list(items: Iterable[str]) -> str:
    shown = "".join(f"<li>{html.escape(item)}</li>" for item in items)
    return f"<ul>{shown}</ul>" if shown else ""


def _name(name: str) -> str:
    return html.escape(shown_name(name))


def _number(value: int | None) -> str:
    return "&ndash;" if value is None else f"{value:,}"


def _when(at: datetime | None, grain: str = "%Y-%m-%d %H:%M:%S") -> str:
    return "&ndash;" if at is None else at.astimezone(UTC).strftime(grain)
