"""Work on logs in steps: what waits for the disk is handed out, to be done in another thread."""

from __future__ import annotations

from collections.abc import Callable, Generator

Wait = Callable[[], object]
"""Something that waits for the disk; may raise `OSError`."""

DiskSteps = Generator[Wait, None, bool]
"""Work that hands out what waits for the disk, to be done elsewhere, and goes on when it has been done.

An `OSError` of it is thrown back in. Between two steps the log is read and appended to as ever.
"""


def at_once(steps: DiskSteps) -> bool:
    """Do all of it here."""
    try:
        wait = next(steps)
        while True:
            try:
                wait()
            except OSError as error:
                wait = steps.throw(error)
            else:
                wait = next(steps)
    except StopIteration as done:
        result: bool = done.value
        return result
