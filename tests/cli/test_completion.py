"""`kohort completion`: what the Tab key offers."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from cli import VERBS
from cli.completion import program
from tests.cli.conftest import kohort
from tests.support.broker_process import need

if TYPE_CHECKING:
    from pathlib import Path

_ASK = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_shtab_kohort
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = kohort("completion", "bash")
    assert made.code == 0
    path = tmp_path_factory.mktemp("completion") / "kohort.bash"
    path.write_text(made.out)
    return path


def offered(script: Path, words: str, folder: Path | None = None) -> set[str]:
    asked = _ASK.format(script=script, words=words)
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=400, check=True, cwd=folder)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_offers_what_the_parsers_know(script: Path) -> None:
    """Verbs, commands, options, values of options; after a verb its own words only."""
    assert offered(script, "kohort ''") >= set(VERBS)
    assert offered(script, "kohort gr") == {"graduate", "groups"}
    assert offered(script, "kohort groups de") == {"delete", "delete-offsets", "describe"}
    assert offered(script, "kohort groups describe --m") == {"--members"}
    assert offered(script, "kohort groups reset-offsets g --to-") >= {"--to-earliest", "--to-datetime"}
    assert offered(script, "kohort produce t --compression ''") == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert offered(script, "kohort serve --o") == {"--override"}
    assert offered(script, "kohort completion ''") >= {"bash", "zsh", "fish"}
    assert offered(script, "kohort pipeline re") >= {"rebalances", "report", "restore"}
    assert offered(script, "kohort pipeline lag --ev") == {"--every"}
    assert offered(script, "kohort groups list -b ''") == set()


def test_no_verb_keeps_its_words_to_itself() -> None:
    """Each declares a parser where completion looks for it."""
    [verbs] = (action.choices for action in program()._actions if isinstance(action.choices, dict))
    assert [verb for verb in VERBS if len(verbs[verb]._actions) < 2] == []


def test_bash_offers_files_where_files_go(script: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.csv").touch()
    assert offered(script, "kohort groups reset-offsets g --from-file pl", tmp_path) == {"plan.csv"}
    assert offered(script, "kohort storage dump pl", tmp_path) == {"plan.csv"}
    assert offered(script, "kohort topics describe pl", tmp_path) == set()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command_and_option(shell: str) -> None:
    made = kohort("completion", shell)
    assert made.code == 0
    for word in ("reset-offsets", "to-earliest", "from-file", "zstd", "graduate"):
        assert word in made.out


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(shell: str, tmp_path: Path) -> None:
    need(shell)
    path = tmp_path / "script"
    path.write_text(kohort("completion", shell).out)
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_offers_what_the_parsers_know(tmp_path: Path) -> None:
    need("fish")
    script = tmp_path / "kohort.fish"
    script.write_text(kohort("completion", "fish").out)

    def offers(words: str) -> set[str]:
        asked = ["fish", "-c", f"source {script}; complete -C '{words}'"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=True)
        return {line.partition("\t")[0] for line in done.stdout.splitlines()}

    assert offers("kohort gr") == {"graduate", "groups"}
    assert offers("kohort groups de") == {"delete", "delete-offsets", "describe"}
    assert offers("kohort groups describe --m") == {"--members"}
    assert offers("kohort produce t --compression z") == {"zstd"}


def test_every_verb_and_command_explains_itself() -> None:
    """--help ends with 0, names the program, and leaves nothing on standard error."""
    for verb in VERBS:
        if verb in ("why", "pipeline"):
            continue  # of other rooms, which may not be installed
        ended = kohort(verb, "--help")
        assert (ended.code, ended.err) == (0, ""), verb
        assert ended.out.startswith(f"usage: kohort {verb}")
    for command in ("describe", "reset-offsets"):
        assert kohort("groups", command, "--help").out.startswith(f"usage: kohort groups {command}")


def test_an_unknown_shell_is_refused() -> None:
    assert kohort("completion", "csh").code == 2
    assert kohort("completion").code == 2
