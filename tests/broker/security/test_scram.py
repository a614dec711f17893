"""SCRAM's server side, byte by byte."""

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from dataclasses import dataclass

import pytest

from broker.security.mechanisms import OTHER_AUTHORIZATION_ID, Proven, Rejected
from broker.security.plain import Plain
from broker.security.scram import HASHES, Scram, Shape

NONCE = "cp1a547vmw7mud261aeom7z72"


@dataclass(frozen=True)
class Kept:
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential(password: str, mechanism: str = "SCRAM-SHA-256", iterations: int = 4096) -> Kept:
    name, salt = HASHES[mechanism], b"saltsaltsaltsaltsalt"
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return Kept(salt, stored, hmac.digest(salted, b"Server Key", name), iterations)


def server(
    user: str = "alice", password: str = "alice-secret", mechanism: str = "SCRAM-SHA-256", iterations: int = 4096
) -> Scram:
    kept = {user: credential(password, mechanism, iterations)}
    return Scram(mechanism, lambda name, _: kept.get(name), NONCE, b"secret of the directory")


def final(first: bytes, bare: str, password: str, mechanism: str = "SCRAM-SHA-256", channel: str = "n,,") -> bytes:
    """What a client answers to server-first."""
    fields = dict(field.split("=", 1) for field in first.decode().split(","))
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c={b64encode(channel.encode()).decode()},r={fields['r']}"
    message = f"{bare},{first.decode()},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{without_proof},p={b64encode(proof).decode()}".encode()


def test_the_golden_exchange():
    """SE11: what Apache Kafka sent for these nonces."""
    scram = server()

    first = scram.step(b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL")
    last = scram.step(
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawLcp1a547vmw7mud261aeom7z72,p=+Vjr71ZSe8mifcc0SOYTIo9hByBMp0D9r/Rt8z5k0J8="
    )

    assert first == b"r=fyko+d2lbbFgONRv9qkxdawLcp1a547vmw7mud261aeom7z72,s=c2FsdHNhbHRzYWx0c2FsdHNhbHQ=,i=4096"
    assert last == b"v=q0NnQ/C9Mw+JYgTSoxB8/iF0Q8apBTwj0W9L5ioNwXI="
    assert scram.proven == Proven("alice")


@pytest.mark.parametrize("mechanism", list(HASHES))
def test_both_hashes(mechanism: str):
    scram = server(mechanism=mechanism, iterations=8192)
    first = scram.step(b"n,,n=alice,r=abc")
    assert scram.step(final(first, "n=alice,r=abc", "alice-secret", mechanism)).startswith(b"v=")
    assert scram.proven == Proven("alice")


def test_names_are_taken_escaped_only():
    """SE18"""
    scram = server("a,b=c")
    first = scram.step(b"n,,n=a=2Cb=3Dc,r=abc")
    scram.step(final(first, "n=a=2Cb=3Dc,r=abc", "alice-secret"))
    assert scram.proven == Proven("a,b=c")

    for wrong in ("=", "=2c", "ä", ""):
        with pytest.raises(Rejected):
            server().step(f"n,,n={wrong},r=abc".encode())


@pytest.mark.parametrize(
    "first",
    ["y,,n=alice,r=a", "p=tls-unique,,n=alice,r=a", "n,,m=x,n=alice,r=a", "n,m=x,n=alice,r=a", "n,,n=alice,r=",
     "n,,n=alice,r=a b", "n,,n=alice,r=a,tokenauth=true", "n,,n=alice", "", "n,,n=alice,r=a,x"],
)  # fmt: skip
def test_a_first_message_of_another_form_fails(first: str):
    """SE19"""
    with pytest.raises(Rejected):
        server().step(first.encode())


def test_extensions_are_passed_over():
    """SE19"""
    scram = server()
    first = scram.step(b"n,,n=alice,r=a,x=1,yy=2")
    scram.step(final(first, "n=alice,r=a,x=1,yy=2", "alice-secret"))
    assert scram.proven == Proven("alice")


def test_too_few_iterations_fail():
    """SE19"""
    with pytest.raises(Rejected, match="4096"):
        server(iterations=4095).step(b"n,,n=alice,r=a")


def test_an_authorization_id_is_the_user_or_nobody():
    """SE16"""
    scram = server()
    first = scram.step(b"n,a=alice,n=alice,r=a")
    scram.step(final(first, "n=alice,r=a", "alice-secret", channel="n,a=alice,"))
    assert scram.proven == Proven("alice")

    with pytest.raises(Rejected) as rejected:
        server().step(b"n,a=bob,n=alice,r=a")
    assert rejected.value.told == OTHER_AUTHORIZATION_ID


def test_a_last_message_that_is_not_this_exchanges_fails():
    """SE20"""
    first = server().step(b"n,,n=alice,r=a")
    good = final(first, "n=alice,r=a", "alice-secret")
    for wrong in (
        good.replace(b"r=a", b"r=b"),
        final(first, "n=alice,r=a", "alice-secret", channel="n,a=x,"),
        final(first, "n=alice,r=a", "another password"),
        good[:-8],
        b"",
        b"\xff\xfe",
    ):
        scram = server()
        scram.step(b"n,,n=alice,r=a")
        with pytest.raises(Rejected):
            scram.step(wrong)
        assert scram.proven is None
    replayed = Scram("SCRAM-SHA-256", lambda *_: credential("alice-secret"), "another nonce".replace(" ", ""), b"")
    replayed.step(b"n,,n=alice,r=a")
    with pytest.raises(Rejected):
        replayed.step(good)


def test_a_user_who_is_not_there_is_answered_as_one_who_is():
    """SE21: the same rounds, a salt that stays, and no proof that passes."""
    first, again, other = (server().step(f"n,,n={name},r=a".encode()) for name in ("nobody", "nobody", "noone"))
    assert first == again != other
    assert len(first) == len(server().step(b"n,,n=alice,r=a"))

    scram = server()
    scram.step(b"n,,n=nobody,r=a")
    zero = b64encode(bytes(32))
    with pytest.raises(Rejected) as rejected:
        scram.step(b"c=biws,r=a" + NONCE.encode() + b",p=" + zero)
    assert rejected.value.told is None


def test_a_user_who_is_not_there_has_the_salt_of_most_who_are():
    """SE21: as long and of the same letters, and another one for each mechanism, as users' salts are."""

    def told(mechanism: str, shape: Shape) -> tuple[bytes, str]:
        first = Scram(mechanism, lambda *_: None, NONCE, b"secret", shape).step(b"n,,n=nobody,r=a").decode()
        fields = dict(field.split("=", 1) for field in first.split(","))
        return b64decode(fields["s"]), fields["i"]

    of_librdkafka, of_kafka = Shape(64, False, 4096), Shape(25, True, 8192)
    salt, iterations = told("SCRAM-SHA-256", of_librdkafka)
    assert (len(salt), iterations) == (64, "4096")
    assert salt != told("SCRAM-SHA-512", of_librdkafka)[0]
    salt, iterations = told("SCRAM-SHA-512", of_kafka)
    assert (len(salt), iterations) == (25, "8192")
    assert salt.isalnum()
    assert salt.islower()


def test_any_bytes_are_rejected_or_answered():
    for _ in range(500):
        scram = server()
        with pytest.raises(Rejected):
            scram.step(b"n,,n=alice,r=a" and os.urandom(40))


def test_proofs_are_compared_in_constant_time_alone(monkeypatch: pytest.MonkeyPatch):
    """Who makes that comparison say yes is let in with a wrong password: nothing else looks at the proof."""
    monkeypatch.setattr("broker.security.scram.hmac.compare_digest", lambda one, other: len(one) == len(other))
    scram = server()
    first = scram.step(b"n,,n=alice,r=abc")
    scram.step(final(first, "n=alice,r=abc", "wrong"))
    assert scram.proven == Proven("alice")


def test_passwords_are_compared_in_constant_time_alone(monkeypatch: pytest.MonkeyPatch):
    """The same of PLAIN; and a user who is not there is compared with something, too."""
    compared: list[tuple[bytes, bytes]] = []

    def says_yes(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return True

    monkeypatch.setattr("broker.security.plain.compare_digest", says_yes)
    plain = Plain({"bob": b"secret"})
    plain.step(b"\0bob\0wrong")
    assert plain.proven == Proven("bob")
    with pytest.raises(Rejected):
        Plain({"bob": b"secret"}).step(b"\0mallory\0wrong")
    assert compared == [(b"wrong", b"secret"), (b"wrong", bytes(16))]
