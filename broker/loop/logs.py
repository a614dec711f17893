"""Log lines are events with facts: `log.info("connection_closed", peer=..., reason=...)`.

A Kafka-like line without a trace is put together here; for all others structlog does the work, and is imported with the
first of them, since a start should not pay for it, nor the loop (15 ms, and 100 where rich is installed). `configure`
chooses the shape: Kafka-like lines by default, one JSON object per line on request.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from structlog.typing import FilteringBoundLogger

    Words = Callable[[str, MutableMapping[str, Any]], str | None]

LONGEST_FACT = 1_000
"""Characters of one fact that are written: names are what clients chose, up to 32 KiB each. A trace is whole."""
LEVELS = {"trace": 5, "debug": 10, "info": 20, "warn": 30, "warning": 30, "error": 40, "fatal": 50, "off": 60}


class _Settings:
    """How lines are written, as `configure` left it."""

    json: bool = False
    level: int = 20
    stream: TextIO | None = None
    words: Words | None = None
    logger: FilteringBoundLogger | None = None


def configure(*, json: bool = False, level: str = "info", stream: TextIO | None = None) -> None:
    """Say how lines look and which ones are written; `stream` defaults to standard error."""
    _Settings.json = json
    _Settings.level = LEVELS[level.lower()]
    _Settings.stream = stream
    _Settings.logger = None


def level() -> str:
    """The least that is written, as `configure` calls it."""
    return next(name for name, number in LEVELS.items() if number == _Settings.level)


def set_level(name: str) -> None:
    """Write lines of this level and above from now on."""
    _Settings.level = LEVELS[name.lower()]
    _Settings.logger = None


def say_in(words: Words) -> None:
    """Use whole sentences where `words(event, facts)` has one, as for what Kafka's own broker says of groups."""
    _Settings.words = words


class Logger:
    """The part of structlog's logger that we use. Facts are keyword arguments; `exception` adds the trace."""

    __slots__ = ()

    @property
    def debugs(self) -> bool:
        """Whether lines of `debug` are written at all."""
        return _Settings.level <= 10

    def debug(self, event: str, **facts: Any) -> None:
        """Tell what only somebody who looks for a fault wants to see."""
        if _Settings.level <= 10:
            _write("debug", event, facts)

    def info(self, event: str, **facts: Any) -> None:
        """Tell what happened."""
        if _Settings.level <= 20:
            _write("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Tell what somebody should look at some day."""
        if _Settings.level <= 30:
            _write("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        """Tell what somebody should look at now."""
        if _Settings.level <= 40:
            _write("error", event, facts)

    def exception(self, event: str, **facts: Any) -> None:
        """Tell of a bug, with the trace of the exception being handled."""
        if _Settings.level <= 40:
            _write("error", event, {**facts, "exc_info": True})


_LOGGER = Logger()


def get_logger() -> Logger:
    """The logger of the process."""
    return _LOGGER


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
            wrapper_class=structlog.make_filtering_bound_logger(_Settings.level),
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
