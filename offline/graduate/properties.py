"""The `server.properties` with which Kafka behaves on the directory as Kohort did.

Source: Kafka's KafkaConfig (validateValues), QuorumConfig.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker.catalogue.cluster_state import BROKER_RESOURCE
from broker.config import listener_keys
from broker.config.listener_settings import ListenerSettings
from broker.config.listeners import host_and_port, parse_listeners

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.config.listeners import Listener
    from broker.config.settings import Settings
    from offline.graduate.directory import Directory

_PLACE = re.compile(r"(?:\d+@)?\[?([^,@]+?)\]?:(\d+)")
_CLIENT_PORT = 9092
_CONTROLLER_PORT = 9093
# Our defaults that are not Kafka's, with Kafka's: where nothing was set, ours must be told. Not the socket buffers,
# which say nothing about what Kohort did, and not what stands in the file anyway.
_OUR_DEFAULTS = ("log.flush.interval.ms",)
# Written from what the directory and the listeners are, whatever was set.
_WRITTEN = (
    "process.roles", "node.id", "broker.id", "listeners", "advertised.listeners", "controller.listener.names",
    "controller.quorum.voters", "controller.quorum.bootstrap.servers", "inter.broker.listener.name",
    "listener.security.protocol.map", "log.dirs", "log.dir", "metadata.log.dir", "offsets.topic.replication.factor",
    "default.replication.factor", "transaction.state.log.replication.factor", "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr",
    "group.coordinator.rebalance.protocols",
)  # fmt: skip


def server_properties(directory: Directory, settings: Settings, given: Mapping[str, str], version: str) -> list[str]:
    """The lines of the file. `given` is everything that was set, also what Kohort itself passes over.

    `version` is the release to be started, such as 4.3. Raises: SettingsError.
    """
    assert directory.identity is not None and directory.metadata is not None
    listeners = parse_listeners(settings)
    host, port = _controller(listeners, given)
    own = [f"{one.name}://{host_and_port(one.host, one.port or _CLIENT_PORT)}" for one in listeners]
    told = [
        f"{one.name}://{host_and_port(one.advertised_host, one.advertised_port or one.port or _CLIENT_PORT)}"
        for one in listeners
    ]
    node_id = directory.identity.node_id
    place = host_and_port(host, port)
    if directory.metadata.quorum.kraft_version:
        quorum = f"controller.quorum.bootstrap.servers={place}"
    else:
        quorum = f"controller.quorum.voters={node_id}@{place}"
    protocols = [f"{one.name}:{one.protocol.name}" for one in listeners]
    carried = {**given, **{key: value for key, value in settings.given.items() if key not in given}}
    carried.update(_set_while_running(directory))
    among = _inter_broker(listeners, given)
    lines = [
        "process.roles=broker,controller",
        f"node.id={node_id}",
        quorum,
        f"listeners={','.join([*own, f'CONTROLLER://{host_and_port(_bound_host(listeners), port)}'])}",
        f"advertised.listeners={','.join([*told, f'CONTROLLER://{place}'])}",
        "controller.listener.names=CONTROLLER",
        f"inter.broker.listener.name={among.name}",
        f"listener.security.protocol.map={','.join([*protocols, 'CONTROLLER:PLAINTEXT'])}",
        f"log.dirs={','.join(map(str, directory.logs))}",
        "offsets.topic.replication.factor=1",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
    ]
    if directory.path != next(iter(directory.logs)):
        lines.append(f"metadata.log.dir={directory.path}")
    if version == "3.9":
        # 3.9 refuses to advertise a controller's address.
        lines[4] = f"advertised.listeners={','.join(told)}"
        if directory.has_new_groups:
            lines.append("group.coordinator.rebalance.protocols=classic,consumer")
    else:
        lines += ["share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1"]
    for key in _OUR_DEFAULTS:
        if key not in given:
            lines.append(f"{key}={settings.text_of(key)}")
    if among.protocol.sasl and "sasl.mechanism.inter.broker.protocol" not in carried:
        enabled = ListenerSettings(settings, among.name).of("sasl.enabled.mechanisms")
        lines.append(f"sasl.mechanism.inter.broker.protocol={enabled[0]}")
    lines += [f"{key}={_escaped(carried[key])}" for key in sorted(carried) if _carries(key)]
    return lines


def not_carried(given: Mapping[str, str]) -> list[str]:
    """Settings that only Kohort knows."""
    return sorted(key for key in given if key.startswith("kohort."))


def _carries(key: str) -> bool:
    return key not in _WRITTEN and not key.startswith("kohort.")


def _set_while_running(directory: Directory) -> dict[str, str]:
    """What Kohort was told of its listeners while it ran, and Kafka would keep in the directory and not follow."""
    assert directory.identity is not None and directory.metadata is not None
    configs = directory.metadata.state.configs.get((BROKER_RESOURCE, str(directory.identity.node_id)), {})
    followed = listener_keys.STORES | listener_keys.LIMITS
    return {
        key: value
        for key, value in configs.items()
        if (listener_keys.is_of_listener(key) and listener_keys.base_of(key) not in followed)
        or key in listener_keys.FOR_ALL
    }


def _inter_broker(listeners: list[Listener], given: Mapping[str, str]) -> Listener:
    """The listener over which Kafka talks to itself: the one that was set, or one that asks as little as there is."""
    wanted = given.get("inter.broker.listener.name", "").strip().upper()
    named = next((one for one in listeners if one.name == wanted), None)
    return named or min(listeners, key=lambda one: (one.protocol.sasl, one.protocol.tls))


def _controller(listeners: list[Listener], given: Mapping[str, str]) -> tuple[str, int]:
    """Where the controller is reached: as was set, else beside the first listener, at a port that no listener has."""
    for key in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        place = _PLACE.fullmatch(given.get(key, ""))
        if place is not None:
            return place[1], int(place[2])
    taken = {one.port or _CLIENT_PORT for one in listeners}
    port = _CONTROLLER_PORT
    while port in taken:
        port += 1
    return listeners[0].advertised_host, port


def _bound_host(listeners: list[Listener]) -> str:
    return listeners[0].host


def _escaped(value: str) -> str:
    """As java.util.Properties reads it back."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
