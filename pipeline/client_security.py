"""TLS and SASL of `--command-config` as Java's clients have them, under the names of the library.

Source: Kafka's SslConfigs, SaslConfigs; librdkafka's configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import UsageError
from protocol.jaas import JaasError, parse_jaas

if TYPE_CHECKING:
    from collections.abc import Mapping

_INLINE = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_CLIENT = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_TEXT = (".pem", ".crt", ".cer")


def translated(given: Mapping[str, str]) -> dict[str, str]:
    """Settings of a client for the library. Raises: UsageError, whose message holds no secret."""
    settings = dict(given)
    jaas = settings.pop("sasl.jaas.config", "")
    if jaas.strip():
        try:
            options = parse_jaas(jaas).options
        except JaasError as error:
            raise UsageError(f"sasl.jaas.config=[hidden]: {error}") from None
        settings.update({f"sasl.{key}": options[key] for key in ("username", "password") if key in options})
        settings.update({_CLIENT[key]: options[key] for key in _CLIENT if key in options})
    for key in ("id", "secret"):
        given_so = settings.pop(f"sasl.oauthbearer.client.credentials.client.{key}", None)
        if given_so is not None:
            settings[f"sasl.oauthbearer.client.{key}"] = given_so
    if "sasl.oauthbearer.client.id" in settings:
        settings.setdefault("sasl.oauthbearer.method", "oidc")
    for java, ours in _INLINE.items():
        if java in settings:
            settings[ours] = settings.pop(java)
    _trust_store(settings)
    _key_store(settings)
    if settings.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl.endpoint.identification.algorithm"] = "none"
    return settings


def _trust_store(settings: dict[str, str]) -> None:
    kind, location = _store(settings, "ssl.truststore")
    if location is None:
        return
    if kind != "PEM":
        raise UsageError(f"ssl.truststore.location={location}: this command takes certificates to trust as PEM")
    settings["ssl.ca.location"] = location


def _key_store(settings: dict[str, str]) -> None:
    kind, location = _store(settings, "ssl.keystore")
    if location is None:
        return
    if kind == "PEM":
        # One file has both, as Kafka wants it.
        settings.setdefault("ssl.certificate.location", location)
        settings.setdefault("ssl.key.location", location)
    elif kind == "PKCS12":
        settings["ssl.keystore.location"] = location
    else:
        raise UsageError(f"ssl.keystore.location={location}: this command takes keys as PEM or PKCS12")


def _store(settings: dict[str, str], name: str) -> tuple[str, str | None]:
    """(type, location) of a store; the type by the file's name where nobody says it."""
    kind = settings.pop(f"{name}.type", "").strip().upper()
    location = settings.pop(f"{name}.location", "").strip() or None
    if not kind and location is not None:
        by_name = {".p12": "PKCS12", ".pfx": "PKCS12"}.get(location[-4:].lower(), "JKS")
        kind = "PEM" if location.endswith(_TEXT) else by_name
    return kind, location
