"""What a live broker knows besides the records: topics, log ends, groups; and offsets to be put back.

Asked with confluent-kafka, as the other verbs of the command line are. Nothing is ever created by asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.errors import DataError, EnvironmentMissing
from pipeline.sources.fetch_client import (
    EARLIEST,
    LATEST,
    TopicNames,
    await_coordinator,
    cluster_id,
    connect,
    leaders,
    list_offsets,
    topic_names,
)
from protocol.types import uuid_of_halves, uuid_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipeline.sources.access import Access

TIMEOUT_S = 30.0
LITTLE_OFFSETS = 500_000
"""So many records of groups have about 64 MiB, which is what a small directory has at most."""


def admin(access: Access) -> Any:
    """An AdminClient. Raises: EnvironmentMissing."""
    try:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise EnvironmentMissing("a live broker needs confluent-kafka: pip install confluent-kafka") from error
    # Errors come back from the calls; what librdkafka logs besides would only say them again.
    family = "any" if "[" in access.bootstrap else "v4"
    settings: dict[str, Any] = {**access.library(), "log_level": 0, "broker.address.family": family}
    return AdminClient(settings)


def topics(access: Access, also: Iterable[str] = ()) -> TopicNames:
    """All topics, and those of `also` that exist though a list of all leaves them out, or that may not be seen.

    Not asked of librdkafka: where it asks for a topic by its name, it lets the broker create it.
    """
    with connect(access) as connection:
        return topic_names(connection, also)


def is_little(access: Access, names: Iterable[str]) -> bool:
    """Whether the logs of these topics, as far as they are there and may be seen, have at most `LITTLE_OFFSETS`.

    Raises: DataError where no broker answers. Of whatever else is wrong those will tell who read.
    """
    with connect(access) as connection:
        try:
            found = leaders(connection, topic_names(connection, names).seen & set(names))
            starts, ends = (list_offsets(found, at, access, read_committed=False) for at in (EARLIEST, LATEST))
        except DataError:
            return False
    return sum(ends.values()) - sum(starts.values()) <= LITTLE_OFFSETS


def cluster_ids(access: Access) -> frozenset[str]:
    """The cluster's id, if it has one."""
    with connect(access) as connection:
        return frozenset([cluster_id(connection)]) - {""}


def topic_ids(access: Access) -> list[tuple[str, str]]:
    """(topic id, topic) of all topics; ids as in the tables, base64url without padding."""
    from confluent_kafka import TopicCollection  # noqa: PLC0415

    client = admin(access)
    names = [name for name in _metadata(client, access.bootstrap).topics if name]
    if not names:
        return []
    rows = []
    for name, future in client.describe_topics(TopicCollection(names), request_timeout=TIMEOUT_S).items():
        uuid = _result(future, f"{access.bootstrap}: topic {name!r}").topic_id
        id_ = uuid_of_halves(uuid.get_most_significant_bits(), uuid.get_least_significant_bits())
        rows.append((uuid_text(id_), name))
    return rows


def bounds(access: Access, names: Iterable[str]) -> list[tuple[str, int, int, int]]:
    """(topic, partition, log start offset, log end offset) of each partition of these topics that exist."""
    from confluent_kafka import TopicPartition  # noqa: PLC0415
    from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

    client = admin(access)
    found = _metadata(client, access.bootstrap).topics
    wanted = [TopicPartition(name, number) for name in names if name in found for number in found[name].partitions]
    if not wanted:
        return []
    ends: list[dict[tuple[str, int], int]] = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
        futures = client.list_offsets(dict.fromkeys(wanted, spec), request_timeout=TIMEOUT_S)
        by_tp = {(tp.topic, tp.partition): one for tp, one in futures.items()}
        ends.append({key: _result(one, f"{access.bootstrap}: {key[0]}-{key[1]}").offset for key, one in by_tp.items()})
    return [(*tp, start, ends[1][tp]) for tp, start in sorted(ends[0].items())]


def members_of(access: Access, groups: Iterable[str]) -> dict[str, list[str]]:
    """The members of each group as `client-id (host)`; none of a group that does not exist."""
    client = admin(access)
    found = {}
    for name, future in client.describe_consumer_groups(list(groups), request_timeout=TIMEOUT_S).items():
        try:
            members = future.result(TIMEOUT_S).members
        except Exception as error:
            if "GROUP_ID_NOT_FOUND" not in str(error) and "not found" not in str(error).lower():
                raise DataError(f"{access.bootstrap}: group {name!r} cannot be described: {_words(error)}") from error
            members = []
        found[name] = [f"{member.client_id} ({member.host})" for member in members]
    return found


def commit(access: Access, group: str, offsets: Mapping[tuple[str, int], tuple[int, str]]) -> None:
    """Set the offsets of a group without members: (topic, partition) -> (offset, metadata). Raises: DataError."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition  # noqa: PLC0415

    wanted = [
        TopicPartition(*place, offset, metadata) if metadata else TopicPartition(*place, offset)
        for place, (offset, metadata) in offsets.items()
    ]
    with connect(access) as connection:
        await_coordinator(connection, group)
    # The client must be kept until the answer: without one that holds it, it is gone, and so is the future.
    client = admin(access)
    command = [ConsumerGroupTopicPartitions(group, wanted)]
    [future] = client.alter_consumer_group_offsets(command, request_timeout=TIMEOUT_S).values()
    try:
        done = future.result(TIMEOUT_S).topic_partitions
    except Exception as error:
        raise DataError(f"{access.bootstrap}: the offsets of group {group!r} were refused: {_words(error)}") from error
    refused = [f"{one.topic}-{one.partition}: {one.error}" for one in done if one.error]
    if refused:
        raise DataError(f"{access.bootstrap}: offsets of group {group!r} were refused: {'; '.join(refused)}")


def _metadata(client: Any, bootstrap: str) -> Any:
    """Of all topics; asked for one by its name, librdkafka would let the broker create it."""
    try:
        return client.list_topics(timeout=TIMEOUT_S)
    except Exception as error:
        raise DataError(f"{bootstrap} does not answer: {_words(error)}") from error


def _result(future: Any, place: str) -> Any:
    try:
        return future.result(TIMEOUT_S)
    except Exception as error:
        raise DataError(f"{place}: {_words(error)}") from error


def _words(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    return str(inner.str()) if hasattr(inner, "str") else str(error) or f"no answer ({type(error).__name__})"
