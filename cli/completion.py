"""`kohort completion SHELL`: what the Tab key offers, made from the verbs' own parsers.

source <(kohort completion bash)
kohort completion zsh > "${fpath[1]}/_kohort"
kohort completion fish > ~/.config/fish/completions/kohort.fish
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cli import VERBS, entry
from cli.errors import DONE, Failed
from cli.options import Parser

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = frozenset({"FILE", "PATH", "PATH,...", "CONFIG", "DIR", "DIRECTORY"})


@dataclass(slots=True)
class Option:
    """One spelling of one option, or a command; `values` are what it may be given."""

    word: str
    help: str
    values: tuple[str, ...] = ()
    takes_value: bool = False
    takes_file: bool = False


@dataclass(slots=True)
class Node:
    """A verb or a command: where it stands, and what may come next."""

    path: tuple[str, ...]
    options: list[Option] = field(default_factory=list)
    commands: list[Option] = field(default_factory=list)
    takes_files: bool = False


def main(words: list[str]) -> int:
    """Print the script of a shell. Raises: UsageError."""
    options = parser().parse_args(words)
    print(_SHELLS[options.shell](list(nodes())), end="")
    return DONE


def parser() -> argparse.ArgumentParser:
    """The verb, whole."""
    about = "Print what a shell needs to complete kohort's words."
    example = "bash: source <(kohort completion bash)   in ~/.bashrc"
    one = Parser(prog="kohort completion", description=about, epilog=example)
    one.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    return one


def nodes() -> Iterator[Node]:
    """Every place at which a word can be completed, the program itself first."""
    top = Node((), [Option("--help", "how to use it"), Option("--version", "the version")])
    below: list[Node] = []
    for verb, place in VERBS.items():
        own: list[Node] = []
        try:
            made = entry(f"kohort {verb}", place.partition(":")[0] + ":parser")
            own = list(_walk((verb,), made()))
        except (Failed, AttributeError, ModuleNotFoundError):
            own = [Node((verb,))]  # not installed, or a verb that says nothing about itself
        top.commands.append(Option(verb, ""))
        below += own
    yield top
    yield from below


def _walk(path: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[Node]:
    node = Node(path)
    found: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:  # argparse offers no other way to look at a parser
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            node.commands += [Option(name, helps.get(name, "")) for name in action.choices]
            found += action.choices.items()
            continue
        takes_value = action.nargs != 0
        is_file = str(action.metavar or "").upper() in _FILES
        values = tuple(map(str, action.choices or ()))
        for word in action.option_strings:
            node.options.append(Option(word, (action.help or "").replace("\n", " "), values, takes_value, is_file))
        if not action.option_strings:
            node.takes_files = node.takes_files or is_file
            node.commands += [Option(value, "") for value in values]
    yield node
    for name, below in found:
        yield from _walk((*path, name), below)


def _words(node: Node) -> str:
    return " ".join(option.word for option in (*node.commands, *node.options))


def _with_values(all_nodes: list[Node]) -> Iterator[tuple[Node, Option]]:
    for node in all_nodes:
        for option in node.options:
            if option.takes_value:
                yield node, option


def bash(all_nodes: list[Node]) -> str:
    """A function for bash's `complete`."""
    places = "\n".join(f'        "{"/".join(node.path)}") words="{_words(node)}" ;;' for node in all_nodes)
    paths = "|".join(f'"{"/".join(node.path)}"' for node in all_nodes if node.path)
    values = []
    for node, option in _with_values(all_nodes):
        answer = f'words="{" ".join(option.values)}"' if option.values else 'words=""'
        values.append(f'        "{"/".join(node.path)} {option.word}") {answer}; files={int(option.takes_file)} ;;')
    files = "|".join(f'"{"/".join(node.path)}"' for node in all_nodes if node.takes_files) or '"-"'
    return f"""\
# bash completion of kohort; made by `kohort completion bash`
_kohort() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" path="" words="" files=0 i next
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        next="${{path:+$path/}}${{COMP_WORDS[i]}}"
        case "$next" in
        {paths}) path="$next" ;;
        esac
    done
    case "$path" in
{places}
    esac
    case "$path" in
        {files}) files=1 ;;
    esac
    case "$path $before" in
{chr(10).join(values)}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [ "$files" = 1 ] && [ "${{#COMPREPLY[@]}}" = 0 ]; then
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _kohort kohort
"""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(all_nodes: list[Node]) -> str:
    """A function for zsh's completion system, with what each word does."""
    paths = "|".join(f'"{"/".join(node.path)}"' for node in all_nodes if node.path)
    places = []
    for node in all_nodes:
        said = [
            _quoted(f"{option.word.replace(':', chr(92) + ':')}:{option.help}")
            for option in (*node.commands, *node.options)
        ]
        action = " && ".join(["_describe 'kohort' offers", *(["_files"] if node.takes_files else [])]).replace(
            " && _files", "; _files"
        )
        places.append(f'    "{"/".join(node.path)}") offers=({" ".join(said)}); {action} ;;')
    values = []
    for node, option in _with_values(all_nodes):
        action = f"compadd {' '.join(option.values)}" if option.values else "_files" if option.takes_file else ":"
        values.append(f'    "{"/".join(node.path)} {option.word}") {action}; return ;;')
    return f"""\
#compdef kohort
# zsh completion of kohort; made by `kohort completion zsh`
_kohort() {{
  local place="" next word
  local -a offers
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    next="${{place:+$place/}}$word"
    case "$next" in
    {paths}) place="$next" ;;
    esac
  done
  case "$place ${{words[CURRENT-1]}}" in
{chr(10).join(values)}
  esac
  case "$place" in
{chr(10).join(places)}
  esac
}}
if [ "$funcstack[1]" = "_kohort" ]; then _kohort "$@"; else compdef _kohort kohort; fi
"""


def fish(all_nodes: list[Node]) -> str:
    """Lines for fish, one a word."""
    paths = " ".join(_quoted("/".join(node.path)) for node in all_nodes if node.path)
    lines = []
    for node in all_nodes:
        at = "/".join(node.path)
        here = "-n " + _quoted(f'__kohort_at "{at}"')
        for command in node.commands:
            lines.append(f"complete -c kohort {here} -a {_quoted(command.word)} -d {_quoted(command.help)}")
        for option in node.options:
            name = f"-l {option.word[2:]}" if option.word.startswith("--") else f"-s {option.word[1:]}"
            value = ""
            if option.takes_value:
                value = " -r" if option.takes_file else " -x"
            if option.values:
                value += f" -a {_quoted(' '.join(option.values))}"
            lines.append(f"complete -c kohort {here} {name}{value} -d {_quoted(option.help)}")
        if node.takes_files:
            lines.append(f"complete -c kohort {here} -F")
    return f"""\
# fish completion of kohort; made by `kohort completion fish`
function __kohort_at
    set -l place ''
    for word in (commandline -opc)[2..-1]
        set -l next $word
        test -n "$place"; and set next "$place/$word"
        contains -- $next {paths}; and set place $next
    end
    test "$place" = "$argv[1]"
end
complete -c kohort -f
{chr(10).join(lines)}
"""


_SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
