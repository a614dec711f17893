"""`make compiled`: write the compiled tree to build/compiled, or say in one sentence why there is none.

python -m tools.compiled [--out DIRECTORY] [--optimize 0..3] [--trained] [--source] [--inside PACKAGE]
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from tools.compiled import training

ROOT = Path(__file__).resolve().parents[2]

_SETUP = """
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext


class Together(build_ext):
    # All but the shims is one extension, whose files setuptools would compile one after the other.
    def build_extensions(self):
        one = self.compiler.compile

        def compile(sources, **words):
            with ThreadPoolExecutor({processes}) as pool:
                return sum(pool.map(lambda source: one([source], **words), sources), [])

        self.compiler.compile = compile
        super().build_extensions()


modules = mypycify({arguments!r}, opt_level={level!r}, multi_file=True, debug_level="0", group_name={name!r})
for extension in modules:
    # gcc looks every line's indentation up for a warning, which takes longer than compiling; it is minutes.
    extension.extra_compile_args += ["-O{level}", "-g0", "-w", "-Wno-misleading-indentation", *{flags!r}]
    extension.extra_link_args += {link_flags!r}
    extension.include_dirs += {folders!r}
    for source in map(Path, extension.sources):
        source.write_text("\\n".join([line.lstrip() for line in source.read_text().split("\\n")]))
setup(name="kohort-native", packages=[], ext_modules=modules, cmdclass={{"build_ext": Together}})
"""
_MYPY = """
[mypy]
python_version = {version}
ignore_missing_imports = True
follow_imports = silent
implicit_reexport = True
check_untyped_defs = True

[mypy-{prefix}protocol.codecs.*]
disable_error_code = union-attr
"""


def main() -> int:
    """Build it beside the present one, and let the link point to it when it is whole."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "compiled")
    parser.add_argument("--optimize", default="2", choices=list("0123"), help="as the compiler's -O (2)")
    parser.add_argument("--trained", action="store_true", help="compile it twice, the second time for usual requests")
    parser.add_argument("--source", action="store_true", help="write the source that would be compiled, and stop")
    parser.add_argument("--inside", default="", help="where the rooms are in a wheel: kohort.rooms")
    options = parser.parse_args()
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if not options.source and shutil.which(compiler[0]) is None:
        print(f"there is no C compiler ({compiler[0]}): the tree stays pure, and works as well", file=sys.stderr)
        return 1
    if not options.source and any(importlib.util.find_spec(name) is None for name in ("mypyc", "setuptools")):
        print("mypyc and setuptools build the compiled tree: pip install mypy setuptools", file=sys.stderr)
        return 1
    os.environ["KOHORT_PURE"] = "1"
    sys.path.insert(0, str(ROOT))
    from tools.compiled.tree import write  # noqa: PLC0415  the rooms can be imported from here on

    out: Path = options.out
    began_s = time.time()
    out.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f"{out.name}.", dir=out.parent))
    new.chmod(0o755)
    held = os.open(new, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)  # not to be swept away by somebody who builds at the same time
    sources = write(ROOT, new)
    if options.inside:
        sources = move_inside(new, sources, options.inside)
    trained = False
    if not options.source:
        build = _Build(new, sources, options.optimize, options.inside)
        try:
            trained = options.trained and build.train(compiler)
            build.compile()
        except _Failed as error:
            sys.exit(f"{error}\nthe compiled tree could not be built; what was there is as it was")
        build.clear_up()
        stamp = new / "stamp"
        stamp.write_text(str(sysconfig.get_config_var("EXT_SUFFIX")))
        os.utime(stamp, (began_s, began_s))  # what is changed while this goes on is newer
    publish(new, out)
    os.close(held)
    how = "written" if options.source else "are native code, trained" if trained else "are native code"
    print(f"{out}: {len(sources)} modules {how}")
    return 0


def publish(tree: Path, out: Path) -> None:
    """Let the link `out` point to a tree that lies beside it, in one step, and remove others that no process holds."""
    if out.is_dir() and not out.is_symlink():  # of a time when it was no link
        out.rename(out.with_name(f"{out.name}.before"))
    link = tree.with_name(f"{tree.name}.link")
    link.symlink_to(tree.name)
    link.replace(out)
    for other in out.parent.glob(f"{out.name}.*"):
        if other.is_dir() and not other.is_symlink() and other != tree and not _is_held(other):
            shutil.rmtree(other, ignore_errors=True)


def _is_held(tree: Path) -> bool:
    """Whether a process runs on it (`kohort._checkout`), or is making it."""
    descriptor = os.open(tree, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def move_inside(tree: Path, sources: list[Path], package: str) -> list[Path]:
    """Put the rooms of a tree where they are in a wheel (`hatch_build`); the sources' new places."""
    from hatch_build import rewritten  # noqa: PLC0415  hatchling is there where wheels are built

    inside = Path(*package.split("."))
    rooms = [path for path in tree.iterdir() if path.is_dir()]
    (tree / inside).mkdir(parents=True)
    for folder in (inside, *inside.parents[:-1]):
        (tree / folder / "__init__.py").touch()
    for room in rooms:
        room.rename(tree / inside / room.name)
    for path in (tree / inside).rglob("*.py"):
        path.write_text(rewritten(path.read_text()))
    return [inside / source for source in sources]


def _holds_no_rooms(folder: str) -> bool:
    """Of PYTHONPATH, in which pip has what a build needs: whether a compiler finds no other tree in it."""
    return bool(folder) and not Path(folder, "broker").exists()


class _Failed(Exception):
    """What the compiler said."""


class _Build:
    """Of one tree, in itself."""

    def __init__(self, tree: Path, sources: list[Path], level: str, package: str) -> None:
        self._tree = tree
        self._sources = sources
        self._level = level
        self._package = package
        self._rooms = f"{package}." if package else ""
        self._flags: list[str] = []
        self._link_flags: list[str] = []

    def train(self, compiler: list[str]) -> bool:
        """Compile it so that it watches itself, and have it serve; `compile` goes by what it has seen then.

        Returns whether it has seen anything; if not, it is compiled as without.
        """
        profile = self._tree / "profile"
        watch, use = training.compiler_flags(profile)
        try:
            if reason := training.why_not(compiler):
                raise training.Untrained(reason)
            self._flags = self._link_flags = watch
            self.compile()
            training.train(self._tree, self._rooms, compiler)
            if not training.watched(profile):
                raise training.Untrained("nothing was seen")
        except (_Failed, training.Untrained) as error:
            print(f"{error}\nit is not trained, but compiled as without", file=sys.stderr)
            use = []
        self._flags, self._link_flags = use, []
        for built in self._tree.rglob("*.so"):
            built.unlink()
        shutil.rmtree(self._tree / "build", ignore_errors=True)
        return bool(use)

    def compile(self) -> None:
        """Make native code of the sources. Raises: _Failed."""
        tree, package, rooms = self._tree, self._package, self._rooms
        cache = tree.with_name("mypy-cache")
        version = ".".join(map(str, sys.version_info[:2]))
        (tree / "mypy.ini").write_text(_MYPY.format(version=version, prefix=rooms))
        values = {
            "arguments": ["--config-file=mypy.ini", f"--cache-dir={cache}", *map(str, self._sources)],
            "level": self._level,
            "processes": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            "name": f"{rooms}native" if package else "kohort_native",
            "folders": [str(Path("build", *package.split(".")))],
            "flags": self._flags,
            "link_flags": self._link_flags,
        }
        (tree / "setup.py").write_text(_SETUP.format(**values))
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        environment = {key: value for key, value in os.environ.items() if key != "MYPYPATH"}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(_holds_no_rooms, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        )
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise _Failed(f"{done.stdout}{done.stderr}")

    def clear_up(self) -> None:
        """Leave what is needed to run it."""
        for name in ("build", "profile"):
            shutil.rmtree(self._tree / name, ignore_errors=True)
        for name in ("setup.py", "mypy.ini"):
            (self._tree / name).unlink()
        with contextlib.suppress(OSError):
            subprocess.run([sys.executable, "-m", "compileall", "-q", str(self._tree)], check=False)


if __name__ == "__main__":
    sys.exit(main())
