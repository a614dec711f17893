"""What the pipeline's report says of an incident: its Spark job, on the files that the broker has left."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.asked import read
from pipeline.jobs.inputs import Inputs
from pipeline.jobs.report import collected
from pipeline.session import build
from tests.incidents.stage import Diagnosis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def reported(data: Path, since_ms: int) -> Diagnosis:
    """Its findings, each with everybody whom its sentence names; it tells neither events nor verdicts."""
    asked = read(["report", "--from", str(data), "--since", str(since_ms), "--to", str(data.parent / "report.html")])
    with Inputs(session(), asked) as inputs:
        found = collected(inputs).findings
    said = set()
    for row in found:
        if row["weight"] == "warning":
            names = {first or second for first, second in _NAMES.findall(row["text"])}
            said |= {f"finding:{row['rule']}:{name}" for name in names or {""}}
        else:
            said.add(f"hint:{row['rule']}")
    return Diagnosis(said)
