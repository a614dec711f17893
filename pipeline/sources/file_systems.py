"""Which file system a path is in."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.sources import hdfs
from pipeline.sources.files import LOCAL, Files, Remote, is_remote
from pipeline.sources.webhdfs import SCHEMES, WebHdfs


def files_of(path: str, settings: Mapping[str, str]) -> Files:
    """The file system that a path is in. Raises: UsageError for settings that are none, where that is known yet."""
    if not is_remote(path):
        return LOCAL
    given = tuple(sorted(settings.items()))
    scheme = path.partition("://")[0].lower()
    if scheme in SCHEMES:
        return WebHdfs(given)
    # Without that client Arrow's is asked, which wants the libhdfs and the Java of a Hadoop that is installed.
    return hdfs.Hdfs(given) if scheme == "hdfs" and hdfs.is_installed() else Remote(given)
