"""SASL SCRAM-SHA-256 and SCRAM-SHA-512, the server's side.

A user who is not there is answered as one who is, with a salt that is always the same for this name, and fails where a
wrong password fails: names cannot be probed.

Source: RFC 5802, RFC 7677; Kafka's ScramSaslServer, ScramMessages.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.security.mechanisms import OTHER_AUTHORIZATION_ID, Proven, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS = 4_096
_TEXT = b"0123456789abcdefghijklmnopqrstuvwxyz"
_LETTERS = frozenset(_TEXT)

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"((?:,[A-Za-z]+=[^,]*)*)"
_CLIENT_FIRST = re.compile(rf"(n,(?:a=({_NAME}))?,)(n=({_NAME}),r=({_PRINTABLE}){_EXTENSIONS})", re.DOTALL)
_CLIENT_FINAL = re.compile(rf"(c=([A-Za-z0-9+/=]*),r=({_PRINTABLE}){_EXTENSIONS}),p=([A-Za-z0-9+/=]+)", re.DOTALL)


class Credential(Protocol):
    """What is kept of a user's password (KIP-554)."""

    @property
    def salt(self) -> bytes:
        """What the password was salted with."""

    @property
    def stored_key(self) -> bytes:
        """H(HMAC(salted password, "Client Key"))."""

    @property
    def server_key(self) -> bytes:
        """HMAC(salted password, "Server Key")."""

    @property
    def iterations(self) -> int:
        """Of PBKDF2."""


class Shape(NamedTuple):
    """What a credential shows to whoever begins to log in: Kafka's salts are digits and small letters, others bytes."""

    salt_bytes: int = 20
    salt_is_text: bool = False
    iterations: int = LEAST_ITERATIONS

    @classmethod
    def of(cls, credential: Credential) -> Shape:
        """That of one."""
        return cls(len(credential.salt), set(credential.salt) <= _LETTERS, credential.iterations)


ORDINARY = Shape()


class _Decoy:
    """What stands for a user who is not there. Each mechanism has its own salt, as those of users are."""

    def __init__(self, secret: bytes, user: str, mechanism: str, shape: Shape) -> None:
        key = hmac.digest(secret, f"{mechanism} {user}".encode(), "sha256")
        salt = hashlib.shake_256(key).digest(shape.salt_bytes)
        self.salt = bytes(_TEXT[byte % len(_TEXT)] for byte in salt) if shape.salt_is_text else salt
        self.iterations = shape.iterations
        self.stored_key = self.server_key = bytes(hashlib.new(HASHES[mechanism]).digest_size)


class Scram:
    """One exchange, of two tokens.

    `find` gives a user's credential, `nonce` is ours: printable and fresh. `decoy_secret` is what salts of users who
    are not there are made of, and `shape` what most credentials look like.
    """

    __slots__ = ("_bare", "_credential", "_decoy_secret", "_find", "_first", "_hash", "_header", "_known", "_mechanism",
                 "_nonce", "_shape", "_user", "proven")  # fmt: skip

    def __init__(
        self,
        mechanism: str,
        find: Callable[[str, str], Credential | None],
        nonce: str,
        decoy_secret: bytes,
        shape: Shape = ORDINARY,
    ) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._find = find
        self._nonce = nonce
        self._decoy_secret = decoy_secret
        self._shape = shape
        self._credential: Credential | None = None
        self._known = False
        self._user = self._header = self._bare = self._first = ""
        self.proven: Proven | None = None

    def step(self, token: bytes) -> bytes:
        """The server's first message, then its last. Raises: Rejected."""
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise Rejected("the message is no text") from None
        return self._began(text) if self._credential is None else self._ended(text, self._credential)

    def _began(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise Rejected("the first message has another form")
        self._header, authorization_id, self._bare, name, client_nonce, extensions = match.groups()
        self._user = user = _unescaped(name)
        if authorization_id and _unescaped(authorization_id) != user:
            raise Rejected(OTHER_AUTHORIZATION_ID, told=OTHER_AUTHORIZATION_ID, user=user)
        if ",tokenauth=true" in extensions:
            raise Rejected("delegation tokens are not supported", user=user)
        credential = self._find(user, self._mechanism)
        if credential is not None and credential.iterations < LEAST_ITERATIONS:
            raise Rejected(f"the credential has fewer than {LEAST_ITERATIONS} iterations", user=user)
        self._known = credential is not None
        self._credential = credential = credential or _Decoy(self._decoy_secret, user, self._mechanism, self._shape)
        self._nonce = client_nonce + self._nonce
        self._first = f"r={self._nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        return self._first.encode()

    def _ended(self, text: str, credential: Credential) -> bytes:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise Rejected("the last message has another form", user=self._user)
        without_proof, channel, nonce, _, proof_text = match.groups()
        if not hmac.compare_digest(nonce.encode(), self._nonce.encode()):
            raise Rejected("the nonce is not the one of this exchange", user=self._user)
        try:
            proof, header = b64decode(proof_text, validate=True), b64decode(channel, validate=True)
        except Base64Error:
            raise Rejected("the last message has another form", user=self._user) from None
        message = f"{self._bare},{self._first},{without_proof}".encode()
        signature = hmac.digest(credential.stored_key, message, self._hash)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        right = hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key)
        if not right or not self._known:
            raise Rejected("the proof is wrong" if self._known else "there is no such user", user=self._user)
        if header != self._header.encode():
            raise Rejected("the last message repeats another header", user=self._user)
        self.proven = Proven(self._user)
        return b"v=" + b64encode(hmac.digest(credential.server_key, message, self._hash))


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
