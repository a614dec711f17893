"""`kohort serve`: run the broker. It imports nothing that the broker's start does not need."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

from cli.arguments import CONFIG_HELP, CONTAINER, OVERRIDE, parse, wants_help
from cli.errors import DONE, Failed, WrongInput

if TYPE_CHECKING:
    import argparse

OPTIONS = (
    OVERRIDE,
    ("--json-logs", "", "one JSON object per log line"),
    CONTAINER,
)

# Where Apache Kafka's image looks, and what a container needs that a laptop must not have: a port open to others.
_CONTAINER_CONFIG = Path("/mnt/shared/config/server.properties")
_CONTAINER_DEFAULTS = {
    "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
}


def main(words: list[str]) -> int:
    """Run the broker until a signal ends it."""
    if wants_help(words):
        parser().print_help()
        return DONE
    gc.disable()  # until all that stays is there: `broker.loop.collector`
    try:
        return _serve(words)
    finally:
        gc.enable()


def _serve(words: list[str]) -> int:
    from broker.config.setting_types import SettingsError  # noqa: PLC0415  what is wrong with arguments is said without it
    from broker.config.settings_sources import gather  # noqa: PLC0415

    config, overrides, options = parse("serve", words, OPTIONS)
    json_logs = "--json-logs" in options
    environment = dict(os.environ)
    if CONTAINER[0] in options:
        config = _in_container(config, environment)
    try:
        sources = gather(config, environment, overrides)
    except SettingsError as error:
        raise WrongInput(str(error)) from None
    from broker.process import StartFailed, serve  # noqa: PLC0415

    try:
        return serve(sources, json_logs=json_logs)
    except SettingsError as error:
        raise WrongInput(str(error)) from None
    except StartFailed as error:
        raise Failed(str(error)) from None
    except KeyboardInterrupt:
        raise Failed("ended before it was ready") from None


def parser() -> argparse.ArgumentParser:
    """What `--help` and shell completion are made of."""
    from cli.options import described  # noqa: PLC0415  argparse costs a start 12 ms

    return described("serve", "Run the broker.", OPTIONS, ("CONFIG", CONFIG_HELP))


def _in_container(config: Path | None, environment: dict[str, str]) -> Path | None:
    """The configuration file of a container, and into `environment` what nobody has said.

    Settings of whoever runs it, by file or by environment, take the place of each default; listeners go together.
    """
    if config is None and _CONTAINER_CONFIG.is_file():
        config = _CONTAINER_CONFIG
    said = {"KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"} & set(environment)
    for name, value in _CONTAINER_DEFAULTS.items():
        if config is None and not (said and "LISTENERS" in name):
            environment.setdefault(name, value)
    return config
