"""Log lines are events with facts: `log.info("connection_closed", peer=..., reason=...)`.

A Kafka-like line without a trace is put together here; for all others structlog does the work, and is imported with the
first of them, since a start should not pay for it, nor the loop (15 ms, and 100 where rich is installed). `configure`
chooses the shape: Kafka-like lines by default, one JSON object per line on request.

Each module has a logger of its name, with the level of the nearest room above that was given one: a line that is not
written costs the same however many were.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from structlog.typing import FilteringBoundLogger

    Words = Callable[[str, MutableMapping[str, Any]], str | None]

LONGEST_FACT = 1_000
"""Characters of one fact that are written: names are what clients chose, up to 32 KiB each. A trace is whole."""
LEVELS = {"trace": 5, "debug": 10, "info": 20, "warn": 30, "warning": 30, "error": 40, "fatal": 50, "off": 60}


ROOT = "root"


class _Settings:
    """How lines are written, as `configure` left it."""

    json: bool = False
    levels: ClassVar[dict[str, int]] = {ROOT: 20}  # of the loggers that were given one
    stream: TextIO | None = None
    words: Words | None = None
    logger: FilteringBoundLogger | None = None


def configure(*, json: bool = False, level: str = "info", stream: TextIO | None = None) -> None:
    """Say how lines look and which ones are written; `stream` defaults to standard error."""
    _Settings.json = json
    _Settings.levels = {ROOT: LEVELS[level.lower()]}
    _Settings.stream = stream
    _Settings.logger = None
    _tell_loggers()


def levels() -> dict[str, str]:
    """The least that each logger writes, as `configure` calls it: of `root`, modules and the rooms that they are in."""
    names = {ROOT, *_LOGGERS}
    for name in _LOGGERS:
        while name := name.rpartition(".")[0]:
            names.add(name)
    words = {number: word for word, number in reversed(LEVELS.items())}
    return {name: words[_level_of(name)] for name in sorted(names)}


def set_level(name: str, level: str | None) -> None:
    """Have a logger and those below it write lines of this level and above from now on; None: as what is above it.

    Those below that were given a level keep it. `root` has to have one.
    """
    if level is not None:
        _Settings.levels[name] = LEVELS[level.lower()]
    else:
        _Settings.levels.pop(name, None)
    _tell_loggers()


def say_in(words: Words) -> None:
    """Use whole sentences where `words(event, facts)` has one, as for what Kafka's own broker says of groups."""
    _Settings.words = words


class Logger:
    """The part of structlog's logger that we use. Facts are keyword arguments; `exception` adds the trace."""

    __slots__ = ("least",)

    def __init__(self, least: int) -> None:
        self.least = least  # that is written

    @property
    def debugs(self) -> bool:
        """Whether lines of `debug` are written at all."""
        return self.least <= 10

    def debug(self, event: str, **facts: Any) -> None:
        """Tell what only somebody who looks for a fault wants to see."""
        if self.least <= 10:
            _write("debug", event, facts)

    def info(self, event: str, **facts: Any) -> None:
        """Tell what happened."""
        if self.least <= 20:
            _write("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Tell what somebody should look at some day."""
        if self.least <= 30:
            _write("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        """Tell what somebody should look at now."""
        if self.least <= 40:
            _write("error", event, facts)

    def exception(self, event: str, **facts: Any) -> None:
        """Tell of a bug, with the trace of the exception being handled."""
        if self.least <= 40:
            _write("error", event, {**facts, "exc_info": True})


_LOGGERS: dict[str, Logger] = {}


def get_logger(name: str) -> Logger:
    """The logger of this module, by the name that Python gives it."""
    if name not in _LOGGERS:
        _LOGGERS[name] = Logger(_level_of(name))
    return _LOGGERS[name]


def _level_of(name: str) -> int:
    while name and name not in _Settings.levels:
        name = name.rpartition(".")[0]
    return _Settings.levels[name or ROOT]


def _tell_loggers() -> None:
    for name, logger in _LOGGERS.items():
        logger.least = _level_of(name)


def _write(method: str, event: str, facts: MutableMapping[str, Any]) -> None:
    for key, value in facts.items():
        if isinstance(value, str) and len(value) > LONGEST_FACT:
            facts[key] = f"{value[:LONGEST_FACT]}... ({len(value)} characters)"
    if _Settings.json or "exc_info" in facts:
        getattr(_logger(), method)(event, **facts)
    else:
        _SINK.write(_kafka_line(None, method, _add_time_and_level(None, method, {"event": event, **facts})))


def _logger() -> FilteringBoundLogger:
    if _Settings.logger is None:
        import structlog  # noqa: PLC0415  for JSON and for traces

        render: Any = structlog.processors.JSONRenderer() if _Settings.json else _kafka_line
        exceptions: Any = (
            structlog.processors.format_exc_info if not _Settings.json else structlog.processors.dict_tracebacks
        )
        _Settings.logger = structlog.wrap_logger(
            _SINK,
            processors=[_add_time_and_level, exceptions, render],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )
    return _Settings.logger


class _Sink:
    """Where lines end up. That nobody can take them any more (a closed pipe, a full disk) is no reason to fail."""

    def write(self, line: str) -> None:
        try:
            stream = _Settings.stream or sys.stderr
            stream.write(line + "\n")
            stream.flush()
        except (OSError, ValueError):
            pass

    debug = info = warning = error = write


_SINK = _Sink()


def _add_time_and_level(_: Any, method: str, facts: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    now = time.time()
    milliseconds = int(now * 1_000) % 1_000
    if _Settings.json:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        facts["timestamp"] = f"{moment}.{milliseconds:03d}Z"
    else:
        facts["timestamp"] = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))},{milliseconds:03d}"
    facts["level"] = {"warning": "warn", "exception": "error"}.get(method, method)
    return facts


def _kafka_line(_: Any, __: str, facts: MutableMapping[str, Any]) -> str:
    """`[2026-01-31 12:00:00,123] INFO rebalance_ended group_id=orders generation=3`, as log4j prints Kafka's."""
    moment, level, event = facts.pop("timestamp"), facts.pop("level"), facts.pop("event")
    trace = facts.pop("exception", None)
    said = None if _Settings.words is None else _Settings.words(event, facts)
    if said is not None:
        # Names are what clients chose: control characters in them cannot forge a line.
        said = said if said.isprintable() else repr(said)[1:-1]
        return f"[{moment}] {level.upper()} {said}"
    line = f"[{moment}] {level.upper()} {event}"
    for key, value in facts.items():
        line += f" {key}={_fact(value)}"
    return f"{line}\n{trace}" if trace else line


def _fact(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    # Quoted where it would not read as one word; control characters (a client chooses its names) cannot forge a line.
    if text and text.isprintable() and " " not in text and "=" not in text and '"' not in text:
        return text
    return repr(text) if isinstance(value, str) or not text.isprintable() else text
