"""kafka-configs for topics, brokers and users: --describe, and --alter with --add-config and --delete-config.

Source: Kafka's ConfigCommand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.added_configs import parse_added
from cli.errors import UsageError
from cli.kafka_tools.administration import version
from cli.options import Parser, add_cluster

if TYPE_CHECKING:
    import argparse

_KINDS = ("topics", "brokers", "users")


def main(words: list[str]) -> int:
    """Carry out kafka-configs.sh. Raises: Failed, UsageError."""
    options = _parser().parse_args(words)
    if options.version:
        return version()
    kind, names = _entities(options)
    if options.describe == options.alter:
        raise UsageError("one of --describe and --alter must be there")
    if kind == "users":
        return _users(options, names)
    from cli.cluster import Cluster  # noqa: PLC0415  not for --help
    from cli.configs import change_configs, read_configs  # noqa: PLC0415

    if options.describe:
        cluster = Cluster(options)
        names = names or sorted(cluster.topics if kind == "topics" else map(str, cluster.brokers))
        for name, configs in read_configs(cluster, kind, names).items():
            print(f"{'All' if options.all else 'Dynamic'} configs for {kind[:-1]} {name} are:")
            for one in configs:
                if options.all or one.source in (1, 2):  # of this topic, of this broker
                    value = "null" if one.value is None else one.value
                    print(f"  {one.name}={value} sensitive={str(one.is_sensitive).lower()}")
        return 0
    added = parse_added(options.add_config or "")
    removed = [name for name in (options.delete_config or "").split(",") if name]
    if not (added or removed) or not names:
        raise UsageError("--alter takes --entity-name, and --add-config or --delete-config")
    cluster = Cluster(options)
    for name in names:
        change_configs(cluster, kind, name, added, removed)
        print(f"Completed updating config for {kind[:-1]} {name}.")
    return 0


def _users(options: argparse.Namespace, names: list[str]) -> int:
    """Credentials of users, in the lines of Kafka's tool."""
    from cli.cluster import Cluster  # noqa: PLC0415  not for --help
    from cli.users.scram import alter, credentials  # noqa: PLC0415

    if options.alter:
        if not names:
            raise UsageError("--alter takes --entity-name")
        options.user = names[0]
        return alter(options)
    for user, found in sorted(credentials(Cluster(options), names).items()):
        told = ", ".join(f"{mechanism}=iterations={iterations}" for mechanism, iterations in found)
        print(f"SCRAM credential configs for user-principal '{user}' are {told}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="kafka-configs.sh", description="Configs of topics and brokers.")
    add_cluster(parser)
    parser.add_argument("--describe", action="store_true", help="print them")
    parser.add_argument("--alter", action="store_true", help="change them")
    parser.add_argument("--all", action="store_true", help="with --describe, also the defaults")
    parser.add_argument("--entity-type", choices=_KINDS, help="what has the configs")
    parser.add_argument("--entity-name", metavar="NAME", help="which one")
    parser.add_argument("--topic", metavar="NAME", help="a topic")
    parser.add_argument("--broker", metavar="ID", help="a broker")
    parser.add_argument("--user", metavar="NAME", help="a user")
    parser.add_argument("--add-config", metavar="K=V,...", help="set these; lists in brackets: k=[a,b]")
    parser.add_argument("--delete-config", metavar="K,...", help="take these back to their defaults")
    parser.add_argument("--version", action="store_true", help="the version of this program")
    return parser


def _entities(options: argparse.Namespace) -> tuple[str, list[str]]:
    """(kind, names); no names for all."""
    if options.topic is not None:
        return "topics", [options.topic]
    if options.broker is not None:
        return "brokers", [options.broker]
    if options.user is not None:
        return "users", [options.user]
    if options.entity_type is None:
        raise UsageError("--entity-type, --topic, --broker or --user must be there")
    return options.entity_type, [options.entity_name] if options.entity_name else []
