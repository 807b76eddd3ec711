"""GetTelemetrySubscriptions and PushTelemetry: the metrics that are wanted of a client, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.metrics import pushed_metrics as pushed_module
from odradek.broker.metrics import telemetry as module
from odradek.broker.metrics.telemetry import Asking, ClientTelemetry, subscription_of
from odradek.cluster.configs.client_metrics_config import DEFAULT_INTERVAL_MS
from odradek.errors.codes import ErrorCode
from odradek.records.compression import Codec, compress
from odradek.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from odradek.wire.messages.push_telemetry import PushTelemetryRequest

from ..admin_world import World
from .otlp_writer import counter, gauge, metrics

PUSH_INTERVAL_MS = DEFAULT_INTERVAL_MS
SOMEBODY = Asking("test", "", "", "User:ANONYMOUS", "127.0.0.1", 0)
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
    ids = [telemetry.subscribe(bytes(16), SOMEBODY, 0)[0] for _ in range(5)]
    assert len(telemetry) == 3
    # The oldest have been forgotten, and may ask again.
    assert telemetry.subscribe(ids[0], SOMEBODY, 1)[0] == ids[0]


def want(world: World, name: str = "all", **configs: str) -> None:
    values = {config.replace("_", "."): text for config, text in configs.items()}
    world.controller.alter_config(f"client-metrics/{name}", values)


def kept(world: World) -> dict[str, float]:
    clients = list(world.telemetry.pushed.clients(world.clock.now_ms()))
    return {name: series.value for known in clients for (name, _), series in known.series.items()}


def test_what_is_wanted_is_pushed_and_kept() -> None:
    world = World()
    want(world, metrics="org.apache.kafka.", interval_ms="1000")
    told = subscribe(world, SOME_ID)
    assert (told.requested_metrics, told.push_interval_ms) == (["org.apache.kafka."], 1000)
    assert told.subscription_id == subscription_of(SOME_ID, ("org.apache.kafka.",), 1000)
    pushed = metrics(gauge("queue.size", 7), counter("record.send.total", 5, delta=True))
    assert push(world, subscription_id=told.subscription_id, metrics=pushed) == 0
    later(world, 1000)
    packed = bytes(compress(Codec.ZSTD, pushed))
    fields = {"subscription_id": told.subscription_id, "metrics": packed, "compression_type": int(Codec.ZSTD)}
    assert push(world, **fields) == 0
    # Differences are summed up.
    assert kept(world) == {"queue.size": 7, "record.send.total": 10}
    # Who is silent for three intervals, and a minute, is forgotten.
    later(world, 60_000)
    assert kept(world) == {}


def test_nothing_is_kept_that_nobody_has_asked_for() -> None:
    world = World()
    assert push(world, metrics=metrics(gauge("queue.size", 7))) == 0
    assert kept(world) == {}


@pytest.mark.parametrize(
    ("sent", "codec"),
    [
        (b"\xff\xff", Codec.NONE),
        (b"no zstd", Codec.ZSTD),
        (bytes(compress(Codec.GZIP, bytes(2**23))), Codec.GZIP),
    ],
    ids=["no metrics", "not packed", "too much"],
)
def test_what_are_no_metrics_is_refused(sent: bytes, codec: Codec) -> None:
    world = World()
    want(world, metrics="*")
    told = subscribe(world, SOME_ID)
    fields = {"subscription_id": told.subscription_id, "metrics": sent, "compression_type": int(codec)}
    assert push(world, **fields) == ErrorCode.INVALID_RECORD
    assert world.telemetry.refused == 1


def test_subscriptions_choose_clients_and_are_put_together() -> None:
    world = World()
    want(world, "a", metrics="a.,b.", interval_ms="5000", match="client_id=te.*,client_source_port=0")
    want(world, "b", metrics="b.,c.", interval_ms="2000")
    want(world, "c", metrics="d.", interval_ms="100", match="client_id=es")
    told = subscribe(world, SOME_ID)
    assert (told.requested_metrics, told.push_interval_ms) == (["a.", "b.", "c."], 2000)
    # It hears of a change at once, and has to: it has another subscription now.
    want(world, "d", metrics="*")
    assert push(world, subscription_id=told.subscription_id) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    told = subscribe(world, SOME_ID)
    assert (told.error_code, told.requested_metrics) == (0, ["*"])
    assert world.telemetry.unknown_subscriptions == 1


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed_module, "MOST_SERIES_OF_A_CLIENT", 2)
    monkeypatch.setattr(pushed_module, "MOST_CLIENTS", 1)
    world = World()
    want(world, metrics="*")
    for client_id in (SOME_ID, SOME_ID[::-1]):
        told = subscribe(world, client_id)
        names = ("first" * 100, "second", "third")
        sent = metrics(gauge("nothing", float("nan")), *(gauge(name, 1) for name in names))
        assert push(world, client_id, subscription_id=told.subscription_id, metrics=sent) == 0
    (known,) = world.telemetry.pushed.clients(world.clock.now_ms())
    assert sorted(len(name) for name, _ in known.series) == [len("second"), 128]
    assert (known.left_out, world.telemetry.pushed.left_out) == (2, 1)
