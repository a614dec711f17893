"""An error that no disk and no client explains is told with its trace: once it is kept, its frames are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.files import DISK
from tests.support.whole_broker import Whole

if TYPE_CHECKING:
    from pathlib import Path


def nought(*_: object) -> int:
    """What nobody has thought of."""
    return 1 // 0


def a_full_disk(*_: object) -> int:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("fault", "traces"), [(nought, 1), (a_full_disk, 0)])
def test_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: object, traces: int) -> None:
    whole = Whole(tmp_path / "data")
    whole.create("t", flush_messages="1")
    whole.produce("t", b"before")
    with monkeypatch.context() as meanwhile, pytest.raises(KafkaError) as met:
        meanwhile.setattr(DISK, "fdatasync", fault)
        whole.produce("t", b"refused")
    assert met.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    said = whole.log.getvalue()
    assert "partition_failed" in said
    assert said.count("flush_failed") == said.count("Traceback") == said.count("return 1 // 0") == traces
    whole.runtime.advance(10_000)
    whole.produce("t", b"after")
    assert whole.values("t")[-1] == b"after"


@pytest.mark.parametrize(("fault", "traces"), [(nought, 1), (a_full_disk, 0)])
def test_the_opening_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: object, traces: int) -> None:
    whole = Whole(tmp_path / "data")
    whole.create("t")
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(DISK, "open", fault)
        with pytest.raises(KafkaError) as met:
            whole.broker.partitions.get("t", 0)
    assert met.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    said = whole.log.getvalue()
    assert said.count("log_open_failed") == said.count("Traceback") == said.count("return 1 // 0") == traces
    whole.runtime.advance(10_000)
    whole.produce("t", b"after")
    assert whole.values("t") == [b"after"]
