"""The requests that a fault has been asked about: which of those that match it meets."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from odradek.testing.faults.tickets import OwnTickets

if TYPE_CHECKING:
    from odradek.testing.faults.fault import Fault
    from odradek.testing.faults.tickets import Tickets

_NEAREST = 5


class Calls:
    """Counts the requests that match a fault, and says which of them it meets.

    For the threads of several brokers: a fault of a cluster counts those of all. Which ones are met is a
    matter of their numbers alone, so that processes which draw them together need not ask each other.

    Attributes:
        missed: why others were not met, by a line about each, the commonest first.
    """

    def __init__(
        self,
        fault: Fault,
        tickets: Tickets | None = None,
        missed_elsewhere: Callable[[], Counter[str]] = Counter,
    ) -> None:
        """
        Args:
            fault: the rule.
            tickets: numbers of the requests that match; None for those of this process.
            missed_elsewhere: the same as `missed`, of other processes.
        """
        self._fault = fault
        self._tickets = tickets or OwnTickets()
        self._missed_elsewhere = missed_elsewhere
        self._random = random.Random(fault.seed)
        self._lock = Lock()
        self._judged = 0
        """So many numbers of requests have been looked at."""
        self._met = 0
        self.missed: Counter[str] = Counter()

    @property
    def matched(self) -> int:
        """The number of requests that had all that the fault names."""
        return self._tickets.drawn

    @property
    def met(self) -> int:
        """The number of these that it met."""
        with self._lock:
            self._judge(self._tickets.drawn)
            return self._met

    def next(self) -> bool:
        """Count a request that matches; returns whether the fault meets it."""
        with self._lock:
            return self._judge(self._tickets.draw())

    def _judge(self, number: int) -> bool:
        """Go on to the request of a number; return whether the fault meets that one."""
        is_met = False
        while self._judged < number:
            self._judged += 1
            is_met = self._is_turn_of(self._judged)
            self._met += is_met
        return is_met

    def _is_turn_of(self, number: int) -> bool:
        fault = self._fault
        if (fault.most is not None and self._met >= fault.most) or number < (fault.nth or 1):
            return False
        return fault.probability is None or self._random.random() < fault.probability

    def miss(self, line: str) -> None:
        """Count a request that does not match."""
        with self._lock:
            if line in self.missed or len(self.missed) < 1000:
                self.missed[line] += 1

    @property
    def is_spent(self) -> bool:
        """Return whether the fault will meet no request any more."""
        most = self._fault.most
        return most is not None and self.met >= most

    @property
    def commonest(self) -> dict[str, int]:
        """Return some of `missed`, the commonest first."""
        with self._lock:
            missed = Counter(dict(self.missed.most_common(_NEAREST)))
        return dict((missed + self._missed_elsewhere()).most_common(_NEAREST))

    @property
    def nearest(self) -> list[str]:
        """Return lines about requests that came near."""
        lines = [line if count == 1 else f"{line} ({count} times)" for line, count in self.commonest.items()]
        if self.matched:
            lines.insert(0, f"{self.matched} matched, none of which was its turn")
        return lines
