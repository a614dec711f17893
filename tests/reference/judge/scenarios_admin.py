"""Topics, configs and the cluster in every version, with what they refuse; the handshakes of connections."""

from __future__ import annotations

from typing import Any

from protocol.messages import alter_configs as ac
from protocol.messages import alter_partition_reassignments as apr
from protocol.messages import alter_replica_log_dirs as ard
from protocol.messages import create_partitions as cp
from protocol.messages import create_topics as ct
from protocol.messages import delete_topics as dt
from protocol.messages import describe_configs as dc
from protocol.messages import describe_topic_partitions as dtp
from protocol.messages import elect_leaders as el
from protocol.messages import incremental_alter_configs as iac
from protocol.messages import list_partition_reassignments as lpr
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_data import NONE_SUCH, produce, records, topic
from tests.support.broker_process import eventually

TOPIC, BROKER = 2, 4


def create(s: Script, version: int, *topics: ct.CreatableTopic, check: bool = False) -> Any:
    return s.client().call(ct.CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=check), version)


def wanted(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> ct.CreatableTopic:
    entries = [ct.CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()]
    return ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=entries)


def assigned(name: str, *replicas: list[int], partitions: int = -1, factor: int = -1) -> ct.CreatableTopic:
    rows = [ct.CreatableReplicaAssignment(partition_index=i, broker_ids=r) for i, r in enumerate(replicas)]
    return ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, assignments=rows)


def metadata(s: Script, version: int, *names: str, create: bool = False, **fields: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create, **fields)
    return s.client().call(request, version)


def has_leaders(s: Script, name: str) -> None:
    """Wait until the topic's partitions answer."""
    eventually(lambda: s.observer().end_offsets(name, [0])[0][0] == 0)


def settled(s: Script) -> None:
    """Wait until every earlier change has reached the broker: a topic made after them has."""
    name = s.name(f"barrier{len(s.transcript.steps)}")
    s.observer().create_topic(name, 1)
    has_leaders(s, name)


@each_version("ApiVersions", range(5))
def api_versions(s: Script, v: int) -> None:
    c = s.client()
    c.call(ApiVersionsRequest(client_software_name="judge", client_software_version="1.0"), v)
    if v >= 3:
        for name, version in (("", "1"), ("a b", "1"), ("-a", "1"), ("a", "1-"), ("a.b-c", "2.0-x")):
            c.call(ApiVersionsRequest(client_software_name=name, client_software_version=version), v)


@scenario("ApiVersions-unknown")
def _(s: Script) -> None:
    for version in (6, 99):  # with the header and the body of version 3
        s.client().raw(18, version, b"\0\6judge\0041.0\0", api="ApiVersions")


@each_version("Metadata", range(14))
def metadata_versions(s: Script, v: int) -> None:
    t = topic(s, partitions=3)
    metadata(s, v, t)
    metadata(s, v, t, include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
    if v:
        metadata(s, v)
    s.client().call(MetadataRequest(topics=None if v else []), v)
    metadata(s, v, "__consumer_offsets")


@each_version("Metadata-refused", range(14))
def metadata_refused(s: Script, v: int) -> None:
    t = topic(s)
    if v >= 4:
        metadata(s, v, s.name("none"))
        metadata(s, v, t, s.name("none"))
    metadata(s, v, "no/name")
    metadata(s, v, "x" * 250)
    metadata(s, v, "")
    metadata(s, v, "..")
    if v >= 12:
        s.client().call(MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"\x05" * 16, name=None)]), v)
        s.client().call(MetadataRequest(topics=[MetadataRequestTopic(topic_id=s.topic_id(t), name=None)]), v)


@each_version("Metadata-creates", (0, 3, 4, 9, 13))
def metadata_creates(s: Script, v: int) -> None:
    """A topic made by asking for it."""
    name = s.name("auto")
    s.client("asks").call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), v)
    has_leaders(s, name)
    s.topic_id(name)
    metadata(s, v, name)


@each_version("CreateTopics", range(2, 8))
def create_topics(s: Script, v: int) -> None:
    create(s, v, wanted(s.name("a"), 3), wanted(s.name("b"), 1, 1, cleanup_policy="compact", retention_ms="1000"))
    create(s, v, assigned(s.name("c"), [1], [1]))
    create(s, v, wanted(s.name("d"), 2), check=True)
    if v >= 4:
        create(s, v, wanted(s.name("e"), -1, -1))
    settled(s)
    metadata(s, 9, s.name("a"), s.name("b"), s.name("c"), s.name("d"))
    create(s, v)


@each_version("CreateTopics-refused", range(2, 8))
def create_refused(s: Script, v: int) -> None:
    t = topic(s)
    create(s, v, wanted(t))
    create(s, v, wanted(t), check=True)
    for name in ("", ".", "..", "x" * 250, "no/name", "a b"):
        create(s, v, wanted(name))
    create(s, v, wanted(s.name("n"), 0))
    create(s, v, wanted(s.name("n"), -2))
    create(s, v, wanted(s.name("n"), 1, 0))
    create(s, v, wanted(s.name("n"), 1, -2))
    create(s, v, wanted(s.name("n"), 1, 2))
    create(s, v, wanted(s.name("n"), 1, 1, no_such_config="1"))
    create(s, v, wanted(s.name("n"), 1, 1, retention_ms="soon"))
    create(s, v, wanted(s.name("n"), 1, 1, cleanup_policy="burn"))
    create(s, v, wanted(s.name("n"), 1, 1, retention_ms=None))
    create(s, v, wanted(s.name("n"), 1, 1, segment_bytes="1"))
    create(s, v, wanted(s.name("n")), wanted(s.name("n")))
    create(s, v, assigned(s.name("n"), [1], [9]))
    create(s, v, assigned(s.name("n"), [1, 1]))
    create(s, v, assigned(s.name("n"), []))
    create(s, v, assigned(s.name("n"), [1], partitions=1, factor=1))
    create(s, v, wanted(s.name("good")), wanted("no/name"))


@each_version("DeleteTopics", range(1, 7))
def delete_topics(s: Script, v: int) -> None:
    a, b = topic(s, "a"), topic(s, "b")
    c = s.client()

    def delete(*names: str) -> None:
        states = [dt.DeleteTopicState(name=name) for name in names]
        c.call(dt.DeleteTopicsRequest(topics=states, topic_names=list(names), timeout_ms=10_000), v)

    delete(a)
    delete(a)
    delete(b, NONE_SUCH, "no/name")
    delete("")
    delete(topic(s, "c"), s.name("c"))
    delete()
    if v >= 6:
        d = topic(s, "d")
        for name, id_ in ((None, s.topic_id(d)), (None, b"\x05" * 16), (d, b"\x05" * 16), (None, bytes(16))):
            state = dt.DeleteTopicState(name=name, topic_id=id_)
            c.call(dt.DeleteTopicsRequest(topics=[state], timeout_ms=10_000), v)


@each_version("CreatePartitions", range(4))
def create_partitions(s: Script, v: int) -> None:
    t = topic(s)

    def grow(*rows: tuple[str, int, list[list[int]] | None], check: bool = False) -> None:
        topics = [
            cp.CreatePartitionsTopic(
                name=n,
                count=c,
                assignments=None if a is None else [cp.CreatePartitionsAssignment(broker_ids=b) for b in a],
            )
            for n, c, a in rows
        ]
        request = cp.CreatePartitionsRequest(topics=topics, timeout_ms=10_000, validate_only=check)
        s.client().call(request, v)

    grow((t, 5, None), check=True)
    grow((t, 3, None))
    grow((t, 3, None))
    grow((t, 2, None))
    grow((t, 0, None))
    grow((t, -1, None))
    grow((t, 4, [[1]]))
    grow((t, 5, [[9]]))
    grow((t, 6, [[1]]))
    grow((t, 5, [[1, 1]]))
    grow((NONE_SUCH, 3, None))
    grow((t, 5, None), (t, 6, None))
    grow((t, 5, None), (NONE_SUCH, 6, None))
    settled(s)
    metadata(s, 9, t)
    grow()


def describe(s: Script, version: int, *resources: tuple[int, str, list[str] | None], **fields: Any) -> Any:
    asked = [
        dc.DescribeConfigsResource(resource_type=t, resource_name=n, configuration_keys=k) for t, n, k in resources
    ]
    return s.client().call(dc.DescribeConfigsRequest(resources=asked, **fields), version)


@each_version("DescribeConfigs", range(1, 5))
def describe_configs(s: Script, v: int) -> None:
    t = topic(s, retention_ms="12345", cleanup_policy="compact,delete")
    describe(s, v, (TOPIC, t, None))
    describe(s, v, (TOPIC, t, ["retention.ms", "segment.bytes", "no.such"]), include_synonyms=True)
    describe(s, v, (TOPIC, t, []))
    broker_keys = ["num.partitions", "log.retention.hours", "group.max.size", "compression.type", "log.segment.bytes"]
    describe(s, v, (BROKER, "1", broker_keys))
    describe(s, v, (BROKER, "1", broker_keys), include_synonyms=True)
    describe(s, v, (BROKER, "", None))
    describe(s, v, (TOPIC, NONE_SUCH, None))
    describe(s, v, (TOPIC, "no/name", None))
    describe(s, v, (BROKER, "7", None))
    describe(s, v, (BROKER, "x", None))
    describe(s, v, (99, "x", None))
    describe(s, v, (TOPIC, t, ["retention.ms"]), (TOPIC, NONE_SUCH, None))
    describe(s, v)


@each_version("AlterConfigs", range(3))
def alter_configs(s: Script, v: int) -> None:
    t = topic(s, retention_ms="5000")

    def alter(kind: int, name: str, *, check: bool = False, **configs: str | None) -> None:
        entries = [ac.AlterableConfig(name=k.replace("_", "."), value=value) for k, value in configs.items()]
        resource = ac.AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)
        s.client().call(ac.AlterConfigsRequest(resources=[resource], validate_only=check), v)

    alter(TOPIC, t, segment_ms="60000")
    settled(s)
    describe(s, 4, (TOPIC, t, ["retention.ms", "segment.ms"]))
    alter(TOPIC, t, check=True, segment_ms="70000")
    alter(TOPIC, t, no_such_config="1")
    alter(TOPIC, t, retention_ms="soon")
    alter(TOPIC, t, retention_ms=None)
    alter(TOPIC, NONE_SUCH, retention_ms="1")
    alter(TOPIC, "", retention_ms="1")
    alter(99, "x", retention_ms="1")
    alter(BROKER, "7", log_retention_ms="1")
    alter(BROKER, "x", log_retention_ms="1")
    alter(TOPIC, t)
    settled(s)
    describe(s, 4, (TOPIC, t, ["retention.ms", "segment.ms"]))


@each_version("IncrementalAlterConfigs", range(2))
def incremental(s: Script, v: int) -> None:
    t = topic(s, retention_ms="5000")

    def alter(kind: int, name: str, *rows: tuple[str, int, str | None], check: bool = False) -> None:
        entries = [iac.AlterableConfig(name=k, config_operation=o, value=value) for k, o, value in rows]
        resource = iac.AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)
        s.client().call(iac.IncrementalAlterConfigsRequest(resources=[resource], validate_only=check), v)

    alter(TOPIC, t, ("segment.ms", 0, "60000"))
    alter(TOPIC, t, ("cleanup.policy", 2, "compact"))
    alter(TOPIC, t, ("cleanup.policy", 3, "delete"))
    alter(TOPIC, t, ("retention.ms", 1, None))
    settled(s)
    describe(s, 4, (TOPIC, t, ["retention.ms", "segment.ms", "cleanup.policy"]))
    alter(TOPIC, t, ("segment.ms", 0, "70000"), check=True)
    alter(TOPIC, t, ("segment.ms", 2, "1"))
    alter(TOPIC, t, ("segment.ms", 0, "1"), ("segment.ms", 0, "2"))
    alter(TOPIC, t, ("no.such", 0, "1"))
    alter(TOPIC, t, ("no.such", 1, None))
    alter(TOPIC, t, ("retention.ms", 0, "soon"))
    alter(TOPIC, t, ("retention.ms", 0, None))
    alter(TOPIC, t, ("cleanup.policy", 2, "burn"))
    alter(TOPIC, NONE_SUCH, ("retention.ms", 0, "1"))
    alter(99, "x", ("retention.ms", 0, "1"))
    alter(BROKER, "7", ("log.retention.ms", 0, "1"))
    alter(TOPIC, t)
    settled(s)
    describe(s, 4, (TOPIC, t, ["retention.ms", "segment.ms", "cleanup.policy"]))


@each_version("AlterReplicaLogDirs", (1, 2))
def move_between_directories(s: Script, v: int) -> None:
    """To where it lies, to where nothing is, and what does not exist."""
    t = topic(s)
    for path, name, partition in (
        (str(s.data), t, 0),
        (str(s.data / "no"), t, 0),
        (str(s.data), t, 9),
        ("relative", t, 0),
    ):
        place = ard.AlterReplicaLogDirTopic(name=name, partitions=[partition])
        wish = ard.AlterReplicaLogDir(path=path, topics=[place])
        s.client().call(ard.AlterReplicaLogDirsRequest(dirs=[wish]), v)


@each_version("DescribeLogDirs", range(1, 6))
def log_dirs(s: Script, v: int) -> None:
    t = topic(s)
    produce(s, 9, {(t, 0): records(b"a" * 100)})
    c = s.client()
    c.call(DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=t, partitions=[0, 1])]), v)
    c.call(DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=t, partitions=[1, 7])]), v)
    c.call(DescribeLogDirsRequest(topics=None), v)
    c.call(DescribeLogDirsRequest(topics=[]), v)
    c.call(DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=NONE_SUCH, partitions=[0])]), v)


@each_version("DescribeCluster", range(3))
def cluster(s: Script, v: int) -> None:
    c = s.client()
    for operations in (False, True):
        c.call(DescribeClusterRequest(include_cluster_authorized_operations=operations), v)
    if v >= 1:
        for kind in (2, 0, 9):
            c.call(DescribeClusterRequest(endpoint_type=kind), v)
    if v >= 2:
        c.call(DescribeClusterRequest(include_fenced_brokers=True), v)


@scenario("DescribeTopicPartitions")
def _(s: Script) -> None:
    a, b = topic(s, "a", 5), topic(s, "b", 2)

    def ask(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> None:
        at = None if cursor is None else dtp.Cursor(topic_name=cursor[0], partition_index=cursor[1])
        topics = [dtp.TopicRequest(name=name) for name in names]
        request = dtp.DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=at)
        s.client().call(request, 0)

    ask(a, b)
    ask(b, a)
    ask(a, b, limit=3)
    ask(a, b, limit=3, cursor=(a, 3))
    ask(a, b, cursor=(b, 1))
    ask(a, NONE_SUCH)
    ask("no/name")
    ask(a, limit=0)
    ask(a, limit=-1)
    ask(a, cursor=(a, -1))
    ask(a, b, cursor=(s.name("aa"), 0))


@each_version("ElectLeaders", range(3))
def elect(s: Script, v: int) -> None:
    t = topic(s)

    def ask(name: str, *partitions: int, kind: int = 0) -> None:
        rows = [el.TopicPartitions(topic=name, partitions=list(partitions))]
        s.client().call(el.ElectLeadersRequest(election_type=kind, topic_partitions=rows, timeout_ms=5_000), v)

    ask(t, 0, 1)
    ask(t, 7)
    ask(NONE_SUCH, 0)
    ask(t)
    if v >= 1:
        ask(t, 0, kind=1)
        ask(t, 0, kind=9)


@each_version("AlterPartitionReassignments", range(2))
def reassign(s: Script, v: int) -> None:
    t = topic(s)

    def ask(name: str, partition: int, replicas: list[int] | None, **fields: Any) -> None:
        row = apr.ReassignablePartition(partition_index=partition, replicas=replicas)
        topics = [apr.ReassignableTopic(name=name, partitions=[row])]
        s.client().call(apr.AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=5_000, **fields), v)

    ask(t, 0, [1])
    ask(t, 0, None)
    ask(t, 0, [9])
    ask(t, 0, [1, 1])
    ask(t, 0, [])
    ask(t, 0, [-1])
    ask(t, 9, [1])
    ask(NONE_SUCH, 0, [1])
    ask(NONE_SUCH, 0, None)
    s.client().call(apr.AlterPartitionReassignmentsRequest(topics=[]), v)


@scenario("ListPartitionReassignments")
def _(s: Script) -> None:
    t = topic(s)
    s.client().call(lpr.ListPartitionReassignmentsRequest(topics=None), 0)
    for name, indexes in ((t, [0, 1]), (t, [9]), (NONE_SUCH, [0])):
        rows = [lpr.ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)]
        s.client().call(lpr.ListPartitionReassignmentsRequest(topics=rows), 0)


@each_version("SaslHandshake", range(2))
def handshake(s: Script, v: int) -> None:
    for mechanism in ("PLAIN", "", "NONE"):
        s.client(mechanism or "empty").call(SaslHandshakeRequest(mechanism=mechanism), v)


@each_version("SaslAuthenticate", range(3))
def authenticate(s: Script, v: int) -> None:
    s.client().call(SaslAuthenticateRequest(auth_bytes=b"\0user\0secret"), v)
    s.client().call(SaslAuthenticateRequest(auth_bytes=b""), v)


@scenario("OnPurpose-colliding-names")
def _(s: Script) -> None:
    """Two names of one request that differ in a dot and an underscore only."""
    create(s, 5, wanted(s.name("e.f")), wanted(s.name("e_f")))


@scenario("OnPurpose-no-time")
def _(s: Script) -> None:
    """A topic to be made in no time."""
    request = ct.CreateTopicsRequest(topics=[wanted(s.name("t"))], timeout_ms=0)
    s.client().call(request, 5)


@scenario("OnPurpose-unknown-operation")
def _(s: Script) -> None:
    """An IncrementalAlterConfigs operation that does not exist."""
    entry = iac.AlterableConfig(name="retention.ms", config_operation=9, value="1")
    resource = iac.AlterConfigsResource(resource_type=TOPIC, resource_name=topic(s), configs=[entry])
    s.client().call(iac.IncrementalAlterConfigsRequest(resources=[resource]), 1)


@scenario("OnPurpose-names-and-ids")
def _(s: Script) -> None:
    """Metadata asked for by a name and by an id at once."""
    a, b = topic(s, "a"), topic(s, "b")
    topics = [MetadataRequestTopic(name=a), MetadataRequestTopic(topic_id=s.topic_id(b), name=None)]
    s.client().call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)


@scenario("OnPurpose-elect-all")
def _(s: Script) -> None:
    """An election in all partitions."""
    s.client().call(el.ElectLeadersRequest(topic_partitions=None, timeout_ms=5_000), 2)
