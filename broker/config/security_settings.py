"""The settings of TLS and SASL. Each can stand behind `listener.name.NAME.` too (`broker.config.listener_settings`).

Source: Kafka's BrokerSecurityConfigs, SslConfigs, SaslConfigs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config.setting_types import int32, int64, many, password

if TYPE_CHECKING:
    from broker.config.secret import Secret


class SecuritySettings:
    """Declared as those of `Settings`, which has them all."""

    sasl_enabled_mechanisms: tuple[str, ...] = many(
        "GSSAPI", "Mechanisms of SASL listeners, each with its line sasl.jaas.config; GSSAPI is not supported."
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
