"""What the pages show a reader is there: links, commands and their options, files, settings, paths of HTTP."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from functools import cache
from typing import TYPE_CHECKING

import pytest

from broker.config.settings import Settings
from broker.handlers.dispatch import HANDLERS
from broker.http.routes import ROUTES
from cli import VERBS
from cli.completion import program
from cli.kafka_tools import TOOLS
from kohort.testing import Broker
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from tests.support.scenarios import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# Where every option that is named is one of kohort's own.
COMMAND_PAGES = [ROOT / "docs" / name for name in ("cli.md", "pipeline-verbs.md", "rebalance-ledger.md")]

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _id(page: Path) -> str:
    return str(page.relative_to(ROOT))


each_page = pytest.mark.parametrize("page", PAGES, ids=_id)


def _prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text())


def _spans(page: Path) -> list[str]:
    return _SPAN.findall(_prose(page))


def _links(page: Path) -> Iterator[tuple[Path, str]]:
    """(file, anchor or "") of each link into the repository."""
    for target in _LINK.findall(_prose(page)):
        if "://" in target:
            continue
        place, _, anchor = target.partition("#")
        yield (page.parent / place).resolve() if place else page, anchor


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(page.read_text()))
    return {text.strip().replace(" ", "-") for text in kept}


def test_every_decision_is_in_the_index() -> None:
    decisions = ROOT / "docs" / "decisions"
    listed = {target.name for target, _ in _links(decisions / "README.md")}
    assert {page.name for page in decisions.glob("*.md")} - {"README.md"} <= listed


def test_what_kafka_4_4_added_and_is_not_served_is_listed() -> None:
    """And so what later versions add: by number and name, on the page of what is not there."""
    page = (ROOT / "docs" / "unsupported.md").read_text()
    for api_key in ApiKey:
        if api_key > ApiKey.DELETE_SHARE_GROUP_OFFSETS and api_key not in HANDLERS:
            assert f"| API {api_key:d} | {api_key.name.title().replace('_', '')} |" in page
    for code in ErrorCode:
        if code > ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            assert f"| error {code:d} | {code.name} |" in page


def test_every_decision_of_the_design_that_is_cited_is_there() -> None:
    """`D7` in code or on a page leads to docs/design.md."""
    there = set(re.findall(r"\*\*(D\d+)\.", (ROOT / "docs" / "design.md").read_text()))
    rooms = ("kohort", "protocol", "coordinator", "storage", "broker", "offline", "pipeline", "cli")
    files = [*PAGES, *(file for room in rooms for file in (ROOT / room).rglob("*.py"))]
    cited = {name for file in files for name in re.findall(r"\bD[1-9]\d?\b", file.read_text())}
    assert cited <= there, cited - there


# A chapter, a table or a numbered source of some text: nothing that stands in a clone has such numbers.
_ELSEWHERE = re.compile(r"\b(?:chapter|section|table) \d+(?:\.\d+)*\b|§ ?\d|Source: [A-Z]\d+\b", re.IGNORECASE)


def test_nothing_is_cited_that_a_clone_does_not_have() -> None:
    """No chapter, table or page of texts that are not in the repository; in code no module that is not there either."""
    files = [*_code(), *(file for top in ("benchmarks", "tests") for file in sorted((ROOT / top).rglob("*.py")))]
    wrong = [f"{_id(page)}: {found}" for page in PAGES for found in _unresolved(page.read_text())]
    for file in files:
        if file.name != "test_docs.py":
            text = file.read_text()
            wrong += [f"{_id(file)}: {found}" for found in (*_unresolved(text), *_unresolved_in_code(text))]
    assert not wrong


@pytest.mark.parametrize(
    "planted",
    [
        "Source: S6.",
        "as chapter 3 has it",
        "see Table 2.5",
        "(§ 4)",
        "docs/decisions/no-such-page.md",
        "(decisions/index-files.md)",  # from here there is no such folder
        "held by tests/storage/test_nothing.py",
        "as `storage.reading.no_such_module` does",
        "as `storage.reading.walk.NoSuchName` does",
        "`kohort.no.such.setting`",
    ],
)
def test_a_citation_that_leads_nowhere_is_found(planted: str) -> None:
    assert [*_unresolved(planted), *_unresolved_in_code(planted)]
    right = (
        "docs/decisions/index-files.md, `storage.reading.walk.Walk`, `kohort.durability`, tests/test_docs.py, KIP-62"
    )
    assert not [*_unresolved(right), *_unresolved_in_code(right)]


def _unresolved(text: str) -> list[str]:
    pages = re.findall(r"\bdocs/[\w/-]+\.md\b", text)
    return [*_ELSEWHERE.findall(text), *(page for page in pages if not (ROOT / page).exists())]


_TOPS = "kohort|protocol|coordinator|storage|broker|offline|pipeline|cli|tools|tests|benchmarks"
# Files of others, as they stand where they come from, and one that a test invents.
_OF_OTHERS = re.compile(r"tests/brokers/(?:kafka|confluent)/.*|tests/test_a\.py")


def _unresolved_in_code(text: str) -> Iterator[str]:
    """Of docstrings and comments: pages as links would have them, files, modules, names in modules, our settings."""
    yield from re.findall(r"(?<![\w/])decisions/[\w-]+\.md\b", text)
    for path in re.findall(rf"(?<![\w/.])(?:{_TOPS})(?:/[\w-]+)+\.(?:py|md|txt|json|toml)\b", text):
        if not (ROOT / path).exists() and not _OF_OTHERS.fullmatch(path):
            yield path
    for name in re.findall(rf"`((?:{_TOPS})(?:\.\w+)+)`", text):
        if name not in Settings({}).definitions and not _is_there(name):
            yield name


def _is_there(name: str) -> bool:
    """Whether it is a module, or a name that a module has."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ROOT.joinpath(*parts[:count])
        if module.with_suffix(".py").exists() or module.is_dir():
            file = module.with_suffix(".py") if module.with_suffix(".py").exists() else module / "__init__.py"
            return count == len(parts) or (file.exists() and bool(re.search(rf"\b{parts[count]}\b", file.read_text())))
    return False


# Words of this house that Kafka has better ones for: they were given up.
_GIVEN_UP = re.compile(
    r"\b(?:tenures?|stor(?:y|ies)|takeovers?|log keepers?|platters?|befall\w*|(?:is|are) told so)\b", re.IGNORECASE
)


def test_words_that_were_given_up_stay_away() -> None:
    """In code and on pages alike; what is not Kafka's and stays is in the glossary."""
    files = [*PAGES, *_code()]
    used = [f"{_id(file)}: {word}" for file in files for word in _GIVEN_UP.findall(file.read_text().replace("_", " "))]
    assert not used


# Words that sentences need and names do not: what is asked is requested or configured, who keeps is an owner.
_NO_NAMES = {"asked", "unasked", "carry", "carrying", "keeper", "keepers", "making", "places"}


def test_words_that_were_given_up_are_no_names() -> None:
    """Of modules, classes, functions, attributes and variables."""
    used = []
    for file in _code():
        names = {*file.relative_to(ROOT).with_suffix("").parts, *_names(ast.parse(file.read_text()))}
        for name in names:
            plain = name.strip("_").removesuffix("carry_out")  # what every verb does
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower().split("_")
            wrong = not _NO_NAMES.isdisjoint(words) or plain in {"Place", "past"}
            if wrong:
                used.append(f"{_id(file)}: {name}")
    assert not used


# What a sentence has besides what it says.
_FILLING = {"the", "a", "an", "of", "one", "its", "it", "is", "and", "in", "to", "for", "these", "those", "all"}


def test_no_docstring_only_repeats_a_name() -> None:
    """What it gives is units, shapes, errors, sources, reasons. Of a request and its answer it is the title."""
    repeating = []
    for file in _code():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and (said := ast.get_docstring(node)):
                named = set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name).lower().split("_"))
                named |= {word.rstrip("s") for word in named}
                words = set(re.findall(r"[a-z]+", said.lower())) - _FILLING
                is_title = node.name.endswith(("Request", "Response"))
                if not is_title and all(word in named or word.rstrip("s") in named for word in words):
                    repeating.append(f"{_id(file)}: {node.name}: {said}")
    assert not repeating


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for kind, field in (
            (ast.Name, "id"), (ast.Attribute, "attr"), (ast.arg, "arg"), (ast.keyword, "arg"),
            (ast.ClassDef, "name"), (ast.FunctionDef, "name"), (ast.alias, "asname"),
        ):  # fmt: skip
            if isinstance(node, kind) and getattr(node, field):
                yield getattr(node, field)


def _code() -> list[Path]:
    rooms = ("kohort", "protocol", "coordinator", "storage", "broker", "offline", "pipeline", "cli", "tools")
    return [file for room in rooms for file in sorted((ROOT / room).rglob("*.py"))]


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in _links(page):
        assert target.exists(), f"{target} is linked and not there"
        assert not anchor or anchor in _anchors(target), f"{target.name} has no heading {anchor!r}"


def test_every_page_is_linked_from_the_readme_or_from_a_page_that_is() -> None:
    """Of `docs/decisions` the page that says what they are: the others are the list that stands beside it."""
    seen: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in seen and page.suffix == ".md":
            seen.add(page)
            ahead += [target for target, _ in _links(page)]

    missing = [_id(page) for page in PAGES if page not in seen and page.parent.name != "decisions"]
    assert missing == []


# -- commands ------------------------------------------------------------------------------------------------------


@cache
def _known() -> dict[tuple[str, ...], set[str]]:
    """What may be said behind each verb and command: options, and further words."""
    return dict(_words((), program()))


def _words(path: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    below = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    options = {word for action in parser._actions for word in action.option_strings}
    yield path, options.union(*below)
    for commands in below:
        for name, command in commands.items():
            yield from _words((*path, name), command)


def _shown_lines(page: Path) -> Iterator[str]:
    """What a reader would type: of a block the lines behind a prompt, or all without one; in text `kohort ...`."""
    for _, block in _FENCE.findall(page.read_text()):
        typed = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
        yield from typed or block.splitlines()
    yield from (span for span in _spans(page) if span.split()[0] in ("kohort", "make"))


def _commands(page: Path, program: str) -> Iterator[list[str]]:
    """The words behind `program`, wherever a command begins with it."""
    for line in _shown_lines(page):
        lexer = shlex.shlex(line.replace("[", " ").replace("]", " "), posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a quotation that goes on in the next line: none of ours
            continue
        command: list[str] | None = None
        for word in [*words, ";"]:
            if set(word) <= set("|&;<>()"):
                if command:
                    yield command
                command = None
            elif command is not None:
                command.append(word)
            elif word == program or word.endswith(f"/{program}"):
                command = []


@each_page
def test_commands_that_are_shown_can_be_given(page: Path) -> None:
    known = _known()
    for words in _commands(page, "kohort"):
        verb = words[0]
        if verb in (*(f"{tool}.sh" for tool in TOOLS), "VERB") or not re.fullmatch(r"[a-z][a-z-]*", verb):
            continue
        assert verb in VERBS, f"kohort {' '.join(words)}"
        path: tuple[str, ...] = (verb,)
        for word in words[1:]:
            path = (*path, word) if (*path, word) in known else path
        # Options that all commands of a verb share may stand before the command too.
        allowed = known[path] | known[(verb,)] | {"--help"}
        for word in words[1:]:
            if word.startswith("-") and not re.fullmatch(r"-\d+|-[a-z]*\d+[smhd]?|-", word):
                assert word.partition("=")[0] in allowed, f"{word} in: kohort {' '.join(words)}"


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=_id)
def test_options_that_are_named_exist(page: Path) -> None:
    every = {word for words in _known().values() for word in words}
    for span in _spans(page):
        if span.startswith("--") and len(span) > 2:
            for word in re.findall(r"(?<!\S)--[a-z-]+", span):
                assert word in every, f"`{span}`"


@each_page
def test_make_targets_that_are_shown_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for words in _commands(page, "make"):
        for word in words:
            if not re.fullmatch(r"[a-z][a-z-]*", word):
                break
            assert word in targets, f"make {' '.join(words)}"


@each_page
def test_what_is_killed_is_one_process_by_a_file_that_names_it(page: Path) -> None:
    """Whoever follows a page has perhaps other brokers on the machine: no process is found by its words."""
    for line in _shown_lines(page):
        if line.split()[:1] == ["kill"]:
            assert re.search(r"\bkill( -\w+)? \$\(cat data/\.lock\)$", line), line
        assert not re.search(r"\b(pgrep|pkill|killall)\b", line), line


# -- names ---------------------------------------------------------------------------------------------------------


@each_page
def test_files_that_are_named_exist(page: Path) -> None:
    """`tests/metrics/`, `broker/cli/*.py`, `offsets/rules.py` on a page about one room: a path into the repository."""
    tops = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"data", "build"}  # made when asked for
    for span in _spans(page):
        if re.fullmatch(r"[a-z_]+/[\w./*-]*", span) and span.split("/")[0] in tops:
            assert list(ROOT.glob(span.rstrip("/"))), f"`{span}` is not there"


@each_page
def test_modules_that_are_named_exist(page: Path) -> None:
    """`broker.groups.figures` is a module, `storage.log.partition_log.PartitionLog` a name that one has."""
    if page.name == "CHANGELOG.md":
        return  # what was then
    settings = (ROOT / "broker" / "config" / "settings_ignored.py").read_text()  # of Kafka's, some begin like a room
    for name in re.findall(
        r"`((?:protocol|coordinator|storage|broker|offline|pipeline|cli)(?:\.\w+)+)", page.read_text()
    ):
        assert _is_there(name) or name in settings, name


@each_page
def test_settings_of_ours_that_are_named_exist(page: Path) -> None:
    definitions = Settings({}).definitions
    for name in re.findall(r"\bkohort(?:\.[a-z]+)+(?=[=`:,. )])", page.read_text()):
        if name.startswith(("kohort.rooms", "kohort.spark", "kohort.testing")):
            continue  # how an installation names its rooms, or a module that users import
        if page.name == "testing.md" and hasattr(Broker, name.split(".")[1]):
            continue  # the fixture, and what it has
        is_section = any(key.startswith(f"{name}.") for key in definitions)
        assert name in definitions or is_section or (ROOT / "examples" / "grafana" / name).exists(), name


def test_the_page_about_http_has_every_path() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = {row.partition("?")[0] for row in re.findall(r"^\| `(/[^`]*)` \|", page, re.MULTILINE)}
    assert rows == set(ROUTES) - {"/"}
