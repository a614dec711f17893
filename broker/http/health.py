"""`/healthz`: the loop is alive. `/readyz`: clients can be served, or else what is missing.

Not alive means that the process should be started again; not ready that nobody should be sent to it now.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from broker.http.answers import json_answer
from broker.loop.running import tree_and_interpreter

if TYPE_CHECKING:
    from broker.http.answers import Answer
    from broker.http.app import App


def healthz(app: App, request: Any) -> Answer:
    """That there is an answer is the answer."""
    return json_answer({"alive": True})


def readyz(app: App, request: Any) -> Answer:
    """200 when every request can be served, else 503 and why not."""
    missing = what_is_missing(app)
    tree, interpreter = tree_and_interpreter()
    answer = {"ready": not missing, "missing": missing, "tree": tree, "interpreter": interpreter}
    return json_answer(answer, 503 if missing else 200)


def what_is_missing(app: App) -> list[str]:
    """Sentences; none when the broker is ready: it listens, its groups are loaded, its logs can be written."""
    if app.stopping:
        return ["the broker is stopping"]
    broker = app.broker
    missing = []
    if broker.catalogue.failed is not None:
        missing.append(f"no topic can be created or changed: {broker.catalogue.failed}")
    loading = broker.groups.unloaded()
    if broker.groups.not_ready is not None:
        missing.append(f"some groups are not served: {broker.groups.not_ready}")
    elif loading:
        missing.append(f"the groups of {loading} partitions of __consumer_offsets are not loaded")
    if broker.transactions.not_ready is not None:
        missing.append(f"some transactional ids are not served: {broker.transactions.not_ready}")
    elif waiting := broker.transactions.unloaded():
        missing.append(f"the transactional ids of {waiting} partitions of __transaction_state are not loaded")
    partitions = broker.partitions
    recovering = len(partitions.loading)
    if recovering:
        # Those that wait for their turn are counted only while there are such: it means looking at every partition.
        recovering += sum(1 for _ in partitions.unopened())
        missing.append(f"{recovering} partitions are being recovered")
    if partitions.not_ready is not None:
        missing.append(partitions.not_ready)
    offline = partitions.disks.offline
    missing.extend(f"log directory {path} is offline: {why}" for path, why in offline.items())
    missing.extend(filter(None, (_unwritable(one) for one in partitions.directories if one not in offline)))
    return missing


def _unwritable(directory: Any) -> str | None:
    """Why nothing can be written there, although nobody has tried yet."""
    try:
        figures = os.statvfs(directory)
    except OSError as error:
        return f"{directory} cannot be looked at: {(error.strerror or str(error)).lower()}"
    if figures.f_flag & os.ST_RDONLY:
        return f"{directory} is mounted read-only"
    if not figures.f_bavail:
        return f"{directory} has no room left"
    return None
