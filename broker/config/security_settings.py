"""The settings of TLS and SASL. Each can stand behind `listener.name.NAME.` too (`broker.config.listener_settings`).

Source: Kafka's BrokerSecurityConfigs, SslConfigs, SaslConfigs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config.setting_types import flag, int32, int64, many, password, text

if TYPE_CHECKING:
    from broker.config.secret import Secret


class SecuritySettings:
    """Declared as those of `Settings`, which has them all."""

    sasl_enabled_mechanisms: tuple[str, ...] = many(
        "GSSAPI",
        "Mechanisms of SASL listeners, each with its line sasl.jaas.config; GSSAPI is not supported.",
        dynamic=True,
    )
    sasl_jaas_config: Secret | None = password(
        "The users of a mechanism, behind listener.name.NAME.MECHANISM.; without that it has no effect."
    )
    sasl_server_max_receive_size: int = int32(
        524_288, "Longest request before a connection has authenticated.", at_least=1
    )
    connections_max_reauth_ms: int = int64(
        0, "How long an authenticated session lasts without authenticating again; 0: for ever.", at_least=0
    )
    connection_failed_authentication_delay_ms: int = int32(
        100, "How long the answer to a failed authentication is held back.", at_least=0
    )
    ssl_client_auth: str = text(
        "none",
        "Whether clients show a certificate; on SASL_SSL only behind listener.name.NAME.",
        allowed=["none", "requested", "required"],
        dynamic=True,
    )
    ssl_enabled_protocols: tuple[str, ...] = many("TLSv1.2,TLSv1.3", "Versions of TLS: TLSv1.2, TLSv1.3.", dynamic=True)
    ssl_protocol: str = text("TLSv1.3", "Accepted; ssl.enabled.protocols says which versions are spoken.")
    ssl_cipher_suites: tuple[str, ...] = many(
        "", "Cipher suites by Java's names; empty: OpenSSL's choice.", dynamic=True
    )
    ssl_keystore_type: str = text("JKS", "PEM or PKCS12; JKS, Kafka's default, is not supported.")
    ssl_keystore_location: str | None = text(None, "The file with the private key and its chain, the leaf first.")
    ssl_keystore_password: Secret | None = password("Of a PKCS12 file.")
    ssl_key_password: Secret | None = password("Of an encrypted private key in PEM.")
    ssl_keystore_key: Secret | None = password("The private key itself, as PEM.")
    ssl_keystore_certificate_chain: Secret | None = password("Its chain, as PEM, the leaf first.")
    ssl_truststore_type: str = text("JKS", "PEM or PKCS12; JKS, Kafka's default, is not supported.")
    ssl_truststore_location: str | None = text(None, "The file with the certificates that clients' are held against.")
    ssl_truststore_password: Secret | None = password("Of a PKCS12 file.")
    ssl_truststore_certificates: Secret | None = password("These certificates themselves, as PEM.")
    ssl_principal_mapping_rules: str = text(
        "DEFAULT", "What the subject of a certificate becomes: DEFAULT or RULE:pattern/replacement/[L|U], with commas."
    )
    ssl_allow_dn_changes: bool = flag(False, "A certificate that is read again may be of another subject.")
    ssl_allow_san_changes: bool = flag(False, "A certificate that is read again may lack alternative names.")

    sasl_oauthbearer_jwks_endpoint_url: str | None = text(
        None, "Where the keys of tokens are: http, https or file; http is for a network that is trusted."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = int64(3_600_000, "How often they are read.", at_least=1)
    sasl_oauthbearer_expected_audience: tuple[str, ...] = many("", "A token must be for one of these; empty: any.")
    sasl_oauthbearer_expected_issuer: str | None = text(None, "A token must be of this issuer.")
    sasl_oauthbearer_allow_unverified_audience: bool = flag(
        False, "Take tokens for anybody; else it must be said whose."
    )
    sasl_oauthbearer_allow_unverified_issuer: bool = flag(
        False, "Take tokens of any issuer; else it must be said which."
    )
    sasl_oauthbearer_clock_skew_seconds: int = int32(30, "By how much clocks may differ.", at_least=0)
    sasl_oauthbearer_sub_claim_name: str = text("sub", "The claim that names the user.")
    sasl_oauthbearer_scope_claim_name: str = text("scope", "Accepted; scopes of signed tokens are not looked at.")
    kohort_allow_open_directory: bool = flag(
        False, "With users who log in, start on a data directory that others may look into."
    )
    kohort_allow_unsecured_oauth: bool = flag(
        False, "OAUTHBEARER without an endpoint takes tokens that nobody signed: for development alone."
    )
