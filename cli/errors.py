"""How a verb ends: its exit codes, and the exceptions whose message is the one sentence that is printed."""

from __future__ import annotations

DONE = 0
FAILED = 1
MISUSED = 2


class UsageError(Exception):
    """What was asked for makes no command; the message says what is wrong with it. Exit code 2."""

    command = ""
    """Whose --help tells more, such as `kohort topics create`, where it is known."""


class WrongInput(UsageError):
    """A setting, a file or a line that was given is wrong: exit code 2 too, but --help would not tell more."""


class Failed(Exception):
    """It was asked for rightly and could not be done; the message says why, in one sentence. Exit code 1."""
