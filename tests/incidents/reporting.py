"""What the pipeline's report says of incidents: its Spark job, on the files that their brokers have left."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pipeline.command_line import read
from pipeline.jobs.inputs import Inputs
from pipeline.jobs.report import collected
from pipeline.session import build
from tests.incidents.kept import put_together, together
from tests.incidents.stage import Diagnosis, said_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.report import Row

_NAMES = re.compile(r'([\w-]+) \(127\.0\.0\.\d\)|"(pod-\d)"')


@cache
def session() -> SparkSession:
    """One for all incidents."""
    made = build(
        master="local[2,4]",
        name="incidents",
        settings={
            "spark.sql.codegen.wholeStage": "false",  # little data: compiling takes longer than reading
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
        },
        quiet=True,
    )
    made.sparkContext.setLogLevel("OFF")
    return made


def reported(kept: Path) -> Iterator[tuple[str, Diagnosis]]:
    """Of each incident the report's findings, with everybody whom they name, and its timeline."""
    for notes in together(kept):
        with TemporaryDirectory(prefix="together-") as name:
            put_together(kept, notes, Path(name) / "data")
            until = datetime.fromtimestamp(max(one.until_ms for one in notes) / 1_000, UTC)
            command = read(["report", "--from", f"{name}/data", "--to", f"{name}/report.html"])
            with Inputs(session(), replace(command, asked_at=until)) as inputs:
                told = collected(inputs)
        for one in notes:
            lines = [row for row in told.timeline if row["group_id"] == one.group]
            found = [row for row in told.findings if row["group_id"] == one.group]
            said = _said(found) | said_of([row["record"] for row in lines], [], [])
            said |= {f"verdict:{kind}:{who.split(' ')[0]}" for row in lines for kind, who in row["verdicts"]}
            said |= {"event:partitions_read" for row in lines for text in row["below"] if "went unread" in text}
            text = [each for row in lines for each in (row["text"], *row["below"])]
            yield one.name, Diagnosis(said, "\n".join([*text, *[row["text"] for row in found]]))


def _said(rows: Iterable[Row]) -> set[str]:
    said = set()
    for row in rows:
        if row["weight"] == "warning":
            names = {first or second for first, second in _NAMES.findall(row["text"])}
            said |= {f"finding:{row['rule']}:{name}" for name in names or {""}}
        else:
            said.add(f"hint:{row['rule']}")
    return said
