"""Spark's Python workers on this machine: they import the pipeline where the driver has found it, installed or not."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def let_workers_in(spark: SparkSession) -> None:
    """Workers on this machine can import the pipeline, whoever made the session. See `pipeline.register`."""
    try:
        context = spark.sparkContext
    except Exception:  # a session of Spark Connect: its workers are elsewhere
        return
    if not (context.master or "").startswith("local"):
        return
    if "PYSPARK_PYTHON" not in os.environ and context.getConf().get("spark.pyspark.python") is None:
        context.pythonExec = sys.executable
    context.environment["PYTHONPATH"] = with_root(context.environment.get("PYTHONPATH", ""))


def with_root(python_path: str) -> str:
    """The Python path, with the folder of the rooms in front unless it is in it."""
    root = str(Path(__file__).resolve().parent.parent)
    paths = [path for path in python_path.split(os.pathsep) if path]
    return python_path if root in paths else os.pathsep.join([root, *paths])
