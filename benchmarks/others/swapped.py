"""A pytest plugin (`-p swapped`): another project's tests, with the container that they start swapped out.

SWAPPED=kohort, or HOST:PORT of a broker that is there. `benchmarks.others` runs it in their environments.
"""

import os
from contextlib import nullcontext
from types import SimpleNamespace

from kohort.testing import Broker


class Container:
    """In the place of a container of Kafka's."""

    def __init__(self) -> None:
        self.broker = None if ":" in os.environ["SWAPPED"] else Broker({"log.retention.ms": -1})
        self.address = os.environ["SWAPPED"] if self.broker is None else ""

    def start(self) -> None:
        if self.broker is not None:
            self.address = self.broker.open().bootstrap_servers

    def stop(self) -> None:
        if self.broker is not None:
            self.broker.close()


container = Container()
container.start()
try:
    from testcontainers.core import network  # quix-streams: testcontainers
except ImportError:
    # FastStream: docker compose, localhost:9092.
    from tests.brokers.confluent import settings as of_confluent
    from tests.brokers.kafka import settings as of_kafka

    for module in (of_confluent, of_kafka):
        module.Settings.__init__.__defaults__ = (container.address,)
else:
    from tests.containerhelper import ContainerHelper

    swapped = SimpleNamespace(stop=lambda: None)
    network.Network = nullcontext
    ContainerHelper.create_kafka_container = staticmethod(lambda _: (swapped, container.address, container.address))
    ContainerHelper.start_kafka_container = staticmethod(lambda _: None)


def pytest_unconfigure() -> None:
    container.stop()
