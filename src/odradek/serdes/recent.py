"""A bounded memory of what was looked up, for several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by keys; of more than `capacity` those go first that came first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: dict[K, V] = {}
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return the value of a key; None where there is none, or no more."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> V:
        """Remember a value, and return it."""
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._capacity:
                del self._values[next(iter(self._values))]
        return value

    def drop(self, is_meant: Callable[[K], bool]) -> None:
        """Forget the values whose key is meant."""
        with self._lock:
            self._values = {key: value for key, value in self._values.items() if not is_meant(key)}
