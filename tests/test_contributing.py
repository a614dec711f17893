"""What CONTRIBUTING.md tells to do is done for all that is there: its steps, one after the other."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from importlib import import_module

import pytest

from broker.config.settings import Settings
from broker.handlers.dispatch import HANDLERS
from cli import VERBS
from coordinator.outcome import Input
from protocol.api_keys import ApiKey
from protocol.errors import ProtocolError
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.registry import APIS
from tests.support.scenarios import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TESTS = {file: file.read_text() for file in (ROOT / "tests").rglob("*.py") if file.name != "test_contributing.py"}


# -- APIs ----------------------------------------------------------------------------------------------------------


def test_every_api_was_added_as_contributing_says() -> None:
    """Its message has a module of its name, its versions stand in the registry, its handler is named as it is."""
    for api_key, handler in HANDLERS.items():
        name = ApiKey(api_key).name.lower()
        assert (ROOT / "protocol" / "messages" / f"{name}.py").exists(), name
        assert api_key in APIS, name
        assert handler.__name__ == name
        assert handler.__module__.startswith("broker.handlers.")
        *_, takes = [takes for one, takes in handler.__annotations__.items() if one != "return"]
        assert takes == f"{APIS[api_key].name}Request", "no type checker looks at what is found by its name"


_ADMIN, _MEMBERS = "tests/clients/test_admin.py", "tests/clients/workers/confluent_worker.py"
_SENDING, _SECURED = "tests/clients/transactional.py", "tests/clients/test_secured.py"
_TOOLS = "tests/reference/tools/calls.py"
# Where an unmodified client, or a tool of Kafka's, sends it, and the word by which that place is found.
CALLED = {
    "API_VERSIONS": ("tests/clients/test_traps.py", "test_advertised_versions_keep_every_client_going"),
    "METADATA": (_ADMIN, "list_topics"),
    "PRODUCE": ("tests/clients/test_records.py", "produce"),
    "FETCH": ("tests/clients/test_records.py", "READER_OF"),
    "LIST_OFFSETS": (_TOOLS, '"get-offsets-earliest"'),
    "OFFSET_FOR_LEADER_EPOCH": ("tests/clients/workers/franz/group.go", "EpochOffset"),
    "FIND_COORDINATOR": (_MEMBERS, "subscribe"),
    "JOIN_GROUP": (_MEMBERS, "subscribe"),
    "SYNC_GROUP": (_MEMBERS, "subscribe"),
    "HEARTBEAT": (_MEMBERS, "subscribe"),
    "LEAVE_GROUP": (_MEMBERS, "close"),
    "OFFSET_COMMIT": (_MEMBERS, "commit"),
    "OFFSET_FETCH": (_ADMIN, "list_consumer_group_offsets"),
    "CONSUMER_GROUP_HEARTBEAT": (_TOOLS, '"console-consumer-new-protocol"'),
    "CONSUMER_GROUP_DESCRIBE": ("tests/clients/test_consumer_protocol.py", "describe_consumer_groups"),
    "DESCRIBE_GROUPS": (_ADMIN, "describe_consumer_groups"),
    "LIST_GROUPS": (_ADMIN, "list_consumer_groups"),
    "DELETE_GROUPS": (_ADMIN, "delete_consumer_groups"),
    "OFFSET_DELETE": (_ADMIN, "delete_group_offsets"),
    "CREATE_TOPICS": (_ADMIN, "create_topics"),
    "DELETE_TOPICS": (_ADMIN, "delete_topics"),
    "CREATE_PARTITIONS": (_ADMIN, "create_partitions"),
    "DELETE_RECORDS": (_ADMIN, "delete_records"),
    "DESCRIBE_TOPIC_PARTITIONS": (_TOOLS, '"topics-describe-size-one"'),
    "DESCRIBE_CONFIGS": (_ADMIN, "describe_configs"),
    "ALTER_CONFIGS": (_ADMIN, "incremental=False"),
    "INCREMENTAL_ALTER_CONFIGS": (_ADMIN, "incremental_alter_configs"),
    "LIST_CONFIG_RESOURCES": (_TOOLS, '"client-metrics-list"'),
    "DESCRIBE_LOG_DIRS": (_ADMIN, "describe_log_dirs"),
    "DESCRIBE_CLUSTER": (_ADMIN, "describe_cluster"),
    "DESCRIBE_QUORUM": (_TOOLS, '"quorum-status"'),
    "UPDATE_FEATURES": (_TOOLS, '"features-upgrade-again"'),
    "UNREGISTER_BROKER": (_TOOLS, '"cluster-unregister"'),
    "ELECT_LEADERS": (_TOOLS, '"leader-election"'),
    "ALTER_PARTITION_REASSIGNMENTS": (_TOOLS, '"reassign-execute"'),
    "LIST_PARTITION_REASSIGNMENTS": (_TOOLS, '"reassign-list"'),
    "DESCRIBE_CLIENT_QUOTAS": (_TOOLS, '"configs-user-client-describe"'),
    "ALTER_CLIENT_QUOTAS": (_TOOLS, '"configs-user-client-add"'),
    "DESCRIBE_USER_SCRAM_CREDENTIALS": (_TOOLS, '"users-scram-describe"'),
    "ALTER_USER_SCRAM_CREDENTIALS": (_SECURED, "alter_user_scram_credentials"),
    "SASL_HANDSHAKE": (_SECURED, "sasl"),
    "SASL_AUTHENTICATE": (_SECURED, "sasl"),
    "DESCRIBE_ACLS": ("tests/clients/test_acls.py", "describe_acls"),
    "CREATE_ACLS": ("tests/clients/test_acls.py", "create_acls"),
    "DELETE_ACLS": ("tests/clients/test_acls.py", "delete_acls"),
    "CREATE_DELEGATION_TOKEN": (_TOOLS, '"tokens-create"'),
    "RENEW_DELEGATION_TOKEN": (_TOOLS, '"tokens-renew"'),
    "EXPIRE_DELEGATION_TOKEN": (_TOOLS, '"tokens-expire"'),
    "DESCRIBE_DELEGATION_TOKEN": (_TOOLS, '"delegation-tokens"'),
    "GET_TELEMETRY_SUBSCRIPTIONS": ("tests/broker/http/metrics/test_client_metrics.py", "Producer("),
    "PUSH_TELEMETRY": ("tests/broker/http/metrics/test_client_metrics.py", "Producer("),
    "INIT_PRODUCER_ID": (_SENDING, "init_transactions"),
    "ADD_PARTITIONS_TO_TXN": (_SENDING, "begin_transaction"),
    "ADD_OFFSETS_TO_TXN": (_SENDING, "send_offsets_to_transaction"),
    "TXN_OFFSET_COMMIT": (_SENDING, "send_offsets_to_transaction"),
    "END_TXN": (_SENDING, "commit_transaction"),
    "WRITE_TXN_MARKERS": (_TOOLS, '"transactions-abort"'),
    "DESCRIBE_PRODUCERS": (_TOOLS, '"transactions-producers"'),
    "DESCRIBE_TRANSACTIONS": (_TOOLS, '"transactions-describe"'),
    "LIST_TRANSACTIONS": (_TOOLS, '"transactions-list"'),
}
NOT_CALLED = {
    "ALTER_REPLICA_LOG_DIRS": "kafka-reassign-partitions alone sends it, where there are several disks",
}


def test_every_api_is_called_by_a_client() -> None:
    """Step 7: there is a test in which a client that knows nothing of us sends it, or a reason."""
    served = {ApiKey(api_key).name for api_key in HANDLERS}
    assert CALLED.keys() | NOT_CALLED.keys() == served
    for name, (file, word) in CALLED.items():
        assert word in (ROOT / file).read_text(), f"{name}: no {word} in {file}"


def test_no_api_that_is_served_is_listed_as_missing() -> None:
    """Step 8."""
    page = (ROOT / "docs" / "unsupported.md").read_text()
    for api_key in HANDLERS:
        assert f"| API {api_key} |" not in page


def test_a_codec_shows_its_source_as_contributing_says() -> None:
    """A traceback has the line, though nobody keeps the text."""
    with pytest.raises(ProtocolError) as raised:
        HeartbeatRequest.decoder(4)(b"\0", 0)
    (line,) = [line for line in traceback.format_tb(raised.value.__traceback__) if "decoder of" in line]
    assert "raise past_end(" in line


# -- rules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["classic", "consumer", "offsets", "transactions"])
def test_every_rule_was_added_as_contributing_says(package: str) -> None:
    """What can happen is a slotted value of `inputs.py`; `rules.py` names the function, in a module of the package."""
    inputs = import_module(f"coordinator.{package}.inputs")
    rules = import_module(f"coordinator.{package}.rules").RULES
    own = {one for one in vars(inputs).values() if isinstance(one, type) and one.__module__ == inputs.__name__}
    for one in own:
        if issubclass(one, Input) and one.__subclasses__() == []:
            assert one.__dictoffset__ == 0, f"{one} has no slots"  # of a native class too, which names none
            assert one in rules, one
    assert all(rule.__module__.startswith("coordinator.") for rule in rules.values())


def test_every_rule_is_in_the_table_of_its_package() -> None:
    """Step 3: every input is fed in every state, or comes of one that is, in the same driver."""
    for package in ("classic", "consumer", "offsets", "transactions"):
        inputs = import_module(f"coordinator.{package}.inputs")
        fed = "".join(
            text
            for file, text in TESTS.items()
            if file.parent == ROOT / "tests" / "coordinator" / package
            and file.stem in ("test_every_state_and_input", "table", "driver")
        )
        for name, one in vars(inputs).items():
            is_input = isinstance(one, type) and issubclass(one, Input) and one.__subclasses__() == []
            if is_input and one.__module__ == inputs.__name__:
                assert f"{name}(" in fed or f".{name} " in fed, f"{package}: {name}"


# -- settings ------------------------------------------------------------------------------------------------------


def test_every_setting_was_added_as_contributing_says() -> None:
    """It has a sentence, and is not among those of Kafka's that have no effect."""
    ignored = (ROOT / "broker" / "config" / "settings_ignored.py").read_text().split()
    for key, definition in Settings({}).definitions.items():
        assert definition.doc.endswith("."), key
        assert key not in ignored, key


# From before there was this test; what has no effect says so in its sentence. Who shows one takes it out.
NOT_SHOWN = {
    "broker.rack",
    "delete.topic.enable",
    "default.replication.factor",
    "max.request.partition.size.limit",
    "max.incremental.fetch.session.cache.slots",
    "log.roll.hours",
    "log.roll.jitter.ms",
    "log.roll.jitter.hours",
    "log.index.size.max.bytes",
    "metadata.log.max.snapshot.interval.ms",
    "metadata.max.retention.ms",
    "log.retention.bytes",
    "log.message.timestamp.type",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "num.recovery.threads.per.data.dir",
    "log.flush.scheduler.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "replica.high.watermark.checkpoint.interval.ms",
    "log.cleaner.enable",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.delete.retention.ms",
    "group.max.session.timeout.ms",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.max.assignment.interval.ms",
    "group.consumer.assignors",
    "group.consumer.regex.refresh.interval.ms",
    "offset.metadata.max.bytes",
    "offsets.load.buffer.size",
    "add.partitions.to.txn.retry.backoff.ms",
    "add.partitions.to.txn.retry.backoff.max.ms",
    "transaction.max.timeout.ms",
    "transaction.state.log.segment.bytes",
    "transaction.state.log.load.buffer.size",
    "transaction.two.phase.commit.enable",
}


def test_the_effect_of_every_setting_is_shown() -> None:
    """Step 3: a test sets it, by its name or by its attribute."""
    text = "".join(TESTS.values())
    for key, definition in Settings({}).definitions.items():
        shown = key in text or key.replace(".", "_") in text or f"KAFKA_{key.upper().replace('.', '_')}" in text
        needless = definition.doc.startswith("Accepted")
        assert shown or needless or key in NOT_SHOWN, f"no test sets {key}"
        assert not (shown and key in NOT_SHOWN), f"{key} is shown: take it out of NOT_SHOWN"


# -- verbs ---------------------------------------------------------------------------------------------------------


def test_every_verb_was_added_as_contributing_says() -> None:
    """One function for its words, one that declares it whole; `docs/cli.md` or the page of its own describes it."""
    pages = "".join(page.read_text() for page in PAGES)
    for verb, where in VERBS.items():
        module = import_module(where.partition(":")[0])
        assert callable(module.main), verb
        assert callable(module.parser), verb
        assert f"kohort {verb}" in pages, verb


def test_a_verb_imports_no_client_and_no_other_room_until_it_is_called() -> None:
    """Step 2: neither its module nor its parser does, so completion and --help are quick. The pipeline is a room."""
    modules = sorted({where.partition(":")[0] for where in VERBS.values()} - {"pipeline.cli"})
    program = f"""if True:
        import json, sys
        from importlib import import_module
        for module in {modules!r}:
            import_module(module).parser()
        print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
        """
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    rooms = {"kohort", "protocol", "coordinator", "storage", "broker", "offline", "pipeline"}
    assert not {*rooms, "confluent_kafka", "kafka", "pyspark", "shtab"}.intersection(json.loads(loaded.stdout))
