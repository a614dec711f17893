"""Writes a label for each order: a FastStream service."""

from typing import Any

from faststream.kafka import KafkaBroker


def labelling(**config: Any) -> KafkaBroker:
    """The service, not started; `config` says where its broker is."""
    service = KafkaBroker(**config)

    @service.subscriber("orders", group_id="labels", auto_offset_reset="earliest")
    @service.publisher("labels")
    async def label(order: str) -> str:
        return f"{order}, with care"

    return service
