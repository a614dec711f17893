"""What `/readyz` says is missing."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from broker.http.health import healthz, readyz, what_is_missing


def app(**differences: Any) -> Any:
    """A broker that lacks nothing, but for what is said."""
    partitions = SimpleNamespace(
        loading=set(),
        not_ready=None,
        directories=("/",),
        disks=SimpleNamespace(offline=differences.get("offline", {})),
        unopened=lambda: iter(()),
    )
    for name in ("loading", "not_ready", "directories", "unopened"):
        if name in differences:
            setattr(partitions, name, differences[name])
    broker = SimpleNamespace(
        catalogue=SimpleNamespace(failed=differences.get("failed")),
        groups=SimpleNamespace(
            unloaded=lambda: differences.get("unloaded", 0), not_ready=differences.get("groups_not_ready")
        ),
        transactions=SimpleNamespace(
            unloaded=lambda: differences.get("ids_unloaded", 0), not_ready=differences.get("ids_not_ready")
        ),
        partitions=partitions,
    )
    return SimpleNamespace(broker=broker, stopping=differences.get("stopping", False))


def test_a_broker_that_lacks_nothing_is_ready():
    assert readyz(app(), None).status == 200


@pytest.mark.parametrize(
    ("differences", "words"),
    [
        ({"stopping": True}, "the broker is stopping"),
        ({"unloaded": 3}, "the groups of 3 partitions of __consumer_offsets are not loaded"),
        (
            {"groups_not_ready": "__consumer_offsets-7: bad", "unloaded": 1},
            "some groups are not served: __consumer_offsets-7: bad",
        ),
        ({"ids_unloaded": 1}, "the transactional ids of 1 partitions of __transaction_state are not loaded"),
        (
            {"ids_not_ready": "__transaction_state-7: bad", "ids_unloaded": 1},
            "some transactional ids are not served: __transaction_state-7: bad",
        ),
        ({"failed": "a flush has failed"}, "no topic can be created or changed: a flush has failed"),
        ({"loading": {("t", 0)}, "unopened": lambda: iter([("t", 1)])}, "2 partitions are being recovered"),
        ({"not_ready": "cannot append to /x: no space left"}, "cannot append to /x: no space left"),
        ({"directories": ("/nowhere/at/all",)}, "/nowhere/at/all cannot be looked at: no such file or directory"),
        ({"directories": ("/", "/b"), "offline": {"/b": "i/o error"}}, "log directory /b is offline: i/o error"),
    ],
)
def test_what_is_missing_is_one_sentence_and_503(differences: dict[str, Any], words: str):
    assert what_is_missing(app(**differences)) == [words]
    assert readyz(app(**differences), None).status == 503
    assert healthz(app(**differences), None).status == 200


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"f_flag": os.ST_RDONLY, "f_bavail": 1}, "/ is mounted read-only"),
        ({"f_flag": 0, "f_bavail": 0}, "/ has no room left"),
    ],
)
def test_a_directory_that_cannot_be_written_is_seen_before_somebody_tries(
    monkeypatch: pytest.MonkeyPatch, figures: dict[str, int], words: str
):
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**figures))

    assert what_is_missing(app()) == [words]
