"""The files of `reset-offsets --export` and `--from-file`: topic,partition,offset, or the group before them.

Source: Kafka's ConsumerGroupCommand (CsvUtils).
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import WrongInput
from coordinator.why.terms import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.groups.reading import Tp

Plan = dict[str, dict["Tp", int]]
"""The offsets by group and partition."""


def read_plan(name: str, groups: list[str]) -> Plan:
    """The plan in a file, `-` for standard input; lines without a group are for the only one of `groups`.

    Raises: WrongInput with the line that is wrong.
    """
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise WrongInput(f"--from-file {name}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise WrongInput(f"--from-file {name}: it is no text") from None
    plan: Plan = {}
    for number, fields in _rows(name, text):
        where = f"--from-file {name}: line {number}"
        row = [groups[0], *fields] if len(fields) == 3 and len(groups) == 1 else fields
        if len(row) != 4:
            shape = "topic,partition,offset" if len(groups) == 1 else "group,topic,partition,offset"
            raise WrongInput(f"{where} has {plural(len(row), 'field')}: it takes {shape}")
        group, topic, partition, offset = row
        if group not in groups:
            raise WrongInput(f"{where} is for group {group!r}, which was not named")
        tp = (topic, _number(where, "partition", partition))
        offsets = plan.setdefault(group, {})
        if not topic:
            raise WrongInput(f"{where} has no topic")
        if tp in offsets:
            raise WrongInput(f"{where} names {topic}-{partition} a second time")
        offsets[tp] = _number(where, "offset", offset)
    if not plan:
        raise WrongInput(f"--from-file {name}: it has no lines")
    return plan


def _rows(name: str, text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        for row in reader:
            fields = [field.strip() for field in row]
            if any(fields):
                yield reader.line_num, fields
    except csv.Error as error:
        raise WrongInput(f"--from-file {name}: line {reader.line_num}: {error}") from None


def _number(where: str, what: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise WrongInput(f"{where}: {what} {text!r} is no number")
    return int(text)


def csv_of(plan: Plan) -> str:
    """The text of a plan; the group stands in it when there are several."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, offsets in plan.items():
        for (topic, partition), offset in offsets.items():
            writer.writerow([*([group] if len(plan) > 1 else []), topic, partition, offset])
    return out.getvalue()
