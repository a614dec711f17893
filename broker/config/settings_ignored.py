"""Kafka's broker settings (4.4) that have no effect here: taken without a word, since people move files over."""

from __future__ import annotations

from broker.config.config_def import ConfigKey, ConfigType
from broker.config.throttles import THROTTLES

# Families that are as large as they are without effect, and keys that carry a listener's name.
_PREFIXES = (
    "config.providers.", "group.share.", "group.streams.", "kafka.metrics.", "remote.", "sasl.kerberos.", "sasl.login.",
    "sasl.oauthbearer.assertion.", "sasl.oauthbearer.client.", "sasl.oauthbearer.header.", "share.coordinator.",
)  # fmt: skip

_KEYS = frozenset(
    """
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    auto.leader.rebalance.enable background.threads broker.heartbeat.interval.ms broker.session.timeout.ms
    client.quota.callback.class
    controlled.shutdown.enable controller.performance.always.log.threshold.ms
    controller.performance.sample.period.ms controller.quorum.append.linger.ms controller.quorum.auto.join.enable
    controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters
    controller.socket.timeout.ms
    delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
    delegation.token.secret.key delete.records.purgatory.purge.interval.requests early.start.listeners
    errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix
    fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    group.consumer.assignor.offload.enable group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.coordinator.threads
    initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes kafka.metrics.polling.interval.secs kafka.metrics.reporters
    leader.imbalance.check.interval.seconds log.dir.failure.timeout.ms log.local.retention.bytes
    log.local.retention.ms log.remote.copy.lag.bytes log.remote.copy.lag.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms num.io.threads
    num.network.threads num.replica.alter.log.dirs.threads num.replica.fetchers process.roles
    producer.purgatory.purge.interval.requests queued.max.request.bytes queued.max.requests
    replica.fetch.backoff.ms replica.fetch.max.bytes replica.fetch.min.bytes
    replica.fetch.response.max.bytes replica.fetch.wait.max.ms replica.lag.time.max.ms replica.selector.class
    replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
    replication.quota.window.size.seconds sasl.client.callback.handler.class sasl.mechanism.controller.protocol
    sasl.mechanism.inter.broker.protocol security.inter.broker.protocol
    ssl.endpoint.identification.algorithm ssl.keymanager.algorithm ssl.provider ssl.secure.random.implementation
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.token.endpoint.url
    sasl.oauthbearer.iat.validation.enabled sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.scope
    server.max.startup.time.ms share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms
    unclean.leader.election.enable unclean.leader.election.interval.ms unstable.api.versions.enable
    unstable.feature.versions.enable
    """.split()  # noqa: SIM905  read as a list of words
)

REFUSED = ("alter.config.policy.class.name", "config.providers", "create.topic.policy.class.name",
           "principal.builder.class", "sasl.login.callback.handler.class", "sasl.login.class",
           "sasl.oauthbearer.jwt.validator.class",
           "sasl.server.callback.handler.class", "security.providers", "ssl.engine.factory.class",
           "ssl.trustmanager.algorithm")  # fmt: skip
"""Keys that would keep somebody out: a value cannot be taken and passed over, so it is refused. Without its provider a
password `${file:...}` would be that very text."""

_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_DONE_HERE = {
    "principal.builder.class": ("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",),
    "sasl.oauthbearer.jwt.validator.class": (f"{_OAUTH}DefaultJwtValidator", f"{_OAUTH}BrokerJwtValidator"),
    "ssl.trustmanager.algorithm": ("PKIX",),
}
"""Of these the values that say what is done anyway: Kafka's defaults."""


def is_refused(key: str, value: str) -> bool:
    """Whether a start with it would leave somebody in whom it would keep out."""
    return key in REFUSED and bool(value.strip()) and value.strip() not in _DONE_HERE.get(key, ())


DYNAMIC: dict[str, ConfigKey] = {
    name: ConfigKey(name, kind, None, "Has no effect here.")
    for kind, names in (
        (
            ConfigType.INT,
            "background.threads group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms "
            "group.streams.assignment.interval.ms num.io.threads num.network.threads "
            "num.replica.fetchers remote.fetch.max.wait.ms remote.log.manager.copier.thread.pool.size "
            "remote.log.manager.expiration.thread.pool.size remote.log.manager.follower.thread.pool.size "
            "remote.log.reader.threads share.coordinator.cached.buffer.max.bytes",
        ),
        (
            ConfigType.LONG,
            "log.local.retention.bytes log.local.retention.ms log.remote.copy.lag.bytes log.remote.copy.lag.ms "
            "remote.list.offsets.request.timeout.ms "
            "remote.log.index.file.cache.total.size.bytes remote.log.manager.copy.max.bytes.per.second "
            "remote.log.manager.fetch.max.bytes.per.second",
        ),
        (
            ConfigType.BOOLEAN,
            "errors.deadletterqueue.auto.create.topics.enable follower.fetch.last.tiered.offset.enable "
            "group.consumer.assignor.offload.enable group.share.assignor.offload.enable "
            "group.streams.assignor.offload.enable unclean.leader.election.enable",
        ),
        (ConfigType.STRING, "errors.deadletterqueue.topic.name.prefix"),
        (ConfigType.LIST, "metric.reporters"),
    )
    for name in names.split()
} | THROTTLES
"""Those that Kafka takes at run time too; what they say is kept and told, for a Kafka that comes after."""


def has_no_effect(key: str) -> bool:
    """Whether Kafka knows this key and Kohort has no use for it."""
    return key in _KEYS or key.startswith(_PREFIXES)
