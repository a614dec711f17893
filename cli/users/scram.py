"""SCRAM credentials of users: described, set, removed. The client library salts the password; it never leaves here.

They are described over a connection of our own: the library, up to 2.16.1, ends the process by a fault of memory when
DescribeUserScramCredentials is refused.

Source: KIP-554; Kafka's ConfigCommand.
"""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from cli.added_configs import parse_added
from cli.cluster import Cluster, said
from cli.errors import DONE, Failed, UsageError
from cli.options import print_json
from cli.tables import print_table
from cli.users import MECHANISMS
from cli.wire import told
from protocol.errors import ErrorCode
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

if TYPE_CHECKING:
    import argparse
    from collections.abc import Container, Iterable

_DEFAULT_ITERATIONS = 4096


def describe(options: argparse.Namespace) -> int:
    """Print users with their mechanisms. Raises: Failed."""
    found = credentials(Cluster(options), options.users)
    _check_there(found, options.users)
    rows = [(user, mechanism, iterations) for user, infos in sorted(found.items()) for mechanism, iterations in infos]
    if options.json:
        print_json([{"user": user, "mechanism": name, "iterations": count} for user, name, count in rows])
    else:
        print_table(("USER", "MECHANISM", "ITERATIONS"), rows)
    return DONE


def credentials(cluster: Cluster, users: list[str]) -> dict[str, list[tuple[str, int]]]:
    """(mechanism, iterations) of each user's credentials; of all users when none is named. Who has none is left out.

    Raises: Failed.
    """
    requested = [UserName(name=user) for user in dict.fromkeys(users)]
    answer = cluster.ask(DescribeUserScramCredentialsRequest(users=requested or None), 0)
    if answer.error_code:
        raise Failed(told(answer))
    found: dict[str, list[tuple[str, int]]] = {}
    for one in answer.results:
        if one.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        if one.error_code:
            raise Failed(f"user {one.user!r}: {told(one)}")
        found[one.user] = [(MECHANISMS[info.mechanism - 1], info.iterations) for info in one.credential_infos]
    return found


def _check_there(found: Container[str], users: Iterable[str]) -> None:
    """Raises: Failed for a user who has no credential."""
    for user in users:
        if user not in found:
            raise Failed(f"user {user!r}: a user credential of this name does not exist")


def add(options: argparse.Namespace) -> int:
    """Give a user a password. Raises: Failed, UsageError."""
    password = _password(options)
    change(Cluster(options), options.user, {options.mechanism: (options.iterations, password)}, ())
    print(f"Completed updating config for user {options.user}.")
    return DONE


def delete(options: argparse.Namespace) -> int:
    """Take a user's passwords away. Raises: Failed."""
    cluster = Cluster(options)
    removed = [options.mechanism]
    if not options.mechanism:
        found = credentials(cluster, [options.user])
        _check_there(found, [options.user])
        removed = [name for name, _ in found[options.user]]
    change(cluster, options.user, {}, removed)
    print(f"Completed updating config for user {options.user}.")
    return DONE


def alter(options: argparse.Namespace) -> int:
    """What kafka-configs.sh --alter does for a user's credentials. Raises: Failed, UsageError."""
    added = {name: parse_credential(name, text) for name, text in parse_added(options.add_config or "").items()}
    removed = [name for name in (options.delete_config or "").split(",") if name]
    if not added and not removed:
        raise UsageError("alter takes --add-config or --delete-config")
    change(Cluster(options), options.user, added, removed)
    print(f"Completed updating config for user {options.user}.")
    return DONE


def parse_credential(mechanism: str, text: str) -> tuple[int, str]:
    """(iterations, password) of `iterations=8192,password=...`. Raises: UsageError."""
    found = dict(pair.partition("=")[::2] for pair in text.split(","))
    if mechanism not in MECHANISMS:
        raise UsageError(f"{mechanism}: a user has {' and '.join(MECHANISMS)}")
    if not found.get("password") or not found.keys() <= {"iterations", "password"}:
        raise UsageError(f"{mechanism}: it takes [iterations=N,password=...]")
    try:
        return int(found.get("iterations", _DEFAULT_ITERATIONS)), found["password"]
    except ValueError:
        raise UsageError(f"{mechanism}: iterations={found['iterations']} is no number") from None


def change(cluster: Cluster, user: str, added: dict[str, tuple[int, str]], removed: Iterable[str]) -> None:
    """Set and remove credentials of one user, one after the other: a request may name a user once. Raises: Failed."""
    alterations: list[Any] = []
    for name in removed:
        alterations.append(UserScramCredentialDeletion(user, _mechanism(name)))
    for name, (iterations, password) in added.items():
        info = ScramCredentialInfo(_mechanism(name), iterations)
        alterations.append(UserScramCredentialUpsertion(user, info, password.encode()))
    for alteration in alterations:
        futures = cluster.admin.alter_user_scram_credentials([alteration], request_timeout=cluster.timeout_s)
        _, errors = cluster.results(futures)
        for error in errors.values():
            raise Failed(f"user {user!r}: {said(error)}")


def _mechanism(name: str) -> ScramMechanism:
    if name not in MECHANISMS:
        raise UsageError(f"{name}: a user has {' and '.join(MECHANISMS)}")
    return (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)[MECHANISMS.index(name)]


def _password(options: argparse.Namespace) -> str:
    """One line of the file or of standard input; asked for at a terminal. Raises: UsageError."""
    if options.password_file:
        try:
            text = Path(options.password_file).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--password-file {options.password_file}: {error}") from None
    elif sys.stdin.isatty():
        text = getpass.getpass(f"Password of {options.user}: ")
    else:
        text = sys.stdin.readline()
    password = text.split("\n")[0].rstrip("\r")
    if not password:
        raise UsageError("the password is empty")
    return password
