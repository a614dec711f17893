"""Where `reset-offsets` sets offsets to: one function from what is known of the partitions to new offsets.

Source: Kafka's ConsumerGroupCommand.prepareOffsetsToReset, OffsetsUtils.
"""

from __future__ import annotations

import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from confluent_kafka.admin import OffsetSpec

from cli.errors import Failed, UsageError
from cli.groups.reading import end_offsets, offsets_at, start_offsets

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cli.cluster import Cluster
    from cli.groups.reading import Tp

_DURATION = re.compile(r"P(?=\d|T\d)(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SPAN_MS = (86_400_000, 3_600_000, 60_000, 1_000)


def timestamp_of(options: argparse.Namespace, now_ms: int | None = None) -> int | None:
    """The moment (ms) that --to-datetime or --by-duration mean; None without them. Raises: UsageError."""
    if options.to_datetime is not None:
        return parse_datetime(options.to_datetime)
    if options.by_duration is not None:
        now_ms = round(time.time() * 1_000) if now_ms is None else now_ms
        return now_ms - parse_duration(options.by_duration)
    return None


def parse_datetime(text: str) -> int:
    """The ms since 1970 of `2026-01-31T18:00:00.000`, in UTC unless it says another zone. Raises: UsageError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--to-datetime {text}: it takes a time such as 2026-01-31T18:00:00.000") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000)


def parse_duration(text: str) -> int:
    """The ms of `P1DT2H3M4S`. Raises: UsageError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"--by-duration {text}: it takes a duration such as P1DT2H30M or PT10S")
    return round(sum(float(count) * span for count, span in zip(match.groups(), _SPAN_MS, strict=True) if count))


def new_offsets(
    cluster: Cluster,
    options: argparse.Namespace,
    tps: list[Tp],
    committed: Mapping[Tp, tuple[int, int | None]],
) -> dict[Tp, int]:
    """The offset that each partition gets. Raises: Failed when one has nothing to be counted from; UsageError."""
    ends = _all_of(tps, end_offsets(cluster, tps))
    if options.to_latest:
        return ends
    if options.to_current:
        return {tp: committed[tp][0] if tp in committed else ends[tp] for tp in tps}
    timestamp = timestamp_of(options)
    if timestamp is not None:
        found = offsets_at(cluster, dict.fromkeys(tps, OffsetSpec.for_timestamp(timestamp)))
        return {tp: found[tp] if found.get(tp, -1) >= 0 else ends[tp] for tp in tps}
    starts = _all_of(tps, start_offsets(cluster, tps))
    if options.to_earliest:
        return starts
    if options.to_offset is not None:
        return within(dict.fromkeys(tps, options.to_offset), starts, ends)
    missing = [tp for tp in tps if tp not in committed]
    if missing:
        topic, number = missing[0]
        raise Failed(f"--shift-by: the group has no committed offset of {topic}-{number} to count from")
    return within({tp: committed[tp][0] + options.shift_by for tp in tps}, starts, ends)


def bounded(cluster: Cluster, wanted: dict[Tp, int]) -> dict[Tp, int]:
    """What a file wishes, kept within what is there. Raises: Failed for a partition that is not."""
    tps = list(wanted)
    starts = _all_of(tps, start_offsets(cluster, tps))
    return within(wanted, starts, _all_of(tps, end_offsets(cluster, tps)))


def within(wanted: dict[Tp, int], starts: dict[Tp, int], ends: dict[Tp, int]) -> dict[Tp, int]:
    """Offsets kept between the first record and the log's end; says where one was not."""
    kept = {}
    for tp, offset in wanted.items():
        kept[tp] = min(max(offset, starts[tp]), ends[tp])
        if kept[tp] != offset:
            side, border = ("lower", "earliest") if offset < starts[tp] else ("higher", "latest")
            name = f"{tp[0]}-{tp[1]}"
            print(
                f"New offset ({offset}) is {side} than {border} offset for topic partition {name}. "
                f"Value will be set to {kept[tp]}",
                file=sys.stderr,
            )
    return kept


def _all_of(tps: list[Tp], found: dict[Tp, int]) -> dict[Tp, int]:
    for topic, number in tps:
        if (topic, number) not in found:
            raise Failed(f"partition {topic}-{number} does not exist")
    return found
