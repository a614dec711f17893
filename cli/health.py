"""`kohort health`: whether a broker answers requests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cli.arguments import BOOTSTRAP, wants_help
from cli.errors import DONE, Failed, UsageError
from cli.probe import address, check

if TYPE_CHECKING:
    import argparse


def main(words: list[str]) -> int:
    """Ask once."""
    if wants_help(words):
        parser().print_help()
        return DONE
    if words and words[0] in BOOTSTRAP:
        words = words[1:]
        if not words:
            raise UsageError(f"{BOOTSTRAP[1]}: it takes HOST:PORT")
    if len(words) > 1 or (words and words[0].startswith("-")):
        raise UsageError("health takes one HOST:PORT")
    try:
        host, port, tls = address(words, os.environ)
    except ValueError as error:
        raise UsageError(str(error)) from None
    wrong = check(host, port, tls)
    if wrong is not None:
        raise Failed(wrong)
    print(f"{host}:{port} answers")
    return DONE


def parser() -> argparse.ArgumentParser:
    """What `--help` and shell completion are made of."""
    from cli.options import described  # noqa: PLC0415  a check runs every few seconds, without argparse

    about = "Exit with 0 if a broker answers requests there."
    where = "where to ask; else the first of KAFKA_LISTENERS, else 127.0.0.1:9092"
    return described("health", about, ((BOOTSTRAP[1], "HOST:PORT", where),), ("HOST:PORT", where))
