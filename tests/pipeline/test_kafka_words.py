"""Kafka's own words: what its dump tool prints of a log equals the oracle's records, one for one, field by field.

`test_tables_equal_oracle` holds the table `records` equal to the oracle's, so Kafka's words are the table's too.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline import oracle
from tests.pipeline.capture import DIRECTORIES, unpack
from tests.pipeline.oracle.records import assignment, subscription
from tests.support.broker_process import ROOT, need

pytestmark = pytest.mark.slow

RECORD = re.compile(r"\| offset: (\d+) \w+: (-?\d+) .*?key: (.*?) payload: (.*)$")
Row = dict[str, Any]


def dumped(folder: Path) -> list[tuple[int, int, Any, Any]]:
    """(offset, timestamp, key, value) of every record, as `kafka-dump-log --offsets-decoder` prints them."""
    files = ",".join(str(file) for file in sorted(folder.glob("*.log")) if file.stat().st_size)
    if not files:
        return []
    words = ["run", "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--print-data-log", "--files", files]
    ended = subprocess.run(
        [str(ROOT / "tools/kafka"), *words], capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stderr
    found = []
    for line in ended.stdout.splitlines():
        match = RECORD.match(line)
        if match and "endTxnMarker" not in line:
            value = None if match[4] == "<DELETE>" else json.loads(match[4])
            found.append((int(match[1]), int(match[2]), json.loads(match[3]), value))
    return found


def said_of(row: Row) -> Any:
    """The value of a row of `records`, as Kafka's JSON has it; only what both name."""
    fields = row["fields"]
    if row["record_type"] == "offset_commit":
        out = {
            "offset": row["committed_offset"],
            "metadata": row["metadata"],
            "commitTimestamp": row["committed_at"],
        }
        if row["value_version"] >= 3:
            out["leaderEpoch"] = -1 if row["leader_epoch"] is None else row["leader_epoch"]
        if row["value_version"] == 1:
            out["expireTimestamp"] = -1 if row["expires_at"] is None else row["expires_at"]
        return out | ({"topicId": row["topic_id"]} if row["topic_id"] else {})
    if row["record_type"] == "group_metadata":
        names = {
            "member_id": "memberId",
            "group_instance_id": "groupInstanceId",
            "client_id": "clientId",
            "client_host": "clientHost",
            "rebalance_timeout_ms": "rebalanceTimeout",
            "session_timeout_ms": "sessionTimeout",
        }
        members = [{kafkas: member[ours] for ours, kafkas in names.items()} for member in fields["members"]]
        return {
            "protocolType": fields["protocol_type"] or "",
            "generation": fields["generation"],
            "protocol": fields["protocol"],
            "leader": fields["leader"],
            "currentStateTimestamp": -1 if fields["state_changed_at"] is None else fields["state_changed_at"],
            "members": members,
        }
    return {
        "consumer_group_metadata": lambda: {"epoch": fields["group_epoch"]},
        "consumer_group_member_metadata": lambda: {
            "instanceId": fields["instance_id"],
            "rackId": fields["rack_id"],
            "clientId": fields["client_id"],
            "clientHost": fields["client_host"],
            "subscribedTopicNames": fields["subscribed_topics"],
            "rebalanceTimeoutMs": fields["rebalance_timeout_ms"],
            "serverAssignor": fields["server_assignor"],
        },
        "consumer_group_target_assignment_metadata": lambda: {"assignmentEpoch": fields["target_epoch"]},
        "consumer_group_target_assignment_member": lambda: {"topicPartitions": by_topic(fields["partitions"])},
        "consumer_group_current_member_assignment": lambda: {
            "memberEpoch": fields["member_epoch"],
            "previousMemberEpoch": fields["previous_member_epoch"],
            "assignedPartitions": by_topic(fields["partitions"]),
            "partitionsPendingRevocation": by_topic(fields["pending_revocation"]),
        },
    }[row["record_type"]]()


def by_topic(parts: list[Row]) -> list[Row]:
    topics: dict[str, list[int]] = {}
    for part in parts:
        topics.setdefault(part["topic_id"], []).append(part["partition"])
    return [{"topicId": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]


def flat(topics: list[Row]) -> list[Row]:
    """Kafka's assignment as the oracle has it."""
    return [{"topic": one["topic"], "partition": partition} for one in topics for partition in one["partitions"]]


def only(wanted: Any, data: Any) -> Any:
    """Of Kafka's JSON what ours names too; lists one for one."""
    if isinstance(wanted, dict):
        return {name: only(value, data.get(name)) for name, value in wanted.items()}
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        assert len(wanted) == len(data)
        return [only(one, other) for one, other in zip(wanted, data, strict=True)]
    return data


@pytest.mark.parametrize("name", [name for name in DIRECTORIES if name.startswith("kafka") or name == "kohort"])
def test_kafkas_dump_tool_says_what_the_records_say(name: str, tmp_path: Path):
    """Every line has its row, every row its line; tombstones, KIP-848 records and assignments too."""
    need("java", "mvn")
    directory, _ = unpack(name, tmp_path)
    compared = 0
    for log in oracle.LogDirectory(directory).of("__consumer_offsets"):
        rows = oracle.group_records(log.records())
        lines = dumped(directory / f"__consumer_offsets-{log.partition}")
        assert [(row["log_offset"], row["logged_at"]) for row in rows] == [line[:2] for line in lines]
        for row, (_, _, key, value) in zip(rows, lines, strict=True):
            assert key["type"] == str(row["key_type"])
            assert key["data"].get("group", key["data"].get("groupId")) == row["group_id"]
            for ours in ("topic", "partition", "member_id"):
                if row[ours] is not None:
                    assert key["data"]["memberId" if ours == "member_id" else ours] == row[ours]
            assert (value is None) == row["tombstone"]
            if value is not None:
                wanted = said_of(row)
                assert int(value["version"]) == row["value_version"]
                assert only(wanted, value["data"]) == wanted
                compared += 1
                if row["record_type"] == "group_metadata":
                    for member, printed in zip(row["fields"]["members"], value["data"]["members"], strict=True):
                        assert flat(printed["assignment"]["assignedPartitions"]) == assignment(member["assignment"])
                        topics = subscription(member["subscription"])["subscribed_topics"]
                        assert printed["subscription"]["topics"] == topics
    assert compared > 20
