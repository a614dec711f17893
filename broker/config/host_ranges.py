"""Ranges of addresses, as ACLs name hosts by them since Apache Kafka 4.4. Source: Kafka's CidrUtils."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network


@lru_cache(10_000)
def network(text: str) -> IPv4Network | IPv6Network | None:
    """Those that `10.0.0.0/8` means, whatever its last bits are; None for what is no range."""
    _, slash, bits = text.partition("/")
    if not slash or not (bits.isascii() and bits.isdigit()):
        return None
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None
