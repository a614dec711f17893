"""How long a target of ten thousand members takes, and the longest piece of it that the loop would have to wait for.

CPU time of this thread: on a busy machine the wall clock measures the others.

python -m benchmarks.assignors [--members 10000] [--partitions 10000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
import uuid
from collections.abc import Callable

from coordinator.consumer.assignor import AssignmentSpec, MemberToAssign, Target, TopicToAssign
from coordinator.consumer.assignors import ASSIGNORS


def group(
    members: int,
    partitions: int,
    topics: int,
    per_member: int | None,
    target: Callable[[int], dict[bytes, tuple[int, ...]]] = lambda _: {},
) -> AssignmentSpec:
    """A group that begins. `per_member`: topics that each subscribes to, at random; None: all."""
    chance = random.Random(7)
    ids = [chance.randbytes(16) for _ in range(topics)]
    everything = frozenset(ids)
    made = {}
    for at in range(members):
        member_id = str(uuid.UUID(bytes=chance.randbytes(16)))
        wanted = everything if per_member is None else frozenset(chance.sample(ids, per_member))
        made[member_id] = MemberToAssign(member_id, None, None, wanted, target(at))
    return AssignmentSpec(made, {topic_id: TopicToAssign(partitions // topics) for topic_id in ids}, per_member is None)


def after(spec: AssignmentSpec, target: Target, keep: Callable[[int], bool]) -> AssignmentSpec:
    """The same group with that target, and only the members that are kept."""
    members = {
        member_id: MemberToAssign(member_id, None, None, member.topic_ids, target.get(member_id, {}))
        for at, (member_id, member) in enumerate(spec.members.items())
        if keep(at)
    }
    return AssignmentSpec(members, spec.topics, spec.homogeneous)


def measure(name: str, spec: AssignmentSpec) -> tuple[Target, float, float, int]:
    """The target, all of the time and the longest piece in milliseconds, and how many pieces."""
    steps = ASSIGNORS[name].steps(spec)
    pieces = []
    while True:
        began = time.thread_time()
        try:
            next(steps)
        except StopIteration as done:
            pieces.append(time.thread_time() - began)
            return done.value, 1000 * sum(pieces), 1000 * max(pieces), len(pieces)
        pieces.append(time.thread_time() - began)


def main() -> int:
    """Print one line per kind of group."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    members, partitions = options.members, options.partitions
    kinds = {
        "1 topic": group(members, partitions, 1, None),
        "100 topics": group(members, partitions, 100, None),
        "100 topics, 50 each": group(members, partitions, 100, 50),
        "100 topics, 3 each": group(members, partitions, 100, 3),
        "1000 topics, 2 each": group(members, partitions, 1000, 2),
    }
    gc.freeze()
    print(
        f"{'group':24}{'assignor':10}{'what':28}{'all ms':>10}{'longest ms':>12}{'pieces':>8}  best of {options.rounds}"
    )
    for kind, spec in kinds.items():
        for name in ASSIGNORS:
            first = measure(name, spec)[0]
            hoard = {next(iter(spec.members)): {i: tuple(range(t.partition_count)) for i, t in spec.topics.items()}}
            cases = {
                "everybody joins": spec,
                "one leaves": after(spec, first, lambda at: at != 5),
                "half leave": after(spec, first, lambda at: at % 2 == 0),
                "one had everything": after(spec, hoard, lambda at: True),
                "one takes it all back": after(spec, first, lambda at: at == 0),
            }
            for what, case in cases.items():
                runs = [measure(name, case)[1:] for _ in range(options.rounds)]
                whole, longest = min(run[0] for run in runs), min(run[1] for run in runs)
                print(f"{kind:24}{name:10}{what:28}{whole:10.1f}{longest:12.2f}{runs[0][2]:8}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
