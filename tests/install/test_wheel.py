"""What is installed claims one name, and works beside software that has the rooms' names."""

import ast
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatch_build import project_urls
from tests.kohort.testing.test_page import PAGE, write_examples
from tests.support.broker_process import ROOT, eventually
from tests.support.environments import clean_environment

pytestmark = pytest.mark.usefixtures("parser_alone")

ROOMS = ("protocol", "coordinator", "storage", "broker", "offline", "pipeline", "cli")

SPARK = """
import os
import sys
import pipeline, storage
import kohort.spark
from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable  # as every program says that has an environment of its own
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
kohort.spark.register(spark)
rows = spark.read.format("kohort-log").option("path", sys.argv[1]).option("topic", "orders").load()
print([bytes(row.value).decode() for row in rows.orderBy("offset").collect()], pipeline.WHOSE, storage.WHOSE)
"""

FIXTURES = """
import broker

def test_a_record(kohort):
    kohort.produce("t", "x")
    kohort.assert_produced("t", "x")
    assert broker.WHOSE == "somebody else's"
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and the wheel that was made of it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    environment = clean_environment() | {"KOHORT_PROJECT_URL": "git@git.test.dev:somebody/kohort.git"}
    subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return folder


@pytest.fixture(scope="module")
def environment(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel, its requirements, and others' packages named as the rooms are."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True)
    for room in ROOMS:
        (site / room).mkdir()
        (site / room / "__init__.py").write_text('WHOSE = "somebody else\'s"\n')
    # The requirements are the tests' own: their folder is searched last, and its `.pth` files, where an editable Kohort
    # would stand, are not read there.
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


@pytest.mark.parametrize(
    ("remote", "home"),
    [
        ("https://git.test.dev/somebody/kohort", "https://git.test.dev/somebody/kohort"),
        ("https://name:token@git.test.dev/group/part/kohort.git", "https://git.test.dev/group/part/kohort"),
        ("ssh://git@git.test.dev:2222/somebody/kohort.git/", "https://git.test.dev/somebody/kohort"),
        ("git@git.test.dev:somebody/kohort.git", "https://git.test.dev/somebody/kohort"),
        *((own, None) for own in ("/srv/git/kohort", "../kohort", "file:///srv/kohort.git", "http://localhost/k", "")),
    ],
)
def test_the_projects_pages_are_those_of_its_repository(remote: str, home: str | None):
    assert project_urls(remote).get("Homepage") == home


@pytest.fixture
def address(environment: Path, tmp_path: Path) -> Iterator[str]:
    """A broker of the installed program, started in a folder where the rooms' names are somebody else's too."""
    settings = ["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path / 'data'}", "kohort.http.listener="]
    words = [str(environment / "kohort"), "serve", *(word for one in settings for word in ("--override", one))]
    log = tmp_path / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(words, stdout=stream, stderr=stream, env=clean_environment(), cwd=tmp_path)
    try:
        eventually(lambda: "kohort ready on " in log.read_text(), deadline_s=60, what="a ready line")
        yield log.read_text().split("kohort ready on ")[1].split()[0]
    finally:
        process.terminate()
        process.wait(30)


def run(*words: object, stdin: str = "", cwd: Path) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        input=stdin,
        capture_output=True,
        text=True,
        env=clean_environment(),
        cwd=cwd,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.xdist_group("install")
def test_one_name_is_claimed(built: Path):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        roots = {name.split("/")[0] for name in names}
        assert {root for root in roots if not root.endswith(".dist-info")} == {"kohort"}
        assert {f"kohort/rooms/{room}/__init__.py" for room in ROOMS} <= set(names)
        assert {
            "kohort/py.typed",
            "kohort/rooms/pipeline/kafka-jars.xml",
            "kohort/rooms/pipeline/delta-jars.xml",
        } <= set(names)
        for name in names:
            if name.endswith(".py"):
                assert not short_names(archive.read(name).decode()), f"{name} names a room as a checkout does"
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.getnames())


def short_names(source: str) -> list[str]:
    """Imports by the names that the rooms have in a checkout, and modules named in text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in ROOMS]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ROOMS:
            found.append(node.module or "")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            first = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
            if isinstance(first, ast.Constant) and str(first.value).split(".")[0] in ROOMS:
                found.append(str(first.value))
    return found


def test_modules_named_in_text_are_found_too():
    assert short_names('import_module(f"protocol.messages.{name}")') == ["protocol.messages."]
    assert short_names('importlib.import_module("broker.handlers.acls")') == ["broker.handlers.acls"]
    assert short_names('import_module(f"{__name__}.{verb}"), import_module(name), import_module("json.tool")') == []


def test_no_room_names_another_in_text():
    """The build rewrites import statements alone."""
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            assert not [name for node in imports for name in short_names(ast.unparse(node))], path


@pytest.mark.slow
@pytest.mark.xdist_group("install")
def test_broker_and_command_line_work_beside_packages_of_the_rooms_names(
    environment: Path, address: str, tmp_path: Path
):
    kohort = environment / "kohort"
    run(kohort, "topics", "create", "orders", "-b", address, cwd=tmp_path)
    run(kohort, "produce", "orders", "-b", address, stdin="one\ntwo\n", cwd=tmp_path)
    consume = (kohort, "consume", "orders", "--from-beginning", "--max-messages", 2, "--group", "g", "-b", address)
    assert run(*consume, cwd=tmp_path) == "one\ntwo\n"
    assert "g" in run(environment / "python", "-m", "kohort", "groups", "list", "-b", address, cwd=tmp_path)
    dump = run(kohort, "storage", "dump", tmp_path / "data" / "orders-0", cwd=tmp_path)
    assert "one" in dump
    whose = run(environment / "python", "-c", "import broker, cli; print(broker.WHOSE, cli.WHOSE)", cwd=tmp_path)
    assert whose == "somebody else's somebody else's\n"


@pytest.mark.slow
@pytest.mark.xdist_group("install")
def test_spark_reads_logs_in_a_program_that_has_a_pipeline_of_its_own(environment: Path, address: str, tmp_path: Path):
    """Driver and Python workers alike: `pipeline` is django-pipeline's, or anybody's."""
    kohort = environment / "kohort"
    run(kohort, "topics", "create", "orders", "-b", address, cwd=tmp_path)
    run(kohort, "produce", "orders", "-b", address, stdin="one\ntwo\n", cwd=tmp_path)
    script = tmp_path / "program.py"
    script.write_text(SPARK)
    out = run(environment / "python", script, tmp_path / "data", cwd=tmp_path)
    assert out.splitlines()[-1] == "['one', 'two'] somebody else's somebody else's"


@pytest.mark.slow
@pytest.mark.xdist_group("install")
def test_the_fixtures_work_in_a_project_that_has_a_broker_of_its_own(environment: Path, tmp_path: Path):
    (tmp_path / "test_it.py").write_text(FIXTURES)
    out = run(environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "1 passed" in out


def as_its_page_says(page: Path, built: Path, folder: Path) -> Path:
    """The Python of an environment with what a page says to install, and nothing else; Kohort is the wheel."""
    (wheel,) = built.glob("*.whl")
    lines = re.findall(r"^pip install (.*)", page.read_text(), re.MULTILINE)
    words = [word for line in lines for word in shlex.split(line, comments=True)]
    words[words.index("kohort[testing]")] = f"kohort[testing] @ file://{wheel}"
    uv = Path(sys.executable).with_name("uv")
    run(uv, "venv", "-q", "-p", sys.executable, folder / "environment", cwd=folder)
    run(uv, "pip", "install", "-q", "-p", "environment", "-c", ROOT / "requirements.lock", *words, cwd=folder)
    return folder / "environment" / "bin" / "python"


@pytest.mark.slow
@pytest.mark.xdist_group("install")
def test_the_example_of_a_project_that_tests_its_kafka_code(built: Path, tmp_path: Path):
    for file in (ROOT / "examples" / "testing").glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text())
    python = as_its_page_says(ROOT / "examples" / "testing" / "README.md", built, tmp_path)
    assert "8 passed" in run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.xdist_group("install")
def test_the_page_of_testing_has_all_that_its_reader_needs(built: Path, tmp_path: Path):
    write_examples(tmp_path)
    python = as_its_page_says(PAGE, built, tmp_path)
    out = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert re.search(r"^\d+ passed", out, re.MULTILINE), out


@pytest.mark.slow
@pytest.mark.xdist_group("install")
@pytest.mark.parametrize(
    ("module", "words", "says"),
    [
        (
            "confluent_kafka",
            "groups list -b 127.0.0.1:1",
            "kohort groups needs confluent-kafka: pip install 'kohort[cli]'",
        ),
        ("shtab", "completion bash", "kohort completion needs shtab: pip install 'kohort[cli]'"),
        ("pyspark", "pipeline groups --from .", "kohort pipeline needs PySpark: pip install 'kohort[spark]'"),
    ],
)
def test_a_verb_without_its_extra_says_what_to_install(
    environment: Path, tmp_path: Path, module: str, words: str, says: str
):
    (tmp_path / "__consumer_offsets-0").mkdir()
    (tmp_path / "__consumer_offsets-0" / f"{0:020}.log").touch()
    hide = f"import sys; sys.modules[{module!r}] = None; import kohort.__main__ as k; sys.exit(k.main())"
    command = [str(environment / "python"), "-c", hide, *words.split()]
    done = subprocess.run(
        command, capture_output=True, text=True, env=clean_environment(), cwd=tmp_path, check=False, timeout=300
    )
    assert done.returncode == (2 if module == "pyspark" else 1)  # the pipeline's verbs tell the two apart
    assert done.stderr.strip().removeprefix("kohort: ") == says
