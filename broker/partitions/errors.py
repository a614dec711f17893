"""What a partition answers when it cannot do what was asked: Kafka's codes, with both sides of the disagreement."""

from __future__ import annotations

from protocol.errors import ErrorCode, KafkaError


class PartitionFailed(KafkaError):
    """The partition's log failed (a write or an fsync was refused) and is being loaded anew."""

    code = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, topic: str, partition: int, cause: object) -> None:
        super().__init__(f"{topic}-{partition}: {cause}")


class PartitionGone(KafkaError):
    """The topic was deleted while the request waited."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(f"{topic}-{partition} was deleted")


class PartitionLoading(KafkaError):
    """The partition's log is still being recovered behind the open listener; clients ask again."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(f"{topic}-{partition} is loading")


class RecordsRefused(KafkaError):
    """A produced batch breaks a rule. `record_errors` names the records that do, by index in the batch, and why.

    `code` is the instance's own: the rules have different ones.
    """

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]] | None = None) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # a class attribute of KafkaError, which this class stands for many of
        self.record_errors = record_errors or []
