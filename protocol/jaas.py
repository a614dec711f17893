"""One line of `sasl.jaas.config`: `<module> <flag> (<key>=<value>)* ;`.

Source: Kafka's JaasConfig, which reads it with Java's StreamTokenizer: hence the comments, and that a bare number is no
value.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FLAGS = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_TOKEN = re.compile(
    r"""(?P<space>[\x00-\x20]+ | /\*.*?(?:\*/|\Z) | /[^\n\r]*)
      | (?P<word>[A-Za-z_$\u00a0-\U0010ffff-][A-Za-z0-9_$.\u00a0-\U0010ffff-]*)
      | (?P<number>[0-9.]+)
      | (?P<quoted>"(?:[^"\\\n\r]|\\.)*" | '(?:[^'\\\n\r]|\\.)*')
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(Exception):
    """It is no such line; the message never holds a value of it."""


class Login(NamedTuple):
    """A module and its options."""

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"Login({self.module}, options hidden)"


class _Token(NamedTuple):
    kind: str
    text: str


def parse_jaas(line: str) -> Login:
    """The one module of a line. Raises: JaasError."""
    tokens = _tokens(line)
    if not tokens:
        raise JaasError("it names no login module")
    module = tokens.pop(0)
    if module.kind != "text":
        raise JaasError("it does not begin with the class of a login module")
    flag = tokens.pop(0) if tokens else _Token("end", "")
    if flag.text.upper() not in _FLAGS:
        raise JaasError("behind the login module it takes one of required, requisite, sufficient, optional")
    options: dict[str, str] = {}
    while tokens and tokens[0] != _Token("other", ";"):
        key = tokens.pop(0)
        if key.kind != "text":
            raise JaasError("it takes key=value behind the flag")
        if len(tokens) < 2 or tokens[0] != _Token("other", "=") or tokens[1].kind != "text":
            if options and tokens[:1] != [_Token("other", "=")]:
                raise JaasError("it takes key=value, and a value with blanks in quotes")  # this may be the rest of one
            raise JaasError(f"Value not specified for key '{key.text}'")
        options[key.text] = tokens[1].text
        del tokens[:2]
    if not tokens:
        raise JaasError("it is not ended by a semicolon")
    if len(tokens) > 1:
        raise JaasError("it takes one login module, and something stands behind the semicolon")
    return Login(module.text, options)


def _tokens(line: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(line):
        kind, text = match.lastgroup or "other", match[0]
        if kind == "quoted":
            found.append(_Token("text", _ESCAPE.sub(_unescaped, text[1:-1])))
        elif kind == "word":
            found.append(_Token("text", text))
        elif kind != "space":
            found.append(_Token(kind, text))
    return found


def _unescaped(match: re.Match[str]) -> str:
    text = match[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPED.get(text, text)
