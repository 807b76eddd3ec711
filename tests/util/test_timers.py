from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers


def test_timers_fire_in_order_at_their_moment() -> None:
    clock = ManualClock(now_ms=1_000)
    timers = ManualTimers(clock)
    fired: list[tuple[str, float]] = []
    timers.call_later(20, lambda: fired.append(("late", clock.monotonic_ms())))
    timers.call_later(10, lambda: fired.append(("early", clock.monotonic_ms())))
    cancelled = timers.call_later(15, lambda: fired.append(("never", clock.monotonic_ms())))
    cancelled.cancel()
    assert timers.pending == 2
    timers.advance(30)
    assert fired == [("early", 10.0), ("late", 20.0)]
    assert clock.now_ms() == 1_030
    assert timers.pending == 0


def test_a_timer_set_by_a_timer_fires_within_the_same_advance() -> None:
    timers = ManualTimers(ManualClock())
    fired: list[float] = []
    timers.call_later(10, lambda: timers.call_later(10, lambda: fired.append(timers.clock.monotonic_ms())))
    timers.advance(19)
    assert fired == []
    timers.advance(1)
    assert fired == [20.0]
