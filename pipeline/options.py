"""The options of `kohort pipeline`: each is stated once, with its field in `pipeline.command.Command`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pipeline.errors import UsageError
from pipeline.paths import local_path, place_of
from pipeline.spans import span_ms

_LONGEST_MS = 36_500 * 86_400_000
_AGO = re.compile(r"-(\d+)(s|m|h|d)")
_ANY_AGO = re.compile(r"-\d\S*")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_KEY = "option"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `verbs` heed it, None: all; `stream`: only with --stream, or never with it; None: as may be.

    `how` is argparse's. `read(flag, given, now)` gives the field's value of what was given; without it the field is
    worked out of several (`pipeline.command_line.read`).
    """

    flag: str
    how: Mapping[str, Any]
    read: Callable[[str, Any, datetime], Any] | None
    verbs: tuple[str, ...] | None
    stream: bool | None

    @property
    def name(self) -> str:
        """What argparse calls it."""
        return self.flag.removeprefix("--").replace("-", "_")


def plain(_flag: str, given: Any, _now: datetime) -> Any:
    """What was given, as it is."""
    return given


def option(
    flag: str,
    text: str,
    metavar: str | None = None,
    *,
    read: Callable[[str, Any, datetime], Any] | None = plain,
    verbs: tuple[str, ...] | None = None,
    stream: bool | None = None,
    default: Any = None,
    repr: bool = True,  # noqa: A002  as `dataclasses.field` has it
    **how: Any,
) -> Any:
    """A field of a command, and the option that says it; without `metavar` and `choices` it takes no value."""
    if metavar is not None:
        how["metavar"] = metavar
    elif "choices" not in how:
        how["action"] = "store_true"
        default = False
    made = Option(flag, {**how, "help": text}, read, verbs, stream)
    return field(default=default, repr=repr, metadata={_KEY: made})


def options_of(command: type[Any]) -> dict[str, Option]:
    """The options by the fields they say, in order."""
    found: dict[str, Field[Any]] = {one.name: one for one in fields(command)}
    return {name: one.metadata[_KEY] for name, one in found.items() if _KEY in one.metadata}


# --- what becomes of what is given


def parse_moment(text: str, now: datetime) -> datetime:
    """A moment with a zone, of ISO 8601, epoch milliseconds, or a span ago. Raises: ValueError, UsageError."""
    ago = _AGO.fullmatch(text)
    if ago:
        return now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
    if re.fullmatch(r"\d{9,11}", text):
        # As milliseconds a day in the early seventies, when there was no Kafka.
        raise UsageError(f"{text} looks like seconds; epoch moments are milliseconds: {text}000")
    if re.fullmatch(r"\d{12,}", text):
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def with_ago(words: list[str]) -> list[str]:
    """`--since -2h` as `--since=-2h`: argparse takes a word that begins with `-` for an option."""
    joined: list[str] = []
    for word in words:
        if _ANY_AGO.fullmatch(word) and joined and joined[-1] in ("--since", "--until", "--at"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def moment(flag: str, text: str, now: datetime) -> datetime:
    """A moment. Raises: UsageError."""
    try:
        return parse_moment(text, now)
    except UsageError as error:
        raise UsageError(f"{flag} {error}") from None
    except (ValueError, OverflowError, OSError):  # OSError: of the C library, beyond its calendar
        raise UsageError(
            f"{flag} {text}: a moment is ISO 8601 (2026-03-01T12:00:00Z), epoch milliseconds, or -2h"
        ) from None


def span(flag: str, text: str, _now: datetime) -> int:
    """Milliseconds. Raises: UsageError."""
    try:
        found = span_ms(text)
    except ValueError:
        raise UsageError(f"{flag} {text}: a span is 30s, 10m, 1h or 7d") from None
    if found > _LONGEST_MS:
        raise UsageError(f"{flag} {text}: at most a hundred years")
    return found


def settings(_flag: str, texts: list[str], _now: datetime) -> tuple[tuple[str, str], ...]:
    """Settings of Spark's. Raises: UsageError."""
    return tuple(map(_setting, texts))


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise UsageError(f"--conf {text}: it takes spark.KEY=VALUE")
    return key, value


def files(flag: str, text: str, _now: datetime) -> tuple[str, ...]:
    """Files of a comma list. Raises: UsageError for one that is not there."""
    found = tuple(file for file in text.split(",") if file)
    for file in found:
        place = local_path(file)
        if place is not None and not Path(place).exists():
            raise UsageError(f"{flag} {file} does not exist")
    return found


def names(_flag: str, texts: list[str], _now: datetime) -> tuple[str, ...]:
    """What was given, one or several times."""
    return tuple(texts)


def comma_list(_flag: str, text: str, _now: datetime) -> tuple[str, ...]:
    """The words between commas."""
    return tuple(word for word in text.split(",") if word)


def place(flag: str, text: str, _now: datetime) -> Path:
    """A path of this machine. Raises: UsageError."""
    return place_of(flag, text)
