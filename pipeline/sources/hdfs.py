"""HDFS by Hadoop's own protocol, through the client `hdfs-native`: it wants no Java and nothing of Hadoop's installed.

What it finds of Hadoop's settings it heeds: HADOOP_CONF_DIR (name services, Kerberos), HADOOP_USER_NAME,
HADOOP_TOKEN_FILE_LOCATION.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pipeline.errors import UsageError
from pipeline.sources.files import Entry, File, RangedFile, said

if TYPE_CHECKING:
    from hdfs_native import Client

_OF_KERBEROS = ("kerberos_principal", "kerberos_keytab", "kerberos_cache")
# As it is, the client asks a name node that is not there for minutes.
_SOON = {"dfs.client.failover.max.attempts": "4", "dfs.client.failover.sleep.max.millis": "2000"}
_COMPLAINTS = (OSError, RuntimeError, ValueError)
_KIND = re.compile(r'\w+\("(.*)"\)', re.DOTALL)
_NODE = re.compile(r'ip_addr: "([^"]*)", host_name: "([^"]*)".*?xfer_port: (\d+)', re.DOTALL)


def plain(text: str) -> str:
    """What the client complains of, without what Rust prints around it: of a data node its place, not all about it."""
    kind = _KIND.fullmatch(text)
    text = text if kind is None else kind[1].replace('\\"', '"')
    before, proto, nodes = text.partition("DatanodeInfoProto {")
    if not proto:
        return text
    addresses = dict.fromkeys(f"{host or address}:{port}" for address, host, port in _NODE.findall(nodes))
    after = nodes.rpartition("}")[2].removeprefix("]")
    return f"{before.removesuffix('[')}{', '.join(addresses)}{after}"


def is_installed() -> bool:
    """Whether the client is there."""
    return importlib.util.find_spec("hdfs_native") is not None


@dataclass(frozen=True, slots=True)
class Hdfs:
    """See `files.Files`. `settings`: Hadoop's own (`dfs.client.use.datanode.hostname`), or one of `_OF_KERBEROS`."""

    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Raises: UsageError for settings that are none."""
        for name, _ in self.settings:
            if "." not in name and name not in _OF_KERBEROS:
                raise UsageError(
                    f"hdfs: {name} is no setting of it; Hadoop's own and {', '.join(_OF_KERBEROS)} are "
                    "(HADOOP_USER_NAME says who reads)"
                )

    def entries(self, folder: str) -> list[Entry]:
        """See `files.Files`."""
        client, inner = self._client(folder)
        with said(folder, _COMPLAINTS, plain):
            if not client.get_file_info(inner).isdir:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
            there = list(client.list_status(inner, recursive=False))
        return sorted(Entry(one.path.rpartition("/")[2], one.isdir, one.length, one.modification_time) for one in there)

    def open(self, path: str) -> File:
        """See `files.Files`."""
        client, inner = self._client(path)
        with said(path, _COMPLAINTS, plain):
            return _HdfsFile(path, client.read(inner))

    def _client(self, path: str) -> tuple[Client, str]:
        """(the client, what it calls the path)."""
        parts = urlsplit(path)
        with said(path, _COMPLAINTS, plain):
            return _connected(parts.netloc, self.settings), parts.path or "/"


class _HdfsFile(RangedFile):
    __slots__ = ("_file", "_path")

    def __init__(self, path: str, file: Any) -> None:
        self._path, self._file = path, file
        self.size_bytes = len(file)

    def pread(self, count: int, position: int) -> bytes:
        count = max(min(count, self.size_bytes - position), 0)
        with said(self._path, _COMPLAINTS, plain):
            return bytes(self._file.read_range(position, count)) if count else b""


@lru_cache(maxsize=16)
def _connected(host: str, settings: tuple[tuple[str, str], ...]) -> Client:
    """One a process; nothing is asked yet."""
    from hdfs_native import Client  # noqa: PLC0415  most reads are local

    given = _SOON | dict(settings)
    kerberos: dict[str, Any] = {name: given.pop(name) for name in _OF_KERBEROS if name in given}
    return Client(f"hdfs://{host}" if host else None, given, **kerberos)
