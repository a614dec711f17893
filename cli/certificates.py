"""`kohort certificates`: an authority of one's own, and certificates for the broker and its clients.

For development, and for who has no other authority: its key lies beside the others.
"""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cli.errors import DONE, Failed, UsageError
from cli.options import Parser, positive

_AUTHORITY_DAYS = 3_650
_NOT_BEFORE = timedelta(minutes=10)  # clocks differ


class _Authority(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def main(words: list[str]) -> int:
    """Make what is missing, and print the settings that use it."""
    options = parser().parse_args(words)
    folder, hosts = Path(options.directory), options.host or ["localhost", "127.0.0.1", "::1"]
    if any("/" in name or name in ("", ".", "..", "broker", "authority") for name in options.client):
        raise UsageError("--client: it takes a name that can be that of a file, other than broker and authority")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = _authority(folder)
        _issue(authority, folder / "broker.pem", hosts[0], options.days, hosts=hosts)
        for name in options.client:
            _issue(authority, folder / f"{name}.pem", name, options.days, hosts=())
            _write(folder / f"{name}.properties", _client_settings(folder, name).encode())
    except OSError as error:
        raise Failed(f"{error.filename}: {(error.strerror or str(error)).lower()}") from None
    print(_broker_settings(folder, hosts[0], required=bool(options.client)), end="")
    return DONE


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    whole = Parser(
        prog="kohort certificates",
        description="Make an authority, if DIRECTORY has none, and a certificate for the broker; print the "
        "broker's settings that use it. For development: the authority's key is not locked.",
    )
    whole.add_argument("directory", metavar="DIRECTORY", help="where they lie")
    whole.add_argument(
        "--host",
        metavar="NAME",
        action="append",
        default=None,
        help="a name or an address under which clients reach the broker; may be repeated (default localhost, 127.0.0.1 "
        "and ::1)",
    )
    whole.add_argument(
        "--client",
        metavar="NAME",
        action="append",
        default=[],
        help="a certificate for a client, and NAME.properties for --command-config; may be repeated",
    )
    whole.add_argument("--days", metavar="N", type=positive, default=365, help="how long they are good (default 365)")
    return whole


def _authority(folder: Path) -> _Authority:
    """The one that is there, or a new one."""
    certificate_file, key_file = folder / "authority.crt", folder / "authority.key"
    if certificate_file.exists() and key_file.exists():
        try:
            key = load_pem_private_key(key_file.read_bytes(), None)
            certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        except (ValueError, TypeError):
            raise Failed(f"{folder}: the authority in it cannot be read") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise Failed(f"{key_file}: it is no key of this command's")
        return _Authority(certificate, key)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Kohort development authority")])
    certificate = (
        _builder(name, name, key, _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=False,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(key_file, _key_pem(key))
    _write(certificate_file, certificate.public_bytes(Encoding.PEM))
    return _Authority(certificate, key)


def _issue(authority: _Authority, file: Path, name: str, days: int, *, hosts: tuple[str, ...] | list[str]) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        _builder(subject, authority.certificate.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    chain = certificate.public_bytes(Encoding.PEM) + authority.certificate.public_bytes(Encoding.PEM)
    _write(file, _key_pem(key) + chain)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    begin = datetime.now(UTC) - _NOT_BEFORE
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(file: Path, content: bytes) -> None:
    """For its owner's eyes, and whole: a broker may read it at any time."""
    beside = file.with_name(file.name + ".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as written:
        written.write(content)
    beside.replace(file)


def _broker_settings(folder: Path, host: str, *, required: bool) -> str:
    return f"""\
listeners=SSL://0.0.0.0:9093
advertised.listeners=SSL://{host}:9093
ssl.keystore.type=PEM
ssl.keystore.location={folder.resolve()}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder.resolve()}/authority.crt
ssl.client.auth={"required" if required else "none"}
"""


def _client_settings(folder: Path, name: str) -> str:
    return f"""\
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={folder.resolve()}/authority.crt
ssl.keystore.type=PEM
ssl.keystore.location={folder.resolve()}/{name}.pem
"""
