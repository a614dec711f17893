"""`restore`: offsets as of a moment as the file that Kafka's reset tool reads, and `--execute` to put them back here.

Without `--execute` nothing is committed. With it, a group that has members is refused before anything is changed.
"""

from __future__ import annotations

import csv
import io
import shlex
import sys
from typing import TYPE_CHECKING

from coordinator.why.terms import plural
from pipeline.errors import DataError
from pipeline.jobs import state
from pipeline.jobs.inputs import matches
from pipeline.jobs.output import put_answer
from pipeline.sources import cluster

if TYPE_CHECKING:
    from pyspark.sql import Row

    from pipeline.jobs.inputs import Inputs

Bounds = dict[tuple[str, int], tuple[int, int]]


def execute(inputs: Inputs) -> int:
    """Write the file, or commit; return the number of offsets. Raises: DataError."""
    command = inputs.command
    found = state.found(inputs)
    if command.groups:
        found = found.where(matches("group_id", command.groups))
    if command.topics:
        found = found.where(matches("topic", command.topics))
    rows = found.orderBy("group_id", "topic", "partition").collect()
    groups = sorted({row.group_id for row in rows})
    if not rows:
        assert command.at is not None
        raise DataError(
            f"no group that was asked for had a committed offset at {command.at.isoformat()}; nothing was done"
        )
    _warn(rows, _bounds(inputs, {row.topic for row in rows}))
    text = lines(rows, len(groups) > 1)
    if command.has_target:
        put_answer(inputs, text)
    elif not command.execute:
        sys.stdout.write(text)
        sys.stdout.flush()
    if command.execute:
        _put_back(inputs, rows, groups)
    else:
        _advise(inputs, groups)
    return len(rows)


def lines(rows: list[Row], several: bool) -> str:
    """The file of Kafka's `--from-file`: topic,partition,offset, with the group in front when there are several."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        head = [row.group_id] if several else []
        writer.writerow([*head, row.topic, row.partition, row.committed_offset])
    return out.getvalue()


def _bounds(inputs: Inputs, topics: set[str]) -> Bounds:
    if inputs.command.execute:
        assert inputs.command.bootstrap is not None
        found = cluster.bounds(inputs.command.access, topics)
    else:
        found = [tuple(row) for row in inputs.bounds(topics).collect()]
    return {(topic, partition): (start, end) for topic, partition, start, end in found}


def _warn(rows: list[Row], bounds: Bounds) -> None:
    inexact = sorted({row.group_id for row in rows if row.exact is not True})
    if inexact:
        unknown = any(row.exact is None for row in rows)
        why = "nobody knows how far the log was compacted" if unknown else "the log was compacted since"
        print(f"offsets may be missing, {why}: {', '.join(inexact)}", file=sys.stderr)
    for row in rows:
        known = bounds.get((row.topic, row.partition))
        if known is None:
            print(
                f"{row.topic}-{row.partition} is not there: {row.group_id} stood at {row.committed_offset}",
                file=sys.stderr,
            )
        elif not known[0] <= row.committed_offset <= known[1]:
            print(
                f"{row.topic}-{row.partition} of {row.group_id}: {row.committed_offset} lies outside "
                f"of {known[0]}-{known[1]}",
                file=sys.stderr,
            )


def _advise(inputs: Inputs, groups: list[str]) -> None:
    command = inputs.command
    file = shlex.quote(str(command.to or command.to_uri)) if command.has_target else "FILE"
    named = " ".join(f"--group {shlex.quote(group)}" for group in groups)
    where = command.bootstrap or "HOST:PORT"
    print(
        f"kafka-consumer-groups --bootstrap-server {where} --reset-offsets {named} --from-file {file} --dry-run",
        file=sys.stderr,
    )


def _put_back(inputs: Inputs, rows: list[Row], groups: list[str]) -> None:
    """Commit the offsets of all groups, none of which may have members."""
    access = inputs.command.access
    busy = {group: members for group, members in cluster.members_of(access, groups).items() if members}
    if busy:
        said = "; ".join(f"{group} has {', '.join(members)}" for group, members in sorted(busy.items()))
        raise DataError(f"nothing was changed, stop the members first: {said}")
    bounds = _bounds(inputs, {row.topic for row in rows})
    for group in groups:
        wanted = {}
        for row in rows:
            place = (row.topic, row.partition)
            if row.group_id == group and place in bounds:
                start, end = bounds[place]
                # As Kafka's tool does: what is not in the log any more, or not yet again, becomes its nearest end.
                wanted[place] = (min(max(row.committed_offset, start), end), row.metadata or "")
        if wanted:
            cluster.commit(access, group, wanted)
        print(f"group {group}: {plural(len(wanted), 'offset')} put back", file=sys.stderr)
