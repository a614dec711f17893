"""Where answers go that are not written to this machine: anything that Hadoop's file systems reach, through the JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.errors import DataError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopPlace:
    """A folder or a file that is written whole: made beside as `PATH.partial`, and renamed when all of it is there."""

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

    def is_folder(self) -> bool:
        """Whether a folder lies there. Raises: whatever Spark raises."""
        place = self._path(self.uri)
        return bool(self._system.exists(place) and self._system.getFileStatus(place).isDirectory())

    def begin(self) -> None:
        """Away with what a run that was killed has left."""
        self._system.delete(self._path(self.partial), True)

    def finish(self) -> None:
        """Put what was written in place of what is there. Raises: DataError."""
        self._system.delete(self._path(self.uri), True)
        if not self._system.rename(self._path(self.partial), self._path(self.uri)):
            raise DataError(f"{self.partial} is written, and cannot be renamed to {self.uri}")

    def put_text(self, text: str) -> None:
        """Write it as one file, whole or not at all. Raises: DataError, whatever Spark raises."""
        out = self._system.create(self._path(self.partial), True)
        try:
            out.write(bytearray(text.encode()))
        finally:
            out.close()
        self.finish()


def _first_line(error: Exception) -> str:
    said = getattr(error, "java_exception", None)
    text = str(error if said is None else said.getMessage() or said.toString())
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
