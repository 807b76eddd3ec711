"""One life of a broker under a clock in hand: its timers, and how its loop comes to rest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from odradek.util.timers import Periodic

if TYPE_CHECKING:
    from odradek.broker.metadata.controller_thread import ControllerThread
    from odradek.broker.services import BrokerServices
    from odradek.broker.upkeep.housekeeping import Housekeeping
    from odradek.testing.clock.resting_loop import RestingLoop

_PATIENCE_S = 30.0
"""How long a turn of a broker's loop, and its way to rest, may take."""


class Timer:
    """A timer under a clock in hand.

    Attributes:
        callback: what is called; None once it was, or is not to be.
        life: in whose loop it is called; None for whatever thread lets the time pass.
        is_look: what it begins is begun in the loop alone.
    """

    __slots__ = ("callback", "is_look", "life")

    def __init__(self, life: Life | None, callback: Callable[[], object], *, is_look: bool = False) -> None:
        self.life = life
        self.callback: Callable[[], object] | None = callback
        self.is_look = is_look

    def cancel(self) -> None:
        """See `odradek.util.timers.TimerHandle.cancel`."""
        self.callback = None

    def run(self) -> None:
        """Call what was to be called, unless it is not any more."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class ClockOfLives(Protocol):
    """The clock, as a life knows it: `odradek.testing.clock.manual_clock.ManualClock`."""

    def set_timer(self, timer: Timer, delay_ms: float) -> None:
        """Fire a timer that much later."""
        ...

    def forget(self, life: Life) -> None:
        """A life has ended, and with it its timers."""
        ...


class Life:
    """See the module. Made in the loop's thread, whose timers they are.

    Attributes:
        loop: its event loop.
        number: among all that the clock has seen.
        is_paused: its loop stands still: timers that are due wait.
    """

    def __init__(self, clock: ClockOfLives, loop: RestingLoop, number: int) -> None:
        self.loop = loop
        self.number = number
        self.is_paused = self.is_over = False
        self._clock = clock
        self._controller: ControllerThread | None = None
        self._housekeeping: Housekeeping | None = None
        self._broker: BrokerServices | None = None
        """These are None until the broker has started."""
        self._told: list[tuple[str, int, int, int]] = []
        """Of partitions with followers what these were told last: high watermark and log start."""
        self._doing: threading.Event | None = None
        loop.is_busy = self._is_busy

    # ------------------------------------------------------------------ timers

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """See `odradek.util.timers.Timers.call_later`."""
        timer = Timer(self, callback)
        if delay_ms <= 0:
            self.loop.call_soon(self.run, timer)
        else:
            self._clock.set_timer(timer, delay_ms)
        return timer

    def every(self, name: str, interval_ms: float, callback: Callable[[], object]) -> Periodic:
        """See `odradek.util.timers.Timers.every`."""
        return Periodic(_Looks(self, self._clock), name, interval_ms, callback)

    def run(self, timer: Timer) -> None:
        """Fire a timer, in the loop; a callback that fails is logged, and nothing else stops."""
        try:
            timer.run()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # as the loop does: `CancelledError` is none that ends a process
            self.loop.call_exception_handler({"message": "a timer's callback failed", "exception": error})

    # ------------------------------------------------------------------ rest

    def started(
        self, broker: BrokerServices, controller: ControllerThread, housekeeping: Housekeeping
    ) -> None:
        """The broker has started; its controller's thread and housekeeping are waited for."""
        self._broker, self._controller, self._housekeeping = broker, controller, housekeeping

    def at_rest(self) -> int:
        """Wait until the broker has come to rest; a number that tells of all that it has done by then.

        Raises:
            TimeoutError: it has not in half a minute.
        """
        return self.loop.at_rest(_PATIENCE_S)

    def do(self, work: Callable[[], None]) -> None:
        """Do something in the loop, and return when it is done, or the loop has ended."""
        done = threading.Event()

        def run() -> None:
            try:
                work()
            finally:
                done.set()

        self._doing = done
        if self.is_over:
            return
        # In a turn of its own: in this one the loop also takes note of having been woken.
        self.loop.call_soon_threadsafe(self.loop.call_soon, run)
        if not done.wait(_PATIENCE_S):
            raise TimeoutError("the broker's loop did not answer in time")

    def end(self) -> None:
        """The loop ends: no timer fires any more, and nobody waits for it. Harmless twice."""
        if self.is_over:
            return
        self.is_over = True
        self._clock.forget(self)
        self.loop.let_go()
        if self._doing is not None:
            self._doing.set()

    def answer_followers(self, *, in_any_case: bool) -> bool:
        """Answer followers that wait for records, as after `replica.fetch.wait.max.ms`.

        They wait in real time, and the brokers' time is not to pass for those that have not heard of a high
        watermark or a log start.

        Args:
            in_any_case: not only if there is news for them.

        Returns:
            Whether there was.
        """
        news = False

        def answer() -> None:
            nonlocal news
            broker = self._broker
            if broker is None:
                return
            led = [partition for partition in broker.replicas if partition.is_leader]
            led = [partition for partition in led if len(partition.replicas) > 1]
            state = [
                (*partition.key, partition.log.high_watermark, partition.log.log_start_offset)
                for partition in led
            ]
            news, self._told = state != self._told, state
            if news or in_any_case:
                for partition in led:
                    broker.purgatory.expire(partition.key)

        self.do(answer)
        return news

    @property
    def work(self) -> int:
        """Return how much is ready or in work: who makes it more has begun something. In the loop."""
        return self.loop.work + self._is_working()

    def _is_working(self) -> bool:
        controller, housekeeping = self._controller, self._housekeeping
        if controller is None or housekeeping is None:
            return False
        removals = housekeeping.removals
        return controller.is_busy or (removals is not None and removals.is_busy)

    def _is_busy(self) -> bool:
        controller = self._controller
        if controller is not None and controller.is_busy:
            # What was posted there tells nobody when it is done: who comes behind it does.
            controller.run(_nothing)
        return self._is_working()


class _Looks:
    """Timers of what looks again and again whether there is something to do: rarely in a long time."""

    def __init__(self, life: Life, clock: ClockOfLives) -> None:
        self._life = life
        self._clock = clock

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self._life, callback, is_look=True)
        self._clock.set_timer(timer, delay_ms)
        return timer

    def every(self, name: str, interval_ms: float, callback: Callable[[], object]) -> Periodic:
        return Periodic(self, name, interval_ms, callback)


def _nothing() -> None:
    """Be reached when everything before it is done."""
