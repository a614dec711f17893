"""Which hosts a testbed takes itself for.

Whoever owns a name may have it stand for 127.0.0.1, and a page that was loaded by that name then reads whatever answers
there (DNS rebinding); its requests say that name as their host. Nobody else can own an address, `localhost`, a name
without a dot (a service of docker compose) or one below `.internal`.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kohort.testing.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Collection

_NOBODYS = (".localhost", ".internal")


def check_host(header: str | None, names: Collection[str]) -> None:
    """That a request means this testbed: by its `Host`, or one of `names`. Raises: Refused."""
    try:
        host = (urlsplit(f"//{header}").hostname or "").rstrip(".") if header else ""
    except ValueError:
        host = ""
    if not (host and (_is_address(host) or "." not in host or host.endswith(_NOBODYS) or host in names)):
        raise Refused(
            f"host: {header}: a testbed answers to addresses, localhost, names without a dot, and to those that "
            "`kohort testbed --host-name` gives it"
        )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
