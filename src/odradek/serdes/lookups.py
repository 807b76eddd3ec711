"""A memory whose gaps are filled off the event loop: serializers never wait, they say what they need."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from odradek.client.serialization import LookupNeeded
from odradek.serdes.recent import Recent

K = TypeVar("K")
V = TypeVar("V")


@dataclass
class _Known(Generic[V]):
    """A value that was looked up.

    Attributes:
        until_s: until when it holds, by the monotonic clock.
        is_new: nobody has had it yet; so it serves once, however short it holds.
    """

    value: V
    until_s: float
    is_new: bool = True


class Lookups(Generic[K, V]):
    """Values that were looked up, by keys.

    Args:
        look_up: asks for the value of a key; it may take long.
        capacity: so many values are remembered.
        ttl_s: for so many seconds a value holds; None: for good.
        now_s: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        look_up: Callable[[K], V],
        capacity: int,
        ttl_s: float | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up = look_up
        self._ttl_s = ttl_s
        self._now_s = now_s
        self._known: Recent[K, _Known[V]] = Recent(capacity)

    def get(self, key: K) -> V:
        """Return the value of a key.

        Raises:
            LookupNeeded: it is not known, or no more.
        """
        known = self._known.get(key)
        if known is None or not (known.is_new or known.until_s > self._now_s()):
            raise LookupNeeded(partial(self._load, key))
        known.is_new = False
        return known.value

    def _load(self, key: K) -> None:
        value = self._look_up(key)
        self._known.put(key, _Known(value, math.inf if self._ttl_s is None else self._now_s() + self._ttl_s))
