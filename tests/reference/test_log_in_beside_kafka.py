"""Log-ins, sessions, tokens, certificates and limits, byte by byte: Kohort and Apache Kafka come to the same."""

from __future__ import annotations

import hmac
import json
import re
import time
from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from struct import pack
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from protocol.api_keys import ApiKey
from protocol.frames import decode_response
from tests.broker.security.test_scram import final
from tests.reference.talk import (
    CLOSED,
    authenticate,
    bare,
    handshake,
    metadata,
    raw,
    talk,
    versions,
)

if TYPE_CHECKING:
    from tests.reference.conftest import Sides
    from tests.reference.talk import Step

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]

ALICE, WRONG = b"\0alice\0alice-secret", b"\0alice\0wrong"
SCRAM = "SCRAM-SHA-256"


def scram(user: str, password: str = "alice-secret", header: str = "n,,", more: str = "", c: str = "") -> list[Step]:
    """Both messages of a log-in; `more` behind the nonce."""
    first = f"n={user},r=fyko{more}"
    return [
        handshake(SCRAM),
        authenticate(f"{header}{first}".encode()),
        authenticate(lambda last: final(last, first, password, channel=c or header) if last else b"x"),
        metadata(),
    ]


def _other_nonce(last: bytes) -> bytes:
    return final(last.replace(b"r=fyko", b"r=fyk0"), "n=alice,r=fyko", "alice-secret")


def _own_nonce(last: bytes) -> bytes:
    """As librdkafka before 2.6: the client's own part alone."""
    return final(re.sub(rb"r=fyko[^,]*", b"r=fyko", last), "n=alice,r=fyko", "alice-secret")


TALKS: dict[str, list[Step]] = {
    "SE11 PLAIN": [versions(), handshake(), authenticate(ALICE), metadata()],
    "SE11 PLAIN, version 0": [handshake(), authenticate(ALICE, 0), metadata()],
    "SE11 SCRAM": scram("alice"),
    "SE12 bare, right": [handshake(version=0), bare(ALICE), metadata()],
    "SE12 bare, wrong": [handshake(version=0), bare(WRONG), metadata()],
    "SE12 bare, SCRAM": [
        handshake(SCRAM, 0), bare(b"n,,n=alice,r=fyko"),
        bare(lambda last: final(last, "n=alice,r=fyko", "alice-secret")), metadata(),
    ],
    "SE12 bare, SCRAM, wrong": [
        handshake(SCRAM, 0), bare(b"n,,n=alice,r=fyko"),
        bare(lambda last: final(last, "n=alice,r=fyko", "wrong")), metadata(),
    ],
    "SE14 versions twice": [versions(), versions()],
    "SE14 versions behind a handshake": [handshake(), versions()],
    "SE14 versions too new, then not": [
        raw(pack(">hhih", 18, 9, 4, 1) + b"k\0", lambda frame: frame[8:10].hex()), versions(), handshake(),
        authenticate(ALICE), metadata(),
    ],
    "SE14 versions of a bad name, then a good one": [versions(name="li b"), versions(), handshake()],
    "SE14 no handshake": [authenticate(ALICE)],
    "SE14 Metadata in the midst": [handshake(), metadata()],
    "SE14 a handshake in the midst": [handshake(), handshake()],
    "SE14 done, and again": [handshake(), authenticate(ALICE), handshake(), authenticate(ALICE, 1), metadata()],
    **{
        f"SE15 {token!r}": [handshake(), authenticate(token)]
        for token in (
            b"", b"alice", b"alice\0alice-secret", ALICE + b"\0", b"\0a\0b\0c\0d\0e", b"\0\0alice-secret",
            b"\0alice\0", b"\0alice\0\xff\xfe", b"\0nobody\0alice-secret", b"\0ALICE\0alice-secret",
            b"\0alice\0alice-secret ", b"\0 alice\0alice-secret", b"\0alice\0alice-Secret",
        )
    },
    "SE16 PLAIN for oneself": [handshake(), authenticate(b"alice" + ALICE), metadata()],
    "SE16 PLAIN for another": [handshake(), authenticate(b"bob" + ALICE), metadata()],
    "SE16 SCRAM for oneself": scram("alice", header="n,a=alice,"),
    "SE16 SCRAM for another": scram("alice", header="n,a=bob,"),
    "SE17 an unknown mechanism": [handshake("GSSAPI"), metadata()],
    "SE17 no mechanism": [handshake(""), metadata()],
    "SE17 a mechanism in small letters": [handshake("plain"), metadata()],
    "SE18 escaped": scram("a=2Cb=3Dc"),
    **{f"SE18 {name!r}": scram(name)[:2] for name in ("=", "=2c", "ä", "", "a,b=c")},
    "SE19 y": scram("alice", header="y,,")[:2],
    "SE19 p": scram("alice", header="p=tls-unique,,")[:2],
    "SE19 no nonce": [handshake(SCRAM), authenticate(b"n,,n=alice,r=")],
    "SE19 an extension": scram("alice", more=",e=1"),
    "SE19 m": [handshake(SCRAM), authenticate(b"n,,m=x,n=alice,r=fyko")],
    "SE19 delegation token": scram("alice", more=",tokenauth=true")[:2],
    "SE20 another password": scram("alice", "wrong"),
    "SE20 another's nonce": [handshake(SCRAM), authenticate(b"n,,n=alice,r=fyko"), authenticate(_other_nonce)],
    "SE20 its own nonce alone": [
        handshake(SCRAM), authenticate(b"n,,n=alice,r=fyko"), authenticate(_own_nonce)
    ],
    "SE20 another c": scram("alice", c="y,,"),
    "SE20 no proof": [
        handshake(SCRAM), authenticate(b"n,,n=alice,r=fyko"),
        authenticate(lambda last: final(last, "n=alice,r=fyko", "alice-secret").split(b",p=")[0]),
    ],
    "SE20 first again": [handshake(SCRAM), authenticate(b"n,,n=alice,r=fyko"), authenticate(b"n,,n=alice,r=fyko")],
    "SE20 a token of another mechanism": [handshake(SCRAM), authenticate(ALICE)],
    "SE30 too long": [raw(b"")._replace(said=pack(">i", 524_289))],
    "SE30 negative": [raw(b"")._replace(said=pack(">i", -1))],
    "SE30 nothing": [raw(b"")],
    "SE30 too long behind a handshake": [handshake(), raw(b"")._replace(said=pack(">i", 524_289))],
    "SE31 behind a failure": [
        handshake(), authenticate(WRONG)._replace(said=authenticate(WRONG).said + metadata().said), metadata(),
    ],
}  # fmt: skip


# What Kafka does otherwise, as docs/securing.md and the specification of SCRAM have it: c= is looked at, m= is refused.
OURS = {"SE19 m", "SE20 another c"}


def test_each_log_in_ends_as_with_kafka(both: Sides) -> None:
    """SE11, SE12, SE14, SE15, SE16, SE17, SE18, SE19, SE20, SE30, SE31: right ones, wrong ones and odd ones."""
    for side in both[:2]:
        side.keep("alice", "alice-secret")
        side.keep("a,b=c", "alice-secret")
    different = compared(both, "SASL_PLAINTEXT", TALKS)
    told = [f"{name}: ours {one}, Kafka's {other}" for name, (one, other) in different.items() if name not in OURS]
    assert not told, "\n".join(told)
    assert set(different) == OURS


def compared(both: Sides, listener: str, talks: dict[str, list[Step]]) -> dict[str, tuple[Any, Any]]:
    """What came of those that differ, ours and Kafka's; Kafka takes its time with each, so many go at once."""
    with ThreadPoolExecutor(16) as pool:
        ours, theirs = (list(pool.map(partial(talk, side.addresses[listener]), talks.values())) for side in both[:2])
    found = zip(talks, ours, theirs, strict=True)
    return {name: (one, other) for name, one, other in found if one != other}


# --- sessions


def again(*steps: Step, token: bytes = ALICE, after_s: float = 1.2) -> list[Step]:
    """A log-in, a question, and more of it later."""
    late = steps[0]._replace(after_s=after_s)
    return [handshake(), authenticate(token), metadata(), late, *steps[1:]]


SESSIONS: dict[str, list[Step]] = {
    "in time": again(handshake(), authenticate(ALICE), metadata()),
    "in time, version 0": [handshake(), authenticate(ALICE, 0), metadata(), handshake()._replace(after_s=1.2),
                           authenticate(ALICE, 0), metadata()],
    "at once": again(handshake(), metadata(), after_s=0),
    "late": again(handshake(), authenticate(ALICE), metadata(), after_s=2.5),
    "late, a question first": again(metadata(), after_s=2.5),
    "late, versions first": again(versions(), after_s=2.5),
    "late, a token without a handshake": again(authenticate(ALICE), after_s=2.5),
    "in time, a token without a handshake": again(authenticate(ALICE), metadata()),
    "another user": again(handshake(), authenticate(b"\0bob\0bob-secret")),
    "a wrong password": again(handshake(), authenticate(WRONG)),
    "another mechanism": again(handshake(SCRAM), authenticate(b"n,,n=alice,r=fyko")),
    "an unknown mechanism": again(handshake("GSSAPI"), metadata()),
    "a question in the midst": again(handshake(), metadata()),
    "bare tokens": [handshake(version=0), bare(ALICE), metadata(), metadata()._replace(after_s=2.5)],
    "a bare handshake in time": again(handshake(version=0), bare(ALICE), metadata()),
    "twice": [*again(handshake(), authenticate(ALICE)), handshake()._replace(after_s=1.2), authenticate(ALICE),
              metadata()],
}  # fmt: skip


def test_each_session_ends_as_with_kafka(both: Sides) -> None:
    """SE23: authenticated again in time, too soon, too late, as another, by another mechanism, with other requests."""
    different = compared(both, "AGAIN", SESSIONS)
    # Kafka ends without a word where ours tells what there is.
    ours, theirs = different.pop("an unknown mechanism")
    assert ours == [*theirs[:-1], (33, ["PLAIN", SCRAM]), CLOSED]
    assert not different, "\n".join(f"{name}: ours {one}, Kafka's {other}" for name, (one, other) in different.items())


# --- tokens


def tokens(key: rsa.RSAPrivateKey) -> dict[str, str]:
    """Good ones, and each that should prove nothing."""
    now_s = int(time.time())

    def signed(by: Any = key, kid: str | None = "one", algorithm: str = "RS256", **claims: Any) -> str:
        said = {
            "sub": "alice",
            "iat": now_s - 10,
            "exp": now_s + 900,
            "aud": "kafka",
            "iss": "https://issuer",
            **claims,
        }
        given = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(given, by, algorithm, {} if kid is None else {"kid": kid})

    def forged(header: dict[str, str], secret: bytes | None) -> str:
        said = {"sub": "alice", "iat": now_s, "exp": now_s + 900, "aud": "kafka", "iss": "https://issuer"}
        head = ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, said))
        signature = b"" if secret is None else hmac.digest(secret, head.encode(), "sha256")
        return f"{head}.{urlsafe_b64encode(signature).decode().rstrip('=')}"

    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return {
        "good": signed(),
        "for two": signed(aud=["x", "other"]),
        "within the skew": signed(exp=now_s - 10, iat=now_s - 600),
        "expired": signed(exp=now_s - 60, iat=now_s - 600),
        "its end before its beginning": signed(exp=now_s + 5, iat=now_s + 9),
        "no exp": signed(exp=None),
        "no iat": signed(iat=None),
        "no sub": signed(sub=None),
        "an empty sub": signed(sub=""),
        "a blank sub": signed(sub=" "),
        "of nobody": forged({"alg": "none"}, None),
        "of nobody, with a key's name": forged({"alg": "none", "kid": "one"}, None),
        "an unknown key": signed(kid="nobody"),
        "another's key": signed(rsa.generate_private_key(65_537, 2_048)),
        "the public key for a secret": forged({"alg": "HS256", "kid": "one"}, public),
        "for another": signed(aud="elsewhere"),
        "for nobody": signed(aud=None),
        "another issuer": signed(iss="https://other"),
        "no issuer": signed(iss=None),
        "not yet": signed(nbf=now_s + 600),
        "no token": "a.b.c",
        "cut": signed()[:-4],
    }


def test_each_token_is_taken_or_not_as_by_kafka(both: Sides) -> None:
    """SE25, SE16: what does not prove who it is of, is told in JSON, and 58 follows."""

    def told(token: str, authorization_id: str = "") -> list[Step]:
        name = f"a={authorization_id}" if authorization_id else ""
        first = authenticate(f"n,{name},\1auth=Bearer {token}\1\1".encode())
        # A session of a token that has expired is one of a millisecond: what is asked after it comes too late.
        after = authenticate(b"\1")._replace(told=_outcome, after_s=0.05)
        return [handshake("OAUTHBEARER"), first._replace(told=_outcome), after]

    made = tokens(both.folder.key)
    talks = {name: told(token) for name, token in made.items()}
    talks["for oneself"] = told(made["good"], "alice")
    talks["for another user"] = told(made["good"], "bob")
    different = compared(both, "SASL_PLAINTEXT", talks)
    assert not different, "\n".join(f"{name}: ours {one}, Kafka's {other}" for name, (one, other) in different.items())


def _outcome(frame: bytes) -> Any:
    """But for how long a session may last: that is of this second."""
    answer = decode_response(ApiKey.SASL_AUTHENTICATE, 2, frame)[1]
    return answer.error_code, answer.error_message, bytes(answer.auth_bytes)
