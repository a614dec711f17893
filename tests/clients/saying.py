"""Python's clients as one that writes a record whenever it is told to, and says what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from tests.support.broker_process import eventually


class Confluent:
    """confluent-kafka; made of what the test says: bootstrap, topic, security."""

    def __init__(self, given: dict[str, Any], token_ends_s: float) -> None:
        security = given["security"]
        self._topic = given["topic"]
        self._told: list[KafkaError] = []
        names = {
            "protocol": "security.protocol",
            "mechanism": "sasl.mechanism",
            "ca": "ssl.ca.location",
            "certificate": "ssl.certificate.location",
            "key": "ssl.key.location",
        }
        settings = {key: security[name] for name, key in names.items() if security.get(name)}
        if security.get("mechanism") == "OAUTHBEARER":
            settings["oauth_cb"] = lambda _: (security["token"], token_ends_s)
        elif security.get("mechanism"):
            settings |= {"sasl.username": security["user"], "sasl.password": security["password"]}
        settings |= {"bootstrap.servers": given["bootstrap"], "message.timeout.ms": 5_000, "log_level": 0}
        self._producer = Producer({**settings, "error_cb": self._told.append})

    def say(self) -> str:
        """What came of one record."""
        came: list[KafkaError | None] = []
        try:
            self._producer.produce(self._topic, b"word", on_delivery=lambda error, _: came.append(error))
        except KafkaException as error:  # it knows already
            return str(error)
        eventually(lambda: (self._producer.poll(0.1), came or self._told)[1], what="what came of it")
        if came and came[0] is None:
            return "said"
        return " ".join(error.str() for error in (*came, *self._told) if error is not None)

    def end(self) -> None:
        """It goes."""
        self._producer.purge()
        self._producer.flush(5)


class KafkaPython:
    """kafka-python."""

    def __init__(self, given: dict[str, Any], _: float) -> None:
        security = given["security"]
        self._topic = given["topic"]
        self._settings = _python(given) | {"max_block_ms": 1_500, "bootstrap_timeout_ms": 1_500}
        if security["protocol"].endswith("SSL"):
            self._settings["ssl_context"] = _trusting(security)
        if security.get("mechanism") == "OAUTHBEARER":

            class Tokens(KafkaPythonTokenProvider):
                def token(self) -> str:
                    return str(security["token"])

            self._settings["sasl_oauth_token_provider"] = Tokens()
        self._producer: KafkaProducer | None = None

    def say(self) -> str:
        """What came of one record."""
        try:
            if self._producer is None:
                self._producer = KafkaProducer(**self._settings)
            self._producer.send(self._topic, b"word").get(10)
        except KafkaPythonError as error:
            self.end()  # it would remember for minutes that it may not
            return f"{type(error).__name__} {error}"
        return "said"

    def end(self) -> None:
        """It goes."""
        if self._producer is not None:
            self._producer.close(timeout=5)
            self._producer = None


class AIOKafka:
    """aiokafka, on a loop of its own that runs while it is asked."""

    def __init__(self, given: dict[str, Any], _: float) -> None:
        self._given = given
        self._runner = asyncio.Runner()
        self._producer: AIOKafkaProducer | None = None

    def say(self) -> str:
        """What came of one record."""
        return self._runner.run(self._say())

    async def _say(self) -> str:
        security = self._given["security"]
        try:
            if self._producer is None:
                settings = _python(self._given) | {"request_timeout_ms": 5_000}
                if security["protocol"].endswith("SSL"):
                    settings["ssl_context"] = _trusting(security)
                if security.get("mechanism") == "OAUTHBEARER":

                    class Tokens(AbstractTokenProvider):
                        async def token(self) -> str:
                            return str(security["token"])

                    settings["sasl_oauth_token_provider"] = Tokens()
                producer = AIOKafkaProducer(**settings)
                try:
                    await asyncio.wait_for(producer.start(), 20)
                except BaseException:
                    await producer.stop()
                    raise
                self._producer = producer
            await asyncio.wait_for(self._producer.send_and_wait(self._given["topic"], b"word"), 20)
        except AIOKafkaError as error:
            return f"{type(error).__name__} {error}"
        return "said"

    def end(self) -> None:
        """It goes."""
        with contextlib.closing(self._runner):
            if self._producer is not None:
                self._runner.run(self._producer.stop())


PYTHONS = {"confluent": Confluent, "kafka_python": KafkaPython, "aiokafka": AIOKafka}


def _python(given: dict[str, Any]) -> dict[str, Any]:
    security = given["security"]
    settings = {"bootstrap_servers": given["bootstrap"], "security_protocol": security["protocol"]}
    if security.get("mechanism"):
        settings["sasl_mechanism"] = security["mechanism"]
        if security["mechanism"] != "OAUTHBEARER":
            settings |= {"sasl_plain_username": security["user"], "sasl_plain_password": security["password"]}
    return settings


def _trusting(security: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=security["ca"])
    if security.get("certificate"):
        context.load_cert_chain(security["certificate"], security["key"])
    return context
