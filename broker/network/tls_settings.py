"""A listener's side of TLS, from its settings; read again when its files change.

Source: Kafka's SslFactory, DefaultSslEngineFactory, SslPrincipalMapper.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509

from broker.config.setting_types import OtherCertificate, SettingsError
from broker.security.stores import UNREADABLE, KeyPair, Store, StoreError, key_pair, trusted
from broker.security.subjects import MappingError, mapped, parse_rules, subject_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from broker.config.listener_settings import ListenerSettings

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_TLS_1_3_SUITES = frozenset(("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"))


class TlsRefused(Exception):
    """The settings do not make a side of TLS; the message names the setting."""


class TlsMaterial(NamedTuple):
    """What handshakes need, and what is told of it."""

    context: ssl.SSLContext
    subject: str
    names: frozenset[str]  # subject alternative names
    not_before_ms: int
    not_after_ms: int
    stamps: tuple[tuple[str, int], ...]  # of the files it was read from: path, modification time in ns


class TlsSide:
    """One listener's. Raises: SettingsError."""

    def __init__(self, own: ListenerSettings, *, sasl: bool) -> None:
        self.listener = own.name
        self._own = own
        # Without a prefix it does not apply to SASL_SSL, where nobody asked for certificates before.
        client_auth = "none" if sasl and not own.has_own("ssl.client.auth") else own.of("ssl.client.auth")
        self.client_auth: str = client_auth
        try:
            self._rules = parse_rules(own.of("ssl.principal.mapping.rules"))
        except MappingError as error:
            raise SettingsError(f"ssl.principal.mapping.rules={error} (listener {own.name})") from None
        try:
            self.loaded = self._load()
        except TlsRefused as error:
            raise SettingsError(f"{error} (listener {own.name})") from None

    @property
    def context(self) -> ssl.SSLContext:
        """For the next handshake."""
        return self.loaded.context

    def principal(self, certificate: bytes | None) -> str | None:
        """Who bears a certificate, given as DER; None for one whom no rule knows."""
        if certificate is None:
            return "User:ANONYMOUS"
        subject = x509.load_der_x509_certificate(certificate).subject
        name = mapped(self._rules, subject_text(subject.public_bytes()))
        return None if name is None else f"User:{name}"

    def files_changed(self) -> bool:
        """Whether a file that it was read from is another one now."""
        return self.loaded.stamps != self.stamps()

    def reload(self) -> None:
        """Read everything again, for new connections. Raises: TlsRefused, and goes on with what it has."""
        loaded = self._load()
        self._check_successor(loaded, self._own)
        self.loaded = loaded

    def check_next(self, next_side: TlsSide) -> None:
        """Whether another side can take its place. Raises: OtherCertificate."""
        try:
            self._check_successor(next_side.loaded, next_side._own)
        except TlsRefused as error:
            raise OtherCertificate(f"{error} (listener {self.listener})") from None

    def take(self, next_side: TlsSide) -> None:
        """Be as another side is, for new connections."""
        self._own, self.client_auth, self._rules = next_side._own, next_side.client_auth, next_side._rules
        self.loaded = next_side.loaded

    # ---

    def _check_successor(self, loaded: TlsMaterial, own: ListenerSettings) -> None:
        if loaded.subject != self.loaded.subject and not own.of("ssl.allow.dn.changes"):
            raise TlsRefused(
                f"ssl.allow.dn.changes=false: the new certificate is of {loaded.subject}, not of {self.loaded.subject}"
            )
        if not loaded.names >= self.loaded.names and not own.of("ssl.allow.san.changes"):
            raise TlsRefused("ssl.allow.san.changes=false: the new certificate lacks alternative names of the old one")

    def _load(self) -> TlsMaterial:
        own = self._own
        stamps = self.stamps()
        try:
            pair = key_pair(
                self._store("ssl.keystore"),
                own.of("ssl.keystore.key"),
                own.of("ssl.keystore.certificate.chain"),
                own.of("ssl.key.password"),
            )
            trust = trusted(self._store("ssl.truststore"), own.of("ssl.truststore.certificates"))
        except StoreError as error:
            raise TlsRefused(str(error)) from None
        if pair is None:
            raise TlsRefused("ssl.keystore.location: it is missing, and TLS needs a key and a certificate")
        if trust is None and self.client_auth != "none":
            raise TlsRefused(
                f"ssl.truststore.location: it is missing, and ssl.client.auth={self.client_auth} needs one to trust"
            )
        leaf = pair.leaf
        try:
            subject, names = subject_text(leaf.subject.public_bytes()), _alternative_names(leaf)
        except UNREADABLE:
            raise TlsRefused("ssl.keystore: the subject of its certificate, or a name in it, cannot be read") from None
        return TlsMaterial(
            self._context(pair, trust),
            subject,
            names,
            int(leaf.not_valid_before_utc.timestamp() * 1_000),
            int(leaf.not_valid_after_utc.timestamp() * 1_000),
            stamps,
        )

    def _store(self, kind: str) -> Store:
        own = self._own
        return Store(kind, own.of(f"{kind}.type").upper(), own.of(f"{kind}.location"), own.of(f"{kind}.password"))

    def stamps(self) -> tuple[tuple[str, int], ...]:
        """What its files are now: (path, modification time in ns), 0 for one that is gone."""
        stamps = []
        for kind in ("ssl.keystore", "ssl.truststore"):
            location = self._own.of(f"{kind}.location")
            if location is not None:
                try:
                    stamps.append((location, Path(location).stat().st_mtime_ns))
                except (OSError, ValueError):
                    stamps.append((location, 0))
        return tuple(stamps)

    def _context(self, pair: KeyPair, trust: bytes | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        versions = self._own.of("ssl.enabled.protocols")
        if not versions or not set(versions) <= set(_VERSIONS):
            raise TlsRefused(f"ssl.enabled.protocols={','.join(versions)}: it takes {' and '.join(_VERSIONS)}")
        versions = self._set_ciphers(context, versions)
        context.minimum_version = _VERSIONS[min(versions)]
        context.maximum_version = _VERSIONS[max(versions)]
        # Whoever resumes a session keeps the certificate that was good when it began.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.verify_mode = _CLIENT_AUTH[self.client_auth]
        try:
            _load_chain(context, pair)
            if trust is not None:
                context.load_verify_locations(cadata=trust.decode("ascii"))
        except ssl.SSLError as error:
            why = "the private key is not the certificate's" if "MISMATCH" in str(error) else str(error.reason).lower()
            raise TlsRefused(f"ssl.keystore: {why}") from None
        return context

    def _set_ciphers(self, context: ssl.SSLContext, versions: Collection[str]) -> Collection[str]:
        """Allow what `ssl.cipher.suites` lists; those of the versions that have one."""
        suites = set(self._own.of("ssl.cipher.suites"))
        if not suites:
            return versions
        of_1_3 = suites & _TLS_1_3_SUITES
        if of_1_3 and of_1_3 != _TLS_1_3_SUITES and "TLSv1.3" in versions:
            missing = ", ".join(sorted(_TLS_1_3_SUITES - of_1_3))
            raise TlsRefused(f"ssl.cipher.suites: of TLS 1.3 it takes all suites or none, and lacks {missing}")
        older = sorted(suites - _TLS_1_3_SUITES)
        if older:
            try:
                context.set_ciphers(":".join(_openssl_name(suite) for suite in older))
            except ssl.SSLError:
                raise TlsRefused(f"ssl.cipher.suites={','.join(older)}: OpenSSL has none of them") from None
        having = [version for version in versions if (of_1_3 if version == "TLSv1.3" else older)]
        if not having:
            raise TlsRefused("ssl.cipher.suites: none of them is of a version in ssl.enabled.protocols")
        return having


def _openssl_name(suite: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256`."""
    exchange, with_, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not with_ or exchange not in ("ECDHE_RSA", "ECDHE_ECDSA", "DHE_RSA"):
        raise TlsRefused(f"ssl.cipher.suites: {suite} is not known here")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "").replace("_", "-")
    name = f"{exchange}-{cipher}".replace("_", "-").replace("CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(name)
    except ssl.SSLError:
        raise TlsRefused(f"ssl.cipher.suites: {suite} is not known here") from None
    return name


def _load_chain(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Through memory: the key never lies in a file of ours."""
    descriptor = os.memfd_create("kohort-tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, pair.key + pair.chain)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _alternative_names(leaf: x509.Certificate) -> frozenset[str]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(name) for name in found)
