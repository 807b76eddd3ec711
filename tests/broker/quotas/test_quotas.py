"""Quotas without a broker: rates settle, changes hold at once, nothing grows without bound."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest

from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.quotas import client_quota_manager, connection_quotas
from odradek.broker.quotas.client_quota_manager import (
    FORGOTTEN_AFTER_MS,
    ClientQuotaManager,
    ClientRequestQuotaManager,
    QuotaType,
    Windows,
)
from odradek.broker.quotas.connection_quotas import NO_BOUND, Arrival, ConnectionQuotas
from odradek.broker.quotas.controller_mutation_quota_manager import ControllerMutationQuotaManager
from odradek.broker.quotas.precedence import DEFAULT, QuotaEntity
from odradek.broker.quotas.quota_managers import QuotaManagers
from odradek.broker.quotas.rates import LONGEST_MS, Average, Rate, TokenBucket
from odradek.errors import ThrottlingQuotaExceededError
from odradek.util.clock import ManualClock

ALICE = "User:alice"
APP = QuotaEntity(False, True, client="app")
ANY_CLIENT = QuotaEntity(False, True, client=DEFAULT)
WINDOWS = Windows(11, 1000)


def produce_manager(clock: ManualClock, windows: Windows = WINDOWS) -> ClientQuotaManager:
    return ClientQuotaManager(QuotaType.PRODUCE, clock, windows)


def managers(clock: ManualClock, **config: Any) -> QuotaManagers:
    return QuotaManagers(
        BrokerConfig({name.replace("_", "."): str(value) for name, value in config.items()}), clock
    )


# ---------------------------------------------------------------------- rates


@pytest.mark.parametrize("size", [10, 1_000, 30_000])
def test_who_waits_as_told_gets_the_quota_and_no_more(size: int) -> None:
    clock = ManualClock()
    manager = produce_manager(clock)
    manager.update_quota(APP, 50_000.0)
    taken, began_ms = 0, clock.monotonic_ms()
    while clock.monotonic_ms() - began_ms < (600_000 if size > 10 else 30_000):
        clock.advance(1)
        throttle_ms = manager.record(ALICE, "app", size)
        taken += size
        clock.advance(throttle_ms)
    rate = taken / ((clock.monotonic_ms() - began_ms) / 1000)
    if size == 10:
        assert rate == 10_000  # less than it may
    else:
        # A rate over ten windows and a piece has the eleventh for nothing now and then.
        assert 48_000 <= rate <= 56_000


def test_a_burst_has_to_be_waited_for_and_is_then_over() -> None:
    clock = ManualClock()
    manager = produce_manager(clock)
    manager.update_quota(APP, 1000.0)
    assert manager.record(ALICE, "app", 10_000) == 0  # ten windows' worth
    throttle_ms = manager.record(ALICE, "app", 5_000)
    assert throttle_ms == 5_000
    # As long as it is in the windows it counts, whoever waited: so it is in Kafka.
    clock.advance(throttle_ms)
    assert manager.record(ALICE, "app", 0) == 5_000
    clock.advance(5_999)
    assert manager.record(ALICE, "app", 0) > 0
    clock.advance(12_000)
    assert manager.record(ALICE, "app", 10_000) == 0


def test_what_is_taken_back_does_not_count() -> None:
    clock = ManualClock()
    manager = produce_manager(clock)
    manager.update_quota(APP, 1000.0)
    for _ in range(100):
        assert manager.record(ALICE, "app", 50_000) == 40_000
        manager.record_no_throttle(ALICE, "app", -50_000)
    assert manager.record(ALICE, "app", 10_000) == 0


def test_requests_are_throttled_for_a_window_at_most() -> None:
    clock = ManualClock()
    manager = ClientRequestQuotaManager(clock, Windows(11, 2000))
    manager.update_quota(APP, 0.01)
    assert manager.record(ALICE, "app", 100_000.0) == 2000


def test_a_quota_of_nothing_lets_nothing_through_and_breaks_nothing() -> None:
    clock = ManualClock()
    manager = produce_manager(clock)
    manager.update_quota(APP, 0.0)
    assert manager.record(ALICE, "app", 1) == LONGEST_MS
    assert manager.most_at_once(ALICE, "app") == 0
    mutations = ControllerMutationQuotaManager(clock, WINDOWS)
    mutations.update_quota(APP, 0.0)
    quota = mutations.quota_of(ALICE, "app", strict=True)
    assert quota is not None
    quota.record(1)  # the bucket is empty, and not below
    with pytest.raises(ThrottlingQuotaExceededError):
        quota.record(1)
    assert quota.throttle_ms == LONGEST_MS


def test_an_average_forgets_and_of_nothing_there_is_none() -> None:
    average = Average(2, 30_000)
    assert math.isnan(average.mean(0))
    average.record(10, 0)
    average.record(30, 5)
    assert average.mean(10) == 20
    assert math.isnan(average.mean(200_000))


def test_a_bucket_begins_full_and_takes_a_new_quota_over() -> None:
    bucket = TokenBucket(11, 1000)
    assert bucket.tokens(2.0, 500) == 22
    bucket.take(30, 2.0, 500)
    assert bucket.throttle_ms(2.0, 500) == 4000
    assert bucket.throttle_ms(8.0, 500) == 1000
    assert bucket.throttle_ms(8.0, 1500) == 0


def test_a_rate_keeps_no_more_samples_than_windows() -> None:
    rate, random_numbers = Rate(5, 100), random.Random(3)
    now_ms = 0
    for _ in range(10_000):
        now_ms += random_numbers.randrange(300)
        rate.record(1, now_ms)
    assert len(rate.samples) <= 6


# ---------------------------------------------------------------------- changes of quotas


def test_a_changed_quota_holds_at_once_and_what_was_taken_counts_for_it() -> None:
    clock = ManualClock()
    manager = produce_manager(clock)
    manager.update_quota(APP, 1000.0)
    assert manager.record(ALICE, "app", 10_000) == 0
    manager.update_quota(APP, 500.0)
    assert manager.record(ALICE, "app", 0) == 10_000
    manager.update_quota(APP, 5000.0)
    assert manager.record(ALICE, "app", 0) == 0
    manager.update_quota(QuotaEntity(True, True, "alice", "app"), 100.0)
    # Another quota is shared by others: it begins with nothing.
    assert manager.record(ALICE, "app", 1000) == 0
    assert manager.record(ALICE, "app", 100) == 1000
    assert manager.record("User:bob", "app", 1000) == 0


def test_without_quotas_nothing_is_kept() -> None:
    manager = produce_manager(ManualClock())
    assert not manager.is_enabled
    manager.update_quota(APP, 1.0)
    manager.record(ALICE, "app", 1)
    assert manager.is_enabled and len(manager) == 1
    manager.update_quota(APP, None)
    assert not manager.is_enabled and len(manager) == 0


def test_a_quota_of_users_is_shared_by_all_their_clients() -> None:
    clock = ManualClock()
    manager = produce_manager(clock)
    manager.update_quota(QuotaEntity(True, False, "alice"), 1000.0)
    assert manager.record(ALICE, "a", 10_000) == 0
    assert manager.record(ALICE, "b", 1_000) == 1_000
    assert len(manager) == 1


# ---------------------------------------------------------------------- memory


def test_clients_that_have_gone_are_forgotten_after_an_hour() -> None:
    clock = ManualClock()
    manager = produce_manager(clock)
    manager.update_quota(ANY_CLIENT, 1000.0)
    for number in range(100):
        manager.record(ALICE, f"client-{number}", 1)
    clock.advance(FORGOTTEN_AFTER_MS)
    manager.record(ALICE, "client-7", 1)
    assert len(list(manager.sensors())) == 100
    clock.advance(30_001)
    assert [sensor.tags.client_id for sensor in manager.sensors()] == ["client-7"]
    assert len(manager.by_client) == 1


def test_clients_with_ever_new_ids_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quota_manager, "MOST_SENSORS", 100)
    clock = ManualClock()
    manager = produce_manager(clock)
    manager.update_quota(ANY_CLIENT, 1000.0)
    manager.record(ALICE, "steady", 100_000)
    for number in range(1_000):
        clock.advance(1)
        manager.record(ALICE, f"client-{number}", 1)
        assert manager.record(ALICE, "steady", 0) > 0
        assert len(manager) <= 101
        assert len(manager.by_client) <= 200


def test_client_ids_that_share_a_quota_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quota_manager, "MOST_SENSORS", 100)
    manager = produce_manager(ManualClock())
    manager.update_quota(QuotaEntity(True, False, DEFAULT), 1000.0)
    for number in range(1_000):
        manager.record(ALICE, f"client-{number}", 1)
    assert len(manager) == 1
    assert len(manager.by_client) <= 200


def test_those_who_wait_are_counted_until_they_do_not() -> None:
    clock = ManualClock()
    manager = produce_manager(clock)
    manager.update_quota(APP, 1.0)
    for ms in (500, 100, 1000):
        manager.throttled(ALICE, "app", ms)
    assert manager.queue_size == 3
    clock.advance(100)
    assert manager.queue_size == 2
    clock.advance(900)
    assert manager.queue_size == 0


# ---------------------------------------------------------------------- configs


def test_configs_of_entities_are_followed_as_nodes_have_them() -> None:
    found = managers(ManualClock())
    found.follow(
        {
            "users/al%20ice": {"producer_byte_rate": "1024", "SCRAM-SHA-256": "salt=x"},
            "users/<default>/clients/my%2Fapp": {"consumer_byte_rate": "2048.0"},
            "clients/<default>": {"request_percentage": "12.5", "controller_mutation_rate": "3"},
            "ips/10.0.0.1": {"connection_creation_rate": "7"},
            "ips/<default>": {"connection_creation_rate": "9"},
            "topics/t": {"retention.ms": "1"},
            "brokers/1": {"producer_byte_rate": "1"},
        }
    )
    assert dict(found.produce.quotas.items()) == {QuotaEntity(True, False, "al ice"): 1024.0}
    assert dict(found.fetch.quotas.items()) == {QuotaEntity(True, True, None, "my/app"): 2048.0}
    assert dict(found.request.quotas.items()) == {QuotaEntity(False, True): 12.5}
    assert dict(found.controller_mutation.quotas.items()) == {QuotaEntity(False, True): 3.0}
    assert found.connections.of_address("10.0.0.1") == 7
    assert found.connections.of_address("10.0.0.2") == 9
    assert found.produce.quotas.of("al ice", "")[0].user == "al%20ice"
    gone: Mapping[str, Mapping[str, str]] = {
        "users/al%20ice": {},
        "users/<default>/clients/my%2Fapp": {},
        "clients/<default>": {"request_percentage": "no number"},
        "ips/10.0.0.1": {},
        "ips/<default>": {},
    }
    found.follow(gone)
    assert not found.count_requests and not found.controller_mutation.is_enabled
    assert found.connections.of_address("10.0.0.1") == NO_BOUND


@pytest.mark.parametrize(("release", "bound"), [("2.2", 500.0), ("2.8", 500.0), (None, None)])
def test_defaults_in_the_configs_hold_for_releases_that_had_them(
    release: str | None, bound: float | None
) -> None:
    properties = {"quota.producer.default": "500"}
    if release is not None:
        properties["odradek.kafka.version"] = release
    found = QuotaManagers(BrokerConfig(properties), ManualClock())
    assert found.produce.quotas.of("alice", "app")[1] == bound
    assert not found.fetch.is_enabled
    found.follow({"clients/app": {"producer_byte_rate": "10"}})
    assert found.produce.quotas.of("alice", "app")[1] == 10


def test_metrics_have_kafkas_names() -> None:
    clock = ManualClock()
    found = managers(clock)
    assert not [key for key, _ in found.metrics() if key[0] != "kafka.server:socket-server-metrics"]
    found.follow(
        {
            "users/alice": {"producer_byte_rate": "1000", "controller_mutation_rate": "2"},
            "clients/app": {"consumer_byte_rate": "1000", "request_percentage": "10"},
            "ips/10.0.0.1": {"connection_creation_rate": "7"},
        }
    )
    throttle_ms = found.produce.record(ALICE, "app", 20_000)
    found.produce.throttled(ALICE, "app", throttle_ms)
    found.fetch.record(ALICE, "app", 500)
    found.request.record(ALICE, "app", 5.0)
    found.request.record_exempt(10.0)
    found.controller_mutation.take(ALICE, "app", 3, strict=True)
    found.connections.accepted("PLAINTEXT", "10.0.0.1")
    seen = {f"{kind},{name},{dict(tags)}": value for (kind, name, tags), value in found.metrics()}
    assert seen["kafka.server:Produce,byte-rate,{'user': 'alice'}"] == 2000
    assert seen["kafka.server:Produce,throttle-time,{'user': 'alice'}"] == 10_000
    assert seen["kafka.server:Produce,queue-size,{}"] == 1
    assert seen["kafka.server:Fetch,byte-rate,{'client-id': 'app'}"] == 50
    assert seen["kafka.server:Request,request-time,{'client-id': 'app'}"] == 0.5
    assert seen["kafka.server:Request,exempt-request-time,{}"] == pytest.approx(1 / 3)
    assert seen["kafka.server:ControllerMutation,tokens,{'user': 'alice'}"] == 19
    assert seen["kafka.server:ControllerMutation,mutation-rate,{'user': 'alice'}"] == 0.3
    assert seen["kafka.server:socket-server-metrics,connection-accept-rate,{'ip': '10.0.0.1'}"] == 0.1
    assert seen["kafka.server:socket-server-metrics,broker-connection-accept-rate,{}"] == 0.1


# ---------------------------------------------------------------------- connections


def test_an_address_is_turned_away_for_as_long_as_it_is_too_fast_and_others_are_not() -> None:
    clock = ManualClock()
    quotas = ConnectionQuotas(clock, WINDOWS)
    quotas.limit_address("10.0.0.1", 2)
    assert [quotas.accepted("L", "10.0.0.1").refused_ms for _ in range(20)] == [0] * 20
    assert quotas.accepted("L", "10.0.0.1") == Arrival(0, 500)
    assert quotas.accepted("L", "10.0.0.2") == Arrival(0, 0)
    # Those that were turned away do not count.
    assert [quotas.accepted("L", "10.0.0.1").refused_ms for _ in range(9)] == [500] * 9
    clock.advance(500)
    assert quotas.accepted("L", "10.0.0.1").refused_ms == 0
    quotas.limit_address("10.0.0.1", None)
    assert [quotas.accepted("L", "10.0.0.1").refused_ms for _ in range(50)] == [0] * 50


def test_the_default_of_addresses_is_for_each_that_has_none_of_its_own() -> None:
    quotas = ConnectionQuotas(ManualClock(), WINDOWS)
    quotas.limit_address(None, 1)
    quotas.limit_address("10.0.0.9", 100)
    for host in ("10.0.0.1", "10.0.0.2"):
        assert [quotas.accepted("L", host).refused_ms for _ in range(11)] == [0] * 10 + [1000]
    assert [quotas.accepted("L", "10.0.0.9").refused_ms for _ in range(50)] == [0] * 50


def test_a_broker_or_listener_that_is_too_fast_waits_at_most_a_window() -> None:
    clock = ManualClock()
    quotas = ConnectionQuotas(clock, WINDOWS)
    quotas.per_second = 5
    waits = [quotas.accepted("L", "10.0.0.1").wait_ms for _ in range(100)]
    assert waits[:51] == [0] * 50 + [200]
    assert max(waits) == 1000
    assert quotas.accepted("INTERNAL", "10.0.0.1", is_protected=True).wait_ms == 0
    quotas.limit_listener("INTERNAL", 1)
    assert [quotas.accepted("INTERNAL", "h", is_protected=True).wait_ms for _ in range(10)][-1] == 1000


def test_addresses_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_quotas, "MOST_ADDRESSES", 50)
    clock = ManualClock()
    quotas = ConnectionQuotas(clock, WINDOWS)
    quotas.limit_address(None, 1)
    for number in range(500):
        quotas.accepted("L", f"10.0.{number // 250}.{number % 250}")
    assert len(quotas.addresses) <= 50
    clock.advance(FORGOTTEN_AFTER_MS + 1)
    quotas.accepted("L", "10.9.9.9")
    assert list(quotas.addresses) == ["10.9.9.9"]
