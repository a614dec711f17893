"""What takes too long for the rules of a group: regular expressions are looked up in a thread, the target of a large
group is computed in slices of the loop's turns. What comes of it is an input of the group.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.loop.logs import get_logger
from broker.loop.slices import InThread
from coordinator.consumer.inputs import ComputeTarget, RegexesResolved, ResolveRegexes, TargetComputed
from coordinator.consumer.regexes import matching
from coordinator.consumer.target import computed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.loop.runtime import Runtime
    from coordinator.consumer.assignor import Assignor
    from coordinator.outcome import Input, Work

log = get_logger(__name__)


class GroupWork:
    """Begins works, and hands their results to `submit`."""

    def __init__(self, runtime: Runtime, assignors: Mapping[str, Assignor], submit: Callable[[Input], None]) -> None:
        self._runtime = runtime
        self._assignors = assignors
        self._submit = submit

    def begin(self, work: Work) -> None:
        """Begin one work of a group. Works of one group follow each other."""
        if isinstance(work, ResolveRegexes):
            self._resolve(work)
        else:
            assert isinstance(work, ComputeTarget)
            self._compute(work)

    def _resolve(self, work: ResolveRegexes) -> None:
        def failed(error: Exception) -> None:
            log.error("group_regexes_not_resolved", group_id=work.group_id, error=str(error))
            self._submit(RegexesResolved(work.group_id, None))

        self._runtime.in_slices(_looked_up(work), self._submit, failed, owner=work.group_id)

    def _compute(self, work: ComputeTarget) -> None:
        def failed(error: Exception) -> None:
            log.error("group_target_not_computed", group_id=work.group_id, assignor=work.assignor, error=str(error))
            self._submit(TargetComputed(work.group_id, work.epoch, work.spec, None))

        self._runtime.in_slices(
            computed(work, self._assignors[work.assignor]),
            self._submit,
            failed,
            owner=work.group_id,
        )


def _looked_up(work: ResolveRegexes) -> Generator[InThread | None, Any, RegexesResolved]:
    names = work.topics.names()
    may_describe = work.on_behalf_of  # of whom asked: a function of a topic's name
    found: dict[str, frozenset[str]] = {}
    for regex in work.regexes:
        topics = yield InThread(partial(matching, regex, names))
        found[regex] = frozenset(filter(may_describe, topics))
        yield None
    return RegexesResolved(work.group_id, found, work.topics.version)
