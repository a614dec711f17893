"""Defaults, then server.properties, then KAFKA_*, then --override: the later one counts."""

from pathlib import Path

import pytest

from broker.config.setting_types import SettingsError
from broker.config.settings_sources import from_environment, gather, key_of_variable


def test_each_source_counts_over_the_one_before(tmp_path: Path):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nmessage.max.bytes = 3000\nlog.retention.hours:4\n# num.partitions=9\n")
    environment = {"KAFKA_MESSAGE_MAX_BYTES": "5000", "KAFKA_LOG_RETENTION_HOURS": "6", "PATH": "/bin"}

    settings = gather(path, environment, ["log.retention.hours=7"]).settings

    assert settings.num_partitions == 2
    assert settings.message_max_bytes == 5000
    assert settings.log_retention_hours == 7
    assert settings.log_segment_bytes == 1_073_741_824


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_VALID___PROPERTY__ALL_CASES", "valid-property_all.cases"),
        ("KAFKA_NODE_ID", "node.id"),
    ],
)
def test_a_variable_is_a_key_as_the_official_image_maps_it(variable: str, key: str):
    assert key_of_variable(variable) == key


def test_what_the_images_scripts_look_at_is_no_key_and_no_warning():
    environment = {"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_JMX_OPTS": "x", "KAFKA_VERSION": "4.3.1", "KAFKA_LOG4J_OPTS": ""}

    assert gather(None, environment, []).unknown == []
    assert from_environment(environment) == {}


def test_the_root_log_level_and_the_cluster_id_are_honoured():
    sources = gather(None, {"KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN", "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw"}, [])

    assert sources.settings.kohort_log_level == "warn"
    assert sources.settings.cluster_id == "4L6g3nShT-eMCtK--X86sw"


def test_advertised_listeners_alone_make_it_listen_on_every_address():
    environment = {"KAFKA_ADVERTISED_LISTENERS": "INSIDE://broker:19092,HOST://[::1]:9092"}

    assert gather(None, environment, []).settings.listeners == ("INSIDE://0.0.0.0:19092", "HOST://0.0.0.0:9092")
    assert "listeners" not in from_environment(environment, {"listeners": "PLAINTEXT://:1"})


def test_an_unknown_key_is_told_and_one_of_kafkas_without_effect_here_is_not():
    sources = gather(
        None,
        {"KAFKA_PROCESS_ROLES": "broker,controller", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:1"},
        ["num.io.threads=8", "ssl.keystore.type=PEM", "num.partitons=3"],
    )

    assert sources.unknown == ["num.partitons"]


def test_an_authorizer_of_ones_own_is_refused_since_the_broker_would_be_open():
    with pytest.raises(SettingsError, match=r"authorizer\.class\.name"):
        gather(None, {}, ["authorizer.class.name=com.example.Authorizer"])

    assert gather(None, {}, ["authorizer.class.name="]).unknown == []


def test_a_provider_of_values_is_refused_since_passwords_would_be_its_placeholders():
    jaas = "listener.name.in.plain.sasl.jaas.config=x required user_admin='${file:/run/secrets:admin}';"
    with pytest.raises(SettingsError, match=r"config.providers=file: it is not supported"):
        gather(None, {}, ["config.providers=file", "config.providers.file.class=x", jaas])


def test_a_key_that_stands_twice_in_a_file_is_told_with_its_lines_and_the_last_counts(tmp_path: Path):
    path = tmp_path / "server.properties"
    path.write_text(
        "listeners=PLAINTEXT://127.0.0.1:9092\nnum.partitions=2\n# listeners=SSL://:1\nlog.dirs=/a,\\\n  /b\n"
        "num.partitions = 2\nlisteners=SSL://0.0.0.0:9093\nlog.dirs:/c\nlisteners = SSL://0.0.0.0:9094\n"
    )

    sources = gather(path, {}, [])

    assert sources.settings.listeners == ("SSL://0.0.0.0:9094",)
    assert sources.repeated == {"listeners": [1, 7, 9], "log.dirs": [4, 8]}


def test_a_key_that_stands_twice_in_a_file_and_again_behind_it_is_not_told(tmp_path: Path):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nlog.retention.ms=1\nnum.partitions=3\nlog.retention.ms=2\n")

    assert gather(path, {"KAFKA_NUM_PARTITIONS": "4"}, ["log.retention.ms=5"]).repeated == {}


def test_a_file_that_cannot_be_read_and_an_override_that_is_none_are_refused(tmp_path: Path):
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        gather(tmp_path / "none.properties", {}, [])
    with pytest.raises(SettingsError, match="key=value"):
        gather(None, {}, ["num.partitions"])
