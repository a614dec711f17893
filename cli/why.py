"""`kohort why GROUP`: why a group rebalanced, how long it took, who held it up, what moved; and what to do about it.
`kohort why` alone names the groups that are in trouble (`cli.why_trouble`), and `kohort why --transaction ID` tells the
same of transactions (`cli.why_transaction`).

It reads the rebalance ledger's topic with an ordinary client. What goes on at this moment only the broker itself knows,
and says over HTTP. Without a ledger (it is off, or the cluster is no Kohort) the generations in `__consumer_offsets`
tell what they can.

Source: the page docs/rebalance-ledger.md.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from cli.errors import DONE, UsageError
from cli.options import CLUSTER, JSON, Parser, add, carry_out, positive, print_json
from cli.tables import plain

if TYPE_CHECKING:
    import argparse

LAST = 10
HTTP_PORT = 9644
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def main(words: list[str]) -> int:
    """Carry out `kohort why`."""
    return carry_out(parser(), words)


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    whole = Parser(prog="kohort why", description="Why a group rebalanced, newest first, and what to do about it.")
    whole.set_defaults(run="cli.why:explain")
    whole.add_argument(
        "group",
        metavar="GROUP",
        nargs="?",
        help="the group; without one: the groups that are in trouble now, worst first, exit code 1 if any",
    )
    whole.add_argument("--group", dest="named", metavar="GROUP", help="the same, as Kafka's tools spell it")
    whole.add_argument(
        "--transaction", metavar="ID", help="why transactions of this transactional id ended as they did"
    )
    so_many = f"so many rebalances, or ends of transactions ({LAST}); findings look at the same, else at 100"
    whole.add_argument("--last", metavar="N", type=positive, help=so_many)
    moment = "a time (12:30, 2026-01-31, 2026-01-31T12:30) or how long ago (30m, 2h, 1d)"
    whole.add_argument("--since", metavar="WHEN", help=f"none before: {moment}")
    whole.add_argument("--until", metavar="WHEN", help="none after")
    whole.add_argument("--trigger", action="append", metavar="NAME", help="only rebalances with this first cause")
    whole.add_argument("-v", "--verbose", action="store_true", help="every member and every move")
    whole.add_argument(
        "--http", metavar="HOST:PORT", help=f"where the broker answers HTTP; default: its host, port {HTTP_PORT}"
    )
    files = (
        "read this data directory instead of a cluster: Apache Kafka's, Kohort's, or one folder of __consumer_offsets"
    )
    whole.add_argument("--from", dest="files", metavar="DIR", help=files)
    add(whole, JSON)
    add(whole, *CLUSTER)
    return whole


def explain(options: argparse.Namespace) -> int:
    """Read, and print. Raises: UsageError, Failed (the group is unknown, the cluster does not answer)."""
    now_ms = int(time.time() * 1_000)
    since_ms, until_ms = moment(options.since, now_ms, "--since"), moment(options.until, now_ms, "--until")
    _check_triggers(options.trigger)
    if sum(given is not None for given in (options.group, options.named, options.transaction)) > 1:
        raise UsageError("it takes one group, or --transaction ID")
    from coordinator.why.window import JUDGED  # noqa: PLC0415

    last, judged = options.last or LAST, options.last or JUDGED
    if options.transaction is not None:
        options.last = last
        from cli import why_transaction  # noqa: PLC0415

        return why_transaction.explain(options, since_ms, until_ms, now_ms)
    group_id = options.group if options.group is not None else options.named
    if options.files is not None and group_id is None:
        raise UsageError("--from DIR takes a group")
    if group_id is None:
        if options.trigger or options.until or options.last:
            raise UsageError("--last, --until and --trigger are for one group: name it")
        from cli import why_trouble  # noqa: PLC0415

        return why_trouble.explain(options, since_ms, now_ms)
    from cli import why_files, why_reading, why_showing  # noqa: PLC0415  the client library, once the words make sense
    from cli.cluster import Cluster  # noqa: PLC0415

    if options.http is not None:
        why_reading.http_place(options.http)
    if options.files is not None:
        told = why_files.read(options.files, group_id)
    else:
        told = why_reading.read(Cluster(options), group_id, options.http, now_ms)
    told.choose(last=last, judged=judged, since_ms=since_ms, until_ms=until_ms, triggers=options.trigger)
    if options.json:
        print_json(told.as_json(now_ms))
    else:
        for line in why_showing.lines(told, now_ms, verbose=options.verbose):
            print(plain(line))
    if told.http_silent:
        print(f"kohort: --http {options.http}: no broker of this cluster tells of the group there", file=sys.stderr)
    return DONE


def moment(text: str | None, now_ms: int, option: str) -> int | None:
    """ms since 1970 of what somebody wrote, in the zone of the machine. Raises: UsageError."""
    if text is None:
        return None
    from datetime import datetime  # noqa: PLC0415

    if text[-1:] in _UNITS_MS and text[:-1].isdecimal():
        return now_ms - int(text[:-1]) * _UNITS_MS[text[-1]]
    try:
        if len(text) <= 8 and ":" in text:
            today = datetime.fromtimestamp(now_ms / 1_000).date().isoformat()
            text = f"{today}T{text}"
        return int(datetime.fromisoformat(text).timestamp() * 1_000)
    except ValueError:
        raise UsageError(
            f"{option} {text}: it takes a time such as 12:30 or 2026-01-31T12:30, or 30m, 2h, 1d"
        ) from None


def _check_triggers(triggers: list[str] | None) -> None:
    from coordinator.cause import TRIGGERS  # noqa: PLC0415

    for name in triggers or ():
        if name not in TRIGGERS:
            raise UsageError(f"--trigger {name}: it takes one of {', '.join(sorted(TRIGGERS))}")


__all__ = ["explain", "main", "moment", "parser"]
