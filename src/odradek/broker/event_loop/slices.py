"""Long work in slices, so that no request holds the event loop for long.

Work that may be long is a generator, which yields wherever it may pause: between two items, never amid a
change. Whatever it looked up before a pause may be gone after it. `Slicer` runs such work: one slice, then
the event loop's other callbacks, then the next slice.

Work of a large frame makes twenty times the frame's bytes of objects, so one such piece of work is in hand at
a time, in the order in which they came. Other work takes turns with it, and with each other.

Many connections that each have much to do would add up: what they take up in one round of the loop is one
slice, of all of them together. Who comes when it is over waits for a turn (`Slicer.wait_turn`); those who
have not had one go first. Only what is many requests, or a long one, looks at the clock: a small one is
answered at once.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.util.futures import Awaited, error_of, pass_on
from odradek.util.promise import Promise

if TYPE_CHECKING:
    from odradek.wire.structs import Struct

T = TypeVar("T")
R = TypeVar("R")

Steps = Generator[Any, None, R]
"""Work that pauses at each `yield`, and what comes of it. A future that it yields is waited for."""

SLICE_S = 0.010
"""How long one slice may take, in seconds, before other connections get their turn."""

NEWCOMERS_IN_A_ROW = 4
"""So many who have not had a turn go before one who has, so that the latter get on, too."""


class NobodyWaits(Exception):
    """The future that steps waited for has been cancelled: the peer has gone, or the broker stops."""


def is_in_steps(response: object) -> bool:
    """Return whether a handler has returned work in steps instead of a response."""
    # By what it can do: the generators of compiled modules have classes of their own.
    return isinstance(response, Generator)


def each(items: Iterable[T], work: Callable[[T], R]) -> Steps[list[R]]:
    """Do `work` on every item, with a pause after each; returns the results in order."""
    results = []
    for item in items:
        results.append(work(item))
        yield
    return results


AT_ONCE = 64
"""So many topics, partitions or markers are worked on without a pause; a request that names more of them is
worked on in pieces of so many."""

_COUNTED_AT_ONCE = 256


def count_each(items: Sequence[T], key: Callable[[T], R]) -> Steps[dict[R, int]]:
    """Return how often each item's key is there, in the order of their first appearance."""
    times: dict[R, int] = {}
    for start in range(0, len(items), _COUNTED_AT_ONCE):
        for value in map(key, items[start : start + _COUNTED_AT_ONCE]):
            times[value] = times.get(value, 0) + 1
        yield
    return times


_SORTED_AT_ONCE = 4096


def in_order(items: Sequence[str]) -> Steps[list[str]]:
    """Sort names, of which there may be hundreds of thousands."""
    runs = []
    for start in range(0, len(items), _SORTED_AT_ONCE):
        runs.append(sorted(items[start : start + _SORTED_AT_ONCE]))
        yield
    if len(runs) == 1:
        return runs[0]
    merged = []
    for item in heapq.merge(*runs):
        merged.append(item)
        yield
    return merged


def begin(steps: Steps[R]) -> R | Steps[R]:
    """Take the first step of work, which mostly ends with it. Returns its result, or the steps left."""
    try:
        awaited = next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return _go_on(steps, awaited)


def _go_on(steps: Steps[R], awaited: Any) -> Steps[R]:
    yield awaited
    return (yield from steps)


def take_all(steps: Steps[R]) -> R:
    """Take steps without a pause, where it is known that they are few and wait for nothing."""
    try:
        while True:
            awaited = next(steps)
            assert awaited is None or awaited.done(), "steps that wait cannot be taken at once"
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def take_or_wait(steps: Steps[R]) -> R | Promise[Any]:
    """Take steps without a pause; where they wait for something, return a promise of what comes of them.

    The steps go on when that has ended, be it with an error. Where they end with `NobodyWaits`, the promise
    is cancelled; where with a promise, it ends as that does.
    """
    try:
        awaited = _take_to_wait(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    promise: Promise[Any] = Promise(awaited.get_loop())

    def go_on(done: Awaited[Any]) -> None:
        if promise.done():
            error_of(done)  # nobody waits any more; asyncio need not log that nobody has asked for it
            return
        try:
            further = _take_to_wait(steps)
        except StopIteration as end:
            if isinstance(end.value, Promise):
                pass_on(end.value, promise)
            else:
                promise.set_result(end.value)
        except (NobodyWaits, asyncio.CancelledError):
            promise.cancel()
        except Exception as error:
            promise.set_exception(error)
        else:
            further.add_done_callback(go_on)

    awaited.add_done_callback(go_on)
    return promise


def _take_to_wait(steps: Steps[R]) -> asyncio.Future[Any]:
    """Take steps until they wait for something.

    Raises:
        StopIteration: they have ended.
    """
    while True:
        awaited: asyncio.Future[Any] | None = next(steps)
        if awaited is not None and not awaited.done():
            return awaited


def wait(answer: Any) -> Steps[Any]:
    """Wait for an answer that may have come already."""
    if isinstance(answer, asyncio.Future) or asyncio.isfuture(answer):
        if not answer.done():
            yield answer
        try:
            return answer.result()
        except asyncio.CancelledError:
            raise NobodyWaits from None
    return answer


_FREED_AT_ONCE = 256
"""Elements of a list that are let go of between two pauses."""


def take_apart(message: Struct) -> Steps[None]:
    """Empty the long lists of a message that nobody needs any more.

    All of it would otherwise be freed in one go, which takes 0.2 µs and more for each object.
    """
    # Two levels deep: topics and their partitions, where the many are.
    for field in message.FIELDS:
        items = getattr(message, field.name)
        if items.__class__ is not list:
            continue
        element = field.element
        inner = element.struct.FIELDS if element is not None and element.struct is not None else ()
        names = [inner_field.name for inner_field in inner if inner_field.kind == "array"]
        if len(items) <= _FREED_AT_ONCE and not names:
            continue
        while items:
            piece = items[-_FREED_AT_ONCE:]
            if len(items) > _FREED_AT_ONCE:
                del items[-_FREED_AT_ONCE:]
            else:
                items = ()
            for item in piece:
                for name in names:
                    if len(getattr(item, name) or ()) > _FREED_AT_ONCE:
                        yield from take_apart(item)
                        break
            yield


class _Work:
    __slots__ = ("future", "is_large", "steps")

    def __init__(self, steps: Steps[Any], future: asyncio.Future[Any], is_large: bool) -> None:
        self.steps = steps
        self.future = future
        self.is_large = is_large


class Slicer:
    """Runs work in slices on the running event loop, one slice in each turn of the loop.

    Attributes:
        on_busy: called with True when there is work that did not end in its first slice, with False when all
            of it is done; the process holds the garbage collector's full rounds back meanwhile.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        """
        Args:
            clock: seconds, of which a slice gets `SLICE_S`.
        """
        self.on_busy: Callable[[bool], None] | None = None
        self._clock = clock
        self._large: deque[_Work] = deque()
        """Of large frames, in the order of arrival. Only the first is worked on, because each makes twenty
        times its bytes of objects."""
        self._others: deque[_Work] = deque()
        """All other work: each slice goes to the first, which then goes behind the others."""
        self._turn_of_large = False
        """Whether the last slice was one of `_large`; where both have work they take turns."""
        self._asked = False
        """Whether the loop will call `_take_turn`: so as long as there is work in either."""
        self._until = 0.0
        """When the slice of this round of the loop ends."""
        self._is_late = False
        """Whether it has been seen to be over; the next round is asked for then."""
        self._newcomers: deque[Callable[[], None]] = deque()
        self._returning: deque[Callable[[], None]] = deque()
        """Who waits for a turn: newcomers have had none yet, the returning ones have."""
        self._newcomers_in_a_row = 0
        """Turns given to newcomers since one of those who return had one."""

    @property
    def is_busy(self) -> bool:
        """Return whether there is work that is not done; work that waits for a future does not count."""
        return bool(self._large or self._others)

    def begin_slice(self) -> float:
        """Return when the slice of this round ends, for `is_over`; for work that is not in steps."""
        if not self._is_late:
            now = self._clock()
            if now >= self._until:
                # Nobody has seen the last one end, so that nobody waits.
                self._until = now + SLICE_S
        return self._until

    def is_over(self, until: float) -> bool:
        """Return whether it is time for others: those who go on then call `wait_turn`."""
        if self._clock() < until:
            return False
        self._end_round()
        return True

    def _end_round(self) -> None:
        if not self._is_late:
            self._is_late = True
            asyncio.get_running_loop().call_soon(self._begin_round)

    def wait_turn(self, go_on: Callable[[], None], *, again: bool) -> None:
        """Queue `go_on`, which is called when its turn has come, in a later round.

        Args:
            go_on: works until `is_over`.
            again: whether it comes from a turn; those who do not go first.
        """
        (self._returning if again else self._newcomers).append(go_on)
        self._end_round()

    def _begin_round(self) -> None:
        """Give turns to those who wait, as long as a slice: one at least."""
        self._is_late = False
        self._until = until = self._clock() + SLICE_S
        try:
            # Those who come while this goes on have the next round.
            for _ in range(len(self._newcomers) + len(self._returning)):
                self._next_turn()()
                if self.is_over(until):
                    return
        finally:
            # Whoever fails in its turn, the others have theirs: nothing else would wake them.
            if self._newcomers or self._returning:
                self._end_round()

    def _next_turn(self) -> Callable[[], None]:
        """Take out who is next."""
        if self._newcomers and not (self._returning and self._newcomers_in_a_row >= NEWCOMERS_IN_A_ROW):
            self._newcomers_in_a_row += 1
            return self._newcomers.popleft()
        self._newcomers_in_a_row = 0
        return self._returning.popleft()

    def run(self, steps: Steps[R], *, large: bool = False) -> R | asyncio.Future[R]:
        """Begin work, and end it if one slice is enough.

        Args:
            steps: the work.
            large: whether it belongs to a large frame. Such work does not begin before the loop's next turn.

        Returns:
            What came of it, or a future of that. An exception is raised, or is the future's; where the steps
            end with `CancelledError`, the future is cancelled.
        """
        awaited = None
        if not large:
            # While others wait for their slices, this one's ends at its first pause.
            until = self._clock() + (0 if self.is_busy else SLICE_S)
            try:
                awaited = self._advance(steps, until)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            except asyncio.CancelledError:
                cancelled: asyncio.Future[R] = asyncio.get_running_loop().create_future()
                cancelled.cancel()
                return cancelled
        work = _Work(steps, asyncio.get_running_loop().create_future(), large)
        self._go_on_after(work, awaited)
        return work.future

    def _advance(self, steps: Steps[Any], until: float) -> asyncio.Future[Any] | None:
        """Run steps until it is time for others; returns what they wait for, if anything.

        Raises:
            StopIteration: they have ended.
        """
        while True:
            awaited: asyncio.Future[Any] | None = next(steps)
            if awaited is not None and not awaited.done():
                return awaited
            if self._clock() >= until:
                return None

    def _go_on_after(self, work: _Work, awaited: asyncio.Future[Any] | None) -> None:
        if awaited is not None:
            # The steps look at how it has ended, be it with an error: see `wait`.
            awaited.add_done_callback(lambda done: self._go_on_after(work, None))
            return
        (self._large if work.is_large else self._others).append(work)
        if not self._asked:
            self._asked = True
            if self.on_busy is not None:
                self.on_busy(True)
            loop = asyncio.get_running_loop()
            loop.call_soon(self._take_turn, loop)

    def _take_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run one slice of one piece of work, and ask for the next turn."""
        self._turn_of_large = bool(self._large) and not (self._turn_of_large and self._others)
        queue = self._large if self._turn_of_large else self._others
        work = queue[0]
        awaited, over = None, True
        try:
            awaited = self._advance(work.steps, self._clock() + SLICE_S)
            over = awaited is not None
        except StopIteration as end:
            if not work.future.done():
                work.future.set_result(end.value)
        except asyncio.CancelledError:
            # No `Exception`: let through, it would end the turns of all others with this one's.
            work.future.cancel()
        except Exception as error:
            if not work.future.done():
                work.future.set_exception(error)
        if over:
            queue.popleft()
            if awaited is not None:
                self._go_on_after(work, awaited)
        elif queue is self._others:
            queue.rotate(-1)
        if self.is_busy:
            loop.call_soon(self._take_turn, loop)
            return
        self._asked = False
        if self.on_busy is not None:
            self.on_busy(False)
