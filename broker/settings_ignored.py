"""Kafka's broker settings (4.3.1) that have no effect here: taken without a word, since people move files over."""

from __future__ import annotations

_PREFIXES = (
    "add.partitions.to.txn.", "alter.log.dirs.", "broker.", "controller.", "delegation.token.", "follower.",
    "group.consumer.", "group.share.", "group.streams.", "internal.", "kafka.metrics.", "leader.", "listener.name.",
    "log.local.", "metadata.", "metrics.", "num.", "quota.", "remote.", "replica.", "replication.", "sasl.",
    "share.coordinator.", "socket.connection.", "ssl.", "telemetry.", "transaction.state.log.", "unclean.",
    "unstable.",
)  # fmt: skip

_KEYS = frozenset(
    """
    auto.leader.rebalance.enable background.threads client.quota.callback.class config.providers
    connection.failed.authentication.delay.ms connections.max.reauth.ms controlled.shutdown.enable cordoned.log.dirs
    delete.records.purgatory.purge.interval.requests early.start.listeners fetch.purgatory.purge.interval.requests
    group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes group.coordinator.threads
    initial.broker.registration.timeout.ms log.dir.failure.timeout.ms max.connection.creation.rate metric.reporters
    process.roles producer.purgatory.purge.interval.requests queued.max.request.bytes queued.max.requests
    security.inter.broker.protocol security.providers server.max.startup.time.ms
    share.fetch.purgatory.purge.interval.requests transaction.abort.timed.out.transaction.cleanup.interval.ms
    transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.two.phase.commit.enable transactional.id.expiration.ms
    """.split()  # noqa: SIM905  read as a list of words
)

REFUSED = ("alter.config.policy.class.name", "authorizer.class.name", "create.topic.policy.class.name",
           "principal.builder.class")  # fmt: skip
"""Keys that would keep somebody out: a value cannot be taken and passed over, so it is refused."""


def has_no_effect(key: str) -> bool:
    """Whether Kafka knows this key and Kohort has no use for it."""
    return key in _KEYS or key.startswith(_PREFIXES)
