"""A new data directory with users in it: what a broker needs whose every listener asks who one is.

Without users nothing has to be formatted: the broker makes its directory itself.

Source: KIP-900; Kafka's Formatter, ScramParser.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from typing import TYPE_CHECKING

from broker.catalogue.appending import METADATA_VERSION
from broker.catalogue.snapshot_writer import write_snapshot
from broker.catalogue.snapshots import BOOTSTRAP
from broker.catalogue.users import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, record_of
from protocol.records import control_records
from protocol.records import metadata_records as records
from storage.directory.log_directories import LogDirectories
from storage.directory.meta_properties import FILE
from storage.errors import DirectoryRefused
from storage.files import DISK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from storage.directory.meta_properties import MetaProperties

_SALT_BYTES = 20
_USER = re.compile(r"(SCRAM-SHA-\d+)=\[(.*)\]")
_KEYS = frozenset({"name", "password", "saltedpassword", "salt", "iterations"})


class BadUser(Exception):
    """What was given for a user makes no credential; the message says why, and repeats no password."""


def user_record(text: str) -> records.UserScramCredentialRecord:
    """The credential of `SCRAM-SHA-256=[name=alice,password=secret,iterations=8192,salt="base64"]`.

    `saltedpassword`, base64, may stand for `password`, together with its salt. Raises: BadUser.
    """
    match = _USER.fullmatch(text)
    mechanism = None if match is None else ScramMechanism.by_name(match[1])
    if match is None or mechanism is None:
        raise BadUser("it takes SCRAM-SHA-256=[name=...,password=...] or SCRAM-SHA-512=[...]")
    given = {
        key.strip(): value.strip().strip('"') for key, _, value in (one.partition("=") for one in match[2].split(","))
    }
    if not given.keys() <= _KEYS:
        raise BadUser(f"it takes {', '.join(sorted(_KEYS))}, not {', '.join(sorted(given.keys() - _KEYS))}")
    name = given.get("name", "")
    if not name:
        raise BadUser("it takes name=")
    if bool(given.get("password")) == bool(given.get("saltedpassword")):
        raise BadUser(f"{name}: it takes password= or saltedpassword=")
    if "saltedpassword" in given and "salt" not in given:
        raise BadUser(f"{name}: saltedpassword= takes its salt=")
    try:
        iterations = int(given.get("iterations", MIN_ITERATIONS))
        salt = base64.b64decode(given["salt"], validate=True) if "salt" in given else os.urandom(_SALT_BYTES)
        salted = base64.b64decode(given.get("saltedpassword", ""), validate=True)
    except (ValueError, binascii.Error):
        raise BadUser(f"{name}: iterations= is a number, salt= and saltedpassword= are base64") from None
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise BadUser(f"{name}: iterations={iterations}, and it takes {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    if not salted:
        salted = hashlib.pbkdf2_hmac(mechanism.digest, given["password"].encode(), salt, iterations)
    return record_of(name, mechanism, salt, salted, iterations)


def format_directories(
    log_dirs: Sequence[str],
    metadata_log_dir: str | None,
    users: Iterable[records.UserScramCredentialRecord],
    *,
    node_id: int,
    cluster_id: str | None,
    new_uuid: Callable[[], bytes],
    now_ms: int,
) -> tuple[list[Path], MetaProperties]:
    """Make `bootstrap.checkpoint` where the metadata log will lie, then every directory's identity, durably.

    Returns the directories, and the identity of the metadata log's. Raises: DirectoryRefused when one has an identity
    already, StorageError.
    """
    directories = LogDirectories.open(log_dirs, metadata_log_dir, all_of_them=True)
    try:
        for one in directories:
            if (one.path / FILE).exists():
                raise DirectoryRefused(f"{one.path} is formatted already; users of a running broker: kohort users")
        level = records.FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION)
        frames = [records.encode_frame(record) for record in (level, *users)]
        head = control_records.snapshot_head(0, 0, None)
        write_snapshot(directories.metadata.path / BOOTSTRAP, head, frames, epoch=0, now_ms=now_ms, disk=DISK)
        made = directories.identify(node_id=node_id, new_uuid=new_uuid, cluster_id=cluster_id)
        directories.write_identities()
        return [one.path for one in directories], made
    finally:
        directories.close()
