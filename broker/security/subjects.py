"""The name of a client certificate: its subject as Java writes it, and what `ssl.principal.mapping.rules` make of it.

Source: RFC 2253; Java's X500Principal.getName, AVA; Kafka's SslPrincipalMapper.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# DER's tags of texts, and how each is encoded.
_TEXTS = {12: "utf-8", 19: "ascii", 20: "latin-1", 22: "ascii", 28: "utf-32-be", 30: "utf-16-be"}
_ESCAPED = frozenset(',+"\\<>;=#')

_PART = r"((?:\\.|[^\\/])*)"
_RULE = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?))\s*(?:,\s*(?=DEFAULT|RULE:)|\Z)")


class MappingError(Exception):
    """A rule that is none; the message has its text."""


class Rule(NamedTuple):
    """A pattern and what becomes of a name that it matches whole; without a pattern the name itself."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""


def subject_text(der: bytes) -> str:
    """A DER-encoded Name as RFC 2253 has it, the most specific part first."""
    (_, names) = next(_values(der))
    parts = ["+".join(_attribute(attribute) for _, attribute in _values(part)) for _, part in _values(names)]
    return ",".join(reversed(parts))


def parse_rules(text: str) -> list[Rule]:
    """The rules of `ssl.principal.mapping.rules`. Raises: MappingError."""
    text = text.strip()
    rules, position = [], 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise MappingError(f"{text[position:]}: it takes DEFAULT or RULE:pattern/replacement/[L|U], with commas")
        position = match.end()
        if match[1]:
            rules.append(Rule(None))
            continue
        try:
            rules.append(Rule(re.compile(match[2]), match[3], match[4]))
        except re.error as error:
            raise MappingError(f"RULE:{match[2]}/: the pattern is not understood here: {error}") from None
    return rules or [Rule(None)]


def mapped(rules: list[Rule], name: str) -> str | None:
    """What the first rule that matches makes of a subject; None when none does."""
    for rule in rules:
        if rule.pattern is None:
            return name
        if rule.pattern.fullmatch(name):
            result = rule.pattern.sub(partial(_filled, rule.replacement), name)
            return result.lower() if rule.case == "L" else result.upper() if rule.case == "U" else result
    return None


def _filled(replacement: str, match: re.Match[str]) -> str:
    """Java's replacement: `$n` is a group where there is one, `\\x` is x."""

    def filled(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        digits, rest = found[2], ""
        while digits and int(digits) > match.re.groups:
            digits, rest = digits[:-1], digits[-1] + rest
        return (match[int(digits)] or "") + rest if digits else f"${rest}"

    return re.sub(r"\\(.)|\$(\d+)", filled, replacement)


def _attribute(der: bytes) -> str:
    (_, oid_bytes), (tag, value) = list(_values(der))[:2]
    oid = _oid(oid_bytes)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or tag not in _TEXTS:
        return f"{oid}=#{(bytes((tag,)) + _length(len(value)) + value).hex()}"
    return f"{keyword}={_escaped(value.decode(_TEXTS[tag], 'replace'))}"


def _escaped(text: str) -> str:
    inner = text.strip(" \r")
    if not inner:
        return "".join(f"\\{letter}" for letter in text)
    start = text.index(inner)
    written = []
    for position, letter in enumerate(text):
        if letter == "\0":
            written.append("\\00")
        elif letter in _ESCAPED or not start <= position < start + len(inner):
            written.append(f"\\{letter}")
        else:
            written.append(letter)
    return "".join(written)


def _values(der: bytes) -> Iterator[tuple[int, bytes]]:
    """(tag, content) of each value, one behind the other."""
    position = 0
    while position < len(der):
        tag, length = der[position], der[position + 1]
        position += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(der[position : position + size], "big")
            position += size
        yield tag, der[position : position + length]
        position += length


def _length(count: int) -> bytes:
    if count < 0x80:
        return bytes((count,))
    size = (count.bit_length() + 7) // 8
    return bytes((0x80 | size,)) + count.to_bytes(size, "big")


def _oid(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
