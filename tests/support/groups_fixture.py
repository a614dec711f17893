"""Groups of several partitions behind the handlers, on fake logs in virtual time."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from broker.broker import Endpoint
from broker.catalogue.internal_topics import OFFSETS_TOPIC
from broker.catalogue.requests import Result
from broker.catalogue.topics_delta import TopicsDelta
from broker.catalogue.topics_image import Topic, TopicsImage
from broker.config.settings import Settings
from broker.groups.groups import Groups
from broker.handlers import groups as group_handlers
from broker.handlers import offsets as offset_handlers
from broker.handlers.context import Deferred, RequestContext
from broker.partitions import Partitions
from protocol.api_keys import ApiKey
from protocol.registry import APIS
from tests.support.group_leader_fixture import FakePartition
from tests.support.virtual_runtime import VirtualRuntime


def topic(name: str, partitions: int, topic_id: bytes | None = None) -> Topic:
    """A topic whose id is its name, padded."""
    return Topic(name, topic_id or name.encode().ljust(16, b"\0")[:16], (0,) * partitions)


class FakeCatalogue:
    """Creates topics when told to; `wishes` are what it was asked for."""

    def __init__(self, *topics: Topic) -> None:
        self.image = TopicsImage({topic.name: topic for topic in topics})
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.wishes: list[tuple[Any, Callable[[Result], None]]] = []

    def ensure_topic(self, wish: Any, answer: Callable[[Result], None]) -> None:
        self.wishes.append((wish, answer))


class FakePartitions(Partitions):
    """A `FakePartition` for each partition that is asked for."""

    def __init__(self) -> None:
        self.on_recovered: list[Callable[[Any], None]] = []
        self.on_offline: list[Callable[[Any], None]] = []
        self.by_index: dict[int, FakePartition] = {}

    def get(self, name: str, index: int) -> FakePartition:
        assert name == OFFSETS_TOPIC
        if index not in self.by_index:
            self.by_index[index] = FakePartition()
            self.by_index[index].index = index
        return self.by_index[index]

    def is_offline(self, name: str, index: int) -> bool:
        return False


class GroupBroker:
    """What handlers need of a broker; `ask` puts a request through the codec of its version, both ways."""

    def __init__(self, *topics: Topic, offsets_topic: bool = True, partitions: FakePartitions | None = None) -> None:
        self.runtime = VirtualRuntime()
        self.settings = Settings({"node.id": "7", "group.initial.rebalance.delay.ms": "0"})
        self.node_id = 7
        made = [topic("t", 4), *topics, *([topic(OFFSETS_TOPIC, 50)] if offsets_topic else [])]
        self.catalogue = FakeCatalogue(*made)
        self.partitions = FakePartitions() if partitions is None else partitions
        self.groups = Groups(self.runtime, self.settings, self.catalogue, self.partitions)  # type: ignore[arg-type]  # fakes
        self.ledger = SimpleNamespace(unread=SimpleNamespace(waiting={}))
        self.events: list[Any] = []
        self.groups.event_listeners[:] = [self.events.append]
        self.groups.open()

    def endpoint(self, listener: str) -> Endpoint:
        return Endpoint(listener, f"{listener.lower()}.example", 9092)

    def ask(self, request: Any, version: int, *, listener: str = "PLAINTEXT") -> "Answer":
        """Hand a request to its handler; the answer may come now, at the end of the turn, or later."""
        key = ApiKey(request.API_KEY)
        decoded = type(request).decode(version, request.encode(version))
        module = offset_handlers if key.name.startswith("OFFSET_") else group_handlers
        context = RequestContext(client_id="client", listener=listener, version=version)
        return Answer(getattr(module, key.name.lower())(self, context, decoded), key, version)

    def tell(self, request: Any, version: int) -> Any:
        """The answer at the end of this turn, as the client reads it."""
        answer = self.ask(request, version)
        self.runtime.turn()
        return answer.response

    def publish(self, *, created: tuple[Topic, ...] = (), deleted: tuple[Topic, ...] = ()) -> None:
        """The catalogue tells of topics that came and went."""
        changes: dict[str, Topic | None] = {gone.name: None for gone in deleted}
        changes.update({made.name: made for made in created})
        self.catalogue.image = self.catalogue.image.with_changes(changes)
        self.groups.publish(self.catalogue.image, TopicsDelta(created=created, deleted=deleted), None)


class Answer:
    """An answer that may still be on its way."""

    def __init__(self, result: Any, key: ApiKey, version: int) -> None:
        self._result = result
        self._key = key
        self._version = version

    @property
    def done(self) -> bool:
        return not isinstance(self._result, Deferred) or self._result.done

    @property
    def response(self) -> Any:
        """As the client reads it in this version."""
        result = self._result.response if isinstance(self._result, Deferred) else self._result
        assert result is not None, "no answer yet"
        return APIS[self._key].response.decode(self._version, result.encode(self._version))
