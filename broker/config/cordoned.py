"""`cordoned.log.dirs`: log directories that get no new partitions, so that they can be emptied or watched.

Source: KIP-1066; Kafka's KafkaConfig.validateCordonedLogDirs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from broker.config.config_def import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY = "cordoned.log.dirs"


def cordoned_directories(entries: Sequence[str], log_dirs: Sequence[str]) -> frozenset[Path]:
    """The directories, absolute; `*` is all of `log_dirs`. Raises: ConfigError, as Kafka says it."""
    named = [one.strip() for one in entries if one.strip()]
    known = {Path(one).absolute() for one in log_dirs}
    if "*" in named:
        if len(named) > 1:
            raise ConfigError(f"When {KEY} is set to *, it must not contain other values")
        return frozenset(known)
    found = frozenset(Path(one).absolute() for one in named)
    missing = sorted(map(str, found - known))
    if missing:
        raise ConfigError(
            f"All entries in {KEY} must be present in log.dirs or log.dir. Missing entries : {', '.join(missing)}"
        )
    return found
