"""What may happen to the broker itself, or a group, at the moment of a request: faults that a test leaves to chance.

A broker that is killed so is dropped where it stands, with its connections, and opened anew on what it has written: in
the same process, at the same address. Nothing of the old one is closed in good order, nothing of it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.testbed import groups
from broker.testbed.acts import later
from broker.testbed.plain import about
from broker.testbed.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.handlers.context import Deferred
    from broker.testbed.acts import Act, Call
    from broker.testbed.ports import UnderTest

_GROUP_COMMANDS: dict[str, Callable[[UnderTest, dict[str, Any], Callable[[Any], None]], None]] = {
    "rebalance": groups.rebalance,
    "expire": groups.expire,
    "lose_assignment": groups.lose_assignment,
    "move_coordinator": groups.move_coordinator,
}


def disrupt(bed_of: Callable[[], UnderTest], what: str, when: str = "before", ms: int = 0) -> Act:
    """Let it happen, and then handle the request: what is killed `after` it has handled it, and has not answered."""

    def begin(call: Call, promise: Deferred) -> None:
        bed = bed_of()
        if what in ("kill", "power_cut"):
            if when == "after":
                call.handle_later(promise, lambda _: bed.crash(power=what == "power_cut"))
            else:
                bed.crash(power=what == "power_cut")
            return
        _happen(bed, call, what, ms)
        call.handle_later(promise, promise.complete)

    return later(begin)


def _happen(bed: UnderTest, call: Call, what: str, ms: int) -> None:
    if what == "pause":
        bed.runtime.stand_still(ms)
    elif what == "shift":
        bed.shift(ms, _nothing)
    elif what == "disk_full":
        bed.disk.is_full = True
        bed.runtime.timers.set(("testbed", "disk"), bed.runtime.now_ms() + ms, lambda: _free(bed))
    else:
        member_id = getattr(call.request, "member_id", None)
        for group_id in sorted(about(call.request, bed.broker.catalogue.image).groups):
            arguments = {"group": group_id, "member": member_id if what == "expire" else None}
            try:
                _GROUP_COMMANDS[what](bed, arguments, _nothing)
            except Refused:
                continue  # the group is not so far yet, or no longer


def _free(bed: UnderTest) -> None:
    bed.disk.is_full = False


def _nothing(_: Any = None) -> None:
    """Nobody has asked."""
