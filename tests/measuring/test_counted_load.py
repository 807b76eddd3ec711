"""The load generator where requests are counted: exactly so many between its gates, none in flight there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from benchmarks import load

from odradek.testing import Broker

WARM, REQUESTS = 14, 33
#: Mode and options of the generator, and the API whose requests it counts.
MODES = {
    "produce": ("produce", {"records": 1}, "Produce"),
    "produce, some connections": ("produce", {"records": 1, "connections": 3, "in_flight": 2}, "Produce"),
    "produce, more connections than requests": ("produce", {"records": 1, "connections": 50}, "Produce"),
    "fetch": ("fetch", {"max_bytes": 1000}, "Fetch"),
    "large fetch": ("fetch", {"max_bytes": 100_000, "discard": True}, "Fetch"),
    "long poll": ("latency", {"records": 1}, "Produce"),
    "commit": ("commit", {}, "OffsetCommit"),
    "transactions": ("transactions", {"records": 1}, "EndTxn"),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a topic that has something."""
    try:
        load.build()
    except load.LoadFailedError as error:
        pytest.skip(str(error))
    with Broker() as started:
        load.run("produce", port=started.port, topic="filled", warmup=0, requests=50, records=1)
        yield started


def answered(broker: Broker, api: str) -> int:
    """How many requests of an API it has answered."""
    counts = [
        value
        for (_, name, tags), value in broker.metrics().items()
        if name == "RequestsPerSec" and dict(tags).get("request") == api
    ]
    return int(sum(counts))


@pytest.mark.parametrize("case", MODES)
def test_exactly_so_many_requests_are_counted(broker: Broker, case: str) -> None:
    mode, options, api = MODES[case]
    seen = []

    @contextmanager
    def counting() -> Iterator[None]:
        seen.append(answered(broker, api))
        yield
        seen.append(answered(broker, api))

    before = answered(broker, api)
    sizes = {"requests": REQUESTS, "warm_requests": WARM, "timeout_s": 60}
    figures = load.run_counted(mode, counting(), port=broker.port, topic="filled", **sizes, **options)
    assert seen[1] - seen[0] == figures["requests"] == REQUESTS
    assert answered(broker, api) == seen[1]
    assert seen[0] - before >= WARM
    if mode != "fetch":  # whose topic is walked over first
        assert seen[0] - before == WARM


def test_who_fails_is_told_of_with_what_it_said(broker: Broker) -> None:
    entered = []

    @contextmanager
    def counting() -> Iterator[None]:
        entered.append(True)
        yield

    sizes = {"requests": 1, "warm_requests": 0, "timeout_s": 60}
    with pytest.raises(load.LoadFailedError, match="acks is 1 or -1"):
        load.run_counted("produce", counting(), port=broker.port, topic="filled", acks=2, **sizes)
    assert entered == []
