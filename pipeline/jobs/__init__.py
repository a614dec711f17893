"""One module per verb of `kohort pipeline`: read, call transformations, hand over what is to be written.

`run(command)` starts Spark, runs the verb and ends with one line on standard error: rows, records read, undecoded,
skipped batches, seconds. Nothing that Spark raises gets out: its Java and worker traces become one sentence.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import TYPE_CHECKING

from coordinator.why.terms import plural
from pipeline import class_archive
from pipeline.errors import DONE, LOSS, DataError, PipelineError
from pipeline.jobs.reasons import explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.command import Command
    from pipeline.jobs.inputs import Inputs

__all__ = ["explain", "finish", "run"]


def run(command: Command) -> int:
    """Do what is asked; return the exit code. Raises: PipelineError."""
    started = time.monotonic()
    from pipeline.jobs.progress import Progress  # noqa: PLC0415  Spark is imported from here on
    from pipeline.session import build, java_version  # noqa: PLC0415

    spark = build(
        master=command.master,
        name=f"kohort pipeline {command.verb}",
        jars=command.jars,
        settings=dict(command.conf),
        py_files=command.py_files,
        quiet=True,
        archive_classes=command.archive_classes,
        delta=command.format == "delta",
        little=command.little or _is_little_at_a_broker(command),
    )
    # Whatever goes wrong is said once, at the end; traces of workers and retries would bury it.
    spark.sparkContext.setLogLevel("OFF")
    try:
        if command.stream:
            from pipeline.jobs.streaming import stream  # noqa: PLC0415

            return stream(spark, command, started)
        with Progress(spark.sparkContext, command.verb):
            return _batch(spark, command, started)
    except (PipelineError, KeyboardInterrupt, BrokenPipeError):
        raise
    except ConnectionError as error:
        raise DataError("Spark's Java process ended before it was done: out of memory, or killed") from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise DataError(f"{where}{(error.strerror or str(error)).lower()}") from error
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise  # a mistake of ours, whose trace is wanted
        explain(error)
    finally:
        if command.archive_classes:
            print(class_archive.keep(spark, (java_version() or (0, None))[1]), file=sys.stderr)
        else:
            spark.stop()


def _is_little_at_a_broker(command: Command) -> bool:
    """Whether what a verb reads of a broker is some megabytes. Raises: DataError where none answers."""
    # These two read topics, of whose bytes their offsets tell nothing; and what a stream will read nobody knows.
    if command.broker is None or command.stream or command.verb == "stuck" or command.exact:
        return False
    from pipeline.jobs.inputs import LEDGER_TOPIC  # noqa: PLC0415
    from pipeline.sources import cluster  # noqa: PLC0415
    from pipeline.sources.log_dir import GROUPS_TOPIC  # noqa: PLC0415

    return cluster.is_little(command.access, (GROUPS_TOPIC, LEDGER_TOPIC))


def _batch(spark: SparkSession, command: Command, started: float) -> int:
    from pipeline.jobs.inputs import Inputs  # noqa: PLC0415
    from pipeline.jobs.output import target, write  # noqa: PLC0415

    if command.to_uri is not None:
        target(spark, command)  # before hours of work
    module = importlib.import_module(f"{__name__}.{command.verb}")
    with Inputs(spark, command) as inputs:
        if hasattr(module, "execute"):
            rows: int = module.execute(inputs)
        else:
            rows = write(module.tables(inputs), inputs)
        return finish(inputs, rows, started)


def finish(inputs: Inputs, rows: int, started: float) -> int:
    """Say what was lost, and the last line; return the exit code."""
    command = inputs.command
    counts = inputs.counts()
    skipped, left_out = inputs.skipped(), inputs.left_out()
    for line in (*inputs.notices(), *inputs.undecoded_lines(), *skipped, *left_out):
        print(line, file=sys.stderr)
    unknown = "? undecoded" if counts is None else f"{counts.undecoded:,} undecoded"
    read = "? records" if counts is None else plural(counts.read, "record")
    print(
        f"kohort pipeline {command.verb}: {plural(rows, 'row')} from {read}, {unknown}, "
        f"{plural(len(skipped), 'batch', 'batches')} skipped, {time.monotonic() - started:.1f} s",
        file=sys.stderr,
    )
    lost = bool(skipped or left_out) or (command.strict and counts is not None and counts.undecoded > 0)
    return LOSS if lost else DONE
