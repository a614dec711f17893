"""`kohort storage format`: a new data directory with the first users in it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from broker.config.setting_types import SettingsError
from broker.config.settings_sources import gather
from broker.loop.uuids import random_uuid
from cli.errors import DONE, Failed, UsageError, WrongInput
from coordinator.why.terms import plural
from offline.formatting import BadUser, format_directories, user_record
from storage.errors import CorruptFile, DirectoryRefused, StorageError

if TYPE_CHECKING:
    import argparse


def format_storage(options: argparse.Namespace) -> int:
    """Format the directories that the settings name. Raises: Failed, UsageError, WrongInput."""
    try:
        users = [user_record(text) for text in options.add_scram]
    except BadUser as error:
        raise UsageError(f"--add-scram: {error}") from None
    try:
        settings = gather(options.config and Path(options.config), os.environ, options.override).settings
        directories, made = format_directories(
            settings.log_dirs,
            settings.metadata_log_dir,
            users,
            node_id=settings.node_id,
            cluster_id=options.cluster_id or settings.cluster_id,
            new_uuid=random_uuid,
            now_ms=time.time_ns() // 1_000_000,
        )
    except SettingsError as error:
        raise WrongInput(str(error)) from None
    except (CorruptFile, DirectoryRefused, StorageError) as error:
        raise Failed(str(error)) from None
    folders = " and ".join(str(path) for path in directories)
    credentials = plural(len(users), "SCRAM credential")
    print(f"Formatted {folders} as node {made.node_id} of cluster {made.cluster_id}, with {credentials}.")
    return DONE
