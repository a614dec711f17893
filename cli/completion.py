"""`kohort completion SHELL`: what the Tab key offers, made by shtab from the verbs' own parsers.

source <(kohort completion bash)
kohort completion zsh > "${fpath[1]}/_kohort"
kohort completion fish > ~/.config/fish/completions/kohort.fish
"""

from __future__ import annotations

import argparse

from cli import VERBS, entry
from cli.errors import DONE, Failed
from cli.options import VERSION, Parser, add

SHELLS = ("bash", "zsh", "fish")
_FILES = frozenset({"FILE", "PATH", "PATH,...", "CONFIG", "DIR", "DIRECTORY"})


def main(words: list[str]) -> int:
    """Print the script of a shell. Raises: UsageError, ModuleNotFoundError without the extra `cli`."""
    options = parser().parse_args(words)
    import shtab  # noqa: PLC0415  main() says what to install where it is missing

    whole = program()
    for one in _all(whole):
        for action in one._actions:  # argparse offers no other way to look at a parser
            if str(action.metavar or "").upper() in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            if isinstance(action.choices, dict) and not isinstance(action, argparse._SubParsersAction):
                action.choices = list(action.choices)  # shtab would take them for parsers
    print(shtab.complete(whole, options.shell))
    return DONE


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    about = "Print what a shell needs to complete kohort's words."
    example = "bash: source <(kohort completion bash)   in ~/.bashrc"
    one = Parser(prog="kohort completion", description=about, epilog=example)
    one.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
    return one


def program() -> argparse.ArgumentParser:
    """`kohort` with every verb below it that is installed, as one parser."""
    whole = Parser(prog="kohort")
    add(whole, VERSION)
    verbs = whole.add_subparsers()
    for verb, place in VERBS.items():
        try:
            made = entry(f"kohort {verb}", place.partition(":")[0] + ":parser")()
        except (Failed, AttributeError, ModuleNotFoundError):
            made = Parser(prog=f"kohort {verb}")  # not installed
        verbs.add_parser(verb, help=made.description)
        verbs.choices[verb] = made
    return whole


def _all(one: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    below = [
        parser
        for action in one._actions
        if isinstance(action, argparse._SubParsersAction)
        for parser in action.choices.values()
    ]
    return [one, *(deeper for parser in below for deeper in _all(parser))]
