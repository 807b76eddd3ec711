"""GetTelemetrySubscriptions and PushTelemetry: clients of which no metrics are wanted."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.metrics import telemetry as module
from odradek.broker.metrics.telemetry import PUSH_INTERVAL_MS, ClientTelemetry, subscription_of
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from odradek.wire.messages.push_telemetry import PushTelemetryRequest

from ..admin_world import World

SOME_ID = bytes(range(16))
TOO_SOON = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def subscribe(world: World, client_id: bytes = bytes(16)) -> Any:
    return world.call(GetTelemetrySubscriptionsRequest(client_instance_id=client_id), 0)


def push(world: World, client_id: bytes = SOME_ID, **fields: Any) -> int:
    fields.setdefault("subscription_id", subscription_of(client_id))
    request = PushTelemetryRequest(client_instance_id=client_id, **fields)
    return int(world.call(request, 0).error_code)


def later(world: World, ms: int = PUSH_INTERVAL_MS) -> None:
    world.clock.advance(ms)


def test_a_new_client_gets_an_id_and_nothing_to_do() -> None:
    world = World({"telemetry.max.bytes": "1000"})
    first, second = subscribe(world), subscribe(world)
    assert len({bytes(16), bytes(first.client_instance_id), bytes(second.client_instance_id)}) == 3
    assert (first.error_code, first.requested_metrics) == (0, [])
    assert (first.push_interval_ms, first.telemetry_max_bytes) == (300_000, 1000)
    assert (first.accepted_compression_types, first.delta_temporality) == ([4, 3, 1, 2], True)
    assert first.subscription_id == subscription_of(bytes(first.client_instance_id))


def test_the_id_of_a_subscription_is_kafkas() -> None:
    # Crc32C of "[]300000", combined with what Java's hash of the id is.
    assert subscription_of(bytes(16)) ^ subscription_of(bytes(15) + b"\x05") == 5
    assert subscription_of(bytes(16)) ^ subscription_of(b"\0\0\0\x07" + bytes(12)) == 7
    assert -(2**31) <= subscription_of(b"\xff" * 8 + bytes(8)) < 2**31


def test_asking_too_often() -> None:
    world = World()
    known = bytes(subscribe(world).client_instance_id)
    later(world, PUSH_INTERVAL_MS - 1)
    assert subscribe(world, known).error_code == TOO_SOON
    later(world, 1)
    again = subscribe(world, known)
    assert (again.error_code, bytes(again.client_instance_id)) == (0, known)


def test_sending_too_often() -> None:
    world = World()
    assert subscribe(world, SOME_ID).error_code == 0
    later(world, 1)
    assert push(world) == 0
    assert push(world) == TOO_SOON
    assert subscribe(world, SOME_ID).error_code == TOO_SOON
    later(world)
    assert push(world, metrics=b"anything") == 0


def test_the_last_words_come_at_any_time_and_are_the_last() -> None:
    world = World()
    assert push(world) == 0
    assert push(world, terminating=True) == 0
    assert push(world) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"client_id": bytes(16)}, ErrorCode.INVALID_REQUEST),
        ({"client_id": bytes(15) + b"\x01"}, ErrorCode.INVALID_REQUEST),
        ({"subscription_id": 5}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"compression_type": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": b"x" * 11}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"metrics": b"x" * 10, "compression_type": 4}, ErrorCode.NONE),
    ],
)
def test_what_is_sent_is_checked(fields: dict[str, Any], error: ErrorCode) -> None:
    assert push(World({"telemetry.max.bytes": "10"}), **fields) == error


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_CLIENTS", 3)
    telemetry = ClientTelemetry(10)
    ids = [telemetry.subscribe(bytes(16), 0)[0] for _ in range(5)]
    assert len(telemetry) == 3
    # The oldest have been forgotten, and may ask again.
    assert telemetry.subscribe(ids[0], 1)[0] == ids[0]
