"""The classes that are called beside the application: `interceptor.classes`.

As in Kafka's client, one that raises is logged and passed over: it must not cost the application a record or
the news of one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

logger = logging.getLogger("odradek.client")


class Interceptors:
    """Those of one client, in their order. Each has some of the methods.

    Args:
        interceptors: objects, or classes of which one is made.
    """

    def __init__(self, interceptors: Iterable[Any]) -> None:
        self._all = tuple(entry() if isinstance(entry, type) else entry for entry in interceptors)

    def __bool__(self) -> bool:
        return bool(self._all)

    def have(self, method: str) -> bool:
        """Return whether any of them has the method."""
        return any(hasattr(interceptor, method) for interceptor in self._all)

    def changed(self, method: str, value: Any) -> Any:
        """Return what they make of `value`, one after the other; None leaves it as it is."""
        for interceptor in self._all:
            if hasattr(interceptor, method):
                try:
                    changed = getattr(interceptor, method)(value)
                except Exception:
                    logger.warning("interceptor %r: %s failed", interceptor, method, exc_info=True)
                else:
                    value = value if changed is None else changed
        return value

    def tell(self, method: str, *args: Any) -> None:
        """Call the method of each."""
        for interceptor in self._all:
            if hasattr(interceptor, method):
                try:
                    getattr(interceptor, method)(*args)
                except Exception:
                    logger.warning("interceptor %r: %s failed", interceptor, method, exc_info=True)
