"""Our rule and Kafka's own StandardAuthorizer on the same ACLs: the same verdicts.

`KOHORT_ACL_SEED=7 KOHORT_ACL_SETS=50000 pytest ...` compares more of them; a failure names its set.
"""

from __future__ import annotations

import os
import random
import subprocess
from typing import TYPE_CHECKING

import pytest

from broker.authorization.acl_types import Operation, PatternType, Permission, ResourceType
from broker.authorization.authorizer import Authorizer
from broker.catalogue.kept_records import value_of
from tests.broker.authorization.test_rule import acl
from tests.support.broker_process import ROOT
from tests.support.java import class_path

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = ROOT / "tests" / "broker" / "authorization" / "kafka" / "Verdicts.java"
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "User:admin")
HOSTS = ("10.0.0.1", "10.0.0.2", "*")
# Not `*a`: for names that begin with a star Kafka's class overlooks ACLs on `*`, DENY too, and ours does not.
# `hardcode` is the name by which Kafka looks for who may everything.
NAMES = ("a", "ab", "abc", "abd", "b", "*", "h", "hardcode", "grün", "\N{MUSICAL SYMBOL G CLEF}")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.USER)
OPERATIONS = tuple(Operation(number) for number in range(3, 16))
QUESTIONS = 12


@pytest.mark.slow
def test_verdicts_are_those_of_kafkas_own_authorizer(tmp_path: Path) -> None:
    """SE38, SE41: thousands of sets of ACLs, literal, prefixed and `*`, by principal and host, and WRITE on any."""
    seed = os.environ.get("KOHORT_ACL_SEED", "1")
    lines: list[str] = []
    names: list[str] = []
    ours: list[bool] = []
    for number in range(int(os.environ.get("KOHORT_ACL_SETS", "3000"))):
        rng = random.Random(f"{seed}/{number}")
        everyone = rng.random() < 0.3
        judge = Authorizer(
            (), super_users=["User:admin"], allow_everyone=everyone, now_ms=lambda: 0, at=lambda *_: None
        )
        lines.append(f"new\tUser:admin\t{str(everyone).lower()}")
        for _ in range(rng.choice((0, 1, 2, 4, 8, 16))):
            one = acl(
                rng.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
                rng.choice((Operation.ALL, Operation.WRITE, *OPERATIONS)),
                rng.choice(NAMES),
                principal=rng.choice(PRINCIPALS),
                host=rng.choice((*HOSTS, "*")),
                pattern=rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
                kind=rng.choice((*TYPES, ResourceType.TOPIC)),
            )
            if value_of(one) in map(value_of, judge.acls):
                continue  # Kafka's class takes no ACL twice
            judge.acls.add(one)
            facts = (one.resource_type, one.resource_name, one.pattern_type, one.principal, one.host)
            lines.append("\t".join(map(_text, ("acl", *facts, one.operation, one.permission_type))))
        for question in range(QUESTIONS):
            who, where = rng.choice(("User:alice", "User:bob", "User:admin")), rng.choice(HOSTS[:2])
            operation, kind = rng.choice((Operation.WRITE, *OPERATIONS)), rng.choice((*TYPES, ResourceType.TOPIC))
            rights = judge.rights(who, where)
            names.append(f"seed {seed}, set {number}, question {question}")
            if question % 3:
                name = rng.choice((*NAMES, "abcd", "x"))
                lines.append("\t".join(map(_text, ("ask", who, where, operation, kind, name))))
                ours.append(rights.may(operation, kind, name, tell=False))
            else:
                lines.append("\t".join(map(_text, ("any", who, where, operation, kind))))
                ours.append(rights.may_on_any(operation, kind))

    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    answers = subprocess.run(
        [*command, "-cp", class_path(SOURCE, tmp_path), "Verdicts"],
        input="".join(line + "\n" for line in lines),
        check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8", timeout=600,
    ).stdout.splitlines()  # fmt: skip

    assert 0.2 < sum(ours) / len(ours) < 0.8
    for name, mine, answer in zip(names, ours, answers, strict=True):
        assert ("ALLOWED" if mine else "DENIED") == answer, name


def _text(word: object) -> str:
    return str(int(word)) if isinstance(word, int) else str(word)
