"""Which quota counts, and what rates and buckets make of time: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.catalogue.cluster_state import ClusterState
from broker.catalogue.quotas import Alteration, alter
from broker.config.settings import Settings
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entities import Entity, Part, counting
from broker.quotas.meters import Meters, Quota
from broker.quotas.rates import Rate, TokenBucket
from protocol.errors import ErrorCode
from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from broker.catalogue.quotas import EntityKey

ABSENT, DEFAULT = Part.ABSENT, Part.DEFAULT


def test_the_most_exact_quota_counts_and_says_with_whom_its_meter_is_shared() -> None:
    """SE54: eight levels, taken away one by one."""
    both, user, client = Entity("u", "c"), Entity("u", ABSENT), Entity(ABSENT, "c")
    levels = {
        Entity("u", "c"): both,
        Entity("u", DEFAULT): both,
        Entity("u", ABSENT): user,
        Entity(DEFAULT, "c"): both,
        Entity(DEFAULT, DEFAULT): both,
        Entity(DEFAULT, ABSENT): user,
        Entity(ABSENT, "c"): client,
        Entity(ABSENT, DEFAULT): client,
    }
    quotas = {entity: float(number) for number, entity in enumerate(levels)}
    for entity, meter in levels.items():
        assert counting(quotas, "u", "c") == (meter, quotas.pop(entity))
    assert counting(quotas, "u", "c") is None


def test_quotas_of_others_do_not_count() -> None:
    """SE54"""
    quotas = {Entity("v", ABSENT): 1.0, Entity("u", "d"): 2.0, Entity(ABSENT, "d"): 3.0}
    assert counting(quotas, "u", "c") is None
    assert counting(quotas, "u", "") is None


def test_a_rate_allows_ten_windows_before_anybody_waits() -> None:
    """SE55: 8,000 bytes at 2,000 a second, one after the other: Kafka's delays."""
    rate, waits, now_ms = Rate(11, 1_000), [], 1_000_000
    for _ in range(5):
        rate.record(8_000, now_ms)
        waits.append(rate.throttle_ms(2_000, now_ms))
        now_ms += waits[-1]
    assert waits == [0, 0, 2_000, 6_000, 10_000]


def test_a_rate_forgets_what_is_older_than_its_windows() -> None:
    rate = Rate(11, 1_000)
    rate.record(100_000, 0)
    assert rate.throttle_ms(1_000, 0) == 90_000
    assert not rate.is_idle(10_999)
    assert rate.is_idle(11_000)
    assert rate.throttle_ms(1_000, 11_000) == 0
    rate.record(5_000, 11_000)
    assert rate.per_second(11_000) == 500


def test_a_rate_keeps_one_window_more_than_it_is_measured_over() -> None:
    """Source: Kafka's SampledStat, KAFKA-16084: what overlaps the windows counts whole."""
    rate = Rate(2, 1_000)
    for second in range(4):
        rate.record(10, second * 1_000)
    assert rate.measure(3_000) == (20, 1_000)


def test_a_bucket_is_full_at_first_may_owe_and_comes_back_at_its_rate() -> None:
    """SE57"""
    bucket = TokenBucket(11, 1_000)
    assert bucket.tokens(1, 1_000_000) == 11
    bucket.take(30, 1, 1_000_000)
    assert bucket.tokens(1, 1_000_000) == -19
    assert bucket.throttle_ms(1, 1_004_000) == 15_000
    assert not bucket.is_idle(1_029_000)
    assert bucket.is_idle(1_030_000)


def test_what_is_to_be_waited_is_a_number_that_an_answer_can_say() -> None:
    """Any double above 0 may be a bound, infinity too: nobody waits for ever, or loses the connection over it."""
    for bound, waits_ms in ((5e-324, 2**31 - 1), (1e-7, 2**31 - 1), (1.0, 2**31 - 1), (float("inf"), 0)):
        rate, bucket = Rate(11, 1_000), TokenBucket(11, 1_000)
        rate.record(3_000_000, 1_000)
        bucket.take(3_000_000, bound, 1_000)
        assert (rate.throttle_ms(bound, 1_000), bucket.throttle_ms(bound, 1_000)) == (waits_ms, waits_ms)


def test_meters_are_forgotten_when_that_makes_no_difference() -> None:
    """Client ids by the million leave nothing behind."""
    quota = Quota("producer_byte_rate", lambda: Rate(11, 1_000))
    for number in range(100_000):
        now_ms = number * 100
        quota.meters.of(Entity(ABSENT, f"c{number}"), now_ms).record(1, now_ms)
    assert len(quota.meters) <= 1_000


def test_who_owes_goes_on_owing_when_others_meters_are_forgotten() -> None:
    """Each bucket fills at the rate of its own bound, whoever came when there were many."""
    quota = Quota("controller_mutation_rate", lambda: TokenBucket(11, 1_000))
    slow = Entity("slow", ABSENT)
    quota.meters.of(slow, 0).take(100, 1, 0)
    for number in range(2_000):
        quota.meters.of(Entity(f"u{number}", ABSENT), 1_000).tokens(1_000_000, 1_000)
    assert quota.meters.of(slow, 1_000).tokens(1, 1_000) == 11 - 100 + 1


def test_addresses_are_one_in_any_spelling() -> None:
    def record(name: str | None, value: float) -> records.ClientQuotaRecord:
        part = records.QuotaEntity(entity_type="ip", entity_name=name)
        return records.ClientQuotaRecord(entity=[part], key="connection_creation_rate", value=value)

    quotas = ClientQuotas([record("0:0:0:0:0:0:0:1", 5)], Settings({}), lambda: 0)
    assert quotas.of_address("::1") == 5
    assert quotas.of_address("127.0.0.1") is None
    quotas = ClientQuotas([record("127.0.0.1", 5), record(None, 7)], Settings({}), lambda: 0)
    assert (quotas.of_address("127.0.0.1"), quotas.of_address("10.0.0.1")) == (5, 7)


# --- what may be altered

BYTES = "producer_byte_rate"


def altered(entity: EntityKey, *ops: tuple[str, float | None]) -> tuple[int, str | None]:
    """The verdict on one alteration of nothing."""
    _, altered = alter(ClusterState(), [Alteration(entity, ops)])
    (verdict,) = altered.verdicts.values()
    return (0, None) if verdict is None else verdict


@pytest.mark.parametrize(
    ("entity", "op", "text"),
    [
        ((), (BYTES, 1.0), "Invalid empty client quota entity"),
        ((("planet", "earth"),), (BYTES, 1.0), "Unhandled client quota entity type: planet"),
        ((("user", ""),), (BYTES, 1.0), "Empty user not supported"),
        ((("ip", "nowhere.invalid"),), ("connection_creation_rate", 1.0), "is not a valid IP or resolvable host."),
        ((("ip", "10.0.0.1"), ("user", "u")), (BYTES, 1.0), "Invalid quota entity combination"),
        ((("user", "u"),), ("tea_rate", 1.0), "Invalid configuration key tea_rate"),
        ((("user", "u"),), ("connection_creation_rate", 1.0), "Invalid configuration key"),
        ((("ip", None),), (BYTES, 1.0), "Invalid configuration key"),
        ((("user", "u"),), (BYTES, 0.0), "Quota producer_byte_rate must be greater than 0"),
        ((("user", "u"),), (BYTES, -1.0), "must be greater than 0"),
        ((("user", "u"),), (BYTES, float("nan")), "must be greater than 0"),
        ((("user", "u"),), (BYTES, 1.5), "producer_byte_rate cannot be a fractional value."),
        ((("user", "u"),), (BYTES, 1e19), "Proposed value for producer_byte_rate is too large for a LONG."),
        ((("ip", None),), ("connection_creation_rate", 3e9), "is too large for an INT."),
    ],
)
def test_what_may_not_be(entity: EntityKey, op: tuple[str, float | None], text: str) -> None:
    """SE53: Kafka's texts."""
    code, said = altered(entity, op)
    assert code == ErrorCode.INVALID_REQUEST
    assert said is not None
    assert text in said


@pytest.mark.parametrize(
    ("entity", "op"),
    [
        ((("user", "u"),), ("request_percentage", 0.5)),
        ((("user", None), ("client-id", None)), ("controller_mutation_rate", 1.5)),
        ((("client-id", "c"),), ("consumer_byte_rate", 1024.0)),
        ((("ip", "::1"),), ("connection_creation_rate", 5.0)),
        ((("user", "u"),), (BYTES, None)),
    ],
)
def test_what_may_be(entity: EntityKey, op: tuple[str, float | None]) -> None:
    """SE53: taking away what is not there is no fault."""
    assert altered(entity, op) == (0, None)


def test_an_entity_that_is_named_twice_keeps_what_was_first() -> None:
    """SE53"""
    first = Alteration((("user", "u"), ("client-id", "c")), ((BYTES, 1.0),))
    second = Alteration((("client-id", "c"), ("user", "u")), ((BYTES, 2.0),))
    made, done = alter(ClusterState(), [first, second])
    assert [one.value for one in made] == [1.0]
    assert done.done == [first]
    ((code, text),) = filter(None, done.verdicts.values())
    assert code == ErrorCode.INVALID_REQUEST
    assert text.startswith("Ignoring duplicate entity")
    assert altered((("user", "u"),), (BYTES, 1.0), (BYTES, 2.0))[0] == ErrorCode.INVALID_REQUEST


def test_records_are_those_of_kafka() -> None:
    """14.4: user u1, producer_byte_rate 1024; the default user, request_percentage 50."""
    wishes = [
        Alteration((("user", "u1"),), ((BYTES, 1024.0),)),
        Alteration((("user", None),), (("request_percentage", 50.0),)),
    ]
    made, _ = alter(ClusterState(), wishes)
    assert [records.encode_frame(one).hex() for one in made] == [
        "010e0002057573657203753100" + "13" + b"producer_byte_rate".hex() + "40900000000000000000",
        "010e000205757365720000" + "13" + b"request_percentage".hex() + "40490000000000000000",
    ]


def test_only_changes_are_written() -> None:
    state = ClusterState()
    wish = Alteration((("user", "u"),), ((BYTES, 5.0), ("consumer_byte_rate", None)))
    made, _ = alter(state, [wish])
    assert len(made) == 1
    state.apply(made[0])
    assert alter(state, [wish])[0] == []
    (removal,), _ = alter(state, [Alteration((("user", "u"),), ((BYTES, None),))])
    assert removal.remove
    state.apply(removal)
    assert not state.kept.quotas


def test_settings_say_over_how_many_windows_of_which_length_quotas_are_measured() -> None:
    windows = {"quota.window.num": "3", "quota.window.size.seconds": "2"}
    of_control = {"controller.quota.window.num": "4", "controller.quota.window.size.seconds": "5"}
    meters = Meters(Settings({**windows, **of_control}), lambda: 0)
    assert (meters.window_ms, meters.most_windows) == (2_000, 2)
    rate = meters.produce.meters.of(Entity("u", ABSENT), 0)
    rate.record(400, 0)
    assert rate.throttle_ms(100, 0) == 0  # two windows of two seconds are four seconds' worth
    rate.record(100, 0)
    assert rate.throttle_ms(100, 0) == 1_000
    bucket = meters.mutations.meters.of(Entity("u", ABSENT), 0)
    assert bucket.tokens(1, 0) == 20
