"""Where answers go that are not written to this machine: anything that Hadoop's file systems reach, through the JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.errors import DataError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopTarget:
    """A folder or a file that is written whole: made beside as `PATH.partial`, renamed when all of it is there, and
    removed when something fails."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        """Raises: UsageError where nothing of Spark's knows the scheme."""
        self.uri = uri.rstrip("/")
        self.partial = f"{self.uri}.partial"
        jvm: Any = spark._jvm
        context: Any = spark.sparkContext._jsc
        self._path: Any = jvm.org.apache.hadoop.fs.Path
        try:
            self._system = self._path(self.uri).getFileSystem(context.hadoopConfiguration())
        except Exception as error:
            raise UsageError(
                f"--to {uri}: {_first_line(error)}; --jars or --conf spark.jars.packages=... bring it"
            ) from None

    def is_taken(self) -> bool:
        """Whether something lies there that would be lost. Raises: whatever Spark raises."""
        place = self._path(self.uri)
        if not self._system.exists(place):
            return False
        return self._system.getFileStatus(place).isFile() or bool(len(self._system.listStatus(place)))

    def is_folder(self, inner: str = "") -> bool:
        """Whether it, or what is called so in it, is a folder. Raises: whatever Spark raises."""
        place = self._path(f"{self.uri}/{inner}".rstrip("/"))
        return bool(self._system.exists(place) and self._system.getFileStatus(place).isDirectory())

    def remove(self, inner: str = "") -> None:
        """Away with it, or with what is called so in it."""
        self._system.delete(self._path(f"{self.uri}/{inner}".rstrip("/")), True)

    def clear(self) -> None:
        """Away with what is written so far: by a run that was killed, before this one begins; by this one, as the rest
        failed."""
        self._system.delete(self._path(self.partial), True)

    def finish(self) -> None:
        """Put what was written in place of what is there. Raises: DataError."""
        self._put(self.partial, self.uri)

    def put_in_place(self, made: str, name: str) -> None:
        """In this folder, what was made under one name in place of what another names. Raises: DataError."""
        self._put(f"{self.uri}/{made}", f"{self.uri}/{name}")

    def put_text(self, text: str) -> None:
        """Write it as one file, whole or not at all. Raises: DataError, whatever Spark raises."""
        out = self._system.create(self._path(self.partial), True)
        try:
            try:
                out.write(bytearray(text.encode()))
            finally:
                out.close()
        except BaseException:
            self.clear()
            raise
        self.finish()

    def _put(self, made: str, place: str) -> None:
        self._system.delete(self._path(place), True)
        if not self._system.rename(self._path(made), self._path(place)):
            raise DataError(f"{made} is written, and cannot be renamed to {place}")


def _first_line(error: Exception) -> str:
    said = getattr(error, "java_exception", None)
    text = str(error if said is None else said.getMessage() or said.toString())
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
