"""Settings: Kafka's names, values that are refused with a sentence, and what may change while the broker runs."""

import pytest

from broker.config.setting_types import SettingsError
from broker.config.settings import Settings


def test_an_attribute_is_its_key_with_underscores():
    settings = Settings({"num.partitions": " 6 "})

    assert settings.num_partitions == 6
    assert settings.text_of("num.partitions") == "6"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("log.segment.bytes", "5", "at least 1048576"),
        ("num.partitions", "many", "a whole number"),
        ("num.partitions", "2147483648", "of 32 bits"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("kohort.durability", "perhaps", "one of os, always"),
        ("log.cleanup.policy", "compact,burn", "a list of compact, delete"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "from 0 to 1"),
        ("log.dirs", "/a,/b,/a", "each once"),
        ("group.coordinator.rebalance.protocols", "consumer", "classic"),
        ("broker.id", "-5", "at least 0"),
        ("broker.id", "-1", "at least 0"),
    ],
)
def test_a_wrong_value_is_refused_with_the_key_the_value_and_what_is_allowed(key: str, value: str, words: str):
    with pytest.raises(SettingsError) as refused:
        Settings({key: value})

    message = str(refused.value)
    assert key in message
    assert value in message
    assert words in message


def test_the_older_name_of_the_nodes_id_says_the_same_or_nothing():
    """As in Kafka."""
    assert Settings({"broker.id": "7"}).node_id == 7
    assert Settings({"broker.id": "7", "node.id": "7"}).node_id == 7
    with pytest.raises(SettingsError, match=r"broker\.id=7: it takes 8, which is node\.id"):
        Settings({"broker.id": "7", "node.id": "8"})


def test_every_default_is_a_value_that_the_key_takes():
    for key in Settings.definitions.values():
        key.parse(key.default)


def test_durability_always_is_short_for_a_flush_after_every_record():
    assert Settings({"kohort.durability": "always"}).explicit["log.flush.interval.messages"] == "1"
    with pytest.raises(SettingsError, match="leave one of them out"):
        Settings({"kohort.durability": "always", "log.flush.interval.messages": "5"})


def test_a_dynamic_override_counts_over_the_file_and_the_brokers_own_over_the_clusters():
    settings = Settings({"log.retention.ms": "1000"})
    told: list[int | None] = []
    settings.on_change(lambda: told.append(settings.log_retention_ms))

    settings.apply_dynamic(cluster={"log.retention.ms": "2000"}, broker={})
    settings.apply_dynamic(cluster={"log.retention.ms": "2000"}, broker={"log.retention.ms": "3000"})

    assert told == [2000, 3000]
    settings.apply_dynamic(cluster={}, broker={})
    assert settings.log_retention_ms == 1000


def test_an_override_that_is_not_allowed_is_refused_and_passed_over_when_it_is_found():
    settings = Settings()
    with pytest.raises(SettingsError, match="cannot be changed"):
        settings.check_dynamic("num.partitions", "3")
    with pytest.raises(SettingsError, match="at least"):
        settings.check_dynamic("log.segment.bytes", "3")

    settings.apply_dynamic(cluster={"num.partitions": "3", "log.segment.bytes": "3", "nonsense": "1"}, broker={})

    assert settings.num_partitions == 1
    assert settings.log_segment_bytes == 1_073_741_824


def test_retention_is_the_finest_unit_that_is_given():
    assert Settings().retention_ms == 168 * 3_600_000
    assert Settings({"log.retention.minutes": "3"}).retention_ms == 180_000
    assert Settings({"log.retention.hours": "-1"}).retention_ms == -1
    assert Settings({"log.retention.hours": "1", "log.retention.ms": "5"}).retention_ms == 5
