"""Who asks creates nothing: every verb that only asks, on a broker that records what it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import committed_group, fill, kohort
from tests.support.broker_process import QUICK_GROUPS, Kohort
from tests.support.recording_proxy import Recorder, creates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ASKING = [
    "health {at}",
    "topics list --timeout 5000 -b {at}",
    "topics describe --timeout 5000 -b {at}",
    "topics describe orders nowhere --timeout 5000 -b {at}",
    "groups list --timeout 5000 -b {at}",
    "groups list --state --type --timeout 5000 -b {at}",
    "groups describe --all-groups --timeout 5000 -b {at}",
    "groups describe {group} nobody --timeout 5000 -b {at}",
    "groups describe {group} --members --verbose --timeout 5000 -b {at}",
    "groups describe {group} --state --timeout 5000 -b {at}",
    "groups reset-offsets {group} --topic nowhere --to-earliest --timeout 5000 -b {at}",
    "groups reset-offsets {group} --topic orders --to-earliest --timeout 5000 -b {at}",
    "why {group} --timeout 5000 -b {at}",
    "why nobody --timeout 5000 -b {at}",
    "why --transaction nobody --timeout 5000 -b {at}",
    "transactions list --timeout 5000 -b {at}",
    "transactions describe --transactional-id nobody --timeout 5000 -b {at}",
    # Without a group it has to have a name for one all the same, whose coordinator the client library asks for.
    "consume nowhere --from-beginning --timeout-ms 100 --timeout 5000 -b {at}",
    "consume orders --from-beginning --timeout-ms 100 --timeout 5000 -b {at}",
]


@pytest.fixture(scope="module", params=[False, True], ids=["nobody was ever there", "a group was there"])
def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Recorder, Path, bool]]:
    """(the recording broker, its data, whether there is a group `group`)."""
    with Recorder() as recorder:
        settings = {
            **QUICK_GROUPS,
            "advertised.listeners": f"PLAINTEXT://{recorder.address}",
            "num.partitions": 1,
            "kohort.ledger.enable": "false",
        }
        with Kohort(tmp_path_factory.mktemp("asked"), settings) as broker:
            recorder.upstream = ("127.0.0.1", broker.port)
            fill(broker.address, "orders")
            if request.param:
                committed_group(broker.address, "group", "orders")
            yield recorder, broker.data, request.param


@pytest.mark.parametrize("words", ASKING)
def test_who_asks_creates_nothing(words: str, asked: tuple[Recorder, Path, bool]) -> None:
    """No topic, no member, no offset: neither by what is sent nor on disk."""
    recorder, data, has_groups = asked
    if words.startswith("consume orders") and not has_groups:
        pytest.skip("the client library asks for a coordinator: docs/unsupported.md")
    before = sorted(place.name for place in data.iterdir() if place.is_dir())
    recorder.requests.clear()
    ended = kohort(*words.format(at=recorder.address, group="group").split())
    assert ended.code in (0, 1), ended
    assert recorder.requests
    assert creates(recorder, has_groups=has_groups) == []
    assert sorted(place.name for place in data.iterdir() if place.is_dir()) == before
