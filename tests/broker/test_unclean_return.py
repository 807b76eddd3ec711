"""Who waits for whom when all of an in-sync set have died, and only some by a loss of power."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.membership import unclean_return
from odradek.broker.membership.unclean_return import be_missed
from odradek.util.topic_partition import TopicPartition

KEY = ("t", 0)
ALONE: dict[TopicPartition, bool] = {KEY: False}
BESIDE_ONE_THAT_LIVES: dict[TopicPartition, bool] = {KEY: True}
LONG_S = 3600.0


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unclean_return, "_LOOK_AGAIN_S", 0.0)


Found = dict[TopicPartition, bool]


def looks(
    found: list[Found],
    unlost: set[TopicPartition],
    alone_s: float,
    patience_s: float = LONG_S,
) -> int:
    """How often a broker looks before it registers, finding one after the other; the last again and again."""
    count = 0

    async def run_in_store(work: Callable[[Any], Any]) -> Found:
        nonlocal count
        count += 1
        return found[min(count, len(found)) - 1]

    asyncio.run(
        be_missed(
            run_in_store,
            0,
            (),
            unlost,
            patience_s=patience_s,
            alone_s=alone_s,
            is_stopped=lambda: count > 100,
        )
    )
    return count


def test_who_may_have_lost_records_waits_for_another_and_then_to_be_missed_by_it() -> None:
    assert looks([ALONE, ALONE, BESIDE_ONE_THAT_LIVES, {}], set(), LONG_S) == 4


def test_who_has_lost_nothing_comes_first() -> None:
    assert looks([ALONE], {KEY}, LONG_S) == 1
    # Beside one that lives it is missed like any other: who has registered anew leaves the ISRs.
    assert looks([BESIDE_ONE_THAT_LIVES, BESIDE_ONE_THAT_LIVES, ALONE], {KEY}, LONG_S) == 3


def test_where_nobody_comes_it_waits_no_longer(caplog: pytest.LogCaptureFixture) -> None:
    assert looks([ALONE], set(), 0.0) == 1
    assert not caplog.text
    assert looks([ALONE], set(), 1e-6) == 2
    assert caplog.text.count("records of 1 partitions may be lost (t-0 …), and nobody else") == 1


def test_another_one_that_comes_and_goes_does_not_begin_the_wait_anew() -> None:
    assert looks([ALONE, BESIDE_ONE_THAT_LIVES, ALONE], set(), 1e-6) == 3


def test_a_stop_ends_the_wait() -> None:
    assert looks([ALONE], set(), LONG_S) == 101
