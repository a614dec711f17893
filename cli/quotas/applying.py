"""Quotas told and altered; the client library has no requests for them, so they go over a connection of our own.

Source: KIP-546; Kafka's ConfigCommand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.added_configs import parse_added
from cli.cluster import Cluster
from cli.errors import DONE, Failed, UsageError
from cli.options import print_json
from cli.tables import print_table
from cli.wire import told
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

_VERSION = 1
_EXACT, _DEFAULT, _ANY = 0, 1, 2
_OPTIONS = {"user": "user", "client": "client-id", "ip": "ip"}
_WORDS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}

Entity = dict[str, str | None]
"""Types and names; a null name is the default."""


def describe(options: argparse.Namespace) -> int:
    """Print quotas. Raises: Failed, UsageError."""
    found = read(Cluster(options), entity_of(options), strict=False)
    rows = [(entity, key, value) for entity, quotas in found for key, value in sorted(quotas.items())]
    if options.json:
        print_json([{"entity": entity, "quota": key, "value": value} for entity, key, value in rows])
    else:
        names = ("user", "client-id", "ip")
        shown = [(*(_shown(entity, kind) for kind in names), key, f"{value:g}") for entity, key, value in rows]
        print_table(("USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"), shown)
    return DONE


def alter(options: argparse.Namespace) -> int:
    """What kafka-configs.sh --alter does for quotas. Raises: Failed, UsageError."""
    entity = entity_of(options)
    if not entity:
        raise UsageError("alter takes --user, --client or --ip, or one of them with -defaults behind it")
    added = {key: number(key, text) for key, text in parse_added(options.add_config or "").items()}
    removed = [key for key in (options.delete_config or "").split(",") if key]
    if not added and not removed:
        raise UsageError("alter takes --add-config or --delete-config")
    change(Cluster(options), entity, added, removed)
    print(f"Completed updating quotas of {words_of(entity)}.")
    return DONE


def entity_of(options: argparse.Namespace) -> Entity:
    """Whom the options name. Raises: UsageError."""
    entity: Entity = {}
    for option, kind in _OPTIONS.items():
        name, default = getattr(options, option), getattr(options, f"{option}_defaults")
        if name is not None and default:
            raise UsageError(f"--{option} stands without --{option}-defaults")
        if name is not None or default:
            entity[kind] = name
    return entity


def number(key: str, text: str) -> float:
    """A quota's value. Raises: UsageError."""
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{key}={text}: it takes a number") from None


def read(
    cluster: Cluster, entity: Mapping[str, str | None], *, strict: bool, any_of: Iterable[str] = ()
) -> list[tuple[Entity, dict[str, float]]]:
    """Entities like this one, with these types besides, and their quotas. Raises: Failed."""
    requested = [
        ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for kind, name in entity.items()
    ]
    requested += [ComponentData(entity_type=kind, match_type=_ANY, match=None) for kind in any_of]
    answer = cluster.ask(DescribeClientQuotasRequest(components=requested, strict=strict), _VERSION)
    if answer.error_code:
        raise Failed(told(answer))
    found = [
        ({one.entity_type: one.entity_name for one in entry.entity}, {one.key: one.value for one in entry.values})
        for entry in answer.entries
    ]
    return sorted(found, key=lambda one: [(kind, one[0][kind] or "") for kind in sorted(one[0])])


def change(cluster: Cluster, entity: Entity, added: Mapping[str, float], removed: Iterable[str]) -> None:
    """Set and remove quotas of one entity. Raises: Failed."""
    ops = [OpData(key=key, value=value) for key, value in added.items()]
    ops += [OpData(key=key, remove=True) for key in removed]
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=ops)])
    for one in cluster.ask(request, _VERSION).entries:
        if one.error_code:
            raise Failed(f"{words_of(entity)}: {told(one)}")


def words_of(entity: Mapping[str, str | None]) -> str:
    """`user-principal 'u', the default client-id`, as Kafka's tool says it."""
    return ", ".join(
        f"the default {word}" if entity[kind] is None else f"{word} '{entity[kind]}'"
        for kind, word in _WORDS.items()
        if kind in entity
    )


def _shown(entity: Mapping[str, str | None], kind: str) -> str:
    if kind not in entity:
        return "-"
    name = entity[kind]
    return "<default>" if name is None else name
