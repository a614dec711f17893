"""Transactions that each come before the other, found as strongly connected components of their dependencies.

Of writes alone (G0) cycles are no fault of a log: two transactions may take turns in a partition, and Kafka promises
no more. So they are asked for only where the history makes one transaction wait for the other. Information that flows
in a circle (G1c) is a fault always, since nobody gets what is not committed.

Source: Adya, Liskov, O'Neil: Generalized Isolation Level Definitions (2000).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Set
from itertools import pairwise
from typing import TypeVar

from tests.anomalies.history import Anomaly, Fate, History

Node = TypeVar("Node", bound=Hashable)
Edges = Mapping[int, Set[int]]  # by index in `history.operations`


def strongly_connected(edges: Mapping[Node, Set[Node]]) -> list[list[Node]]:
    """The components of more than one node, or of one that leads to itself. Source: Tarjan (1972), no recursion."""
    index: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    on_stack: set[Node] = set()
    stack: list[Node] = []
    found: list[list[Node]] = []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(edges.get(root, ())))]
        index[root] = lowest[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, following = work[-1]
            for next_node in following:
                if next_node not in index:
                    index[next_node] = lowest[next_node] = len(index)
                    stack.append(next_node)
                    on_stack.add(next_node)
                    work.append((next_node, iter(edges.get(next_node, ()))))
                    break
                if next_node in on_stack:
                    lowest[node] = min(lowest[node], index[next_node])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == index[node]:
                    component = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    if len(component) > 1 or node in edges.get(node, ()):
                        found.append(component)
    return found


def write_dependencies(history: History) -> dict[int, set[int]]:
    """Whose record lies before whose, in some partition, each with the next one's."""
    numbers = {id(operation): number for number, operation in enumerate(history.operations)}
    edges: dict[int, set[int]] = defaultdict(set)
    for partition, writes in history.order_of_writes().items():
        writers = [numbers[id(history.writer[partition, value])] for _, value in writes]
        for before, after in pairwise(writers):
            if before != after:
                edges[before].add(after)
    return edges


def read_dependencies(history: History) -> dict[int, set[int]]:
    """Who got whose record. Of readers, only those that did not abort."""
    numbers = {id(operation): number for number, operation in enumerate(history.operations)}
    edges: dict[int, set[int]] = defaultdict(set)
    for operation, got in history.polls():
        writer = history.writer.get((got.partition, got.value))
        if writer is not None and operation.fate is not Fate.ABORTED:
            edges[numbers[id(writer)]].add(numbers[id(operation)])
    return edges


def write_cycles(history: History) -> Iterator[Anomaly]:
    """G0: transactions whose records lie before each other's."""
    yield from _told("write cycle (G0)", history, write_dependencies(history))


def information_cycles(history: History, *, with_writes: bool = False) -> Iterator[Anomaly]:
    """G1c: transactions that each got something of the other's; `with_writes` where the order of writes counts too."""
    edges = read_dependencies(history)
    if with_writes:
        for before, after in write_dependencies(history).items():
            edges.setdefault(before, set()).update(after)
    yield from _told("circular information flow (G1c)", history, edges)


def _told(name: str, history: History, edges: Edges) -> Iterator[Anomaly]:
    for component in strongly_connected(edges):
        names = [
            f"{history.operations[number].process} at {history.operations[number].begun_at}"
            for number in sorted(component)
        ]
        yield Anomaly(name, None, "each before the other: " + ", ".join(names))
