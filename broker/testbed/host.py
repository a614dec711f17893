"""The process of testbeds: opens one broker after the other, each on the directory that it is told."""

from __future__ import annotations

import gc
import shutil
import socket
from pathlib import Path
from typing import Any

from broker.config.setting_types import SettingsError
from broker.loop import logs
from broker.process import StartFailed, raise_descriptor_limit
from broker.testbed.bed import Bed
from broker.testbed.channel import Channel, ChannelClosed
from broker.testbed.disk import TestbedDisk, spare_the_disk
from broker.testbed.refused import Refused


def main(descriptor: int) -> None:
    """Serve the control channel of this descriptor until the test's process ends it."""
    channel = Channel(socket.socket(fileno=descriptor))
    raise_descriptor_limit()
    spare_the_disk()
    gc.freeze()
    alive = True
    while alive:
        try:
            for words in channel.receive():
                alive = _opened(channel, words)
                gc.collect()  # a broker's parts know each other, and hold descriptors
        except ChannelClosed:
            return


def _opened(channel: Channel, words: dict[str, Any]) -> bool:
    """Serve a broker until it is closed; whether the test's process is still there."""
    folder = Path(words["folder"])
    with (folder / "broker.log").open("a") as stream:
        logs.configure(level="debug" if words.get("debug") else "info", stream=stream)
        disk = TestbedDisk(folder / "unsynced")
        disk.install()
        try:
            alive = _lives(channel, words, disk)
        except (SettingsError, StartFailed, Refused) as error:
            channel.send({"id": words["id"], "refused": str(error)})
            return True
        finally:
            disk.uninstall()
        logs.configure()
    if not alive:
        shutil.rmtree(folder, ignore_errors=True)  # the test's process has been killed, perhaps
    return alive


def _lives(channel: Channel, words: dict[str, Any], disk: TestbedDisk) -> bool:
    """Serve it through all crashes that its test has left to chance; whether the test's process is still there."""
    # Everything lies in the folder of its test, which is copied and removed as a whole.
    settings = {**words["settings"], "log.dirs": words["directory"], "metadata.log.dir": words["directory"]}
    shift_ms, frozen_ms = words["clock"]
    bed = Bed(settings, disk, (shift_ms, frozen_ms))
    alive = bed.run(channel, words["id"])
    while alive and bed.crashed:
        clock, watch = bed.runtime.clock, bed.watch
        disk.is_full = False
        del bed
        gc.collect()  # files of the old one are closed
        bed = Bed(settings, disk, clock, watch)
        alive = bed.run(channel, None)
    return alive
