"""The level of `transaction.version`, lowered and raised while transactions are open."""

from __future__ import annotations

from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.reference.judge.catalog import scenario
from tests.reference.judge.members import SHORT_MS
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_cluster import DOWN_IF_SAFE, UP
from tests.reference.judge.scenarios_data import topic
from tests.reference.judge.scenarios_transactions import (
    TIMEOUT_MS,
    Pair,
    add,
    described,
    end,
    fresh,
    init,
    read,
    settled,
    write,
)
from tests.support.broker_process import eventually

FEATURE = "transaction.version"


def to_level(s: Script, level: int, kind: int) -> None:
    """Finalize it, and wait until the broker says so."""
    wish = FeatureUpdateKey(feature=FEATURE, max_version_level=level, upgrade_type=kind)
    s.client().call(UpdateFeaturesRequest(feature_updates=[wish]), 1)
    asked = ApiVersionsRequest(client_software_name="judge", client_software_version="1")

    def is_known() -> bool:
        found = {one.name: one.max_version_level for one in s.observer().call(asked, 3).finalized_features}
        return found.get(FEATURE, 0) == level

    eventually(is_known, what=f"level {level}")


def opened(s: Script, t: str, suffix: str, timeout_ms: int = TIMEOUT_MS) -> tuple[str, Pair]:
    """A transaction of the new kind, with a record."""
    who = fresh(s, suffix, timeout_ms)
    write(s, 12, *who, t, 0, suffix.encode())
    return who


@scenario("TX54-TX55-Levels", stage="classic")
def lowered_and_raised(s: Script) -> None:
    """What the new clients began goes on as far as the old requests can take it; then the other way round.

    After each refusal Kafka has locked the id. What comes then is a note of its own.
    """
    t, u = topic(s, retention_ms="-1"), topic(s, "u", retention_ms="-1")
    ends, taken, timed = opened(s, t, "ends"), opened(s, t, "taken"), opened(s, t, "timed", SHORT_MS)
    locked, rests = opened(s, u, "locked"), opened(s, u, "rests")
    rests = rests[0], end(s, 5, *rests, commit=True)
    settled(s, rests[0])

    to_level(s, 0, DOWN_IF_SAFE)
    late = fresh(s, "late")
    write(s, 12, *late, u, 0, b"refused")
    end(s, 5, *locked, commit=True)
    _end_afterwards(s, locked)
    _init_afterwards(s, rests[0])
    _init_afterwards(s, late[0])
    end(s, 3, *ends, commit=True)
    settled(s, ends[0])
    init(s, 4, taken[0])
    settled(s, taken[0])
    _until_it_ends(s, timed[0])
    described(s, ends[0], taken[0], timed[0])
    old = fresh(s, "old")
    add(s, 3, *old, (t, [0]))
    write(s, 9, *old, t, 0, b"one")

    to_level(s, 2, UP)
    write(s, 9, *old, t, 1, b"two")
    end(s, 3, *old, commit=True)
    settled(s, old[0])
    write(s, 12, *old, t, 2, b"three")
    described(s, old[0])
    old = old[0], end(s, 5, *old, commit=True)
    settled(s, old[0])
    read(s, t)


def _end_afterwards(s: Script, who: tuple[str, Pair]) -> None:
    tid, (pid, epoch) = who
    request = EndTxnRequest(transactional_id=tid, producer_id=pid, producer_epoch=epoch, committed=True)
    s.note("afterwards", ("EndTxn", s.observer().call(request, 3).error_code))


def _init_afterwards(s: Script, tid: str) -> None:
    """Twice: the first refusal is what locks."""
    request = InitProducerIdRequest(transactional_id=tid, transaction_timeout_ms=TIMEOUT_MS)
    for _ in range(2):
        s.note("afterwards", ("InitProducerId", s.observer().call(request, 4).error_code))


def _until_it_ends(s: Script, tid: str) -> None:
    asked = DescribeTransactionsRequest(transactional_ids=[tid])
    eventually(
        lambda: s.observer().call(asked, 0).transaction_states[0].transaction_state != "Ongoing",
        what=f"{tid} times out",
    )
    settled(s, tid)
