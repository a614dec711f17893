"""kafka-broker-api-versions: which versions of each API every broker serves. The usual health check of compose files.

Source: Kafka's BrokerApiVersionsCommand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.cluster import Cluster
from cli.errors import Failed
from cli.options import CLUSTER, VERSION, Parser, add
from cli.wire import text_of
from protocol.api_keys import ApiKey
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.registry import APIS

if TYPE_CHECKING:
    import argparse


def main(words: list[str]) -> int:
    """Carry out kafka-broker-api-versions.sh. Raises: Failed, UsageError."""
    parser = Parser(prog="kafka-broker-api-versions.sh", description="Which versions of each API every broker serves.")
    add(parser, *CLUSTER, VERSION)
    _print_all(parser.parse_args(words))
    return 0


def _print_all(options: argparse.Namespace) -> None:
    cluster = Cluster(options)
    for id_, address in sorted(cluster.brokers.items()):
        with cluster.wire(address) as wire:
            answer = wire.ask(ApiVersionsRequest(), 0)
        if answer.error_code:
            raise Failed(f"{address}: {text_of(answer.error_code)}")
        lines = [_line(one.api_key, one.min_version, one.max_version) for one in answer.api_keys]
        print(f"{address} (id: {id_} rack: null isFenced: false) -> (")
        print(",\n".join(f"\t{line}" for line in lines))
        print(")")


def _line(key: int, lowest: int, highest: int) -> str:
    """`Produce(0): 3 to 12 [usable: 12]`; usable is the newest version that this program knows too."""
    try:
        name = "".join(word.capitalize() for word in ApiKey(key).name.split("_"))
    except ValueError:
        name = "UNKNOWN"
    known = APIS.get(key)
    ours = known.request.VERSIONS if known is not None else (0, -1)
    usable = min(highest, ours[1])
    span = str(lowest) if lowest == highest else f"{lowest} to {highest}"
    return f"{name}({key}): {span} [usable: {usable if usable >= max(lowest, ours[0]) else 'NONE'}]"
