"""Which file system a place is in."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.sources.files import LOCAL, Files, Remote, is_remote
from pipeline.sources.webhdfs import SCHEMES, WebHdfs


def files_of(path: str, settings: Mapping[str, str]) -> Files:
    """The file system that a place is in. Raises: UsageError for settings that are none, where that is known yet."""
    if not is_remote(path):
        return LOCAL
    given = tuple(sorted(settings.items()))
    return WebHdfs(given) if path.partition("://")[0].lower() in SCHEMES else Remote(given)
