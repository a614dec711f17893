"""`kohort graduate`: get a stopped data directory ready for Apache Kafka (docs/graduate.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cli.arguments import CONFIG_HELP, OVERRIDE, parse, wants_help
from cli.errors import DONE, UsageError, WrongInput

if TYPE_CHECKING:
    import argparse

OPTIONS = (
    ("--check", "", "only look; change and print nothing for Kafka"),
    ("--to", "VERSION", "the Kafka to be started, such as 4.3: append the feature levels that it needs"),
    OVERRIDE,
)


def main(words: list[str]) -> int:
    """Carry out `kohort graduate`."""
    if wants_help(words):
        parser().print_help()
        return DONE
    from broker.config.setting_types import SettingsError  # noqa: PLC0415
    from offline.graduate.command import Wish, find_target, known_versions, run  # noqa: PLC0415  not for --help

    config, overrides, options = parse("graduate", words, OPTIONS)
    wish = Wish(config, overrides, only_check="--check" in options)
    if "--to" in options:
        wish.to = find_target(options["--to"])
        if wish.to is None:
            raise UsageError(f"--to {options['--to']}: it takes one of {known_versions()}")
    try:
        return run(wish, os.environ)
    except SettingsError as error:
        raise WrongInput(str(error)) from None


def parser() -> argparse.ArgumentParser:
    """What `--help` and shell completion are made of."""
    from cli.options import described  # noqa: PLC0415  not needed to run

    about = "Make sure that Apache Kafka can be started on the stopped data directory; print server.properties for it."
    return described("graduate", about, OPTIONS, ("CONFIG", CONFIG_HELP))
