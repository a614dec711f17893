"""`kohort.http.listener`: where it is, and the socket there.

Source: docs/decisions/http.md says what a port in use leads to.
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

from broker.config.listener_settings import ListenerSettings
from broker.config.listeners import Address, host_and_port, is_loopback
from broker.config.setting_types import SettingsError
from broker.loop.logs import get_logger
from broker.network.binding import bind

if TYPE_CHECKING:
    import socket

    from broker.config.settings import Settings
    from broker.network.tls_settings import TlsSide

KEY = "kohort.http.listener"
NAME = "http"
"""In `listener.name.http.ssl.*`."""

_PLACE = re.compile(r"\[?([0-9a-zA-Z\-%._:]*?)\]?:([0-9]{1,5})")

log = get_logger(__name__)


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


def check_log_in(settings: Settings) -> None:
    """Warn of a listener that strangers can ask, or hear passwords on. Raises: SettingsError."""
    address = address_of(settings)
    log_in_required = settings.kohort_http_token is not None or settings.kohort_http_basic_auth is not None
    if log_in_required:
        from broker.http.log_in import LogIn  # noqa: PLC0415  few starts need it

        LogIn(settings)
    if address is None or is_loopback(address.host):
        return
    place = host_and_port(address.host or "*", address.port)
    if not log_in_required:
        why = "whoever reaches it reads the names of topics, groups and clients; kohort.http.token asks for a log-in"
        log.warning("http_open_to_all", address=place, why=why)
    elif settings.kohort_http_protocol == "HTTP":
        log.warning("http_log_in_in_clear_text", address=place, why="kohort.http.protocol=HTTPS encrypts it")


def tls_of(settings: Settings) -> TlsSide | None:
    """What HTTPS shows; None for HTTP. Raises: SettingsError."""
    if settings.kohort_http_protocol == "HTTP" or address_of(settings) is None:
        return None
    from broker.network.tls_settings import TlsSide  # noqa: PLC0415  few starts need it

    # As on SASL_SSL certificates of clients are asked for with the prefix of the listener alone.
    return TlsSide(ListenerSettings(settings, NAME), sasl=True)


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
