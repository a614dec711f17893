"""What can go wrong, by who can mend it. Each message is one line for standard error; nothing else need be shown."""

from __future__ import annotations

# Exit codes: nothing is missing; something could not be read; a word, a place or the environment was wrong.
DONE, LOSS, MISUSED = 0, 1, 2


class PipelineError(Exception):
    """The common base."""


class EnvironmentMissing(PipelineError):
    """Java, an extra or a jar is not there: exit code 2."""


class UsageError(PipelineError):
    """An option, a path or a moment is none: exit code 2, before Spark is started."""


class DataError(PipelineError):
    """What lies on disk, or what a broker said, cannot be read: exit code 1."""
