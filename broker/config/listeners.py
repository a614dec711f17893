"""Where to listen and what clients are told: `listeners`, `advertised.listeners`, `listener.security.protocol.map`.

Source: Kafka's EndPoint, SocketServerConfigs, KafkaConfig (validateValues).
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from broker.config.setting_types import SettingsError

if TYPE_CHECKING:
    from broker.config.settings import Settings

_ADDRESS = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,5})")
_ANY_HOST = ("0.0.0.0", "::")


class SecurityProtocol(IntEnum):
    """What a listener speaks. The numbers are those of broker registrations."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def tls(self) -> bool:
        """Whether what is said is encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        """Whether a peer must say who it is before it is served."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Address:
    """One entry of a list of listeners. `host` is empty for every address of this machine, `port` 0 for any."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{host_and_port(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class Listener:
    """Where to listen, and the address that clients of this listener are told (port 0: the one listened on)."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


def host_and_port(host: str, port: int) -> str:
    """`host:port`, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_listeners(settings: Settings) -> list[Listener]:
    """The listeners to open. Raises: SettingsError."""
    controllers = {name.upper() for name in settings.controller_listener_names}
    addresses = [address for address in _parse("listeners", settings.listeners) if address.name not in controllers]
    if not addresses:
        raise SettingsError(f"listeners={','.join(settings.listeners)}: it takes at least one listener for clients")
    advertised = {address.name: address for address in _parse("advertised.listeners", settings.advertised_listeners)}
    protocols = _protocols(settings)
    names = {address.name for address in addresses}
    for name, address in advertised.items():
        if name not in names and name not in controllers:
            raise SettingsError(
                f"advertised.listeners={address}: it takes the names of listeners, which are {', '.join(sorted(names))}"
            )
    return [_listener(address, advertised.get(address.name), protocols) for address in addresses]


def _parse(key: str, entries: tuple[str, ...]) -> list[Address]:
    found: dict[str, Address] = {}
    taken: set[tuple[str, int]] = set()
    for entry in entries:
        match = _ADDRESS.fullmatch(entry)
        if match is None or int(match[3]) > 65_535:
            raise SettingsError(f"{key}={entry}: it takes NAME://host:port,...")
        address = Address(match[1].upper(), match[2], int(match[3]))
        if address.name in found:
            raise SettingsError(f"{key}={','.join(entries)}: {address.name} stands there twice")
        place = (address.host, address.port)
        if key == "listeners" and address.port and place in taken:
            raise SettingsError(
                f"{key}={','.join(entries)}: two listeners cannot have the address {host_and_port(*place)}"
            )
        found[address.name] = address
        taken.add(place)
    return list(found.values())


def _protocols(settings: Settings) -> dict[str, SecurityProtocol]:
    protocols = {}
    for entry in settings.listener_security_protocol_map:
        name, colon, protocol = entry.partition(":")
        if not colon or protocol.strip().upper() not in SecurityProtocol.__members__:
            raise SettingsError(
                f"listener.security.protocol.map={entry}: it takes NAME:PROTOCOL,... where PROTOCOL is one of "
                + ", ".join(SecurityProtocol.__members__)
            )
        protocols[name.strip().upper()] = SecurityProtocol[protocol.strip().upper()]
    return protocols


def _listener(address: Address, told: Address | None, protocols: dict[str, SecurityProtocol]) -> Listener:
    protocol = protocols.get(address.name)
    if protocol is None:
        raise SettingsError(
            f"listeners={address}: listener.security.protocol.map does not say what {address.name} speaks"
        )
    if told is None and address.host in _ANY_HOST:
        raise SettingsError(
            f"listeners={address}: clients cannot be told {address.host}, say in advertised.listeners "
            "under which address they reach this machine"
        )
    if told is not None and told.host in _ANY_HOST:
        raise SettingsError(f"advertised.listeners={told}: it takes an address that clients can reach, not {told.host}")
    host, port = (told.host, told.port) if told is not None else (address.host, 0)
    return Listener(address.name, address.host, address.port, host or socket.gethostname(), port, protocol)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    return host in ("localhost", "::1") or host.startswith("127.")
