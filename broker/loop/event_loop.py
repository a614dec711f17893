"""A uvloop that has not loaded OpenSSL.

asyncio and uvloop import `ssl` for encryption of their own, which nothing here uses: what connections send is encrypted
by `broker.network.tls_channel`. A broker whose listeners are all in plain text would pay an eighth of its idle memory
for it, and 10 ms of its start (docs/decisions/openssl.md).
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new uvloop. If nobody has imported `ssl` so far, asyncio takes it for missing from then on; others need not."""
    if "ssl" not in sys.modules:
        _import_without_openssl()
    import uvloop  # noqa: PLC0415  tests bring their own loop

    return uvloop.new_event_loop()


def _import_without_openssl() -> None:
    modules: dict[str, Any] = sys.modules
    try:
        modules["ssl"] = None  # which is how an import is told that there is none
        import asyncio  # noqa: F401, PLC0415  it knows of Pythons without OpenSSL

        modules["ssl"] = _names_of_ssl()
        import uvloop  # noqa: F401, PLC0415
    finally:
        del modules["ssl"]


def _names_of_ssl() -> ModuleType:
    """What uvloop looks up in `ssl` while it is imported: classes, exceptions, numbers. It meets none of them later."""

    def named(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return 0 if name.isupper() else type(name, (Exception,), {})

    module = ModuleType("ssl")
    vars(module)["__getattr__"] = named
    return module
