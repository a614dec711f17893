"""`meta.properties`: whose directory this is. Java properties text, in every legal spelling.

Source: Kafka's MetaProperties, PropertiesUtils.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.types import uuid_from_text, uuid_text
from storage.errors import CorruptFile, StorageError
from storage.files import DISK, Disk, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE = "meta.properties"
_LINE = re.compile(r"\s*((?:\\.|[^\\\s:=])*)(?:\s*[:=]\s*|\s+|$)(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_RESERVED_BELOW = 100  # directory ids whose high half is zero and whose low half is below: MIGRATING, UNASSIGNED, LOST


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The identity of a log directory. It never changes once written: partition records name the directory id."""

    cluster_id: str
    node_id: int
    directory_id: bytes  # 16 bytes


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a Java properties text; the last of equal keys wins. Source: java.util.Properties."""
    return {key: value for _, key, value in property_lines(text)}


def property_lines(text: str) -> list[tuple[int, str, str]]:
    """(number of the line in which it begins, key, value) of each pair of a Java properties text, in its order."""
    pairs: list[tuple[int, str, str]] = []
    lines = enumerate(re.split(r"\r\n|\r|\n", text), start=1)
    for number, line in lines:
        whole = line.lstrip(" \t\f")
        if not whole or whole[0] in "#!":
            continue
        while (len(whole) - len(whole.rstrip("\\"))) % 2:  # an odd number of backslashes goes on in the next line
            whole = whole[:-1] + next(lines, (0, ""))[1].lstrip(" \t\f")
        match = _LINE.match(whole)
        assert match is not None  # every part of the pattern can be empty
        pairs.append((number, _unescaped(match[1]), _unescaped(match[2])))
    return pairs


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escape, escape)

    return _ESCAPE.sub(character, text)


def read(path: Path, data: bytes) -> tuple[MetaProperties | None, str, int]:
    """(identity, cluster id, node id) of a file's content; the identity is None when it has no directory id yet.

    Raises: CorruptFile with what is missing or wrong.
    """
    values = parse_properties(data.decode("iso-8859-1"))
    version = values.get("version", "0").strip()
    if version not in ("0", "1"):
        raise CorruptFile(path, f"version {version} is not known; it must be 0 or 1")
    node_key = "node.id" if version == "1" else "broker.id"
    for key in ("cluster.id", node_key):
        if not values.get(key, "").strip():
            raise CorruptFile(path, f"it has no {key}")
    try:
        node_id = int(values[node_key])
    except ValueError as error:
        raise CorruptFile(path, f"{node_key} {values[node_key]!r} is no number") from error
    cluster_id = values["cluster.id"].strip()
    text = values.get("directory.id", "").strip()
    if not text:
        return None, cluster_id, node_id
    try:
        directory_id = uuid_from_text(text)
    except ValueError as error:
        raise CorruptFile(path, f"directory.id {text!r} is no uuid") from error
    if int.from_bytes(directory_id) < _RESERVED_BELOW:
        raise CorruptFile(path, f"directory.id {text!r} is reserved")
    return MetaProperties(cluster_id, node_id, directory_id), cluster_id, node_id


def write(directory: Path, meta: MetaProperties, disk: Disk = DISK) -> None:
    """Write version 1 with all keys, atomically and durably. Raises: StorageError."""
    lines = (
        "#",
        "version=1",
        f"cluster.id={meta.cluster_id}",
        f"node.id={meta.node_id}",
        f"directory.id={uuid_text(meta.directory_id)}",
    )
    replace_file(directory / FILE, ("\n".join(lines) + "\n").encode("iso-8859-1"), disk)


def load_or_create(
    directory: Path, *, node_id: int, new_uuid: Callable[[], bytes], cluster_id: str | None = None, disk: Disk = DISK
) -> MetaProperties:
    """The directory's identity; made when the directory is new, completed when it has no directory id.

    `cluster_id` is for a new directory, a random one without it; a directory that has one keeps it.

    Raises: CorruptFile when the file is no identity or another node's, StorageError.
    """
    meta, written = plan(directory, node_id=node_id, new_uuid=new_uuid, cluster_id=cluster_id)
    if not written:
        write(directory, meta, disk)
    return meta


def plan(
    directory: Path, *, node_id: int, new_uuid: Callable[[], bytes], cluster_id: str | None = None
) -> tuple[MetaProperties, bool]:
    """What `load_or_create` would return, and whether that is written already. Writes nothing. Raises: as it does."""
    path = directory / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return MetaProperties(cluster_id or uuid_text(new_uuid()), node_id, new_uuid()), False
    except OSError as error:
        raise StorageError("cannot read", path, error) from error
    known, its_cluster_id, its_node_id = read(path, data)
    if its_node_id != node_id:
        raise CorruptFile(path, f"the directory belongs to node {its_node_id}, and node.id is {node_id}")
    if known is not None:
        return known, True
    return MetaProperties(its_cluster_id, node_id, new_uuid()), False
