"""What clients say when they leave (KIP-800), and what they do without saying it.

| client | leaving because poll() came too late | the ledger's trigger |
|---|---|---|
| Java 2.8 to 4.3, and Connect and Streams on it | "consumer poll timeout has expired." | `poll_timeout` |
| librdkafka up to 2.16 (confluent-kafka and others) | LeaveGroup v1, which has no reason | `member_left` |
| aiokafka 0.14 | LeaveGroup v0 or v1, when nothing was read for so long | `member_left` |
| kafka-python 3.0 | LeaveGroup v5 without a reason | `member_left` |
| franz-go | has no poll interval; leaves with "client leaving group per normal operation" | `member_left` |
| kafkajs 2.2 | has no poll interval; a handler that blocks its event loop stops the heartbeats | `session_expired` |

Static members do not leave at all: their session expires, or the others wait for them in vain.
"""

from __future__ import annotations

POLL_TIMEOUT_TEXTS = (
    "consumer poll timeout has expired",  # Java's AbstractCoordinator
    "max.poll.interval",  # should a client name the setting, as Java and librdkafka spell it
    "max_poll_interval",  # or as Python spells it
)
"""In lower case."""

ADMIN_TEXTS = ("member was removed by an admin",)
"""Of Java's KafkaAdminClient, which removes dynamic members under their own ids."""


def is_poll_timeout(reason: str | None) -> bool:
    """Whether a client says that its own poll loop was too slow."""
    text = (reason or "").lower()
    return any(known in text for known in POLL_TIMEOUT_TEXTS)


def is_removal(reason: str | None) -> bool:
    """Whether somebody else says that it takes the member out."""
    text = (reason or "").lower()
    return any(known in text for known in ADMIN_TEXTS)
