"""Producer ids are made at a rate: who takes them faster is told to wait, and waits."""

from __future__ import annotations

import asyncio
from pathlib import Path

from odradek.broker.quotas.producer_id_throttle import BURST_S, MAX_THROTTLE_MS, ProducerIdThrottle
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest

from .. import live
from ..net import run, settle

ME, OTHER = ("User:ANONYMOUS", "10.0.0.1"), ("User:ANONYMOUS", "10.0.0.2")


def test_a_burst_is_free_and_then_the_rate_holds() -> None:
    throttle = ProducerIdThrottle(10)
    assert [throttle.take(ME, 0) for _ in range(10 * BURST_S)] == [0] * (10 * BURST_S)
    assert throttle.take(ME, 0) == 101
    assert throttle.take(ME, 0) == 201
    assert throttle.take(OTHER, 0) == 0
    # What was taken too much has been waited for.
    assert throttle.take(ME, 300) == 0
    assert throttle.take(ME, 300) > 0


def test_who_obeys_gets_the_rate_and_who_does_not_waits_for_a_bounded_time() -> None:
    throttle, now, taken = ProducerIdThrottle(10), 0.0, 0
    while now < 100_000:
        now += throttle.take(ME, now)
        taken += 1
    assert 1_000 <= taken - 10 * BURST_S <= 1_011
    assert max(throttle.take(OTHER, 0) for _ in range(10_000)) == MAX_THROTTLE_MS


def test_zero_is_no_limit() -> None:
    throttle = ProducerIdThrottle(0)
    assert {throttle.take(ME, 0) for _ in range(1_000)} == {0}


def test_those_who_take_none_any_more_are_forgotten() -> None:
    throttle = ProducerIdThrottle(10)
    for n in range(5_000):
        throttle.take(("User:ANONYMOUS", f"10.0.{n // 250}.{n % 250}"), n * 1_000)
    assert len(throttle.buckets) <= 1_002


def test_a_throttled_connection_waits_and_others_do_not(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(1_000_000)
        timers = ManualTimers(clock)
        async with live.running(
            tmp_path, clock=clock, timers=timers, odradek_producer_id_creation_rate=1
        ) as broker:
            client, neighbour = await live.connect(broker), await live.connect(broker)
            question = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            ids = set()
            for _ in range(BURST_S):
                answer = await client.call(question, 4)
                assert answer.throttle_time_ms == 0
                ids.add(answer.producer_id)
            answer = await client.call(question, 4)
            # The id is made all the same.
            assert answer.throttle_time_ms == 1_001
            ids.add(answer.producer_id)
            assert len(ids) == BURST_S + 1
            client.send(ApiVersionsRequest(), 0)
            reading = asyncio.ensure_future(client.receive())
            for _ in range(50):
                assert (await neighbour.call(ApiVersionsRequest(), 0)).error_code == 0
            assert not reading.done()
            timers.advance(1_000)
            assert (await neighbour.call(ApiVersionsRequest(), 0)).error_code == 0
            assert not reading.done()
            timers.advance(1)
            await settle(reading.done)
            assert reading.result().error_code == 0
            client.close()
            neighbour.close()

    run(main)


def test_a_throttled_peer_that_goes_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(1_000_000)
        timers = ManualTimers(clock)
        async with live.running(
            tmp_path, clock=clock, timers=timers, odradek_producer_id_creation_rate=1
        ) as broker:
            client = await live.connect(broker)
            question = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            for _ in range(BURST_S + 1):
                await client.call(question, 4)
            client.abort()
            await settle(lambda: not broker.listeners[0].connections)
            timers.advance(100_000)
            await asyncio.sleep(0)
            assert broker.listeners[0].queued_bytes == 0

    run(main)
