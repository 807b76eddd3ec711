"""Sees every stall of the event loop, and says what the loop was doing.

While one callback runs, every connection waits. A thread asks the loop for a sign of life (a *beat*) four
times per threshold; when none comes for `threshold_ms`, the stack of the loop's thread is taken while the
stall lasts, and when it is over one line says how long it was and where:

    event loop stalled stalled_ms=83 cpu_ms=80 starved_ms=0 suppressed=0 stack=wire/source.py:56 function

That is a warning once per place, and again for a stall of a second and more; all others are for the metrics,
and for the debug level, which has whole stacks.

`cpu_ms` is what the loop's thread computed in that time, `starved_ms` how long it could have gone on but had
no processor, as on a machine that is too busy (Linux tells; elsewhere 0). What is missing from `stalled_ms`
it waited, mostly for the disk. A loop that was found waiting for events and has computed nothing was woken
late; one that was not found at all, while no thread of the process computed anything, stood still with the
one that looks for it: in both cases the machine itself stood still (a hypervisor had its processors), and
the loop was starved too. A stall is measured from the beat before it: none that reaches the threshold is
missed, and one that falls short of it by less than a quarter may be reported.

A loop that computes next to nothing is left alone: the thread then sleeps until the descriptor that the loop
itself waits on has an event, or for a second. A stall that begins unnoticed in that second, from a timer, is
found afterwards by the processor time that it took; then there is no stack.

`StallDetector` decides, without threads and clocks; `Watchdog` is the thread around it.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import math
import os
import re
import select
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.metrics.histogram import Histogram
from odradek.broker.metrics.metrics import summary_of

if TYPE_CHECKING:
    from odradek.broker.metrics.metrics import Metrics

logger = logging.getLogger(__name__)

BEATS_PER_THRESHOLD = 4
STILL_STALLED_AFTER = 20
"""Thresholds after which a stall that goes on is told of before it is over; then at twice that, and so on."""

LINES_PER_MINUTE = 10
"""A machine that is too busy stalls the loop all the time: those beyond are counted (`suppressed`)."""
MOST_FRAMES = 16

_QUIET_LOOKS = 40
"""So many looks in a row without work, and the thread goes to rest."""
_QUIET_CPU_MS = 0.25
"""Less processor time than this between two looks is no work: answering a beat takes a fifth of it."""
_LONGEST_REST_MS = 1_000

MOST_PLACES = 200
"""Places that get a line of their own."""

_STALLED = "event loop stalled stalled_ms=%d cpu_ms=%d starved_ms=%d suppressed=%d stack=%s"
_STILL_STALLED = _STALLED.replace("stalled", "is still stalled", 1)
_UNSEEN = "unseen"

_IDLE_CPU_MS = 5.0
"""What a loop that was merely woken late may have computed: the work of a beat, and of a few callbacks."""
_WAITING = ("asyncio/runners.py:", "/selectors.py:")
"""The innermost frame of a loop in which no callback runs: uvloop's waits in C, the other one in select."""

PACKAGE = Path(__file__).parents[2]
_MOST_STACK_BYTES = 256 * 1024
"""Of a dump of all threads; `faulthandler` ends each after 100 frames."""
_THREAD = re.compile(r"^(?:Current t|T)hread 0x([0-9a-f]+)")
_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$')

Stack = tuple[str, ...]


class Usage(NamedTuple):
    """The processor time and the waits of a thread so far.

    Attributes:
        cpu_ms: processor time.
        starved_ms: time in which it was ready to run and had no processor.
        process_ms: processor time of all threads of the process.
    """

    cpu_ms: float
    starved_ms: float = 0.0
    process_ms: float = 0.0


class Beat(NamedTuple):
    """A sign of life of the loop: when it came (monotonic ms), and the usage of its thread by then."""

    at_ms: float
    usage: Usage


class Stall(NamedTuple):
    """A stall to be told of.

    Attributes:
        stalled_ms: how long the loop has given no sign of life.
        cpu_ms, starved_ms: what of that the loop's thread has computed, and was without a processor.
        stack: where it was, the innermost frame first; empty where that could not be seen.
        over: whether it has ended.
        suppressed: stalls before this one that were counted and not told of.
        process_ms: what all threads together have computed.
    """

    stalled_ms: float
    cpu_ms: float
    starved_ms: float
    stack: Stack
    over: bool = True
    suppressed: int = 0
    process_ms: float = 0.0


class StallDetector:
    """Decides from beats and looks what is a stall, and which stalls are told of.

    Attributes:
        period_ms: how often to look.
        count: stalls so far.
        starved: those of them that would have been none, had the thread not been without a processor, or been
            woken late.
        max_ms, total_ms: the longest, and all together.
        delays: for how long each beat had to wait for its turn.
        resting: nothing happens in the loop; no beat need be asked for until something does.
    """

    def __init__(self, threshold_ms: float, now_ms: float, usage: Usage) -> None:
        """
        Args:
            threshold_ms: the shortest silence that is a stall.
            now_ms: monotonic time.
            usage: of the loop's thread.
        """
        self.threshold_ms = threshold_ms
        self.period_ms = threshold_ms / BEATS_PER_THRESHOLD
        self.count = 0
        self.starved = 0
        self.max_ms = 0.0
        self.total_ms = 0.0
        self.delays = Histogram()
        self.resting = False
        self.last_beat = Beat(now_ms, usage)
        """When the loop was last known to run, and what its thread had used by then."""
        self._answer: Beat | None = None
        """The only thing that both threads write: `beat` sets it, a look takes it out."""
        self._asked = False
        """Whether a beat was asked for and not taken: there is one at a time in the loop's queue."""
        self._asked_ms = now_ms
        self._stack: Stack = ()
        """What was seen since `last_beat`; of a stall that is over it is all that tells where it was."""
        self._next_stack_ms = 1.5 * self.period_ms
        self._next_alarm_ms = self._first_alarm_ms = threshold_ms * STILL_STALLED_AFTER
        self.quiet_looks = 0
        """How many looks in a row have found the loop without work; after `_QUIET_LOOKS` it is `resting`."""
        self._minute = now_ms
        """When the minute began that `_lines` are counted in."""
        self._lines = 0
        self._suppressed = 0
        """Stalls since the last line that got none."""

    def beat(self, now_ms: float, usage: Usage) -> None:
        """Take the loop's sign of life; called in the loop's thread."""
        self._answer = Beat(now_ms, usage)

    def look(self, now_ms: float, usage: Usage, stack: Callable[[], Stack]) -> tuple[bool, Stall | None]:
        """Look at the loop, once per `period_ms`.

        Args:
            now_ms, usage: as above.
            stack: gives the stack of the loop's thread; called when the loop is late.

        Returns:
            Whether to ask for a beat now, and a stall to be told of.
        """
        stall = None
        if self._asked and self._answer is not None:
            stall = self._take_answer(now_ms, self._answer)
        silent_ms = now_ms - self.last_beat.at_ms
        if silent_ms >= self._next_stack_ms:
            # Soon, as the stall may be over at the next look; and once more where it surely is one.
            self._next_stack_ms = self.threshold_ms if silent_ms < self.threshold_ms else math.inf
            frames = stack()
            if not self._asked or self._answer is None:  # else the loop went on before it was looked at
                self._stack = frames
        # While a beat is outstanding nothing more is asked: a loop that stalls would find a queue of beats.
        if self._asked:
            if silent_ms >= self._next_alarm_ms:
                # By default after 1, 2, 4 … s: a process that hangs for good says where.
                self._next_alarm_ms *= 2
                stall = _stall(silent_ms, self.last_beat.usage, usage, stack(), over=False)
                return False, self._told(now_ms, stall)
            return False, None
        self._asked = not self.resting
        self._asked_ms = now_ms
        return self._asked, stall

    def _take_answer(self, now_ms: float, answer: Beat) -> Stall | None:
        stall = _stall(answer.at_ms - self.last_beat.at_ms, self.last_beat.usage, answer.usage, self._stack)
        # A question that came late, as this thread had no processor, is not the loop's silence; but what kept
        # this thread may be the loop, which computed and did not let go of the interpreter's lock.
        self.delays.observe(max(0.0, answer.at_ms - self._asked_ms))
        late_ms = max(0.0, self._asked_ms - self.last_beat.at_ms - self.period_ms)
        stall = stall._replace(
            stalled_ms=stall.stalled_ms - max(0.0, late_ms - stall.cpu_ms - stall.starved_ms)
        )
        self.last_beat = answer
        self._answer = None
        self._stack = ()
        self._asked = False
        self._next_stack_ms = 1.5 * self.period_ms
        self._next_alarm_ms = self._first_alarm_ms
        self.quiet_looks = self.quiet_looks + 1 if stall.cpu_ms < _QUIET_CPU_MS else 0
        self.resting = self.quiet_looks >= _QUIET_LOOKS
        if stall.stalled_ms < self.threshold_ms:
            return None
        return self._stalled(now_ms, stall)

    def woke(self, now_ms: float, usage: Usage, *, activity: bool) -> Stall | None:
        """Begin to look again after a rest, and judge what the loop did meanwhile.

        Args:
            now_ms, usage: as above.
            activity: the loop has something to do; else the rest was long enough.
        """
        # Nobody asked for beats while it rested, so that silence says nothing; computing does.
        worked_ms = usage.cpu_ms - self.last_beat.usage.cpu_ms
        self.last_beat = Beat(now_ms, usage)
        self.resting = not activity and worked_ms < _QUIET_CPU_MS * _QUIET_LOOKS
        if not self.resting:
            self.quiet_looks = 0
        if worked_ms < self.threshold_ms:
            return None
        return self._stalled(now_ms, Stall(worked_ms, worked_ms, 0.0, (), process_ms=worked_ms))

    def _stalled(self, now_ms: float, stall: Stall) -> Stall | None:
        self.count += 1
        # Without what it was kept from a processor for it would not have been a stall: the machine's, not
        # ours.
        self.starved += stall.stalled_ms - stall.starved_ms < self.threshold_ms or _was_idle(stall)
        self.total_ms += stall.stalled_ms
        self.max_ms = max(self.max_ms, stall.stalled_ms)
        return self._told(now_ms, stall)

    def _told(self, now_ms: float, stall: Stall) -> Stall | None:
        if now_ms - self._minute >= 60_000:
            self._minute, self._lines = now_ms, 0
        if self._lines >= LINES_PER_MINUTE:
            self._suppressed += 1
            return None
        self._lines += 1
        suppressed, self._suppressed = self._suppressed, 0
        return stall._replace(suppressed=suppressed)


def _stall(silent_ms: float, before: Usage, after: Usage, stack: Stack, *, over: bool = True) -> Stall:
    used_ms, starved_ms = after.cpu_ms - before.cpu_ms, after.starved_ms - before.starved_ms
    return Stall(silent_ms, used_ms, starved_ms, stack, over, process_ms=after.process_ms - before.process_ms)


def _was_idle(stall: Stall) -> bool:
    """Return whether the loop waited for events all the time, or nothing of the process went on."""
    if not stall.stack:
        return stall.process_ms < _IDLE_CPU_MS
    return stall.cpu_ms < _IDLE_CPU_MS and any(frame in stall.stack[0] for frame in _WAITING)


class StackReader:
    """Reads where another thread is, without touching its frames.

    `sys._current_frames` would make objects of frames that the thread goes on to leave while they are looked
    at. `faulthandler` writes them down in one go, from C, and lets nobody else run meanwhile.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this is used

    def read(self, thread: int, package: PurePath = PACKAGE) -> Stack:
        """`file:line function` of a thread's frames, the innermost first; files from the package's folder on.

        Args:
            thread: its `threading.get_ident()`; without such a thread the stack is empty.
            package: the folder whose files are named from it on.
        """
        fd = self._file.fileno()
        # At once: every other call lets the thread that is looked at go on.
        faulthandler.dump_traceback(fd, all_threads=True)
        # Everything from here on may be slow: the dump is taken.
        dump = os.pread(fd, _MOST_STACK_BYTES, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        os.ftruncate(fd, 0)
        return parse_stack(dump.decode(errors="replace"), thread, package)

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


def parse_stack(dump: str, thread: int, package: PurePath = PACKAGE) -> Stack:
    """One thread's stack out of what `faulthandler` has written; see `StackReader.read`.

    Args:
        dump: what was written.
        thread, package: as there. Of a file elsewhere its last folder is told. The package is known by its
            place: any folder above it, or a user's own, may have its name.
    """
    # `faulthandler` escapes what is not ASCII.
    inside = f"{package}/".encode("ascii", "backslashreplace").decode().replace("\\", "/")
    lines: list[str] = []
    in_thread = False
    for line in dump.splitlines():
        head = _THREAD.search(line)
        if head is not None:
            in_thread = int(head[1], 16) == thread
            continue
        frame = _FRAME.match(line) if in_thread else None
        if frame is not None and len(lines) < MOST_FRAMES:
            name = frame[1].replace("\\", "/")
            short = name.removeprefix(inside)
            if short == name:
                short = "/".join(name.split("/")[-2:])
            lines.append(f"{short}:{frame[2]} {frame[3]}")
    return tuple(lines)


def place_of(stack: Stack) -> str:
    """The frame that is to blame: the innermost one but for the machinery of imports."""
    return next((frame for frame in stack if not frame.startswith("<frozen importlib")), _UNSEEN)


class Places:
    """The places that have held the loop up; they decide how loudly the next stall is told of."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        """At most `MOST_PLACES`."""

    def level(self, stall: Stall, threshold_ms: float) -> int:
        """A warning for the first stall of a place, and for any of `STILL_STALLED_AFTER` thresholds.

        A machine that is too busy stops the loop anywhere, which says nothing of the place: such stalls are
        one place.
        """
        starved = stall.stalled_ms - stall.starved_ms < threshold_ms
        # The line moves with the sample; the function does not.
        place = "starved" if starved else re.sub(r":(\d+|\?+) ", " ", place_of(stall.stack))
        is_new = place not in self.seen and len(self.seen) < MOST_PLACES
        if is_new:
            self.seen.add(place)
        is_long = not stall.over or stall.stalled_ms >= threshold_ms * STILL_STALLED_AFTER
        return logging.WARNING if is_new or is_long else logging.DEBUG


class Watchdog:
    """The thread that watches the running loop. Made and started in the loop's own thread.

    Attributes:
        detector: what it has seen.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threshold_ms: float) -> None:
        """
        Args:
            loop: the loop of this thread.
            threshold_ms: the shortest silence that is a stall.
        """
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._usage = ThreadUsage()
        self._stacks = StackReader()
        self.detector = StallDetector(threshold_ms, _now_ms(), self._usage.read())
        self.activity = _backend_descriptor(loop)
        """Readable when the loop has something to do; None where the loop shows no such descriptor."""
        self._stopping = False
        self._places = Places()
        self._wake_reader, self._wake_writer = os.pipe()
        """The thread sleeps on it, so that `stop` need not wait until a rest is over."""
        self._thread = threading.Thread(target=self._run, name="odradek-watchdog", daemon=True)

    def start(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more; harmless when it does not."""
        if self._stopping:
            return
        self._stopping = True
        os.write(self._wake_writer, b"x")
        # Not started where a start has failed before.
        if self._thread.ident is not None:
            self._thread.join()
        self._usage.close()
        self._stacks.close()
        if self.detector.count:
            logger.info(
                "event loop stalls count=%d starved=%d max_ms=%d total_ms=%d",
                self.detector.count,
                self.detector.starved,
                self.detector.max_ms,
                self.detector.total_ms,
            )
        os.close(self._wake_writer)
        os.close(self._wake_reader)

    def register(self, metrics: Metrics) -> None:
        """Show what it has seen among a broker's metrics."""
        kind, detector = "odradek.server:EventLoop", self.detector
        metrics.gauge(kind, "StallCount", lambda: detector.count)
        metrics.gauge(kind, "StarvedStallCount", lambda: detector.starved)
        metrics.gauge(kind, "StallTimeMs", lambda: detector.total_ms)
        metrics.gauge(kind, "StallTimeMsMax", lambda: detector.max_ms)
        metrics.source(lambda: summary_of(kind, "DelayMs", (), detector.delays))

    # ------------------------------------------------------------------ the loop's thread

    def _beat(self) -> None:
        self.detector.beat(_now_ms(), self._usage.read())

    # ------------------------------------------------------------------ the watchdog's thread

    def _run(self) -> None:
        detector = self.detector
        stop = select.poll()
        stop.register(self._wake_reader, select.POLLIN)
        anything = select.poll()
        anything.register(self._wake_reader, select.POLLIN)
        if self.activity is not None:
            anything.register(self.activity, select.POLLIN)
        while not self._stopping:
            ask, stall = detector.look(_now_ms(), self._usage.read(), self._stack)
            if ask:
                try:
                    self._loop.call_soon_threadsafe(self._beat)
                except RuntimeError:
                    return  # the loop is closed
            self.tell(stall)
            if detector.resting:
                events = anything.poll(_LONGEST_REST_MS)
                self.tell(detector.woke(_now_ms(), self._usage.read(), activity=bool(events)))
            else:
                stop.poll(detector.period_ms)

    def _stack(self) -> Stack:
        return self._stacks.read(self._loop_thread)

    def tell(self, stall: Stall | None) -> None:
        """Log a stall, if there was one."""
        if stall is None:
            return
        level, places = self._places.level(stall, self.detector.threshold_ms), stall.stack
        # A whole stack is for who looks for the cause: of a warning one frame is read, and grouped by.
        if not logger.isEnabledFor(logging.DEBUG):
            places = (place_of(stall.stack),)
        logger.log(
            level,
            _STALLED if stall.over else _STILL_STALLED,
            stall.stalled_ms,
            stall.cpu_ms,
            stall.starved_ms,
            stall.suppressed,
            " < ".join(places) or _UNSEEN,
        )


def _now_ms() -> float:
    return time.monotonic_ns() / 1e6


class ThreadUsage:
    """Reads what the thread that made it has had, from any thread, in one or two microseconds."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._clock: int | None = None
        with contextlib.suppress(OSError):
            # Processor time, time spent waiting for a processor, time slices: Linux.
            self._file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
            return
        with contextlib.suppress(AttributeError, OSError):  # macOS has no such clock
            self._clock = time.pthread_getcpuclockid(threading.get_ident())

    def read(self) -> Usage:
        """Return the usage until now; zeros where the system does not tell."""
        process_ms = time.process_time_ns() / 1e6
        if self._file is not None:
            computed, waited, *_ = os.pread(self._file, 80, 0).split()
            return Usage(int(computed) / 1e6, int(waited) / 1e6, process_ms)
        return Usage(
            0.0 if self._clock is None else time.clock_gettime_ns(self._clock) / 1e6, 0.0, process_ms
        )

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _backend_descriptor(loop: asyncio.AbstractEventLoop) -> int | None:
    """The descriptor (epoll, kqueue) that the loop sleeps on; it can itself be waited for."""
    with contextlib.suppress(Exception):
        if hasattr(loop, "_get_backend_id"):  # uvloop
            return int(loop._get_backend_id())
        return int(loop._selector.fileno())  # type: ignore[attr-defined]
    return None
