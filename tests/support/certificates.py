"""Certificates for tests: an authority, and what it issues."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path


class Issued:
    """A certificate with its key."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.key = key
        self.certificate = certificate

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self, password: bytes | None = None, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
        encryption: KeySerializationEncryption = BestAvailableEncryption(password) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, form, encryption)

    def pem(self, password: bytes | None = None) -> bytes:
        return self.key_pem(password) + self.certificate_pem

    def p12(self, password: bytes, authority: x509.Certificate | None = None) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"kohort", self.key, self.certificate, [authority] if authority else None, BestAvailableEncryption(password)
        )

    def write(self, folder: Path, name: str) -> tuple[str, str]:
        """The certificate and the key as two files, as Python's clients want them; their paths."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate_pem)
        key.write_bytes(self.key_pem())
        return str(certificate), str(key)


class Authority(Issued):
    """Issues certificates."""

    def __init__(self, name: str = "Test Authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(subject, subject, key, 0, 3_650)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        super().__init__(key, certificate)

    def issue(
        self,
        name: str | x509.Name = "localhost",
        *,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        from_day: int = 0,
        days: int = 365,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = name if isinstance(name, x509.Name) else x509.Name.from_rfc4514_string(f"CN={name}")
        builder = _builder(subject, self.certificate.subject, key, from_day, days)
        if hosts:
            names = [x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Issued(key, builder.sign(self.key, hashes.SHA256()))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, from_day: int, days: int
) -> x509.CertificateBuilder:
    begin = datetime.now(UTC) - timedelta(minutes=5) + timedelta(days=from_day)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
    )
