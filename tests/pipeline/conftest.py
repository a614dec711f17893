"""One Spark session for the tests of the pipeline that one process runs: starting one takes seconds."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pipeline.errors import EnvironmentMissing
from pipeline.session import build, check_environment
from tests.support.broker_process import Kafka, need

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A small heap, for other JVMs may be at work beside it. `test_main_job` runs with the defaults.
SMALL = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Two cores, with both formats registered."""
    try:
        check_environment()
    except EnvironmentMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    session = build(master="local[2,4]", name="tests", settings=SMALL, little=True)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Apache Kafka 4.4.0 as its users have it: default settings, where a single node can; topics are created unasked.

    Shared: a test makes topics and groups of its own and minds no others. Nobody may make the rebalance ledger's topic.
    """
    need("java", "mvn")
    broker = Kafka(tmp_path_factory.mktemp("kafka"), environment={"KAFKA_VERSION": "4.4.0", "KAFKA_HEAP": "320m"})
    with broker:
        yield broker
