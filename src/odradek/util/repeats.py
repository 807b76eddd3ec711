"""Log lines of which a stranger can cause any number: the first of a kind is written, then counts.

    repeats = Repeats(log)
    repeats.log(logging.ERROR, topic, "append failed topic=%s: %s", topic, why)

The first line of a kind stands as it is. Those that follow are counted; a minute after the last line the next
one is written with `repeated=` and their number. A kind that has been silent for an hour is a new one.
`tell_counts` writes what has been counted without a next one to write it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from weakref import WeakSet

INTERVAL_S = 60.0
FORGOTTEN_AFTER_S = 3_600.0

MOST_KINDS = 256
"""So many kinds of a message are told apart; those beyond, which only a stranger makes, are one kind."""

_all: WeakSet[Repeats] = WeakSet()


class _Kind:
    """The counts of one kind of line."""

    __slots__ = ("args", "count", "level", "message", "seen_s", "told_s")

    def __init__(self, level: int, message: str, args: tuple[object, ...], now_s: float) -> None:
        self.level = level
        self.message = message
        self.args = args
        self.count = 0
        self.told_s = self.seen_s = now_s


class Repeats:
    """The repeated lines of one logger. Where several threads log at once a count may be one too low."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            logger: where the lines go.
            clock: monotonic time in seconds.
        """
        self._log = logger
        self._clock = clock
        self.kinds: dict[tuple[str, object], _Kind] = {}
        """What has been said of late, at most `MOST_KINDS`."""
        _all.add(self)

    def log(
        self,
        level: int,
        kind: object,
        message: str,
        *args: object,
        exc_info: BaseException | None = None,
    ) -> None:
        """Write a line, or count it.

        Args:
            level: of `logging`.
            kind: hashable; with `message` what makes lines the same. Strangers should not vary it at will.
            message, args: as for `Logger.log`.
            exc_info: of the first line of a kind the trace is written, too.
        """
        if not self._log.isEnabledFor(level):
            return
        now_s = self._clock()
        key: tuple[str, object] = (message, kind)
        kept = self.kinds.get(key)
        if kept is None and len(self.kinds) >= MOST_KINDS:
            self._forget(now_s)
            if len(self.kinds) >= MOST_KINDS:
                key = (message, None)
                kept = self.kinds.get(key)
        if kept is None or now_s - kept.seen_s >= FORGOTTEN_AFTER_S:
            self.kinds[key] = _Kind(level, message, args, now_s)
            self._log.log(level, message, *args, exc_info=exc_info, stacklevel=2)
            return
        kept.count += 1
        kept.seen_s, kept.args = now_s, args
        if now_s - kept.told_s >= INTERVAL_S:
            self._tell(kept, now_s)

    def tell_counts(self, *, at_once: bool = False) -> None:
        """Write the counts of a minute and more ago, or all of them."""
        now_s = self._clock()
        # Another thread may log meanwhile.
        for kind in list(self.kinds.values()):
            if kind.count and (at_once or now_s - kind.told_s >= INTERVAL_S):
                self._tell(kind, now_s)

    def forget(self) -> None:
        """Begin anew; what has been counted and not told is told."""
        self.tell_counts(at_once=True)
        self.kinds.clear()

    def _tell(self, kind: _Kind, now_s: float) -> None:
        count, kind.count, kind.told_s = kind.count, 0, now_s
        self._log.log(kind.level, f"{kind.message} repeated=%d", *kind.args, count)

    def _forget(self, now_s: float) -> None:
        self.kinds = {
            key: kind for key, kind in list(self.kinds.items()) if now_s - kind.seen_s < FORGOTTEN_AFTER_S
        }


def tell_counts(*, at_once: bool = False) -> None:
    """`Repeats.tell_counts` of all there are."""
    for repeats in list(_all):
        repeats.tell_counts(at_once=at_once)


def forget() -> None:
    """`Repeats.forget` of all there are: another broker starts in this process."""
    for repeats in list(_all):
        repeats.forget()
