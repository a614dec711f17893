"""`python -m kohort` is `kohort`."""

import sys

from kohort._checkout import open_rooms


def main() -> int:
    """Run the command line of this process; its exit code."""
    open_rooms()
    from cli import main as command_line  # noqa: PLC0415  importable from here on

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
