"""`kohort topics create`, `delete`, `alter`: each topic on its own; exit code 1 when some could not be changed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import NewPartitions, NewTopic

from cli.cluster import Cluster, said, unknown
from cli.configs import change_configs, parse_configs
from cli.errors import DONE, FAILED, Failed, UsageError
from cli.options import print_json
from cli.topics.showing import matching, named_topics
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    import argparse

    from confluent_kafka import KafkaError


def create(options: argparse.Namespace) -> int:
    """Create topics. Raises: Failed, UsageError."""
    names = _some(options)
    configs = parse_configs("--config", options.config)
    cluster = Cluster(options)
    partitions, factor = options.partitions or -1, options.replication_factor or -1
    wanted = [NewTopic(name, partitions, factor, config=configs) for name in names]
    futures = cluster.admin.create_topics(wanted, request_timeout=cluster.timeout_s)
    _, errors = cluster.results(futures)
    there = set()
    if options.if_not_exists:
        there = {name for name, error in errors.items() if error.code() == ErrorCode.TOPIC_ALREADY_EXISTS}
    texts = {name: said(error) for name, error in errors.items() if name not in there}
    return _tell(options, names, texts, "Created topic {}.", "could not be created", silent=there)


def delete(options: argparse.Namespace) -> int:
    """Delete topics. Raises: Failed, UsageError."""
    wanted = _some(options)
    cluster = Cluster(options)
    names = matching(cluster, wanted)
    if not names:
        raise Failed(f"no topic matches {' '.join(wanted)}")
    futures = cluster.admin.delete_topics(names, request_timeout=cluster.timeout_s)
    _, errors = cluster.results(futures)
    missing = {name for name, error in errors.items() if _is_unknown(error)}
    silent = missing if options.if_exists else set()
    texts = {name: _text(cluster, name, error) for name, error in errors.items() if name not in silent}
    return _tell(options, names, texts, "Deleted topic {}.", "could not be deleted", silent=silent)


def alter(options: argparse.Namespace) -> int:
    """Add partitions, set and unset configs. Raises: Failed, UsageError."""
    wanted = _some(options)
    configs = parse_configs("--config", options.config)
    if not (options.partitions or configs or options.delete_config):
        raise UsageError("alter takes --partitions, --config or --delete-config")
    cluster = Cluster(options)
    names = matching(cluster, wanted)
    if not names:
        raise Failed(f"no topic matches {' '.join(wanted)}")
    _, missing = cluster.describe_topics(names)
    silent = {name for name, error in missing.items() if options.if_exists and _is_unknown(error)}
    texts = {name: _text(cluster, name, error) for name, error in missing.items() if name not in silent}
    for name in names:
        if name not in missing:
            try:
                _alter_one(cluster, name, options, configs)
            except Failed as error:
                texts[name] = str(error)
    return _tell(options, names, texts, "Altered topic {}.", "could not be altered", silent=silent)


def _alter_one(cluster: Cluster, name: str, options: argparse.Namespace, configs: dict[str, str]) -> None:
    # Configs first: a wrong one is refused before the partitions, which nobody can take back, are there.
    if configs or options.delete_config:
        change_configs(cluster, "topics", name, configs, options.delete_config)
    if options.partitions:
        wanted = [NewPartitions(name, options.partitions)]
        _, errors = cluster.results(cluster.admin.create_partitions(wanted, request_timeout=cluster.timeout_s))
        for error in errors.values():
            raise Failed(said(error))


def _some(options: argparse.Namespace) -> list[str]:
    names = named_topics(options)
    if not names:
        raise UsageError("name a TOPIC")
    return names


def _is_unknown(error: KafkaError) -> bool:
    return bool(error.code() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _text(cluster: Cluster, name: str, error: KafkaError) -> str:
    if not _is_unknown(error):
        return said(error)
    return str(unknown("topic", name, cluster.topics)).replace(f"topic {name!r}", "it", 1)


def _tell(
    options: argparse.Namespace,
    names: list[str],
    errors: dict[str, str],
    done: str,
    failed: str,
    *,
    silent: set[str],
) -> int:
    """What became of each topic; the exit code."""
    if options.json:
        rows: list[dict[str, Any]] = [{"topic": name, "error": errors.get(name)} for name in names]
        print_json(rows)
    for name in names:
        if name in errors:
            print(f"kohort: topic {name!r} {failed}: {errors[name]}", file=sys.stderr)
        elif name not in silent and not options.json:
            print(done.format(name))
    return FAILED if errors else DONE
