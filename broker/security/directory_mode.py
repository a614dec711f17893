"""Who may look into the data directory: SCRAM keys lie in it, and with them passwords that were set at run time.

Such keys are enough to play the server, and to try guesses without asking it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from broker.config.setting_types import SettingsError
from broker.loop.logs import get_logger

if TYPE_CHECKING:
    from broker.config.settings import Settings

_OTHERS = stat.S_IRWXG | stat.S_IRWXO

log = get_logger(__name__)


def close_to_others(settings: Settings) -> None:
    """See to it that the directories are their owner's alone, and what is made from now on. Raises: SettingsError."""
    os.umask(_OTHERS)
    for key, place in [("log.dirs", one) for one in settings.log_dirs] + [
        ("metadata.log.dir", one) for one in (settings.metadata_log_dir,) if one
    ]:
        _check(settings, key, Path(place), "the keys of SCRAM users lie in it")


def check_closed(settings: Settings) -> None:
    """Whether a secret may be written into the metadata log, where it stands as it is. Raises: SettingsError."""
    directory = settings.metadata_log_dir or settings.log_dirs[0]
    key = "metadata.log.dir" if settings.metadata_log_dir else "log.dirs"
    _check(settings, key, Path(directory), "this secret would lie in it as it is")


def _check(settings: Settings, key: str, path: Path, why: str) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return  # it will be made, or is refused with a better sentence
    if not mode & _OTHERS:
        return
    if not settings.kohort_allow_open_directory:
        raise SettingsError(
            f"{key}={path}: others may look into it (mode {mode:04o}), and {why}; "
            f"chmod 700 {path}, or set kohort.allow.open.directory=true"
        )
    log.warning("directory_open_to_others", directory=str(path), mode=f"{mode:04o}", key="kohort.allow.open.directory")
