"""What can be asked of a broker, its groups, its clock, its faults: each by the name that it has in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kohort.testing.control.values import called, data, expected, plain
from kohort.testing.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kohort.testing.broker import Broker
    from kohort.testing.faults import Fault

    Words = dict[str, Any]

_BROKER = (
    *("create_topic", "produce", "records", "assert_produced", "requests", "log", "summary", "verify", "config"),
    *("stop", "kill", "power_cut", "start", "restart", "pause", "resume", "flush", "disk_full", "disk_freed"),
)
_OF_BROKER = ("topics", "groups", "bootstrap_servers", "pid")
_GROUP = (
    *("committed", "lag", "why", "wait_stable", "wait_committed"),
    *("expire", "fence", "lose_assignment", "rebalance", "move_coordinator"),
)
_OF_GROUP = ("state", "generation", "members")
_CLOCK, _OF_CLOCK = ("shift", "freeze", "unfreeze"), ("now_ms", "is_frozen")
_FAULT, _OF_FAULT = ("wait_hit", "release", "remove"), ("hits",)
_ONLY_LOOK = {
    *("records", "assert_produced", "requests", "log", "summary", "config", "committed", "lag", "why"),
    *("wait_stable", "wait_committed", "wait_hit"),
}
CHANGES = frozenset((*_BROKER, *_GROUP, *_CLOCK, *_FAULT)) - _ONLY_LOOK
"""What GET does not do: any page in a browser of this machine can have it asked."""
_ACTS = ("error", "delay", "drop", "disconnect", "hold", "throttle")
_WHICH = ("times", "skip", "always", "optional")


def of_broker(broker: Broker, name: str, words: Words) -> Any:
    """One of its calls, or something that it is."""
    if name == "produce":
        values = [data(value) for value in words.pop("values", [words.pop("value", None)])]
        words = {**words, "key": data(words.get("key"))}
        return called(name, _rest(broker.produce, values), words)
    if name == "assert_produced":
        wanted = [expected(one) for one in words.pop("expected", [])]
        return plain(called(name, _rest(broker.assert_produced, wanted), words))
    return _one_of(broker, _BROKER, _OF_BROKER, name, words)


def of_group(broker: Broker, group_id: str, name: str, words: Words) -> Any:
    """The same of a group."""
    return _one_of(broker.group(group_id), _GROUP, _OF_GROUP, name, words)


def of_clock(broker: Broker, name: str, words: Words) -> Any:
    """The same of its clock."""
    return _one_of(broker.clock, _CLOCK, _OF_CLOCK, name, words)


def of_fault(fault: Fault, name: str, words: Words) -> Any:
    """The same of a fault that is set."""
    return _one_of(fault, _FAULT, _OF_FAULT, name, words)


def fault(broker: Broker, words: Words) -> Fault:
    """One is set: `{"on": API, "group": ..., "times": 2, "error": "NOT_COORDINATOR"}`. Raises: Refused."""
    acts = [name for name in _ACTS if name in words]
    if "on" not in words or len(acts) != 1:
        raise Refused(f"a fault has on, the API, and one of {', '.join(_ACTS)}")
    (act,) = acts
    argument = words.pop(act)
    which = {name: words.pop(name) for name in _WHICH if name in words}
    made: Fault = called("a fault", broker.faults.on, {"api": words.pop("on"), **words})
    for name, value in which.items():
        if name in ("always", "optional"):
            if value:
                getattr(made, name)()
        elif not isinstance(value, int):
            raise Refused(f"{name}={value!r}: it takes a number")
        else:
            getattr(made, name)(value)
    if act == "drop":
        made.drop(handled=argument == "handled")
    elif act == "hold":
        made.hold()
    else:
        getattr(made, act)(argument)
    return made


def _rest(function: Callable[..., Any], values: list[Any]) -> Callable[..., Any]:
    """Of a call whose `*values` come behind the topic."""

    def call(topic: str, **named: Any) -> Any:
        return function(topic, *values, **named)

    return call


def _one_of(of: Any, calls: tuple[str, ...], facts: tuple[str, ...], name: str, words: Mapping[str, Any]) -> Any:
    if name in facts:
        return plain(getattr(of, name))
    if name not in calls:
        raise LookupError(f"there is no {name!r}: it takes one of {', '.join(sorted((*calls, *facts)))}")
    return plain(called(name, getattr(of, name), words))
