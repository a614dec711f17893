"""A pytest plugin (`-p swapped`): another project's tests, with the container that they start swapped out.

SWAPPED=kohort, or HOST:PORT of a broker that is there. `benchmarks.others` runs it in their environments.
"""

import os
from contextlib import nullcontext
from types import SimpleNamespace

from kohort.testing import Broker

SETTINGS = {"log.retention.ms": -1}
ADDRESS = os.environ["SWAPPED"]

try:
    from testcontainers.core import network
except ImportError:
    # FastStream: docker compose, which publishes port 9092.
    broker = Broker({**SETTINGS, "listeners": "PLAINTEXT://127.0.0.1:9092"})
else:
    # quix-streams: testcontainers.
    from tests.containerhelper import ContainerHelper

    broker = Broker({**SETTINGS, "node.id": 0})  # as their container is
    network.Network = nullcontext
    swapped = SimpleNamespace(stop=lambda: None)
    ContainerHelper.create_kafka_container = staticmethod(lambda _: (swapped, ADDRESS, ADDRESS))
    ContainerHelper.start_kafka_container = staticmethod(lambda _: None)

if ADDRESS == "kohort":
    ADDRESS = broker.open().bootstrap_servers


def pytest_unconfigure() -> None:
    broker.close()
