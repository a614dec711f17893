"""`kohort.http.listener`: where it is, and the socket there.

Source: docs/decisions/http.md says what a port in use leads to.
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

from broker.config.listeners import Address, host_and_port
from broker.config.setting_types import SettingsError
from broker.loop.logs import get_logger
from broker.network.binding import bind

if TYPE_CHECKING:
    import socket

    from broker.config.settings import Settings

KEY = "kohort.http.listener"

_PLACE = re.compile(r"\[?([0-9a-zA-Z\-%._:]*?)\]?:([0-9]{1,5})")

log = get_logger()


class HttpRefused(Exception):
    """The address that was asked for cannot be had; the message is one sentence."""


def address_of(settings: Settings) -> Address | None:
    """Where to listen; None for nowhere. Raises: SettingsError."""
    text = settings.kohort_http_listener.strip()
    if not text:
        return None
    match = _PLACE.fullmatch(text)
    if match is None or int(match[2]) > 65_535:
        raise SettingsError(f"{KEY}={text}: it takes host:port, or nothing for no listener")
    return Address("HTTP", match[1], int(match[2]))


def bound(settings: Settings) -> list[socket.socket]:
    """The sockets to listen on; none when it is off, or when nobody asked for the default port and it is taken.

    Raises: SettingsError, HttpRefused.
    """
    address = address_of(settings)
    if address is None:
        return []
    try:
        return bind(address)
    except OSError as error:
        place = host_and_port(address.host or "*", address.port)
        why = (error.strerror or str(error)).lower()
        if KEY not in settings.given and error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
            # A second broker on one machine names other listeners, and need not know that there is this one.
            log.warning("http_not_listening", address=place, reason=why, setting=KEY)
            return []
        raise HttpRefused(
            f"cannot listen on {place}: {why}; name another address or port in {KEY}, or leave it empty"
        ) from None
