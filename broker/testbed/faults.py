"""Which requests are hit by a fault, and by which: rules that a test sets, each used so many times."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from broker.testbed import acts, disruptions, divided
from broker.testbed.error_answers import OF_SESSIONS
from broker.testbed.plain import about
from broker.testbed.refused import Refused
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.registry import APIS

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.catalogue.topics_image import TopicsImage
    from broker.handlers.context import RequestContext
    from broker.testbed.acts import Act
    from broker.testbed.ports import UnderTest

_WHEN = ("before", "during", "after")


class Rule:
    """One fault. `left` is how often it may still be used; None: always."""

    def __init__(self, words: dict[str, Any], bed_of: Callable[[], UnderTest]) -> None:
        self.words = words
        self.api_key = api_key(words["api"])
        self.hits = 0
        self.hit_log: list[tuple[int, str]] = []  # (when, whom)
        self._topic: str | None = words.get("topic")
        self._partition: int | None = words.get("partition")
        self._group: str | None = words.get("group")
        self._client_id: str | None = words.get("client_id")
        self._transactional_id: str | None = words.get("transactional_id")
        self._skip: int = words.get("skip", 0)
        self._left: int | None = words.get("times", 1)
        self.act = self._divided() or _act(self.api_key, words["act"], words.get("with"), bed_of)

    def _divided(self) -> Act | None:
        """The error of some partitions of a request, where it may have others too."""
        if self.words["act"] != "error" or self.api_key not in divided.APIS:
            return None
        code = _error(self.words["with"])
        if (self._topic is None and self._partition is None) or code in OF_SESSIONS:
            return None
        return divided.error(self.api_key, code, self._means_partition)

    def _means_partition(self, topic: str, index: int | None) -> bool:
        return self._topic in (None, topic) and self._partition in (None, index)

    def takes(self, context: RequestContext, request: Any, image: TopicsImage, now_ms: int) -> bool:
        """Whether it hits this request; counts it."""
        if self._left == 0 or not self._means(context, request, image):
            return False
        if self._skip:
            self._skip -= 1
            return False
        if self._left is not None:
            self._left -= 1
        self.hits += 1
        self.hit_log.append((now_ms, context.client_id))
        return True

    def _means(self, context: RequestContext, request: Any, image: TopicsImage) -> bool:
        if self._client_id is not None and self._client_id != context.client_id:
            return False
        wanted = (self._topic, self._partition, self._group, self._transactional_id)
        if wanted == (None, None, None, None):
            return True
        found = about(request, image)
        if self._group is not None and self._group not in found.groups:
            return False
        if self._transactional_id is not None and self._transactional_id not in found.transactional_ids:
            return False
        if self._topic is None and self._partition is None:
            return True
        return any(self._means_partition(topic, index) for topic, index in found.partitions)

    @property
    def state(self) -> dict[str, Any]:
        """What a test is told of it."""
        held = self.act.count if isinstance(self.act, acts.Hold) else 0
        return {"hits": self.hits, "held": held, "left": self._left, "skip": self._skip}


class Faults:
    """All rules. The first that takes a request decides what happens to it."""

    def __init__(self) -> None:
        self.rules: dict[int, Rule] = {}
        self.bed: UnderTest  # whose they are
        self._next = 0

    def add(self, words: dict[str, Any]) -> int:
        """A rule's number. Raises: Refused."""
        rule = Rule(words, lambda: self.bed)
        self._next += 1
        self.rules[self._next] = rule
        return self._next

    def hit(self, api: int, context: RequestContext, request: Any, image: TopicsImage) -> Act | None:
        """What happens to this request."""
        for rule in self.rules.values():
            if rule.api_key == api and rule.takes(context, request, image, self.bed.runtime.now_ms()):
                return rule.act
        return None

    def release(self, number: int) -> None:
        """Let go what a rule holds."""
        rule = self.rules.get(number)
        if rule is not None and isinstance(rule.act, acts.Hold):
            rule.act.release()

    def remove(self, number: int) -> None:
        """It hits nobody any more, and lets go what it holds."""
        self.release(number)
        self.rules.pop(number, None)


def api_key(name: str) -> ApiKey:
    """Of an API by Kafka's name for it. Raises: Refused."""
    for key, api in APIS.items():
        if api.name.lower() == str(name).lower().replace("_", ""):
            return ApiKey(key)
    names = [api.name for api in APIS.values()]
    near = get_close_matches(str(name), names, n=3) or names
    raise Refused(f"there is no API {name!r}: it takes one of {', '.join(near)}")


def _act(api: int, name: str, argument: Any, bed_of: Callable[[], UnderTest]) -> Act:
    if name == "disrupt":
        return disruptions.disrupt(bed_of, **argument)
    if name == "silence":
        return acts.silence(argument["ms"], handled=argument["handled"])
    if name == "error":
        return acts.error(api, _error(argument))
    if name == "delay":
        return acts.delay(argument)
    if name == "throttle":
        return acts.throttle(argument)
    if name == "drop":
        return acts.drop(handled=bool(argument))
    if name == "disconnect":
        if argument not in _WHEN:
            raise Refused(f"disconnect({argument!r}): it takes one of {', '.join(_WHEN)}")
        return acts.disconnect(argument)
    return acts.Hold()


def _error(name: str | int) -> ErrorCode:
    for code in ErrorCode:
        if (isinstance(name, str) and code.name == name.upper()) or (type(name) is int and code == name):
            return code
    near = get_close_matches(str(name).upper(), [code.name for code in ErrorCode], n=3, cutoff=0.5)
    told = ", ".join(near) if near else "Kafka's names, such as NOT_COORDINATOR"
    raise Refused(f"there is no error {name!r}: it takes one of {told}")
