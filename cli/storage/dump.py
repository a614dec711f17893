"""`kohort storage dump`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.errors import Failed, UsageError
from offline.dump.dump import DumpRefused, NoSuchKind, dump_files

if TYPE_CHECKING:
    import argparse


def dump(options: argparse.Namespace) -> int:
    """Print the files; exit code 1 when one is torn, corrupt or cannot be read. Raises: Failed, UsageError."""
    words = [*options.paths, *(options.files.split(",") if options.files else [])]
    if not words:
        raise UsageError("name a PATH")
    try:
        return dump_files(words, options)
    except NoSuchKind as error:
        raise UsageError(str(error)) from None
    except DumpRefused as error:
        raise Failed(str(error)) from None
