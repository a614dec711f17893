"""What who listens to the catalogue may have to do beside being told of what is published; most have none of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.catalogue.cluster_state import ClusterState
    from broker.catalogue.topics_delta import TopicsDelta


class Preparing(ABC):
    """Has something to make before a change is published."""

    @abstractmethod
    def prepare(self, delta: TopicsDelta) -> Any:
        """Make and open folders of what is created or grown; what it returns is given to `publish`. In a worker thread.

        The change is durable already: a folder that cannot be made is no refusal but a partition out of service.
        """


class Discarding(ABC):
    """Has something to take away after topics were deleted."""

    @abstractmethod
    def discard(self, delta: TopicsDelta) -> None:
        """Rename the folders of what was deleted, after `publish`. In a worker thread."""

    @abstractmethod
    def discarded(self) -> None:
        """`discard` is done. On the event loop."""


class Rereading(ABC):
    """Keeps what cannot be told from the image."""

    @abstractmethod
    def reread(self, state: ClusterState) -> None:
        """The log was read again after a failure: rights and limits are what `state` says. On the event loop."""
