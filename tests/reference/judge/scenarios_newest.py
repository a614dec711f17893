"""The versions that Apache Kafka 4.4 has and 4.3 has not, and those that only its newest clients use."""

from __future__ import annotations

from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.metadata import MetadataRequest
from tests.reference.judge.catalog import scenario
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_admin import api_versions
from tests.reference.judge.scenarios_data import fetches, offsets, refused_fetch, refused_offsets, session
from tests.reference.judge.scenarios_groups import deleting

for name, act, version in (
    ("ApiVersions", api_versions, 5),
    ("Fetch", fetches, 18),
    ("Fetch-refused", refused_fetch, 18),
    ("Fetch-session", session, 18),
    ("ListOffsets", offsets, 11),
    ("ListOffsets-refused", refused_offsets, 11),
    ("O17", deleting, 3),
):
    scenario(f"{name}-v{version}")(lambda s, act=act, version=version: act(s, version))


@scenario("ApiVersions-meant")
def _(s: Script) -> None:
    """KIP-1242: the cluster and the node that the client means, right, wrong, and one without the other."""
    c = s.client()
    asked = c.wire.call(MetadataRequest(topics=[]), 9)
    here = asked.cluster_id, asked.controller_id
    for cluster_id, node_id in (
        here,
        (here[0], here[1] + 1),
        ("another", here[1]),
        (None, here[1]),
        (here[0], -1),
        ("", -1),
        ("", here[1]),
    ):
        c.call(
            ApiVersionsRequest(
                client_software_name="judge", client_software_version="1", cluster_id=cluster_id, node_id=node_id
            ),
            5,
        )
