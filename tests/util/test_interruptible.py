"""Waits in slices: Ctrl-C that comes right before one begins is seen after it."""

from __future__ import annotations

import threading

import pytest

from odradek.util.interruptible import SLICE_S, Bell, wait_until


class Interrupted(BaseException):
    """What the handler of a signal raises."""


def test_a_signal_that_woke_nobody_is_seen_after_a_slice() -> None:
    slices: list[float] = []

    def wait(slice_s: float) -> bool:
        # The handler runs when the wait is over.
        slices.append(slice_s)
        if len(slices) == 3:
            raise Interrupted
        return False

    with pytest.raises(Interrupted):
        wait_until(wait)
    assert slices == [SLICE_S] * 3


@pytest.mark.parametrize("timeout_s", [None, 0.0, 5.0, 3600.0])
def test_no_slice_is_longer_than_what_is_left(timeout_s: float | None) -> None:
    slices: list[float] = []

    def wait(slice_s: float) -> bool:
        slices.append(slice_s)
        return True

    assert wait_until(wait, timeout_s)
    assert len(slices) == 1
    assert 0 <= slices[0] <= min(SLICE_S, SLICE_S if timeout_s is None else timeout_s)


def test_what_does_not_come_in_time_does_not_come() -> None:
    assert not wait_until(threading.Event().wait, 0.0)


def test_a_ring_ends_one_wait_whether_it_comes_before_or_amid() -> None:
    bell = Bell()
    bell.ring()
    assert bell.wait(60)
    assert not bell.wait(0)
    threading.Timer(0.0, bell.ring).start()
    assert bell.wait(60)
