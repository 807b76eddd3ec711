"""What clients push is kept within bounds, and as numbers that can be told."""

from __future__ import annotations

from odradek.broker.metrics.otlp import DataPoint
from odradek.broker.metrics.pushed_metrics import ClientSeries, PushedMetrics, PushingClient

CLIENT = PushingClient("orders", "id", "librdkafka", "2.16", "User:alice", "10.0.0.1")


def client_of(pushed: PushedMetrics, now_ms: int) -> ClientSeries:
    known = pushed.of(b"1", CLIENT, now_ms, 1_000)
    assert known is not None
    return known


def test_a_sum_stays_a_number() -> None:
    known = client_of(pushed := PushedMetrics(), 0)
    large = DataPoint("sent", (), 1e308, True, True)
    pushed.add(known, large)
    pushed.add(known, large)
    assert known.series["sent", ()].value == 1e308
    assert known.left_out == 1


def test_who_comes_back_too_late_begins_anew() -> None:
    known = client_of(pushed := PushedMetrics(), 0)
    assert client_of(pushed, 59_999) is known
    assert client_of(pushed, 59_999 + 60_000) is not known
