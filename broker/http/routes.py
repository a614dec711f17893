"""Which path leads to which handler: the one table.

A handler is `handle(app, request) -> Answer | Later`. `{name}` stands for one part of the path, decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from broker.http import groups, health, transactions
from broker.http.answers import Answer, Later, json_answer, problem
from broker.http.metrics import metrics
from broker.http.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.http.app import App

    Handler = Callable[[App, Request], Answer | Later]


MAX_FIELDS = 20
"""Of a query."""


def index(app: App, request: Request) -> Answer:
    """What there is."""
    return json_answer({"kohort": app.version, "paths": list(ROUTES)})


ROUTES: dict[str, Any] = {
    "/": index,
    "/healthz": health.healthz,
    "/readyz": health.readyz,
    "/metrics": metrics,
    "/groups": groups.all_groups,
    "/groups/{group}": groups.group,
    "/groups/{group}/rebalances": groups.rebalances,
    "/groups/{group}/findings": groups.findings,
    "/transactions": transactions.open_transactions,
    "/transactions/{id}": transactions.transactional_id,
}

_PARTS = {tuple(path.split("/")[1:]): handler for path, handler in ROUTES.items()}


def respond(app: App, method: str, target: str, headers: Mapping[str, str]) -> Answer | Later:
    """The answer to a request."""
    path, _, query = target.partition("?")
    if path.lower().startswith("http://"):
        path = "/" + path[len("http://") :].partition("/")[2]  # as a proxy is asked; every server must take it
    found = find(path)
    if found is None:
        return problem(404, f"there is nothing at {unquote(path)[:200]}", paths=list(ROUTES))
    if method not in ("GET", "HEAD"):
        answer = problem(405, f"{method[:20]} is not possible here, only GET and HEAD")
        answer.headers = (("allow", "GET, HEAD"),)
        return answer
    handler, parts = found
    try:
        fields = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        return problem(400, f"the query has more than {MAX_FIELDS} fields")
    return handler(app, Request(parts, fields, headers))


def find(path: str) -> tuple[Handler, dict[str, str]] | None:
    """The handler of a path, and what its `{...}` stand for. A group may hold any character, `/` as %2F."""
    words = path.split("/")[1:]
    if len(words) > 1 and not words[-1]:
        words.pop()
    for pattern, handler in _PARTS.items():
        if len(pattern) != len(words):
            continue
        parts = {}
        for name, word in zip(pattern, words, strict=True):
            if name.startswith("{"):
                parts[name[1:-1]] = unquote(word)
            elif name != word:
                break
        else:
            return handler, parts
    return None
