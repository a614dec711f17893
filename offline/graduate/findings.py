"""What an inspection has found: facts for people, and reasons why Kafka must not be started yet."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Findings:
    """Sentences, in the order in which they were found."""

    facts: list[tuple[str, str]] = field(default_factory=list)  # (what it is about, what is so)
    problems: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)

    def fact(self, about: str, what: str) -> None:
        """Something that is as it should be, or that is good to know."""
        self.facts.append((about, what))

    def problem(self, what: str) -> None:
        """A reason to refuse; it names the file, and the byte where there is one."""
        self.problems.append(what)


def counted(count: int, what: str) -> str:
    """`1 record`, `1,200 records`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def size(size_bytes: int) -> str:
    """A size for people: 512 bytes, 1.5 MB."""
    if size_bytes < 10_000:
        return f"{size_bytes:,} bytes"
    value = float(size_bytes)
    for unit in ("kB", "MB", "GB"):
        value /= 1_000
        if value < 1_000 or unit == "GB":
            break
    return f"{value:,.1f} {unit}"
