"""What incidents leave behind, for the pipeline's report: the files of each, and those of several put together.

A report of one incident costs as much as one of many. Only incidents of the same few minutes go together: of a group
whose incident was over for longer it would truly say that its records wait.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from protocol.records.ledger import LEDGER_TOPIC
from storage.reading.checkpoints import LOG_START, format_checkpoint, read_offsets
from tests.incidents.stage import PARTITIONS, Stage

TOGETHER_MS = 240_000
_NOTE = "incident.json"


@dataclass(frozen=True)
class Kept:
    """The files of one incident."""

    name: str
    number: int
    group: str
    since_ms: int
    until_ms: int
    alone: bool


def keep(stage: Stage, into: Path, name: str, number: int, *, alone: bool) -> None:
    """Take what a report reads of a stage whose broker has stopped."""
    target = into / f"{number:03}"
    target.mkdir(parents=True)
    own = [f"__consumer_offsets-{stage.partition}", f"{LEDGER_TOPIC}-{stage.partition}", LOG_START]
    for path in stage.broker.data.iterdir():
        if path.name in own or path.name.rpartition("-")[0] == stage.topic:
            shutil.move(path, target / path.name)
    found = Kept(name, number, stage.group, stage.since_ms, int(time.time() * 1_000), alone)
    (target / _NOTE).write_text(json.dumps(asdict(found)))


def together(kept: Path) -> Iterator[list[Kept]]:
    """Those that may be put into one directory."""
    notes = [Kept(**json.loads(path.read_text())) for path in kept.glob(f"*/{_NOTE}")]
    found: list[Kept] = []
    for one in sorted(notes, key=lambda note: note.until_ms):
        apart = one.alone or any(each.alone or each.number % PARTITIONS == one.number % PARTITIONS for each in found)
        if found and (apart or one.until_ms - found[0].until_ms > TOGETHER_MS):
            yield found
            found = []
        found.append(one)
    if found:
        yield found


def put_together(kept: Path, notes: Iterable[Kept], target: Path) -> None:
    """One log directory of all of these."""
    starts = []
    for one in notes:
        place = LEDGER_TOPIC, one.number % PARTITIONS
        own = kept / f"{one.number:03}"
        for path in own.iterdir():
            if path.is_dir():
                shutil.copytree(path, target / path.name)
        starts.append(f"{place[0]} {place[1]} {read_offsets(own / LOG_START).get(place, 0)}")
    (target / LOG_START).write_bytes(format_checkpoint(starts))
