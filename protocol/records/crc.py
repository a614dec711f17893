"""CRC-32C in C, of the `crc32c` package.

Only its extension module is loaded: the package's own `__init__` asks for its version and so imports `email` and half a
hundred more, a tenth of our start.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _extension() -> Callable[..., int]:
    package = find_spec("crc32c")
    found = package and PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if not found or found.loader is None:
        from crc32c import crc32c as whole  # noqa: PLC0415  another build of the package: then all of it

        return whole
    module = module_from_spec(found)
    found.loader.exec_module(module)
    extension: Callable[..., int] = module.crc32c
    return extension


crc32c = _extension()
"""`crc32c(data, value=0)`: the checksum of a buffer, going on from that of what came before it."""
