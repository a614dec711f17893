"""The versions that came with Apache Kafka 4.4, as its own classes write them; requests without their headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from protocol.messages import api_versions, delete_groups

if TYPE_CHECKING:
    from protocol.schema import Message

Deleted = delete_groups.DeletableGroupResult

CAPTURED: dict[str, tuple[int, Message, str]] = {
    "api_versions_request_v5": (
        5,
        api_versions.ApiVersionsRequest(
            client_software_name="lib",
            client_software_version="1.0",
            cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
            node_id=1,
        ),
        "04 6c6962 04 312e30 17 4d6b55334f4556424e5463774e544a454e444d325167 00000001 00",
    ),
    "api_versions_request_v5_to_nobody": (
        5,
        api_versions.ApiVersionsRequest(client_software_name="lib", client_software_version="1.0"),
        "04 6c6962 04 312e30 00 ffffffff 00",
    ),
    "api_versions_response_v5": (5, api_versions.ApiVersionsResponse(error_code=129), "0081 01 00000000 00"),
    "delete_groups_request_v3": (
        3,
        delete_groups.DeleteGroupsRequest(groups_names=["a", "b"]),
        "03 02 61 02 62 00",
    ),
    "delete_groups_response_v3": (
        3,
        delete_groups.DeleteGroupsResponse(
            results=[Deleted(group_id="a"), Deleted(group_id="b", error_code=134, error_message="no")]
        ),
        "00000000 03 02 61 0000 00 00 02 62 0086 03 6e6f 00 00",
    ),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_the_bytes_are_kafkas(name: str) -> None:
    """Both ways."""
    version, message, text = CAPTURED[name]
    data = bytes.fromhex(text)

    assert message.encode(version) == data
    assert type(message).decode(version, data) == message
