"""A cluster and how it is spoken to: addresses, TLS, SASL. A value that travels to the tasks, certificates inside.

Settings are given as Java's clients have them (`--command-config`, the options `kafka.*` of the source) and kept under
the names of librdkafka, which the other half of the pipeline speaks through. What they name as files is read once, on
the driver: executors need none of them.

Source: Kafka's SslConfigs and SaslConfigs; librdkafka's configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.client_security import translated
from pipeline.errors import UsageError
from storage.directory.meta_properties import parse_properties

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TIMEOUT_MS = 30_000
_FILES = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}


@dataclass(frozen=True, slots=True)
class Access:
    """`HOST:PORT,...`, how long is waited for an answer, and who one is. Settings are shown to nobody."""

    bootstrap: str
    timeout_ms: int = TIMEOUT_MS
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def protocol(self) -> str:
        """`security.protocol` in capitals, one of `PROTOCOLS`; PLAINTEXT where nothing says another."""
        return self.settings.get("security.protocol", "PLAINTEXT").upper()

    @property
    def mechanism(self) -> str:
        """One of `MECHANISMS`, where the protocol is one with SASL."""
        return self.settings.get("sasl.mechanism", "").upper()

    def library(self) -> dict[str, object]:
        """What a client of confluent-kafka is made with."""
        return {"bootstrap.servers": self.bootstrap, **self.settings}


def access(bootstrap: str, given: Mapping[str, str] | None = None, *, timeout_ms: int = TIMEOUT_MS) -> Access:
    """`given` are settings of a Java client; what has nothing to do with security is left out. Raises: UsageError."""
    settings = {key: value for key, value in translated(given or {}).items() if _is_about_security(key)}
    settings = {("sasl.mechanism" if key == "sasl.mechanisms" else key): value for key, value in settings.items()}
    for location, inline in _FILES.items():
        path = settings.pop(location, None)
        if path is not None:
            settings[inline] = _read(location, path)
    found = Access(bootstrap, timeout_ms, settings)
    if found.protocol not in PROTOCOLS:
        raise UsageError(f"security.protocol is {found.protocol}; it may be {', '.join(PROTOCOLS)}")
    if found.protocol.startswith("SASL") and found.mechanism not in MECHANISMS:
        named = found.mechanism or "GSSAPI (Kafka's default, for none is set)"
        raise UsageError(f"sasl.mechanism is {named}; kohort-kafka knows {', '.join(MECHANISMS)}")
    if "ssl.keystore.location" in settings:
        raise UsageError("ssl.keystore.location: the pipeline takes a client's key as PEM, not as PKCS12")
    return found


def read_settings(path: str, option: str = "--command-config") -> dict[str, str]:
    """The settings in a file as Kafka's tools take it, `KEY=VALUE` in each line. Raises: UsageError."""
    try:
        settings = parse_properties(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{option} {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{option} {path}: it is no text") from None
    settings.pop("bootstrap.servers", None)
    return settings


def _is_about_security(key: str) -> bool:
    return key.startswith(("security.", "sasl.", "ssl.", "https."))


def _read(option: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError as error:
        raise UsageError(f"{option} {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{option} {path}: it is no PEM file") from None
