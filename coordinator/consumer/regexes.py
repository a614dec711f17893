"""Subscriptions by regular expression: which are none, when they are looked up again, and what comes of it.

An expression has the syntax of RE2, whose time is linear in what it matches, and must match the whole name of a topic.
It is looked up beside the loop; until the result is there it stands for no topic, or for those of before.

Source: KIP-848; Kafka's TopicRegexResolver, GroupMetadataManager.maybeUpdateRegularExpressions,
handleRegularExpressionsResult.
"""

from __future__ import annotations

import re as python_re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from coordinator import re2_patterns
from coordinator.cause import Cause
from coordinator.consumer.answers import Refused
from coordinator.consumer.draft import Draft
from coordinator.consumer.epochs import update_epoch
from coordinator.consumer.group import ResolvedRegex
from coordinator.consumer.inputs import ResolveRegexes
from coordinator.consumer.records import regex_record, regex_tombstone
from coordinator.events import RegexResolved
from coordinator.outcome import Outcome
from coordinator.values import altered
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator.consumer.inputs import RegexesResolved
    from coordinator.view import AnyGroupOutcome, View

REFRESH_AT_MOST_EVERY_MS = 10_000
REGEXES_TOLD_MAX = 20
GIVE_UP_AFTER_MS = 60_000
"""A look-up that has not come back is asked for again."""

# The one escape that RE2 has and RE2/J, which Kafka uses, has not: any single byte. An even number of backslashes
# before it are escaped themselves.
_SINGLE_BYTE = python_re.compile(r"(?<!\\)(?:\\\\)*\\C")


@lru_cache(maxsize=1_000)
def compiled(regex: str) -> Any:
    """The expression, ready to be matched. Raises: Refused, when it is none."""
    if _SINGLE_BYTE.search(regex):
        raise _invalid(regex, r"invalid escape sequence: \C")
    try:
        return re2_patterns.compiled(regex)
    except ValueError as error:
        raise _invalid(regex, str(error)) from error


def _invalid(regex: str, reason: str) -> Refused:
    return Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{regex!r} is no regular expression: {reason}")


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the expression matches as a whole."""
    match = compiled(regex).fullmatch
    return frozenset([name for name in names if match(name)])


def drop_unused(draft: Draft) -> None:
    """What nobody subscribes to any more is forgotten."""
    group = draft.group
    for regex in [regex for regex in group.regexes if regex not in group.regex_counts]:
        draft.write(regex_tombstone(draft.group_id, regex))


def maybe_refresh(draft: Draft, on_behalf_of: Any) -> None:
    """Have the group's expressions looked up if that is due, all of them."""
    group, view, now_ms = draft.group, draft.view, draft.now_ms
    wanted, resolved = group.regex_counts, group.regexes
    if not wanted:
        return
    requested_at_ms = group.regexes_requested_at_ms
    if requested_at_ms is not None and now_ms - requested_at_ms < GIVE_UP_AFTER_MS:
        return
    last = next(iter(resolved.values()), None)
    if last is not None:
        age_ms = now_ms - last.timestamp_ms
        is_due = (
            any(regex not in resolved for regex in wanted)
            or last.version < view.topics.created_version
            or age_ms >= view.consumer_settings.regex_refresh_interval_ms
        )
        if age_ms <= REFRESH_AT_MOST_EVERY_MS or not is_due:
            return
    draft.soft["regexes_requested_at_ms"] = now_ms
    draft.work.append(ResolveRegexes(draft.group_id, frozenset(wanted), view.topics, on_behalf_of))


def regexes_resolved(view: View, result: RegexesResolved, now_ms: int) -> AnyGroupOutcome:
    """What the expressions stand for now. Members see it when the next target is computed."""
    group = view.consumer_group
    if group is None:
        return Outcome(view.group)
    draft = Draft(view, now_ms)
    draft.soft["regexes_requested_at_ms"] = None
    changed: dict[str, Any] = {}
    for regex, topics in (result.resolved or {}).items():
        if regex not in group.regex_counts:
            continue
        before = group.regexes.get(regex)
        if before is None or before.topics != topics:
            old = before.topics if before is not None else frozenset()
            changed[regex] = {"added": sorted(topics - old), "removed": sorted(old - topics)}
        draft.write(regex_record(draft.group_id, regex, ResolvedRegex(topics, result.version, now_ms)))
    if changed:
        draft.event(RegexResolved(changed))
    if result.resolved is not None:
        any_topics = any(change["added"] or change["removed"] for change in changed.values())
        requested_by = [cause for cause in draft.tracking.regex_causes if cause.member_id in group.members]
        draft.tracking = altered(draft.tracking, regex_causes=())
        told = Cause(now_ms, "regex_changed", detail={"regexes": dict(list(changed.items())[:REGEXES_TOLD_MAX])})
        update_epoch(draft, (requested_by or (told,)) if any_topics else ())
    return draft.outcome()
