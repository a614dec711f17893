"""Segments that a cluster moved to remote storage (KIP-405), in the layout of Aiven's plugin, as a log directory.

The plugin keeps `<topic>-<topic id>/<partition>/<base offset>-<segment id>` with three suffixes: `.log`, the segment in
chunks, each compressed with zstd where that was asked for; `.indexes`, all indexes behind one another; `.rsm-manifest`,
JSON that says where everything lies, written last. What is encrypted only its brokers can read.

Source: ObjectKeyFactory, SegmentManifestV1, ChunkSizesBinaryCodec of Aiven-Open/tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import base64
import errno
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import cramjam

from pipeline.errors import UsageError
from pipeline.sources.files import Entry, File, Files, RangedFile, read_whole
from storage.directory.log_directory import PARTITION_METADATA

_TOPIC = re.compile(r"(.+)-([A-Za-z0-9_-]{22})")
_MANIFEST = re.compile(r"((\d{20})-[A-Za-z0-9_-]{22})\.rsm-manifest")
_INDEXES = {".index": "offset", ".timeindex": "timestamp", ".snapshot": "producerSnapshot", ".txnindex": "transaction"}
_MOST_CHUNKS_BYTES = 64 * 1024 * 1024


class _Segment(NamedTuple):
    """One that is whole: `place` is that of its objects, without their suffixes; sizes in bytes."""

    base_offset: int
    last_offset: int
    place: str
    size_bytes: int
    chunk_bytes: int
    chunk_ends: tuple[int, ...]  # of the chunks as they lie there; empty where that is as they were
    indexes: dict[str, tuple[int, int]]  # position and size in `.indexes`
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Tiered:
    """The files of a log directory, made of what lies below `root` in other files."""

    inner: Files
    root: str

    def entries(self, folder: str) -> list[Entry]:
        """See `Files`: partitions in the root; in each of them segments and their indexes."""
        if folder == self.root:
            _forget()
            return [Entry(name, True, 0, 0) for name in sorted(_known_folders(self.inner, self.root))]
        found: list[Entry] = []
        place = _known_folders(self.inner, self.root).get(folder.rpartition("/")[2])
        if place is None:
            raise FileNotFoundError(errno.ENOENT, "there is nothing of that name", folder)
        for base_offset, segment in _segments(self.inner, place[0]).items():
            stem, at = f"{base_offset:020d}", segment.modified_ms
            found.append(Entry(f"{stem}.log", False, segment.size_bytes, at))
            found += [Entry(stem + suffix, False, size, at) for suffix, (_, size) in segment.indexes.items()]
        return sorted(found)

    def open(self, path: str) -> File:
        """See `Files`."""
        try:
            return self._open(path)
        except _NeverThereError:
            raise
        except FileNotFoundError:
            _forget()  # it may be new, or of a topic that was made anew
            return self._open(path)

    def _open(self, path: str) -> File:
        folder, _, name = path.rpartition("/")
        stem, _, suffix = name.partition(".")
        if name != PARTITION_METADATA and not stem.isdigit():
            raise _NeverThereError(errno.ENOENT, "there is nothing of that name", path)
        place = _known_folders(self.inner, self.root).get(folder.rpartition("/")[2])
        if place is not None and name == PARTITION_METADATA:
            return _Bytes(f"version: 0\ntopic_id: {place[1]}\n".encode())
        segment = None if place is None else _known_segments(self.inner, place[0]).get(int(stem))
        if segment is None:
            raise FileNotFoundError(errno.ENOENT, "there is nothing of that name", path)
        if suffix == "log":
            file = self.inner.open(segment.place + ".log")
            return _Chunked(file, segment) if segment.chunk_ends else file
        if f".{suffix}" not in segment.indexes:
            raise _NeverThereError(errno.ENOENT, "there is nothing of that name", path)
        position, size = segment.indexes["." + suffix]
        with self.inner.open(segment.place + ".indexes") as file:
            return _Bytes(file.pread(size, position))


class _NeverThereError(FileNotFoundError):
    """Something of a log directory that a tier has not, or not of this segment."""


def is_tier(files: Files, folder: str, entries: Sequence[Entry]) -> bool:
    """Whether this is the root of a tier, or the folder of one of its topics. OSError.

    By its name alone the folder of a partition may look like a topic's there; inside, that one has numbered folders.
    """

    def numbered(entries: Sequence[Entry]) -> bool:
        return any(entry.is_folder and entry.name.isdigit() for entry in entries)

    if _TOPIC.fullmatch(folder.rpartition("/")[2]) and numbered(entries):
        return True
    topics = [entry.name for entry in entries if entry.is_folder and _TOPIC.fullmatch(entry.name)]
    return bool(topics) and numbered(files.entries(f"{folder}/{topics[0]}"))


def _folders(inner: Files, root: str) -> dict[str, tuple[str, str]]:
    """`<topic>-<partition>`: the place of its segments, and the topic's id. Raises: UsageError, OSError."""
    above, _, own = root.rpartition("/")
    names = [own] if _TOPIC.fullmatch(own) else [entry.name for entry in inner.entries(root) if entry.is_folder]
    if names == [own]:
        root = above
    found: dict[str, tuple[str, str]] = {}
    for name in names:
        parts = _TOPIC.fullmatch(name)
        for entry in inner.entries(f"{root}/{name}") if parts else ():
            if not entry.is_folder or not entry.name.isdigit():
                continue
            partition = f"{parts[1]}-{entry.name}"  # type: ignore[index]  # it is one, or there were no entries
            if partition in found:
                raise UsageError(f"{root} has two topics {parts[1]}; give the path of one of them")  # type: ignore[index]
            found[partition] = f"{root}/{name}/{entry.name}", parts[2]  # type: ignore[index]
    return found


def _segments(inner: Files, place: str) -> dict[int, _Segment]:
    """By base offset. A segment that a later leader uploaded again counts once: what reaches furthest. OSError."""
    found: dict[int, _Segment] = {}
    for entry in inner.entries(place):
        name = _MANIFEST.fullmatch(entry.name)
        data = read_whole(inner, f"{place}/{entry.name}") if name else None
        if name is None or data is None:
            continue
        segment = _parse(data, int(name[2]), f"{place}/{name[1]}", entry.modified_ms)
        known = found.get(segment.base_offset)
        if known is None or known.last_offset < segment.last_offset:
            found[segment.base_offset] = segment
    kept: dict[int, _Segment] = {}
    reached = -1
    for base_offset in sorted(found):
        if found[base_offset].last_offset > reached:
            kept[base_offset] = found[base_offset]
            reached = found[base_offset].last_offset
    return kept


# What was moved there is never changed, and a task asks for several files of one segment: listings are made anew when a
# read is planned or something is missing, and not for each file.
_known_folders = lru_cache(maxsize=64)(_folders)
_known_segments = lru_cache(maxsize=256)(_segments)


def _forget() -> None:
    _known_folders.cache_clear()
    _known_segments.cache_clear()


def _parse(data: bytes, base_offset: int, place: str, modified_ms: int) -> _Segment:
    """Raises: OSError for a manifest of another version, or of what nobody here can read."""
    try:
        told: dict[str, Any] = json.loads(data)
        chunks, indexes = told["chunkIndex"], told["segmentIndexes"]
        why = ""
        if told["version"] != "1":
            why = f"a manifest of version {told['version']}"
        elif told.get("encryption"):
            why = "it is encrypted; only the brokers have the key"
        elif told.get("segmentFormat", "kafka") != "kafka":
            why = f"it is of the format {told['segmentFormat']}"
        if why:
            raise OSError(errno.EPROTONOSUPPORT, f"{place}: {why}", place)
        ends: tuple[int, ...] = ()
        if told["compression"]:
            ends = tuple(accumulate(_chunk_sizes(chunks)))
        where = {suffix: indexes[name] for suffix, name in _INDEXES.items() if indexes.get(name)}
        return _Segment(
            base_offset,
            told["remoteLogSegmentMetadata"]["endOffset"],
            place,
            chunks["originalFileSize"],
            chunks["originalChunkSize"],
            ends,
            {suffix: (one["position"], one["size"]) for suffix, one in where.items()},
            modified_ms,
        )
    except (ValueError, KeyError, TypeError, cramjam.DecompressionError) as error:
        raise OSError(errno.EPROTO, f"{place}: its manifest is none: {error!r}", place) from None


def _chunk_sizes(chunks: dict[str, Any]) -> list[int]:
    """The sizes of the chunks as they lie there. Raises: ValueError, KeyError."""
    if chunks["type"] == "fixed":
        count = -(-chunks["originalFileSize"] // chunks["originalChunkSize"])
        return [chunks["transformedChunkSize"]] * (count - 1) + [chunks["finalTransformedChunkSize"]]
    data = bytes(cramjam.zstd.decompress(base64.b64decode(chunks["transformedChunks"])))
    if len(data) > _MOST_CHUNKS_BYTES:
        raise ValueError("too many chunks")
    count = int.from_bytes(data[:4])
    if count < 2:
        return [int.from_bytes(data[4:8])][:count]
    base, width = int.from_bytes(data[4:8]), data[8]
    sizes = [base + int.from_bytes(data[9 + at * width : 9 + (at + 1) * width]) for at in range(count - 1)]
    return [*sizes, int.from_bytes(data[-4:])]


class _Bytes(RangedFile):
    """A small file that is there whole."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size_bytes = len(data)

    def pread(self, count: int, position: int) -> bytes:
        return self._data[position : position + count]


class _Chunked(_Bytes):
    """A segment in compressed chunks; the one last used is kept."""

    __slots__ = ("_at", "_file", "_segment")

    def __init__(self, file: File, segment: _Segment) -> None:
        super().__init__(b"")
        self._file, self._segment, self._at = file, segment, -1
        self.size_bytes = segment.size_bytes

    def pread(self, count: int, position: int) -> bytes:
        parts: list[bytes] = []
        end = min(position + count, self.size_bytes)
        while position < end:
            at, inside = divmod(position, self._segment.chunk_bytes)
            parts.append(self._chunk(at)[inside : inside + end - position])
            if not parts[-1]:
                raise OSError(errno.EIO, f"chunk {at} is shorter than its manifest says", self._segment.place)
            position += len(parts[-1])
        return b"".join(parts)

    def _chunk(self, at: int) -> bytes:
        if at != self._at:
            ends = self._segment.chunk_ends
            begin = ends[at - 1] if at else 0
            packed = self._file.pread(ends[at] - begin, begin)
            try:
                room = bytearray(self._segment.chunk_bytes)
                size = cramjam.zstd.decompress_into(packed, room)
            except (cramjam.DecompressionError, IndexError) as error:
                raise OSError(errno.EIO, f"chunk {at} cannot be decompressed: {error}", self._segment.place) from None
            self._data, self._at = bytes(room[:size]), at
        return self._data

    def __exit__(self, *of_error: object) -> None:
        self._file.__exit__(None, None, None)
