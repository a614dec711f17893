"""Keys and certificates as Kafka's settings give them: PEM in a file or in the setting itself, or PKCS12.

What comes out is PEM: the private key and its chain, the leaf first, and the certificates that are trusted.
Source: KIP-651; Kafka's DefaultSslEngineFactory.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from broker.security.small_files import read_small

if TYPE_CHECKING:
    from broker.config.secret import Secret

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN ([A-Z ]*?PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
_WAYS_OUT = {
    "JKS": "convert it with keytool -importkeystore -deststoretype pkcs12 and set the type to PKCS12",
    ".p12": "set the type to PKCS12",
    ".pfx": "set the type to PKCS12",
    ".pem": "set the type to PEM",
    ".crt": "set the type to PEM",
}


UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What `cryptography` raises for bytes that are no key or certificate; of some only when a part of it is looked at."""


class StoreError(Exception):
    """A store that cannot be used. The message names the setting (without a prefix), and never a secret."""


class Store(NamedTuple):
    """What the settings `KIND.location` and so on say; `inline` are those that hold PEM themselves."""

    kind: str  # ssl.keystore or ssl.truststore
    type: str
    location: str | None
    password: Secret | None


class KeyPair(NamedTuple):
    """A private key, in the clear, and its chain as PEM; the leaf for its dates and names."""

    key: bytes
    chain: bytes
    leaf: x509.Certificate

    def __repr__(self) -> str:
        return "KeyPair([hidden])"


def key_pair(store: Store, key: Secret | None, chain: Secret | None, key_password: Secret | None) -> KeyPair | None:
    """What a listener shows; None when nothing is said. Raises: StoreError."""
    if key is not None or chain is not None:
        _check_inline(store, "ssl.keystore.key" if key is not None else "ssl.keystore.certificate.chain")
        if key is None or chain is None:
            missing = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
            raise StoreError(f"{missing}: it is missing beside the other half")
        return _pem_pair(store.kind, key.reveal().encode(), chain.reveal().encode(), key_password)
    if store.location is None:
        return None
    content = _read(store)
    if store.type == "PEM":
        return _pem_pair(f"{store.kind}.location", content, content, key_password)
    password = None if store.password is None else store.password.reveal().encode()
    try:
        found = load_pkcs12(content, password)
    except UNREADABLE:
        raise StoreError(f"{store.kind}.location={store.location}: it is no PKCS12, or its password is wrong") from None
    if found.key is None or found.cert is None:
        raise StoreError(f"{store.kind}.location={store.location}: it holds no private key with its certificate")
    certificates = [found.cert.certificate, *(one.certificate for one in found.additional_certs)]
    return KeyPair(
        found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates),
        found.cert.certificate,
    )


def trusted(store: Store, certificates: Secret | None) -> bytes | None:
    """The certificates whose bearers and whose issues are trusted, as PEM; None when nothing is said.

    Raises: StoreError.
    """
    if certificates is not None:
        _check_inline(store, "ssl.truststore.certificates")
        return _certificates("ssl.truststore.certificates", certificates.reveal().encode())
    if store.location is None:
        return None
    content = _read(store)
    if store.type == "PEM":
        return _certificates(f"{store.kind}.location={store.location}", content)
    password = None if store.password is None else store.password.reveal().encode()
    try:
        found = load_pkcs12(content, password)
    except UNREADABLE:
        raise StoreError(f"{store.kind}.location={store.location}: it is no PKCS12, or its password is wrong") from None
    held = [one.certificate for one in (found.cert, *found.additional_certs) if one is not None]
    if not held:
        raise StoreError(f"{store.kind}.location={store.location}: it holds no certificate")
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in held)


def _check_inline(store: Store, setting: str) -> None:
    if store.location is not None:
        raise StoreError(f"{store.kind}.location and {setting}: it takes one of them")
    if store.type != "PEM":
        raise StoreError(f"{store.kind}.type={store.type}: with {setting} it takes PEM")
    if store.password is not None:
        raise StoreError(f"{store.kind}.password: PEM has none, a key's is ssl.key.password")


def _read(store: Store) -> bytes:
    assert store.location is not None
    if store.type not in ("PEM", "PKCS12"):
        suffix = Path(store.location).suffix.lower()
        way_out = _WAYS_OUT.get(suffix, _WAYS_OUT["JKS"])
        raise StoreError(f"{store.kind}.type={store.type}: it takes PEM or PKCS12; {way_out}")
    if store.type == "PEM" and store.password is not None:
        raise StoreError(f"{store.kind}.password: PEM has none, a key's is ssl.key.password")
    try:
        return read_small(Path(store.location))
    except OSError as error:
        raise StoreError(f"{store.kind}.location={store.location}: {(error.strerror or str(error)).lower()}") from None


def _pem_pair(said: str, key_text: bytes, chain_text: bytes, key_password: Secret | None) -> KeyPair:
    keys = list(_KEY.finditer(key_text))
    if len(keys) != 1:
        raise StoreError(f"{said}: it takes exactly one private key, and has {len(keys)}")
    chain = _certificates(said, chain_text)
    password = None if key_password is None else key_password.reveal().encode()
    encrypted = keys[0][1].startswith(b"ENCRYPTED") or b"Proc-Type: 4,ENCRYPTED" in keys[0][0]
    if encrypted and password is None:
        raise StoreError("ssl.key.password: it is missing, and the private key is encrypted")
    try:
        key = load_pem_private_key(keys[0][0], password if encrypted else None)
    except UNREADABLE:
        why = ", or ssl.key.password is wrong" if encrypted else ""
        raise StoreError(f"{said}: the private key cannot be read{why}") from None
    leaf = x509.load_pem_x509_certificate(chain)
    clear = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(clear, chain, leaf)


def _certificates(said: str, text: bytes) -> bytes:
    found = _CERTIFICATE.findall(text)
    if not found:
        raise StoreError(f"{said.partition('=')[0]}: it has no certificate in it")
    try:
        for one in found:
            x509.load_pem_x509_certificate(one)
    except UNREADABLE:
        raise StoreError(f"{said.partition('=')[0]}: a certificate in it cannot be read") from None
    return b"\n".join(found) + b"\n"
