"""`/transactions`: which are open, and why those of one transactional id ended as they did.

What is told of the past is what this process has seen (`broker.transactions.history`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.http.answers import JSON, Answer, json_answer, json_list, problem
from broker.http.groups import nearest
from coordinator.transactions.events import named
from coordinator.transactions.transaction import RESTING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.http.app import App
    from broker.http.request import Request
    from coordinator.transactions.transaction import Transaction


def open_transactions(app: App, request: Request) -> Answer:
    """Every transaction that is open, or decided and not complete."""
    return Answer(json_list({}, "transactions", _open(app)), JSON)


def transactional_id(app: App, request: Request) -> Answer:
    """One transactional id: its state, and its history."""
    name = request.parts["id"]
    broker = app.broker
    found = broker.transactions.leader_of(name).shard.states.get(name)
    history = broker.transaction_history.of(name)
    if found is None and not history:
        return problem(404, f"there is no transactional id {name[:200]!r}", nearest=nearest(name, _names(app)))
    state: dict[str, Any] = {"transactional_id": name, "state": None} if found is None else _described(found)
    return json_answer({"cluster_id": broker.cluster_id, **state, "history": history})


def _names(app: App) -> list[str]:
    return [name for leader in app.broker.transactions.leaders for name in leader.shard.states]


def _open(app: App) -> Iterator[dict[str, Any]]:
    figures = app.broker.transaction_figures
    for name in [*figures.open, *figures.ending]:
        found = app.broker.transactions.leader_of(name).shard.states.get(name)
        if found is not None and found.state not in RESTING:
            yield _described(found)


def _described(found: Transaction) -> dict[str, Any]:
    """Of a decided transaction those partitions are named that wait for their marker."""
    partitions = found.waiting
    holder = found.holder
    return {
        "transactional_id": found.transactional_id,
        "state": found.state.title,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "start_ms": None if found.start_ms < 0 else found.start_ms,
        "last_update_ms": None if found.last_update_ms < 0 else found.last_update_ms,
        "partition_count": len(partitions),
        "partitions": named(partitions),
        "client_id": None if holder is None else holder.client_id,
        "client_host": None if holder is None else holder.client_host,
    }
