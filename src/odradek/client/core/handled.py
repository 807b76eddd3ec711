"""A test of whether an exception tells of the records that were given out last."""

from __future__ import annotations

import sys
from types import TracebackType


class Handled:
    """The exception that the application was handling when it came for records.

    If it still handles the same one when it closes, that says nothing of those records. Both methods are to
    be called in the application's thread or task.
    """

    __slots__ = ("_seen", "_traceback")

    def __init__(self) -> None:
        self._seen: BaseException | None = None
        self._traceback: TracebackType | None = None

    def note(self) -> None:
        """The application comes for records."""
        self._seen = seen = sys.exception()
        self._traceback = None if seen is None else seen.__traceback__

    def new_one(self) -> bool:
        """Return whether an exception is handled, or on its way, that was not when the records were given.

        One that was raised again since is a new one: its traceback is another.
        """
        now = sys.exception()
        return now is not None and (now is not self._seen or now.__traceback__ is not self._traceback)
