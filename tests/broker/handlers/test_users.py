"""SCRAM users in the metadata log: golden bytes, Kafka's codes, and what a restart and a snapshot keep."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from broker.catalogue.snapshot_writer import SnapshotPolicy
from broker.catalogue.users import ScramCredential, ScramMechanism, record_of
from broker.handlers import users
from broker.security.scram import ORDINARY, Shape
from protocol.errors import ErrorCode
from protocol.frames import encode_request
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from protocol.records import metadata_records
from tests.broker.handlers.test_topic_handlers import Desk
from tests.support.catalogue_fixture import CatalogueDriver

if TYPE_CHECKING:
    from pathlib import Path

SALT = b"saltsaltsaltsaltsalt"
SALTED = bytes.fromhex("90b61c2d76e4d5e316a30bec351838810e12f813bb5cd1cd081e9569858c9d74")


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096, **more: bytes) -> ScramCredentialUpsertion:
    given = {"salt": SALT, "salted_password": SALTED, **more}
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=iterations, **given)


def altered(desk: Desk, deletions: Any = (), upsertions: Any = ()) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))
    answer = desk.ask(users.alter_user_scram_credentials, request, 0)
    return {one.user: one.error_code for one in answer.results}


def described(desk: Desk, *names: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
    answer = desk.ask(users.describe_user_scram_credentials, request, 0)
    return {
        one.user: (one.error_code, [(info.mechanism, info.iterations) for info in one.credential_infos])
        for one in answer.results
    }


def test_golden_bytes() -> None:
    """What a client sends, and what Kafka keeps of alice's password."""
    assert hashlib.pbkdf2_hmac("sha256", b"alice-secret", SALT, 4096) == SALTED
    record = record_of("alice", ScramMechanism.SCRAM_SHA_256, SALT, SALTED, 4096)
    assert metadata_records.encode_frame(record).hex() == (
        "010b0006616c696365011573616c7473616c7473616c7473616c7473616c74216983f18544f0a5dc84d23ea14105f8807588ef7f65aea8"
        "736e6840a033ca1c822187e8ef3d5b5b1b2b307b0f8db97d7cb944532468e6ddceadcd762e56367dd0430000100000"
    )
    removal = metadata_records.RemoveUserScramCredentialRecord(name="alice", mechanism=1)
    assert metadata_records.encode_frame(removal).hex() == "01160006616c6963650100"
    asked = encode_request(DescribeUserScramCredentialsRequest(users=None), 0, 4, "k")
    assert asked.hex() == "0000000e003200000000000400016b000000"


def test_ten_alterations_in_one_request(tmp_path: Path) -> None:
    """SE50: each user has a verdict, and what is good is stored."""
    desk = Desk(tmp_path)
    assert altered(desk, upsertions=[upsertion("old")]) == {"old": 0}

    codes = altered(
        desk,
        [
            ScramCredentialDeletion(name="old", mechanism=1),
            ScramCredentialDeletion(name="absent", mechanism=1),
            ScramCredentialDeletion(name="twice", mechanism=1),
        ],
        [
            upsertion("good", 2, 16384),
            upsertion(""),
            upsertion("odd", 3),
            upsertion("few", 1, 4095),
            upsertion("many", 1, 16385),
            upsertion("bare", salted_password=b""),
            upsertion("bland", salt=b"salt"),
            upsertion("both", 1),
            upsertion("both", 2),
            upsertion("twice"),
        ],
    )

    assert codes == {
        "old": 0,
        "absent": ErrorCode.RESOURCE_NOT_FOUND,
        "twice": ErrorCode.RESOURCE_NOT_FOUND,
        "good": 0,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "odd": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "bare": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "bland": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "both": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert described(desk) == {"good": (0, [(2, 16384)])}
    assert described(desk, "good", "old", "x", "x") == {
        "good": (0, [(2, 16384)]),
        "old": (ErrorCode.RESOURCE_NOT_FOUND, []),
        "x": (ErrorCode.DUPLICATE_RESOURCE, []),
    }


@pytest.mark.parametrize("snapshot", [False, True])
def test_credentials_survive_a_restart(tmp_path: Path, snapshot: bool) -> None:
    """From the log, and from a snapshot that took its place."""
    policy = SnapshotPolicy(record_bytes=1) if snapshot else None
    driver = CatalogueDriver(tmp_path, snapshots=policy)
    driver.all(lambda answer: driver.catalogue.alter_users([], [upsertion("alice"), upsertion("bob", 2)], answer))
    removal = ScramCredentialDeletion(name="bob", mechanism=2)
    before = driver.catalogue.scram_credential("bob", "SCRAM-SHA-512")
    driver.all(lambda answer: driver.catalogue.alter_users([removal], [], answer))
    expected = ScramCredential.of(ScramMechanism.SCRAM_SHA_256, SALT, SALTED, 4096)
    assert before is not None
    assert len(before.stored_key) == 64

    for catalogue in (driver.catalogue, CatalogueDriver(tmp_path, seed=1).catalogue):
        assert catalogue.scram_credential("alice", "SCRAM-SHA-256") == expected
        assert catalogue.scram_credential("alice", "SCRAM-SHA-512") is None
        assert catalogue.scram_credential("bob", "SCRAM-SHA-512") is None
        assert catalogue.scram_credential("alice", "PLAIN") is None


def test_most_credentials_say_what_those_of_nobody_look_like(tmp_path: Path) -> None:
    """SE21"""
    driver = CatalogueDriver(tmp_path)
    assert driver.catalogue.usual_credential("SCRAM-SHA-256") == ORDINARY
    given = [upsertion("alice", iterations=8192), upsertion("bob", iterations=8192), upsertion("carol", salt=bytes(64))]
    driver.all(lambda answer: driver.catalogue.alter_users([], given, answer))
    assert driver.catalogue.usual_credential("SCRAM-SHA-256") == Shape(20, True, 8192)
    assert driver.catalogue.usual_credential("SCRAM-SHA-512") == ORDINARY


def test_a_credential_does_not_show_itself() -> None:
    made = ScramCredential.of(ScramMechanism.SCRAM_SHA_256, SALT, SALTED, 4096)
    assert repr(made) == "ScramCredential([hidden], iterations=4096)"


def test_who_may_not_ask_for_all_users_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SE52: Kafka never answers this."""
    monkeypatch.setattr(users, "authorize", lambda *_: False)
    answer = Desk(tmp_path).ask(
        users.describe_user_scram_credentials, DescribeUserScramCredentialsRequest(users=None), 0
    )
    assert (answer.error_code, answer.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
