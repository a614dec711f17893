"""The options of the sources, read and checked once, on the driver, before anything is opened."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pipeline.errors import UsageError
from pipeline.sources.access import TIMEOUT_MS, Access, access
from pipeline.sources.files import is_remote
from pipeline.sources.log_dir import GROUPS_TOPIC, METADATA_TOPIC

RECORDS = ("raw", "group", "batch", "problems")
KNOWN = (
    *("path", "topic", "topicPattern", "partitions", "startingOffsets", "endingOffsets", "startingTimestamp"),
    *("endingTimestamp", "records", "isolationLevel", "includeHeaders", "includeSource", "onCorrupt", "checkCrc"),
    *("splitBytes", "batchRecords", "latestOnly", "dedupeReplicas", "upTo", "maxOffsetsPerTrigger", "failOnDataLoss"),
    "columns",
)
KNOWN_TO_KAFKA = (
    *("bootstrap", "topic", "topicPattern", "partitions", "startingOffsets", "endingOffsets", "startingTimestamp"),
    *("endingTimestamp", "records", "isolationLevel", "includeHeaders", "includeSource", "onCorrupt", "checkCrc"),
    *("splitOffsets", "batchRecords", "latestOnly", "maxOffsetsPerTrigger", "failOnDataLoss", "timeoutMs"),
    "columns",
)
_MIB = 1024 * 1024
_SIZE = re.compile(r"(\d+)\s*([kmg]?)i?b?", re.IGNORECASE)

Offsets = str | Mapping[str, Mapping[int, int]]
"""`earliest`, `latest`, or per topic and partition; -2 is earliest and -1 latest, as in Spark's Kafka source."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a reader was asked for. Times in ms; `starting`/`ending` are inclusive/exclusive."""

    path: str = ""
    topics: tuple[str, ...] = ()
    topic_pattern: str = ""
    partitions: frozenset[int] | None = None
    starting_offsets: Offsets = "earliest"
    ending_offsets: Offsets = "latest"
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    records: str = "raw"
    read_committed: bool = False
    include_headers: bool = False
    include_source: bool = False
    skip_corrupt: bool = False
    check_crc: bool = True
    split_bytes: int = 32 * _MIB
    split_offsets: int = 1_000_000
    batch_records: int = 65536
    latest_only: bool = False
    dedupe_replicas: bool = False
    up_to_high_watermark: bool = False
    max_offsets_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    access: Access = field(default_factory=lambda: Access(""))
    columns: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    file_system: Mapping[str, str] = field(default_factory=dict, repr=False)

    def wants(self, topic: str, partition: int) -> bool:
        """Whether a partition was asked for."""
        if self.partitions is not None and partition not in self.partitions:
            return False
        if self.topics:
            return topic in self.topics
        if self.topic_pattern:
            return re.fullmatch(self.topic_pattern, topic) is not None
        return topic == GROUPS_TOPIC if self.records == "group" else topic != METADATA_TOPIC


def parse(given: Mapping[str, str], known: tuple[str, ...] = KNOWN) -> Options:
    """The options that Spark was given, whose names ignore case. Raises: UsageError naming the option."""
    names = {name.lower(): name for name in known}
    values: dict[str, str] = {}
    security: dict[str, str] = {}
    file_system: dict[str, str] = {}
    for key, value in given.items():
        if key.lower().startswith("kafka.") and "bootstrap" in known:
            security[key.lower()[6:]] = value
            continue
        if key.lower().startswith("fs.") and "path" in known:
            file_system[key.lower()[3:]] = value
            continue
        if key.lower() == "paths" and "path" in known:
            values["path"] = _several(value)
            continue
        if key.lower() not in names:
            near = difflib.get_close_matches(key.lower(), names, 1, 0.0)
            raise UsageError(f"unknown option {key!r}; did you mean {names[near[0]]!r}?")
        values[names[key.lower()]] = value
    if "bootstrap.servers" in security:
        values.setdefault("bootstrap", security.pop("bootstrap.servers"))
    where = "path" if "path" in known else "bootstrap"
    if not values.get(where):
        raise UsageError(f"option {where!r} is required")
    if file_system and not any(is_remote(path.strip()) for path in values["path"].split(",")):
        raise UsageError(f"fs.{next(iter(file_system))}: the path is none of an object store's or of HDFS's")
    if values.get("topic") and values.get("topicPattern"):
        raise UsageError("topic and topicPattern exclude each other")
    records = _one_of(values, "records", RECORDS, "raw")
    isolation = "read_committed" if records == "group" else "read_uncommitted"
    isolation = _one_of(values, "isolationLevel", ("read_uncommitted", "read_committed"), isolation)
    pattern = values.get("topicPattern", "")
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"topicPattern {pattern!r} is no regular expression: {error}") from None
    limit = values.get("maxOffsetsPerTrigger")
    return Options(
        path=values.get("path", ""),
        topics=tuple(name.strip() for name in values.get("topic", "").split(",") if name.strip()),
        topic_pattern=pattern,
        partitions=_partitions(values.get("partitions", "")),
        starting_offsets=_offsets(values, "startingOffsets", "earliest"),
        ending_offsets=_offsets(values, "endingOffsets", "latest"),
        starting_timestamp=_moment(values, "startingTimestamp"),
        ending_timestamp=_moment(values, "endingTimestamp"),
        records=records,
        read_committed=isolation == "read_committed",
        include_headers=_flag(values, "includeHeaders", False),
        include_source=_flag(values, "includeSource", False),
        skip_corrupt=_one_of(values, "onCorrupt", ("error", "skip"), "error") == "skip",
        check_crc=_flag(values, "checkCrc", True),
        split_bytes=_number(values, "splitBytes", 32 * _MIB),
        split_offsets=_number(values, "splitOffsets", 1_000_000),
        batch_records=_number(values, "batchRecords", 65536),
        latest_only=_flag(values, "latestOnly", False),
        dedupe_replicas=_flag(values, "dedupeReplicas", False),
        up_to_high_watermark=_one_of(values, "upTo", ("logEnd", "highWatermark"), "logEnd") == "highWatermark",
        max_offsets_per_trigger=_number(values, "maxOffsetsPerTrigger", 0) if limit else None,
        fail_on_data_loss=_flag(values, "failOnDataLoss", True),
        access=access(values.get("bootstrap", ""), security, timeout_ms=_number(values, "timeoutMs", TIMEOUT_MS)),
        columns=tuple(name.strip() for name in values.get("columns", "").split(",") if name.strip()),
        given=values,
        file_system=file_system,
    )


def parse_moment(text: str) -> int:
    """Epoch ms of an ISO 8601 moment (no zone: UTC) or of a number of ms. Raises: ValueError."""
    text = text.strip()
    if re.fullmatch(r"-?\d+", text) and len(text) > 8:
        return int(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)  # noqa: UP017
    return round(moment.timestamp() * 1000)


def _several(text: str) -> str:
    """What `.load([path, ...])` becomes: Spark hands over a JSON list."""
    try:
        paths = json.loads(text)
    except ValueError:
        paths = [text]
    return ",".join(str(path) for path in (paths if isinstance(paths, list) else [paths]))


def _one_of(values: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = values.get(name, default)
    for word in allowed:
        if value.lower() == word.lower():
            return word
    raise UsageError(f"{name} is {value!r}; it may be {', '.join(allowed)}")


def _flag(values: Mapping[str, str], name: str, default: bool) -> bool:
    return _one_of(values, name, ("true", "false"), str(default).lower()) == "true"


def _number(values: Mapping[str, str], name: str, default: int) -> int:
    if name not in values:
        return default
    match = _SIZE.fullmatch(values[name].strip())
    if match is None or int(match[1]) == 0:
        raise UsageError(f"{name} is {values[name]!r}; it must be a whole number above 0")
    return int(match[1]) << 10 * " kmg".index((match[2] or " ").lower())


def _moment(values: Mapping[str, str], name: str) -> int | None:
    if name not in values:
        return None
    try:
        return parse_moment(values[name])
    except ValueError:
        raise UsageError(f"{name} is {values[name]!r}; it must be ISO 8601 or epoch milliseconds") from None


def _partitions(text: str) -> frozenset[int] | None:
    if not text.strip():
        return None
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None:
            raise UsageError(f"partitions is {text!r}; it must look like 0,3-7")
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(numbers)


def _offsets(values: Mapping[str, str], name: str, default: str) -> Offsets:
    text = values.get(name, default).strip()
    if text.lower() in {"earliest", "latest"}:
        if name == "endingOffsets" and text.lower() == "earliest":
            raise UsageError("endingOffsets cannot be earliest")
        return text.lower()
    try:
        return {
            str(topic): {int(number): int(offset) for number, offset in offsets.items()}
            for topic, offsets in json.loads(text).items()
        }
    except (ValueError, AttributeError, TypeError):
        raise UsageError(f'{name} is {text!r}; it must be earliest, latest or JSON like {{"t":{{"0":17}}}}') from None
