"""`kohort storage format`: the first users of a broker that asks everybody who they are."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from broker.catalogue.users import ScramCredential, ScramMechanism
from offline.formatting import BadUser, user_record
from storage.directory.meta_properties import FILE
from tests.cli.conftest import kohort
from tests.support.catalogue_fixture import CatalogueDriver

if TYPE_CHECKING:
    from pathlib import Path

SALT = b"saltsaltsaltsaltsalt"
SALTED = bytes.fromhex("90b61c2d76e4d5e316a30bec351838810e12f813bb5cd1cd081e9569858c9d74")


def given(**facts: object) -> str:
    return "SCRAM-SHA-256=[" + ",".join(f"{key}={value}" for key, value in facts.items()) + "]"


def test_a_formatted_directory_has_its_users_when_it_is_opened(tmp_path: Path) -> None:
    """And is formatted once."""
    where = ("storage", "format", "--override", f"log.dirs={tmp_path}", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg")
    alice = given(name="alice", password="alice-secret", salt=base64.b64encode(SALT).decode())
    bob = "SCRAM-SHA-512=[name=bob,password=pw,iterations=8192]"
    done = kohort(*where, "--add-scram", alice, "--add-scram", bob)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("as node 1 of cluster MkU3OEVBNTcwNTJENDM2Qg, with 2 SCRAM credentials.\n")
    assert "cluster.id=MkU3OEVBNTcwNTJENDM2Qg" in (tmp_path / FILE).read_text()

    catalogue = CatalogueDriver(tmp_path).catalogue
    expected = ScramCredential.of(ScramMechanism.SCRAM_SHA_256, SALT, SALTED, 4096)
    assert catalogue.scram_credential("alice", "SCRAM-SHA-256") == expected
    credential = catalogue.scram_credential("bob", "SCRAM-SHA-512")
    assert credential is not None
    assert credential.iterations == 8192
    again = kohort(*where, "--add-scram", alice)
    assert (again.code, "is formatted already" in again.err) == (1, True)


def test_a_salted_password_may_be_given() -> None:
    facts = {"name": "alice", "salt": base64.b64encode(SALT).decode()}
    by_password = user_record(given(**facts, password="alice-secret"))
    assert user_record(given(**facts, saltedpassword=base64.b64encode(SALTED).decode())) == by_password


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SCRAM-SHA-1=[name=a,password=marked]", "it takes SCRAM-SHA-256"),
        ("name=a,password=marked", "it takes SCRAM-SHA-256"),
        (given(password="marked"), "it takes name="),
        (given(name="a"), "it takes password="),
        (given(name="a", password="marked", saltedpassword="x"), "it takes password= or"),
        (given(name="a", saltedpassword="eA=="), "takes its salt="),
        (given(name="a", password="marked", salt="?"), "are base64"),
        (given(name="a", password="marked", iterations="1"), "iterations=1"),
        (given(name="a", password="marked", tea="1"), "not tea"),
    ],
)
def test_what_makes_no_user_is_refused_without_its_password(text: str, why: str) -> None:
    with pytest.raises(BadUser, match=why) as refusal:
        user_record(text)
    assert "marked" not in str(refusal.value)
