"""Our assignors and Kafka's own classes on the same groups: the same targets, member by member, partition by partition.

`KOHORT_ASSIGNOR_SEED=7 KOHORT_ASSIGNOR_HISTORIES=20000 pytest ...` plays more of them; a failure names its history.
"""

import json
import os
import subprocess

import pytest

from tests.coordinator.consumer.random_groups import as_json, from_json, history, readable
from tests.support.broker_process import ROOT
from tests.support.java import class_path

SOURCE = ROOT / "tests" / "coordinator" / "consumer" / "kafka" / "Assignors.java"
STEPS = 6


def hangs_on_java(asked: dict) -> bool:
    """Whether a set in it has a size that Java 19 and later give a smaller table than Java 17 does."""
    sizes = [len(member[3]) for member in asked["members"]]
    sizes += [len(partitions) for member in asked["members"] for _, partitions in member[4]]
    return any(size % 12 == 0 and size // 12 & (size // 12 - 1) == 0 for size in sizes if size)


@pytest.mark.slow
def test_targets_are_those_of_kafkas_own_assignors(tmp_path):
    """Thousands of groups, homogeneous and mixed, with racks, static members, lost topics and what others assigned."""
    seed = os.environ.get("KOHORT_ASSIGNOR_SEED", "1")
    names, asked, ours = [], [], []
    for number in range(int(os.environ.get("KOHORT_ASSIGNOR_HISTORIES", "300"))):
        for step, (group, spec, target) in enumerate(history(f"{seed}/{number}", STEPS)):
            names.append(f"seed {seed}, history {number}, step {step}")
            asked.append(as_json(group.assignor, spec))
            ours.append(readable(target))

    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    answers = subprocess.run(
        [*command, "-cp", class_path(SOURCE, tmp_path), "Assignors"],
        input="".join(json.dumps(group) + "\n" for group in asked),
        check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8", timeout=600,
    ).stdout.splitlines()  # fmt: skip

    java = int(answers.pop(0))
    compared = 0
    for name, group, mine, answer in zip(names, asked, ours, answers, strict=True):
        if java >= 19 and hangs_on_java(group):
            continue
        compared += 1
        assert from_json(json.loads(answer), group) == mine, f"{name}: {json.dumps(group)}"
    assert compared > len(names) * 0.8
