"""kafka-topics, kafka-consumer-groups and kafka-acls: the action is an option there, and a command here."""

from __future__ import annotations

from cli.errors import UsageError

# Accepted, and without a meaning here.
_IDLE = {"--partition-size-limit-per-response": True}


def topics(words: list[str]) -> int:
    """Carry out kafka-topics.sh. Raises: Failed, UsageError."""
    from cli.topics import main  # noqa: PLC0415  one tool, one verb

    return _run(words, ("list", "describe", "create", "delete", "alter"), main)


def consumer_groups(words: list[str]) -> int:
    """Carry out kafka-consumer-groups.sh. Raises: Failed, UsageError."""
    from cli.groups import main  # noqa: PLC0415  one tool, one verb

    own = ["--kafka-columns"] if "--describe" in words else []
    return _run([*words, *own], ("list", "describe", "delete", "delete-offsets", "reset-offsets"), main)


def acls(words: list[str]) -> int:
    """Carry out kafka-acls.sh. Raises: Failed, UsageError."""
    from cli.acls import main  # noqa: PLC0415  one tool, one verb

    return _run(words, ("list", "add", "remove"), main)


def _run(words: list[str], actions: tuple[str, ...], main: object) -> int:
    assert callable(main)
    named = [action for action in actions if f"--{action}" in words]
    if len(named) != 1:
        choices = ", ".join(f"--{action}" for action in actions)
        raise UsageError(f"one of {choices} must be there" + (", not two" if named else ""))
    rest = [word for word in without_idle(words) if word != f"--{named[0]}"]
    code: int = main([named[0], *rest])
    return code


def without_idle(words: list[str]) -> list[str]:
    """The words without options that have no meaning here."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in _IDLE:
            next(rest, None)
        elif word.partition("=")[0] not in _IDLE:
            kept.append(word)
    return kept
