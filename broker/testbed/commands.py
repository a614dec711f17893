"""What a test may ask of its broker: one function a command.

A command is `command(bed, words, answer)`: it calls `answer` with something that JSON has, now or later, or raises
`Refused` with a sentence. Bytes travel as base64.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.catalogue.topic_changes import NewTopic
from broker.testbed import groups, records
from broker.testbed.auditing.tap import Audit
from broker.testbed.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.catalogue.requests import Result
    from broker.testbed.watching import Watched

    Words = dict[str, Any]
    Answer = Callable[[Any], None]
    Command = Callable[[Watched, Words, Answer], None]


def create_topics(bed: Watched, words: Words, answer: Answer) -> None:
    """Topics, there for every client when the answer comes; all of them are one change of the catalogue."""
    wishes = [NewTopic(one["name"], one["partitions"], configs=one["configs"]) for one in words["topics"]]
    refused: list[str] = []
    missing = len(wishes)

    def created(name: str, result: Result) -> None:
        nonlocal missing
        missing -= 1
        if result.error:
            refused.append(f"{result.error.name}: {result.message or name}")
        if not missing:
            answer(Refused("; ".join(refused)) if refused else None)

    for wish in wishes:
        bed.broker.catalogue.create_topic(wish, partial(created, wish.name))


def topics(bed: Watched, words: Words, answer: Answer) -> None:
    """Every topic but Kohort's and Kafka's own, with the number of its partitions."""
    answer(
        {topic.name: topic.partition_count for topic in bed.broker.catalogue.image if not topic.name.startswith("__")}
    )


def produce(bed: Watched, words: Words, answer: Answer) -> None:
    """Records, each where its key belongs, acknowledged when the answer comes."""
    if bed.broker.catalogue.image.topic(words["topic"]) is not None:
        records.produce(bed, words, answer)
        return

    def created(failed: Any) -> None:
        if isinstance(failed, Refused):
            answer(failed)
        else:
            bed.guarded(records.produce, words, answer)

    wish = {"name": words["topic"], "partitions": -1, "configs": {}}
    create_topics(bed, {"topics": [wish]}, created)


def requests(bed: Watched, words: Words, answer: Answer) -> None:
    """What clients have asked."""
    answer(bed.watch.requests(bed.broker, words))


def add_fault(bed: Watched, words: Words, answer: Answer) -> None:
    """A fault for the requests that are meant; its number."""
    answer(bed.watch.faults.add(words))


def fault(bed: Watched, words: Words, answer: Answer) -> None:
    """How often it was hit, and how many requests it holds."""
    answer(bed.watch.faults.rules[words["number"]].state)


def release_fault(bed: Watched, words: Words, answer: Answer) -> None:
    """Let go what it holds."""
    bed.watch.faults.release(words["number"])
    answer(None)


def remove_fault(bed: Watched, words: Words, answer: Answer) -> None:
    """It hits nobody any more."""
    bed.watch.faults.remove(words["number"])
    answer(None)


def chaos(bed: Watched, words: Words, answer: Answer) -> None:
    """Faults that a seed has chosen, each by its words; auditors watch the wire from here on. The faults' numbers."""
    if bed.watch.audit is None:
        bed.watch.audit = Audit(fresh=words["fresh"])
        bed.watch.audit.watch(bed.broker)
    answer([bed.watch.faults.add(fault) for fault in words["faults"]])


def hit_log(bed: Watched, words: Words, answer: Answer) -> None:
    """What faults have done: of each its hits, and how often it may still be used; and what auditors have found."""
    rules = [bed.watch.faults.rules.get(number) for number in words["numbers"]]
    told = [None if rule is None else {**rule.state, "hit_log": rule.hit_log} for rule in rules]
    answer({"faults": told, "findings": [] if bed.watch.audit is None else bed.watch.audit.findings})


def audit(bed: Watched, words: Words, answer: Answer) -> None:
    """The auditors' last look: what they have found in all."""

    def look() -> None:
        answer([] if bed.watch.audit is None else bed.watch.audit.close())

    bed.when_quiet(look)


def remove_faults(bed: Watched, words: Words, answer: Answer) -> None:
    """No fault hits anybody any more."""
    for number in list(bed.watch.faults.rules):
        bed.watch.faults.remove(number)
    answer(None)


def clock(bed: Watched, words: Words, answer: Answer) -> None:
    """What time it is: now, by how much ahead, and where it stands still."""
    answer([bed.runtime.now_ms(), *bed.runtime.clock])


def shift_clock(bed: Watched, words: Words, answer: Answer) -> None:
    """Move the clock; the answer comes when what is due then has happened."""
    if words["by_ms"] < 0:
        raise Refused("the broker's clock never goes back")
    bed.shift(words["by_ms"], lambda: clock(bed, words, answer))


def freeze_clock(bed: Watched, words: Words, answer: Answer) -> None:
    """No deadline comes nearer."""
    bed.runtime.freeze()
    clock(bed, words, answer)


def unfreeze_clock(bed: Watched, words: Words, answer: Answer) -> None:
    """The clock goes on from where it stands."""
    bed.runtime.unfreeze()
    clock(bed, words, answer)


def disk_full(bed: Watched, words: Words, answer: Answer) -> None:
    """Nothing can be written any more, until it is freed."""
    bed.disk.is_full = words["full"]
    answer(None)


def flush(bed: Watched, words: Words, answer: Answer) -> None:
    """What was written so far is on the disk, when the answer comes."""
    for one in bed.broker.partitions:
        if one.error is None and one.log.log_end_offset > one.log.recovery_point:
            bed.broker.partitions.flush(one)
    bed.when_quiet(lambda: answer(None))


def power_cut(bed: Watched, words: Words, answer: Answer) -> None:
    """What no fsync has covered is gone, and so is this process: nobody is answered."""
    bed.disk.cut_power(bed.directory)
    os.kill(os.getpid(), signal.SIGKILL)


COMMANDS: dict[str, Command] = {
    "create_topics": create_topics,
    "topics": topics,
    "produce": produce,
    "records": records.read,
    "group": groups.group,
    "groups": groups.groups,
    "committed": groups.committed,
    "lag": groups.lag,
    "why": groups.why,
    "expire": groups.expire,
    "fence": groups.fence,
    "lose_assignment": groups.lose_assignment,
    "rebalance": groups.rebalance,
    "move_coordinator": groups.move_coordinator,
    "disk_full": disk_full,
    "flush": flush,
    "power_cut": power_cut,
    "requests": requests,
    "clock": clock,
    "shift_clock": shift_clock,
    "freeze_clock": freeze_clock,
    "unfreeze_clock": unfreeze_clock,
    "add_fault": add_fault,
    "fault": fault,
    "release_fault": release_fault,
    "remove_fault": remove_fault,
    "remove_faults": remove_faults,
    "chaos": chaos,
    "hit_log": hit_log,
    "audit": audit,
}
