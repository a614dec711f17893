"""Incremental fetch sessions: a consumer names its partitions once, and then only what changed.

A session remembers what its client asked for and what it was told last. Later requests name changes; the answers hold
only partitions with data, an error, or offsets that moved. When the cache is full a session that has not been used for
`EVICT_AFTER_MS` makes room for a new one; if there is none, the new client gets session id 0 and stays with full
fetches, which every client understands.

Source: KIP-227; Kafka's FetchSession, FetchManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.loop.uuids import random_positive_int32
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchableTopicResponse, FetchTopic

if TYPE_CHECKING:
    from protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

EVICT_AFTER_MS = 120_000
DEFAULT_SLOTS = 1_000
_INT32_MAX = 2**31 - 1

_TopicKey = tuple[str, bytes]
_Told = tuple[int, int, int, int]


class SessionError(KafkaError):
    """The request does not fit the session that it names; `code` says how. The client starts anew."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # the class attribute of KafkaError, one of three here


class FetchPlan:
    """What one request reads, and which part of that is told. This one is for requests outside of sessions: all."""

    __slots__ = ("session_id", "topics")

    def __init__(self, topics: list[FetchTopic], session_id: int = 0) -> None:
        self.topics = topics
        self.session_id = session_id

    def trim(self, responses: list[FetchableTopicResponse]) -> list[FetchableTopicResponse]:
        """What of `responses` goes into the answer; called once, with what is sent."""
        return responses

    def outline(self, responses: list[FetchableTopicResponse]) -> list[FetchableTopicResponse]:
        """About what `trim` would leave of them, which tells nobody anything."""
        return responses

    @property
    def is_new(self) -> bool:
        """Whether it makes the session that it names."""
        return False


FULL = FetchPlan([])


class Session:
    """One client's session. `partitions` keeps the order in which partitions are read."""

    __slots__ = ("by_id", "epoch", "last_used_ms", "principal", "session_id", "told", "topics")

    def __init__(self, session_id: int, by_id: bool, principal: str, now_ms: int) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.principal = principal
        self.last_used_ms = now_ms
        self.epoch = 1  # of the next request
        self.topics: dict[_TopicKey, dict[int, FetchPartition]] = {}
        self.told: dict[tuple[str, bytes, int], _Told] = {}

    def update(self, request: FetchRequest) -> None:
        """Take over what the request adds, changes and forgets."""
        for topic in request.topics:
            wanted = self.topics.setdefault((topic.topic, topic.topic_id), {})
            for partition in topic.partitions:
                wanted[partition.partition] = partition
        for forgotten in request.forgotten_topics_data:
            key = forgotten.topic, forgotten.topic_id
            known = self.topics.get(key)
            if known is None:
                continue
            for index in forgotten.partitions:
                known.pop(index, None)
                self.told.pop((*key, index), None)
            if not known:
                del self.topics[key]

    def wanted(self) -> list[FetchTopic]:
        """All partitions of the session, in the order in which they are read."""
        return [
            FetchTopic(topic=name, topic_id=topic_id, partitions=list(partitions.values()))
            for (name, topic_id), partitions in self.topics.items()
        ]


class _SessionPlan(FetchPlan):
    __slots__ = ("_full", "_session")

    def __init__(self, session: Session, *, full: bool) -> None:
        super().__init__(session.wanted(), session.session_id)
        self._session = session
        self._full = full

    def trim(self, responses: list[FetchableTopicResponse]) -> list[FetchableTopicResponse]:
        told = self._session.told
        kept_topics = []
        served = None
        for topic in responses:
            name, topic_id = topic.topic, topic.topic_id
            kept = []
            for data in topic.partitions:
                key = name, topic_id, data.partition_index
                now = _facts(data)
                if self._full or data.records or now != told.get(key):
                    kept.append(data)
                # An error is told again as long as it lasts.
                if data.error_code:
                    told.pop(key, None)
                else:
                    told[key] = now
                if data.records:
                    served = name, topic_id
            if kept:
                kept_topics.append(FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=kept))
        if served is not None:
            self._to_the_end(served)
        return kept_topics

    def outline(self, responses: list[FetchableTopicResponse]) -> list[FetchableTopicResponse]:
        if self._full:
            return responses
        kept = []
        for topic in responses:
            data = [one for one in topic.partitions if one.records or one.error_code]
            if data:
                kept.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=data))
        return kept

    @property
    def is_new(self) -> bool:
        return self._full

    def _to_the_end(self, key: _TopicKey) -> None:
        # Kafka lets partitions that were served wait for the others, so that small limits starve nobody.
        partitions = self._session.topics.pop(key, None)
        if partitions is not None:
            self._session.topics[key] = partitions


def _facts(data: PartitionData) -> _Told:
    return data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset


class FetchSessions:
    """The sessions of this broker, at most `slots`."""

    __slots__ = ("_sessions", "slots")

    def __init__(self, slots: int = DEFAULT_SLOTS) -> None:
        self.slots = slots
        self._sessions: dict[int, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: FetchRequest, principal: str, *, by_id: bool, now_ms: int) -> FetchPlan:
        """What the request of `principal` reads, by its session; makes, goes on with or ends that session.

        `by_id`: the request names topics by id, as from version 13 on. Raises: SessionError.
        """
        epoch = request.session_epoch
        if epoch in (-1, 0):
            ended = self._sessions.get(request.session_id)
            if ended is not None and ended.principal == principal:
                del self._sessions[request.session_id]
            if epoch == -1 or not request.topics:
                return FetchPlan(request.topics)
            return self._new(request, principal, by_id, now_ms)
        session = self._sessions.get(request.session_id)
        if session is None or session.principal != principal:
            raise SessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {request.session_id}")
        if epoch != session.epoch:
            raise SessionError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {request.session_id} is at epoch {session.epoch}, request says {epoch}",
            )
        if session.by_id != by_id:
            raise SessionError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                f"fetch session {request.session_id} names topics by {'id' if session.by_id else 'name'}",
            )
        session.update(request)
        session.last_used_ms = now_ms
        # Least recently used first, for eviction.
        del self._sessions[session.session_id]
        if not session.topics:
            return FetchPlan([])  # nothing is left of it: the session ends
        self._sessions[session.session_id] = session
        session.epoch = 1 if epoch == _INT32_MAX else epoch + 1
        return _SessionPlan(session, full=False)

    def put_off(self, plan: FetchPlan) -> int:
        """Nothing of this plan will be told: the id of the session that goes on, 0 if it would have begun with it."""
        if plan.is_new:
            self._sessions.pop(plan.session_id, None)
            return 0
        return plan.session_id

    def _new(self, request: FetchRequest, principal: str, by_id: bool, now_ms: int) -> FetchPlan:
        sessions = self._sessions
        if len(sessions) >= self.slots:
            oldest = next(iter(sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms < EVICT_AFTER_MS:
                return FetchPlan(request.topics)
            del sessions[oldest.session_id]
        session_id = 0
        while session_id == 0 or session_id in sessions:
            session_id = random_positive_int32()
        session = Session(session_id, by_id, principal, now_ms)
        session.update(request)
        sessions[session_id] = session
        return _SessionPlan(session, full=True)
