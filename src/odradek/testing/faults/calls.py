"""The requests that a fault has been asked about: which of those that match it meets."""

from __future__ import annotations

import random
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.testing.faults.fault import Fault

_NEAREST = 5


class Calls:
    """Counts the requests that match a fault, and says which of them it meets.

    For the threads of several brokers: a fault of a cluster counts those of all.

    Attributes:
        matched: how many had all that the fault names.
        met: how many of these it met.
        missed: why others were not met, by a line about each, the commonest first.
    """

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._random = random.Random(fault.seed)
        self._lock = Lock()
        self.matched = 0
        self.met = 0
        self.missed: Counter[str] = Counter()

    def next(self) -> bool:
        """Count a request that matches; returns whether the fault meets it."""
        fault = self._fault
        with self._lock:
            self.matched += 1
            if self.is_spent or (fault.nth is not None and self.matched < fault.nth):
                return False
            if fault.probability is not None and self._random.random() >= fault.probability:
                return False
            self.met += 1
            return True

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
    def nearest(self) -> list[str]:
        """Return lines about requests that came near."""
        with self._lock:
            lines = [
                line if count == 1 else f"{line} ({count} times)"
                for line, count in self.missed.most_common(_NEAREST)
            ]
        if self.matched:
            lines.insert(0, f"{self.matched} matched, none of which was its turn")
        return lines
