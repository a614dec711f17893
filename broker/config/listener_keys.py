"""How settings of single listeners are named, and which of them may change while the broker runs.

`listener.name.NAME.KEY`, of a SASL mechanism `listener.name.NAME.MECHANISM.KEY`, names in lower case.

Kafka keeps all of them when they are changed, and of a listener that is there it follows stores and limits alone. Here
all of them hold at once.

Source: Kafka's ListenerName, SslConfigs (RECONFIGURABLE_CONFIGS), DynamicBrokerConfig (PER_BROKER_CONFIGS,
LISTENER_MECHANISM_CONFIGS).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.config.security_settings import SecuritySettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.config.config_def import ConfigKey

LISTENER_PREFIX = "listener.name."
"""Before a listener's name in lower case and a key: a setting of this listener alone."""
CALLBACK_HANDLER = "sasl.server.callback.handler.class"
OF_MECHANISMS = frozenset({"connections.max.reauth.ms", "sasl.jaas.config", CALLBACK_HANDLER})
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

STORES = frozenset(
    {f"ssl.{kind}.{what}" for kind in ("keystore", "truststore") for what in ("type", "location", "password")}
    | {"ssl.key.password", "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"}
)
"""They change with a prefix alone."""
LIMITS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""With a prefix they may be set for the whole cluster too; all others are one broker's."""
FOR_ALL = frozenset({"sasl.enabled.mechanisms", "ssl.cipher.suites", "ssl.client.auth", "ssl.enabled.protocols"})
"""They change without a prefix too, for one broker, and then hold for each listener that has none of its own."""


def is_of_listener(name: str) -> bool:
    """Whether it is a setting of a single listener."""
    return name.startswith(LISTENER_PREFIX)


def listener_of(name: str) -> str:
    """Whose such a setting is, in lower case."""
    return name.removeprefix(LISTENER_PREFIX).partition(".")[0]


def base_of(name: str) -> str:
    """The key without the names of listener and mechanism."""
    return without_mechanism(name.removeprefix(LISTENER_PREFIX).partition(".")[2])


def without_mechanism(key: str) -> str:
    """`sasl.jaas.config` of `plain.sasl.jaas.config`; other keys as they are."""
    mechanism, _, rest = key.partition(".")
    return rest if mechanism.upper() in MECHANISMS and rest in OF_MECHANISMS else key


def changes(base: str) -> bool:
    """Whether this key of a listener is looked at again while the broker runs."""
    return base in LIMITS or (base.replace(".", "_") in SecuritySettings.__annotations__ and base[:7] != "kohort.")


def definition_of(name: str, keys: Mapping[str, ConfigKey]) -> ConfigKey | None:
    """What such a setting takes; None for one that nobody knows. Kafka calls them read-only."""
    known = keys.get(base_of(name)) if name == name.lower() else None
    return None if known is None else replace(known, name=name, read_only=True)


def overrides(cluster: Mapping[str, str], broker: Mapping[str, str]) -> dict[str, str]:
    """What was set for listeners while a broker ran: of the cluster's the limits alone count, as in Kafka."""
    found = {name: value for name, value in cluster.items() if is_of_listener(name) and base_of(name) in LIMITS}
    found.update({name: value for name, value in broker.items() if is_of_listener(name)})
    return {name: value for name, value in found.items() if name == name.lower()}
