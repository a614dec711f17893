"""What Spark executors need of Kohort: a wheel, and one zip with it and its compiled helpers. `make spark-package`.

The zip is for `spark.archives`: executors unpack it beside their work, and need nothing of Kohort installed, only
what PySpark itself wants there (pyarrow, numpy, pandas) and the driver's version of Python. docs/pipeline.md has the
recipes.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("protocol", "coordinator", "storage", "pipeline")
NEEDED = ("crc32c", "cramjam", "construct", "kafka-python")
"""What these rooms import besides PySpark's own needs."""


def main(folder: Path) -> None:
    """Write both into `folder`, print their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        run("build", "--wheel", "--no-isolation", "-o", scratch, str(ROOT))
        [built] = Path(scratch).glob("kohort-*.whl")
        wheel = folder / built.name
        shutil.copyfile(built, wheel)
        inside = Path(scratch) / "inside"
        pinned = ("-c", str(ROOT / "requirements.lock"))
        pip = ("pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", str(inside))
        run(*pip, *pinned, *NEEDED)
        with zipfile.ZipFile(wheel) as found:
            found.extractall(inside, [name for name in found.namelist() if is_wanted(name)])
        version = re.match(r"kohort-([^-]+)-", wheel.name)
        assert version is not None
        python = f"py{sys.version_info.major}{sys.version_info.minor}"
        package = folder / f"kohort-{version[1]}-spark-{python}-{platform.machine()}.zip"
        pack(inside, package)
    print(wheel, package, sep="\n")


def is_wanted(name: str) -> bool:
    """Whether executors import a file of the wheel."""
    if not name.startswith("kohort/rooms/"):
        return name.startswith("kohort/") and "/testing/" not in name
    inner = name.removeprefix("kohort/rooms/")
    return "/" not in inner or inner.startswith(tuple(f"{room}/" for room in ROOMS))


def pack(folder: Path, package: Path) -> None:
    """All files of a folder, in a zip; the same files make the same bytes."""
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as into:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts and not file.parts[-2].endswith(".dist-info"):
                entry = zipfile.ZipInfo(str(file.relative_to(folder)), (1980, 1, 1, 0, 0, 0))
                entry.external_attr = 0o644 << 16
                into.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)


def run(*words: str) -> None:
    """A module of this interpreter's. Raises: CalledProcessError."""
    subprocess.run([sys.executable, "-m", *words], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
