"""The groups and offsets of one `__consumer_offsets` partition, and which rule answers which input.

Always true:
- groups change only by `install` and `load`, offsets only by `replay` and `load`;
- a name belongs to a classic group or to a consumer group, never to both;
- a cached view shows the present: it follows its group, and is dropped when that goes, or when its offset tables, its
  settings or the topics change.

Source: Kafka's GroupCoordinatorShard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from coordinator.append_errors import error_for_client
from coordinator.classic import leadership
from coordinator.classic import rules as classic
from coordinator.classic.answers import refused_instead
from coordinator.classic.inputs import Heartbeat, Join, Leave, Sync
from coordinator.consumer import rules as consumer
from coordinator.consumer.group import ConsumerGroup
from coordinator.consumer.leadership import unserved as consumer_unserved
from coordinator.consumer.offsets import keeping
from coordinator.offsets import rules as offsets
from coordinator.offsets.unserved import unserved
from coordinator.outcome import Appended, AppendFailed, AppendToken, Input
from coordinator.view import CommittedOffset, ConsumerSettings, GroupSettings, View
from protocol.records.group_records import OffsetCommitKey
from protocol.types import ZERO_UUID

if TYPE_CHECKING:
    from coordinator.consumer.group import ConsumerMember
    from coordinator.group import Group
    from coordinator.outcome import Reply
    from coordinator.view import AnyGroup, AnyGroupOutcome, GroupOutcome, Topics
    from protocol.errors import ErrorCode
    from protocol.records.group_records import OffsetCommitValue

TopicPartition = tuple[str, int]
OffsetTable = dict[TopicPartition, CommittedOffset]

_new_tuple = tuple.__new__  # a named tuple's own constructor takes twice as long
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Shard:
    """State and rules of one partition. Nothing here knows of a log, a clock or a connection."""

    __slots__ = (
        "_consumer_settings",
        "_pending_groups",
        "_topics",
        "_views",
        "consumer_groups",
        "groups",
        "offsets",
        "pending",
        "settings",
        "states",
    )

    def __init__(
        self, settings: GroupSettings, topics: Topics, consumer_settings: ConsumerSettingsOf | None = None
    ) -> None:
        self.settings = settings
        self._consumer_settings = consumer_settings or _default_settings
        self.groups: dict[str, Group] = {}  # classic ones
        self.consumer_groups: dict[str, ConsumerGroup] = {}  # of KIP-848
        self.states: dict[str, AnyGroup] = {}  # all of them, as the runtime calls them
        self.offsets: dict[str, OffsetTable] = {}  # by group; never an empty table
        self.pending: dict[str, dict[int, OffsetTable]] = {}  # by group and producer id; never an empty table
        self._pending_groups: dict[int, set[str]] = {}  # by producer id
        self._topics = topics
        self._views: dict[str, View] = {}

    # What happens to a group

    def handle(self, event: Input, now_ms: int) -> AnyGroupOutcome:
        """What follows from `event`. Nothing is changed yet: that is `install`, and `replay` of the records."""
        view = self._views.get(event.key)
        if view is None:
            view = self._view(event.key)
        rules = _RULES if view.consumer_group is None else _RULES_OF_CONSUMER_GROUPS
        return rules[type(event)](view, event, now_ms)

    def unserved(self, event: Input, error: ErrorCode) -> Reply | None:
        """The answer to a request that cannot be served now; None when nobody waits for one.

        `error`: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS while the log is being loaded.
        """
        if isinstance(event, (Join, Sync, Heartbeat, Leave)):
            return leadership.unserved(event, error, self.settings)
        settings = self._consumer_settings(event.key)
        return consumer_unserved(event, error, settings) or unserved(event, error)

    def taken_back(self, event: Input, replies: Iterable[Reply], error: ErrorCode) -> list[Reply]:
        """What is answered instead of these, when records were refused that `event` had been decided upon.

        A member of a group that has changed its protocol, and has not after all, has neither left nor joined it.
        """
        told = error_for_client(error)
        own = self.unserved(event, told)
        return [own if own is not None and reply.to is own.to else refused_instead(reply, told) for reply in replies]

    def install(self, group_id: str, outcome: AnyGroupOutcome) -> None:
        """Make the outcome's group the current one."""
        self.put_group(group_id, outcome.after)

    def put_group(self, group_id: str, group: AnyGroup | None) -> None:
        """The group of this name is this one from now on; None: there is none."""
        if self.states.get(group_id) is group:
            return
        if group is None:
            del self.states[group_id]
            self.groups.pop(group_id, None)
            self.consumer_groups.pop(group_id, None)
        else:
            self.states[group_id] = group
            if isinstance(group, ConsumerGroup):
                self.groups.pop(group_id, None)
                self.consumer_groups[group_id] = group
            else:
                self.consumer_groups.pop(group_id, None)
                self.groups[group_id] = group
        view = self._views.pop(group_id, None)
        if view is not None and group is not None:
            # Of a thousand that join each is a new group, with all else as it was.
            self._views[group_id] = View(
                group_id,
                self.groups.get(group_id),
                view.offsets,
                view.pending_offsets,
                view.topics,
                view.settings,
                self.consumer_groups.get(group_id),
                view.consumer_settings,
            )

    def session_timeout_ms(self, group_id: str, member: ConsumerMember) -> int:
        """How long a member of a consumer group may be silent."""
        classic = member.classic
        return self._consumer_settings(group_id).session_timeout_ms if classic is None else classic.session_timeout_ms

    def configured(self, group_id: str) -> None:
        """The settings of the group are others now."""
        self._views.pop(group_id, None)

    @property
    def topics(self) -> Topics:
        """The topics as rules see them now."""
        return self._topics

    @topics.setter
    def topics(self, topics: Topics) -> None:
        self._topics = topics
        self._views.clear()

    def _view(self, group_id: str) -> View:
        group, consumer_group = self.groups.get(group_id), self.consumer_groups.get(group_id)
        view = View(
            group_id,
            group,
            self.offsets.get(group_id, _NOTHING),
            self.pending.get(group_id, _NOTHING),
            self._topics,
            self.settings,
            consumer_group,
            self._consumer_settings(group_id),
        )
        # Anybody can ask for a group that is not there, under any name.
        if group is not None or consumer_group is not None:
            self._views[group_id] = view
        return view

    def all_keys(self) -> list[str]:
        """Every name under which there is a group or an offset."""
        return list({**self.states, **self.offsets, **self.pending})

    # What is in the log

    def replay(self, key: Any, value: Any | None, producer_id: int = -1, offset: int = -1) -> None:
        """Take over one record that is in the log at `offset`: committed offsets are what their records say.

        `producer_id` is that of a transactional batch, else -1. Group records change nothing here: the live group holds
        more than they do (`load_group` is for those of a log that is being loaded).
        """
        if type(key) is not OffsetCommitKey:
            return
        group_id, topic, partition, _ = key
        if value is None:
            self.remove_offset(group_id, (topic, partition))
        elif producer_id != -1:
            self.put_pending(producer_id, group_id, (topic, partition), committed_offset(value, offset))
        else:
            table = self.offsets.get(group_id)
            if table is None:
                self.put_offset(group_id, (topic, partition), committed_offset(value, offset))
            else:
                table[topic, partition] = committed_offset(value, offset)

    def put_offset(self, group_id: str, key: TopicPartition, committed: CommittedOffset) -> None:
        """An offset is committed."""
        table = self.offsets.get(group_id)
        if table is None:
            self.offsets[group_id] = table = {}
            self._views.pop(group_id, None)
        table[key] = committed

    def remove_offset(self, group_id: str, key: TopicPartition) -> None:
        """A tombstone: what is committed goes, and what transactions hold for the same partition."""
        table = self.offsets.get(group_id)
        if table is not None and table.pop(key, None) is not None and not table:
            del self.offsets[group_id]
            self._views.pop(group_id, None)
        pending = self.pending.get(group_id)
        if pending is not None:
            for producer_id in [producer_id for producer_id, held in pending.items() if key in held]:
                del pending[producer_id][key]
                self._drop_if_empty(producer_id, group_id)

    # Transactions

    def put_pending(self, producer_id: int, group_id: str, key: TopicPartition, committed: CommittedOffset) -> None:
        """A transaction that is not decided yet holds an offset."""
        by_producer = self.pending.get(group_id)
        if by_producer is None:
            self.pending[group_id] = by_producer = {}
            self._views.pop(group_id, None)
        by_producer.setdefault(producer_id, {})[key] = committed
        self._pending_groups.setdefault(producer_id, set()).add(group_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A marker: the producer's pending offsets count, or are gone. Of two for one partition the later one wins."""
        for group_id in self._pending_groups.pop(producer_id, ()):
            held = self.pending[group_id].pop(producer_id)
            if not self.pending[group_id]:
                del self.pending[group_id]
                self._views.pop(group_id, None)
            if not committed:
                continue
            for key, offset in held.items():
                current = self.offsets.get(group_id, {}).get(key)
                if current is None or offset.log_offset > current.log_offset:
                    self.put_offset(group_id, key, offset)

    def _drop_if_empty(self, producer_id: int, group_id: str) -> None:
        by_producer = self.pending[group_id]
        if by_producer[producer_id]:
            return
        del by_producer[producer_id]
        if not by_producer:
            del self.pending[group_id]
            self._views.pop(group_id, None)
        groups = self._pending_groups[producer_id]
        groups.discard(group_id)
        if not groups:
            del self._pending_groups[producer_id]


def committed_offset(value: OffsetCommitValue, log_offset: int = -1) -> CommittedOffset:
    """What a record says, as the rules see it."""
    offset, leader_epoch, metadata, commit_timestamp_ms, expires_ms, topic_id = value
    return _new_tuple(
        CommittedOffset,
        (
            offset,
            leader_epoch,
            metadata,
            commit_timestamp_ms,
            None if expires_ms == -1 else expires_ms,
            None if topic_id == ZERO_UUID else topic_id,
            log_offset,
        ),
    )


def _default_settings(group_id: str) -> ConsumerSettings:
    return _DEFAULT_SETTINGS


_DEFAULT_SETTINGS = ConsumerSettings()
ConsumerSettingsOf = Callable[[str], ConsumerSettings]
"""The settings of a group's own, over those of the broker."""

_ON_APPENDED: Mapping[type[AppendToken], Callable[[View, Appended, int], GroupOutcome]] = classic.ON_APPENDED
_ON_APPEND_FAILED: Mapping[type[AppendToken], Callable[[View, AppendFailed, int], AnyGroupOutcome]] = {
    **classic.ON_APPEND_FAILED,
    **offsets.ON_APPEND_FAILED,
    **consumer.ON_APPEND_FAILED,
}
_ON_APPEND_FAILED_TO_CONSUMER_GROUPS: Mapping[type[AppendToken], Callable[[View, AppendFailed, int], AnyGroupOutcome]]
_ON_APPEND_FAILED_TO_CONSUMER_GROUPS = {
    **_ON_APPEND_FAILED,
    # Of a classic group that has become a consumer group since: who waited in it was told when it did.
    **{token: keeping(rule) for token, rule in (*offsets.ON_APPEND_FAILED.items(), *classic.ON_APPEND_FAILED.items())},
}


def _appended(view: View, event: Appended, now_ms: int) -> AnyGroupOutcome:
    rule = _ON_APPENDED[type(event.token)]
    return (rule if view.consumer_group is None else keeping(rule))(view, event, now_ms)


def _append_failed(view: View, event: AppendFailed, now_ms: int) -> AnyGroupOutcome:
    rules = _ON_APPEND_FAILED if view.consumer_group is None else _ON_APPEND_FAILED_TO_CONSUMER_GROUPS
    return rules[type(event.token)](view, event, now_ms)


_RULES: Mapping[type[Input], Callable[[View, Any, int], AnyGroupOutcome]] = {
    **classic.RULES,
    **offsets.RULES,
    **consumer.RULES,
    Appended: _appended,
    AppendFailed: _append_failed,
}

_RULES_OF_CONSUMER_GROUPS: Mapping[type[Input], Callable[[View, Any, int], AnyGroupOutcome]] = {
    **_RULES,
    **consumer.RULES_OF_CONSUMER_GROUPS,
}
