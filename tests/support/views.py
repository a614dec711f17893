"""What a shard remembers of its groups for the next input."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator.shard import Shard


def check_views(shard: Shard) -> None:
    """Every view that is kept shows the present."""
    for group_id, view in shard._views.items():
        assert view.group is shard.groups.get(group_id)
        assert view.consumer_group is shard.consumer_groups.get(group_id)
        assert (view.group is None) is not (view.consumer_group is None)
        for seen, held in ((view.offsets, shard.offsets), (view.pending_offsets, shard.pending)):
            assert seen is held.get(group_id) or (not seen and group_id not in held)
        assert view.topics is shard.topics
        assert view.settings is shard.settings
        assert view.consumer_settings == shard._consumer_settings(group_id)
