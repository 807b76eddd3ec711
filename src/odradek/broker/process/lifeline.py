"""The pipe between a worker and its supervisor: by it a worker learns that all of them stop.

A worker's standard input is a pipe of which the supervisor holds the other end. Whatever it writes there says
that all workers stop, of which this one is told by SIGTERM next; then nobody is left to lead what this one
leads (`all_stop`). However the supervisor ends, the kernel closes its end, and the pipe reads as ended: the
worker stops by itself.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

GRACE_S = 60.0
"""How long a worker may take to stop in good order; without its store it may be that it cannot."""

ALL_STOP = b"all stop\n"
"""What the supervisor writes."""

all_stop = threading.Event()
"""Set in a worker when all workers stop."""


def hold(
    descriptor: int = 0,
    *,
    stop: Callable[[], None] | None = None,
    end: Callable[[], None] | None = None,
    grace_s: float = GRACE_S,
) -> threading.Thread:
    """Stop this process when the pipe ends: by SIGTERM, and at once if it is still there after `grace_s`.

    Args:
        descriptor: where the pipe is read; standard input.
        stop, end: what is done instead, for tests.
        grace_s: seconds between the two.

    Returns:
        The thread that waits for it.
    """
    thread = threading.Thread(
        target=_wait,
        args=(descriptor, stop or _terminate, end or _exit, grace_s),
        name="lifeline",
        daemon=True,
    )
    thread.start()
    return thread


def _wait(descriptor: int, stop: Callable[[], None], end: Callable[[], None], grace_s: float) -> None:
    try:
        while os.read(descriptor, 4096):
            all_stop.set()
    except OSError:
        pass  # closed, which is no less an end
    all_stop.set()
    stop()
    threading.Event().wait(grace_s)
    end()


def _terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _exit() -> None:
    os._exit(1)
