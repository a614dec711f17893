"""A pytest plugin (`-p swapped`): another project's tests, with the container that they start swapped out.

SWAPPED=kohort, or HOST:PORT of a broker that is there. `benchmarks.others` runs it in their environments.
"""

import os
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

from kohort.testing import Broker

SETTINGS: dict[str, object] = {"log.retention.ms": -1}
ADDRESS = os.environ["SWAPPED"]
PROJECT = next(name for name in ("adc", "taskiq_aio_kafka", "quixstreams", "faststream") if find_spec(name))

if PROJECT == "adc":
    sys.modules["docker"] = ModuleType("docker")  # by which its tests see that they can be run
elif PROJECT == "quixstreams":
    SETTINGS["node.id"] = 0  # as their container is
elif PROJECT == "faststream":
    SETTINGS["listeners"] = "PLAINTEXT://127.0.0.1:9092"  # docker compose publishes that port

broker = Broker(SETTINGS)
if ADDRESS == "kohort":
    ADDRESS = broker.open().bootstrap_servers

if PROJECT == "taskiq_aio_kafka":
    os.environ["TEST_KAFKA_URL"] = ADDRESS
elif PROJECT == "quixstreams":
    from testcontainers.core import network

    from tests.containerhelper import ContainerHelper

    network.Network = nullcontext
    swapped = SimpleNamespace(stop=lambda: None)
    ContainerHelper.create_kafka_container = staticmethod(lambda _: (swapped, ADDRESS, ADDRESS))
    ContainerHelper.start_kafka_container = staticmethod(lambda _: None)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """adc-streaming: what a test class connects with starts the container, with a password of its own."""
    connection = SimpleNamespace(address=ADDRESS, auth=None, close=lambda: None)
    for item in items:
        if hasattr(item.module, "KafkaDockerConnection"):
            item.module.KafkaDockerConnection = lambda: connection


def pytest_unconfigure() -> None:
    broker.close()
