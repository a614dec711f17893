"""The options of the sources, read and checked once, on the driver, before anything is opened.

Each is stated once, with the field that it says: its name, which sources know it, and how what was given is read.
"""

# ruff: noqa: RUF009  an option makes a field, as `dataclasses.field` does
from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import Any, NamedTuple

from pipeline.errors import UsageError
from pipeline.sources.access import TIMEOUT_MS, Access, access
from pipeline.sources.files import is_remote
from pipeline.sources.log_dir import GROUPS_TOPIC, METADATA_TOPIC

RECORDS = ("raw", "group", "batch", "problems")
_COMMITTED = "read_committed"
_MIB = 1024 * 1024
_SIZE = re.compile(r"(\d+)\s*([kmg]?)i?b?", re.IGNORECASE)
_LOG, _KAFKA = frozenset({"log"}), frozenset({"kafka"})  # `kohort-log`, `kohort-kafka`
_BOTH = _LOG | _KAFKA

Offsets = str | Mapping[str, Mapping[int, int]]
"""`earliest`, `latest`, or per topic and partition; -2 is earliest and -1 latest, as in Spark's Kafka source."""


# --- what becomes of what is given: of an option's name and its text. All raise UsageError.


def parse_moment(text: str) -> int:
    """Epoch ms of an ISO 8601 moment (no zone: UTC) or of a number of ms. Raises: ValueError."""
    text = text.strip()
    if re.fullmatch(r"-?\d+", text) and len(text) > 8:
        return int(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)  # noqa: UP017
    return round(moment.timestamp() * 1000)


def _text(_name: str, text: str) -> str:
    return text


def _words(_name: str, text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _pattern(name: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(f"{name} {text!r} is no regular expression: {error}") from None
    return text


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        for word in allowed:
            if text.lower() == word.lower():
                return word
        raise UsageError(f"{name} is {text!r}; it may be {', '.join(allowed)}")

    return read


def _is(yes: str, *allowed: str) -> Callable[[str, str], bool]:
    """Whether it is this one of two words."""
    read = _one_of(*allowed)
    return lambda name, text: read(name, text) == yes


_flag = _is("true", "true", "false")


def _number(name: str, text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise UsageError(f"{name} is {text!r}; it must be a whole number above 0")
    return int(match[1]) << 10 * " kmg".index((match[2] or " ").lower())


def _limit(name: str, text: str) -> int | None:
    return _number(name, text) if text else None


def _moment(name: str, text: str) -> int:
    try:
        return parse_moment(text)
    except ValueError:
        raise UsageError(f"{name} is {text!r}; it must be ISO 8601 or epoch milliseconds") from None


def _partitions(name: str, text: str) -> frozenset[int] | None:
    if not text.strip():
        return None
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None:
            raise UsageError(f"{name} is {text!r}; it must look like 0,3-7")
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(numbers)


def _offsets(name: str, text: str) -> Offsets:
    text = text.strip()
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


class _Option(NamedTuple):
    name: str
    read: Callable[[str, str], Any]
    sources: frozenset[str]


_KEY = "option"


def _option(name: str, read: Callable[[str, str], Any], default: Any, sources: frozenset[str] = _BOTH) -> Any:
    """A field, and the option that says it."""
    return field(default=default, metadata={_KEY: _Option(name, read, sources)})


@dataclass(frozen=True, slots=True)
class Options:
    """What a reader was asked for. Times in ms; `starting`/`ending` are inclusive/exclusive."""

    path: str = _option("path", _text, "", _LOG)
    bootstrap: str = _option("bootstrap", _text, "", _KAFKA)
    topics: tuple[str, ...] = _option("topic", _words, ())
    topic_pattern: str = _option("topicPattern", _pattern, "")
    partitions: frozenset[int] | None = _option("partitions", _partitions, None)
    starting_offsets: Offsets = _option("startingOffsets", _offsets, "earliest")
    ending_offsets: Offsets = _option("endingOffsets", _offsets, "latest")
    starting_timestamp: int | None = _option("startingTimestamp", _moment, None)
    ending_timestamp: int | None = _option("endingTimestamp", _moment, None)
    records: str = _option("records", _one_of(*RECORDS), "raw")
    read_committed: bool = _option("isolationLevel", _is(_COMMITTED, "read_uncommitted", _COMMITTED), False)
    include_headers: bool = _option("includeHeaders", _flag, False)
    include_source: bool = _option("includeSource", _flag, False)
    skip_corrupt: bool = _option("onCorrupt", _is("skip", "error", "skip"), False)
    check_crc: bool = _option("checkCrc", _flag, True)
    split_bytes: int = _option("splitBytes", _number, 32 * _MIB, _LOG)
    split_offsets: int = _option("splitOffsets", _number, 1_000_000, _KAFKA)
    batch_records: int = _option("batchRecords", _number, 65536)
    latest_only: bool = _option("latestOnly", _flag, False)
    dedupe_replicas: bool = _option("dedupeReplicas", _flag, False, _LOG)
    up_to_high_watermark: bool = _option("upTo", _is("highWatermark", "logEnd", "highWatermark"), False, _LOG)
    max_offsets_per_trigger: int | None = _option("maxOffsetsPerTrigger", _limit, None)
    fail_on_data_loss: bool = _option("failOnDataLoss", _flag, True)
    timeout_ms: int = _option("timeoutMs", _number, TIMEOUT_MS, _KAFKA)
    columns: tuple[str, ...] = _option("columns", _words, ())
    access: Access = field(default_factory=lambda: Access(""))
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


_BY_FIELD: dict[str, _Option] = {one.name: one.metadata[_KEY] for one in fields(Options) if _KEY in one.metadata}
KNOWN = tuple(one.name for one in _BY_FIELD.values() if one.sources & _LOG)
KNOWN_TO_KAFKA = tuple(one.name for one in _BY_FIELD.values() if one.sources & _KAFKA)


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
    found = {name: one.read(one.name, values[one.name]) for name, one in _BY_FIELD.items() if one.name in values}
    if found.get("records") == "group":
        found.setdefault("read_committed", True)  # as a coordinator that loads them
    return Options(
        **found,
        access=access(found.get("bootstrap", ""), security, timeout_ms=found.get("timeout_ms", TIMEOUT_MS)),
        given=values,
        file_system=file_system,
    )


def _several(text: str) -> str:
    """What `.load([path, ...])` becomes: Spark hands over a JSON list."""
    try:
        paths = json.loads(text)
    except ValueError:
        paths = [text]
    return ",".join(str(path) for path in (paths if isinstance(paths, list) else [paths]))
