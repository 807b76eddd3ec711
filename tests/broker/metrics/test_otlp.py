"""Metrics in OpenTelemetry's format: numbers are read, anything else is passed over or refused."""

from __future__ import annotations

import random

import pytest

from odradek.broker.metrics.otlp import DataPoint, MalformedMetricsError, read_points

from .otlp_writer import counter, gauge, metrics, part, whole


def read(data: bytes) -> list[DataPoint]:
    return list(read_points(memoryview(data)))


def test_gauges_and_sums() -> None:
    data = metrics(gauge("idle", 0.5, b="2", a="1"), counter("sent", -7, delta=True), counter("all", 9))
    assert read(data) == [
        DataPoint("idle", (("a", "1"), ("b", "2")), 0.5, False, False),
        DataPoint("sent", (), -7, True, True),
        DataPoint("all", (), 9, True, False),
    ]


def test_what_is_not_known_is_passed_over() -> None:
    histogram = part(1, "latency") + part(9, part(1, b""))
    odd_attribute = part(7, part(1, "node") + part(2, whole(3, 5)))
    of_a_node = part(1, "requests") + part(5, part(1, odd_attribute + b"\x31" + (4).to_bytes(8, "little")))
    data = metrics(histogram, part(1, "no data"), of_a_node) + whole(99, 1) + part(98, "more")
    assert read(data) == [DataPoint("requests", (("node", "5"),), 4, False, False)]


@pytest.mark.parametrize(
    "data", [b"\x0a\x05ab", b"\x0b", b"\xff" * 12, metrics(part(1, b"\xff") + part(5, b""))]
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMetricsError):
        read(data)


def test_any_bytes_are_metrics_or_refused() -> None:
    rng = random.Random(7)
    data = bytearray(metrics(gauge("idle", 0.5, a="1"), counter("sent", 7)))
    for _ in range(500):
        changed = bytearray(data)
        changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            read(bytes(changed[: rng.randrange(len(changed) + 1)]))
        except MalformedMetricsError:
            continue
