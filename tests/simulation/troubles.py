"""Troubles that every history of a whole broker has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from tests.simulation.world import World


class Troubles:
    """What goes wrong with the broker of a world, in any history."""

    world: World
    random: random.Random

    def stop_broker(self) -> None:
        """A restart in good order."""
        self.world.stop_broker()
        self.world.run(self.random.randrange(500))
        self.world.start_broker()

    def kill_broker(self) -> None:
        """A restart in bad order."""
        self.world.kill_broker()
        self.world.run(self.random.randrange(2_000))
        self.world.start_broker()

    def cut_power(self) -> None:
        """The machine restarts too. `os` promises nothing of the last second then, and is killed instead."""
        if self.world.settings["kohort.durability"] == "always":
            self.world.lose_power()
        else:
            self.world.kill_broker()
        self.world.run(self.random.randrange(2_000))
        self.world.start_broker()

    def refuse(self) -> None:
        """The disk is full for a while; of two, in half of the histories, only one, and then perhaps it is gone."""
        world = self.world
        probability = self.random.choice([0.05, 0.5])
        if world.disks_fail_alone:
            world.disk.only = ("one", "two")[world.life % 2]
            probability = 0.05 if probability < 0.5 else 1.0
        world.disk_trouble = probability
        world.run(self.random.randrange(100, 3_000) * (3 if world.disks_fail_alone else 1))
        world.disk_trouble = 0.0
