"""`kohort groups list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.cluster import Cluster
from cli.groups.reading import state_name
from cli.options import print_json
from cli.tables import plain, print_table

if TYPE_CHECKING:
    import argparse


def list_groups(options: argparse.Namespace) -> int:
    """The groups' names; with --state or --type a table. Raises: Failed."""
    cluster = Cluster(options)
    listed = cluster.result(cluster.admin.list_consumer_groups(request_timeout=cluster.timeout_s))
    rows = [
        {"group": one.group_id, "state": state_name(getattr(one, "state", None)), "type": one.type.name.title()}
        for one in sorted(listed.valid or (), key=lambda one: one.group_id)
    ]
    columns = ["group"]
    for column, wanted in (("type", options.type), ("state", options.state)):
        if wanted is not None:
            columns.append(column)
            names = {_plain(word) for word in wanted.split(",") if word.strip()}
            rows = [row for row in rows if not names or _plain(row[column]) in names]
    if options.json:
        print_json(rows)
    elif len(columns) == 1:
        for row in rows:
            print(plain(row["group"]))
    else:
        print_table([name.upper() for name in columns], [[row[name] for name in columns] for row in rows])
    return 0


def _plain(name: str) -> str:
    """`PREPARING_REBALANCE`, `preparing-rebalance` and `PreparingRebalance` are the same."""
    return "".join(letter for letter in name.lower() if letter.isalpha())
