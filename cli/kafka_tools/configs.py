"""kafka-configs for topics, brokers, users and quotas: --describe, and --alter with --add-config and --delete-config.

Source: Kafka's ConfigCommand.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cli.added_configs import parse_added
from cli.errors import UsageError
from cli.options import CLUSTER, VERSION, Parser, add

if TYPE_CHECKING:
    import argparse

    from cli.cluster import Cluster

_KINDS = ("topics", "brokers", "users", "clients", "ips")
_OF_QUOTAS = {"users": "user", "clients": "client-id", "ips": "ip"}
_SHORT = {"topic": "topics", "broker": "brokers", "user": "users", "client": "clients", "ip": "ips"}


def main(words: list[str]) -> int:
    """Carry out kafka-configs.sh. Raises: Failed, UsageError."""
    options = _parser().parse_args(words)
    entities = _entities(words)
    if options.describe == options.alter:
        raise UsageError("one of --describe and --alter must be there")
    if all(kind in _OF_QUOTAS for kind, _ in entities):
        return _quotas(options, dict(entities))
    if len(entities) > 1:
        raise UsageError("several --entity-type are for users and clients")
    kind, name = entities[0]
    names = [name] if isinstance(name, str) else []
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
    added = _added(options)
    removed = [name for name in (options.delete_config or "").split(",") if name]
    if not (added or removed) or not names:
        raise UsageError("--alter takes --entity-name, and --add-config, --add-config-file or --delete-config")
    cluster = Cluster(options)
    for name in names:
        change_configs(cluster, kind, name, added, removed)
        print(f"Completed updating config for {kind[:-1]} {name}.")
    return 0


def _added(options: argparse.Namespace) -> dict[str, str]:
    """What is to be set. Raises: UsageError."""
    if options.add_config_file is None:
        return parse_added(options.add_config or "")
    if options.add_config is not None:
        raise UsageError("--add-config and --add-config-file: it takes one of them")
    from storage.directory.meta_properties import parse_properties  # noqa: PLC0415  not for --help

    try:
        return parse_properties(Path(options.add_config_file).read_bytes().decode("latin-1"))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"--add-config-file {options.add_config_file}: {why.lower()}") from None


def _quotas(options: argparse.Namespace, entities: dict[str, str | object | None]) -> int:
    """Quotas, and of users alone credentials too, in the lines of Kafka's tool."""
    from cli.cluster import Cluster  # noqa: PLC0415  not for --help
    from cli.quotas.applying import change, number, read, words_of  # noqa: PLC0415
    from cli.users import MECHANISMS  # noqa: PLC0415

    named = {_OF_QUOTAS[kind]: name for kind, name in entities.items() if isinstance(name, str | None)}
    user = named.get("user") if len(entities) == 1 else None
    cluster = Cluster(options)
    if options.describe:
        any_of = [_OF_QUOTAS[kind] for kind in entities if _OF_QUOTAS[kind] not in named]
        for entity, quotas in read(cluster, named, strict=True, any_of=any_of):
            told = ", ".join(f"{key}={value}" for key, value in sorted(quotas.items()))
            print(f"Quota configs for {words_of(entity)} are {told}")
        if "users" in entities and len(entities) == 1 and ("user" not in named or user is not None):
            _describe_credentials(cluster, user)
        return 0
    added = _added(options)
    removed = [name for name in (options.delete_config or "").split(",") if name]
    if not (added or removed) or len(named) < len(entities):
        raise UsageError("--alter takes --entity-name or --entity-default, and --add-config or --delete-config")
    if user is not None and any(name in MECHANISMS for name in (*added, *removed)):
        from cli.users.scram import alter  # noqa: PLC0415

        options.user = user
        return alter(options)
    change(cluster, named, {key: number(key, text) for key, text in added.items()}, removed)
    kind, name = next(iter(entities.items()))  # the tool names the first alone
    if isinstance(name, str):
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")
    return 0


def _describe_credentials(cluster: Cluster, user: str | None) -> None:
    from cli.users.scram import credentials  # noqa: PLC0415

    every = credentials(cluster, [] if user is None else [user])  # a user may have quotas alone
    for name, found in sorted(every.items()):
        told = ", ".join(f"{mechanism}=iterations={iterations}" for mechanism, iterations in found)
        print(f"SCRAM credential configs for user-principal '{name}' are {told}")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="kafka-configs.sh", description="Configs of topics and brokers.")
    add(parser, *CLUSTER, VERSION)
    parser.add_argument("--describe", action="store_true", help="print them")
    parser.add_argument("--alter", action="store_true", help="change them")
    parser.add_argument("--all", action="store_true", help="with --describe, also the defaults")
    parser.add_argument("--entity-type", choices=_KINDS, action="append", help="what has the configs")
    parser.add_argument("--entity-name", metavar="NAME", action="append", help="which one; behind its type")
    parser.add_argument("--entity-default", action="store_true", help="who has none by name; behind its type")
    for name in _SHORT:
        parser.add_argument(f"--{name}", metavar="NAME", help=f"as --entity-type {name}s --entity-name NAME")
    for name in ("user", "client", "ip"):
        parser.add_argument(f"--{name}-defaults", action="store_true", help=f"of each {name} that has none by name")
    parser.add_argument("--add-config", metavar="K=V,...", help="set these; lists in brackets: k=[a,b]")
    parser.add_argument("--add-config-file", metavar="FILE", help="set what this properties file says: for secrets")
    parser.add_argument("--delete-config", metavar="K,...", help="take these back to their defaults")
    return parser


_ALL = object()
"""In the place of a name: whoever there is."""


def _entities(words: list[str]) -> list[tuple[str, str | object | None]]:
    """(kind, its name) in the order of the words; None is the default, `_ALL` nobody in particular.

    Raises: UsageError.
    """
    found: list[tuple[str, str | object | None]] = []
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else (word,))]
    for at, word in enumerate(split):
        value = split[at + 1] if at + 1 < len(split) else ""
        if word == "--entity-type":
            found.append((value, _ALL))
        elif word in ("--entity-name", "--entity-default"):
            if not found or found[-1][1] is not _ALL:
                raise UsageError(f"{word} stands behind the --entity-type that it is of")
            found[-1] = found[-1][0], (value if word == "--entity-name" else None)
        elif word.removeprefix("--") in _SHORT:
            found.append((_SHORT[word[2:]], value))
        elif word.endswith("-defaults") and word[2:-9] in _SHORT:
            found.append((_SHORT[word[2:-9]], None))
    if not found:
        raise UsageError("--entity-type, --topic, --broker, --user, --client or --ip must be there")
    return found
