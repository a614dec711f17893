"""What became of transactional ids lately, for those who ask why: aborts, delays and refusals, kept in memory.

Transactions that their clients commit, which are nearly all, leave nothing here.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator.transactions.events import TransactionEvent

IDS_KEPT = 1_000
"""Transactional ids whose histories are kept: those of which something was told last."""
ENTRIES_KEPT = 20
"""Of each id."""
_PARTITIONS_KEPT = 10

Entry = dict[str, Any]


class TransactionHistory:
    """Entries by transactional id, the oldest first. Each has `kind`, `at_ms` and facts as the events have them.

    `transaction`: one that was not simply committed; with `completed_at_ms` when its last marker is written, with
    `delayed` (error by partition) and `abandoned` (partitions) where markers were refused. `loaded`: it was open or
    decided when the broker started. `was_aborted`: it had ended so before, as its last record says. `request_refused`,
    `write_failed`: with `count` and `last_ms` for what repeats itself. `expired`: the id was forgotten.
    """

    __slots__ = ("_decided", "_histories")

    def __init__(self) -> None:
        self._histories: OrderedDict[str, deque[Entry]] = OrderedDict()
        self._decided: dict[str, Entry] = {}  # those whose markers are on their way

    def of(self, transactional_id: str) -> list[Entry]:
        """What is remembered of it."""
        return list(self._histories.get(transactional_id, ()))

    def ids(self) -> list[str]:
        """All of which something is remembered."""
        return list(self._histories)

    def on_event(self, event: TransactionEvent) -> None:
        """Something happened under a transactional id."""
        tell = _TELL.get(event.kind)
        if tell is not None:
            tell(self, event)

    def _decide(self, event: TransactionEvent) -> None:
        entry = self._decided[event.key] = _entry("transaction", event)
        if not (event.facts["committed"] and event.facts["cause"] == "client"):
            self._append(event.key, entry)

    def _complete(self, event: TransactionEvent) -> None:
        entry = self._decided.pop(event.key, None)
        if entry is not None:
            entry["completed_at_ms"] = event.at_ms

    def _delay(self, event: TransactionEvent) -> None:
        entry = self._unusual(event)
        errors = dict(sorted(event.facts["errors"].items())[:_PARTITIONS_KEPT])
        entry["delayed"] = {**entry.get("delayed", {}), **errors}

    def _abandon(self, event: TransactionEvent) -> None:
        entry = self._unusual(event)
        named = entry.setdefault("abandoned", [])
        if len(named) < _PARTITIONS_KEPT:
            named.append(event.facts["partition"])

    def _unusual(self, event: TransactionEvent) -> Entry:
        """The transaction whose markers are refused: from now on it is worth telling."""
        entry = self._decided.get(event.key)
        if entry is None:
            entry = self._decided[event.key] = _entry("transaction", event)
        if all(entry is not one for one in self._histories.get(event.key, ())):
            self._append(event.key, entry)
        return entry

    def _load(self, event: TransactionEvent) -> None:
        entry = _entry("loaded", event)
        if event.facts["state"] != "Ongoing":
            self._decided[event.key] = entry
        self._append(event.key, entry)

    def _find(self, event: TransactionEvent) -> None:
        """At the start. A shard that is loaded anew later has nothing to tell of what is remembered.

        Whatever else is told counts more: it is the first to go, and nothing goes for it.
        """
        if event.key not in self._histories and len(self._histories) < IDS_KEPT:
            self._append(event.key, _entry("was_aborted", event))
            self._histories.move_to_end(event.key, last=False)

    def _repeat(self, event: TransactionEvent) -> None:
        history = self._histories.get(event.key)
        entry = _entry(event.kind.removeprefix("transaction_"), event)
        last = history[-1] if history else {}
        if _same(last, entry):
            last["count"] = last.get("count", 1) + 1
            last["last_ms"] = event.at_ms
        else:
            self._append(event.key, entry)

    def _expire(self, event: TransactionEvent) -> None:
        self._append(event.key, _entry("expired", event))

    def _append(self, key: str, entry: Entry) -> None:
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = deque(maxlen=ENTRIES_KEPT)
            if len(self._histories) > IDS_KEPT:
                self._histories.popitem(last=False)
        else:
            self._histories.move_to_end(key)
        history.append(entry)


def _entry(kind: str, event: TransactionEvent) -> Entry:
    entry = {"kind": kind, "at_ms": event.at_ms, **event.facts}
    if "partitions" in entry:
        entry["partitions"] = entry["partitions"][:_PARTITIONS_KEPT]
    return entry


def _same(last: Entry, entry: Entry) -> bool:
    names = ("kind", "request", "error", "state", "client_id", "client_host", "given_epoch")
    return all(last.get(name) == entry.get(name) for name in names)


_TELL = {
    "transaction_decided": TransactionHistory._decide,
    "transaction_completed": TransactionHistory._complete,
    "markers_delayed": TransactionHistory._delay,
    "marker_abandoned": TransactionHistory._abandon,
    "transaction_loaded": TransactionHistory._load,
    "transaction_was_aborted": TransactionHistory._find,
    "transaction_request_refused": TransactionHistory._repeat,
    "transaction_write_failed": TransactionHistory._repeat,
    "transactional_id_expired": TransactionHistory._expire,
}
