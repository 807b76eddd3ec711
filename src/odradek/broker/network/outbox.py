"""The bytes and ranges of files that are to be sent through one socket, in order; and threads that can send
it.

The calls that send release the interpreter's lock, so that a thread beside the event loop really sends beside
it: the loop goes on with other requests meanwhile, and whoever reads old records waits for the disk alone.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from odradek.broker.conversion.lazy_records import LazyRecords
from odradek.broker.network._pysending import MOST_PARTS
from odradek.log.storage.files import FileRange
from odradek.util.compiled import choose

if TYPE_CHECKING:
    from odradek.broker.network._pysending import send_parts
else:
    send_parts = choose("odradek.broker.network._sending", "odradek.broker.network._pysending")[0].send_parts

TURN_BYTES = 4 * 1024 * 1024
"""What one connection may send before others get their turn; the socket's buffer is usually full before."""

PATIENCE_MS = 1
"""So long a thread waits for a socket to take more: who reads on needs a fraction of it, and others wait."""

_NO_SENDFILE = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}

UNREAD = (FileRange, LazyRecords)
"""Parts of an answer that are not in memory."""


class Outbox:
    """Parts in the order in which they leave.

    Attributes:
        parts: bytes-like, `FileRange`, or `LazyRecords`, at which `write` stops.
        sent: bytes that the last `write` sent.
        error: what ended it, if not that the socket takes no more.
    """

    __slots__ = ("_fd", "_position", "_socket", "error", "parts", "sent")

    def __init__(self, sock: socket.socket) -> None:
        """
        Args:
            sock: of its own, and non-blocking.
        """
        self._socket = sock
        self._fd = sock.fileno()
        self.parts: deque[Any] = deque()
        self._position = 0
        """How many bytes of the first part have been sent: fewer than it has, and 0 without a part."""
        self.sent = 0
        self.error: Exception | None = None

    def fileno(self) -> int:
        """The descriptor that it sends to."""
        return self._fd

    def first_range_bytes(self) -> int:
        """Return how long the range is that is sent next, or behind one other part; 0 where there is none."""
        for part in islice(self.parts, 2):
            if part.__class__ is FileRange:
                return len(part)
        return 0

    def write(self, patience_ms: int = 0) -> None:
        """Send until the socket takes no more, a turn is over, or something comes that must be made first.

        Args:
            patience_ms: how long to wait for a socket that takes no more.
        """
        turn = TURN_BYTES
        try:
            while turn > 0:
                run, size = self._next_run()
                if not run:
                    break
                to_send = min(size, turn)
                try:
                    count = send_parts(self._fd, run, to_send, patience_ms)
                except BlockingIOError:
                    break
                except OSError as error:
                    if error.errno not in _NO_SENDFILE or not isinstance(run[0], tuple):
                        raise
                    # This file's system has no `sendfile`: from here on the part is bytes.
                    self.parts[0] = memoryview(self.parts[0].read())
                    continue
                if not count:
                    raise OSError(errno.EIO, f"the file ended {run[0][2]} bytes before what was announced")
                self._advance(count)
                turn -= count
                if count < to_send:
                    # Asking a socket that is full a second time would only cost.
                    break
        except Exception as error:
            self.error = error.with_traceback(None)  # whose frames hold the file
        self.sent = TURN_BYTES - turn

    def _next_run(self) -> tuple[list[Any], int]:
        """Return what is to be sent next as `send_parts` takes it, and how many bytes that is."""
        run: list[Any] = []
        size, position = 0, self._position
        for part in islice(self.parts, MOST_PARTS):
            if part.__class__ is LazyRecords:
                break
            left = len(part) - position
            if part.__class__ is FileRange:
                run.append((part.fileno(), part.position + position, left))
            else:
                run.append(memoryview(part)[position:] if position else part)
            size, position = size + left, 0
        return run, size

    def _advance(self, count: int) -> None:
        """Let go of the parts that have been sent, and note how far the next one has."""
        parts = self.parts
        count += self._position
        while parts and count >= len(parts[0]):
            count -= len(parts.popleft())
        self._position = count

    def close(self) -> None:
        """Drop what is left, and let go of the descriptor."""
        for part in self.parts:
            if part.__class__ is LazyRecords:
                part.drop()
        self.parts.clear()
        self._socket.close()


class SendingThreads:
    """Threads that write outboxes, in the order in which they are handed over.

    A thread is started when one is wanted and none is idle.
    """

    def __init__(self, most: int) -> None:
        """
        Args:
            most: threads at once, `num.network.threads`.
        """
        self._most = most
        self._running = 0
        """Threads that have not been told to end; `_threads` keeps the others too, for `close` to join."""
        self._threads: list[threading.Thread] = []
        self._work: SimpleQueue[tuple[Outbox, Callable[[], object]] | None] = SimpleQueue()
        self._unfinished = 0
        """Outboxes handed over and not yet back; a thread is started where they are more than these."""

    def write(self, outbox: Outbox, done: Callable[[], object]) -> None:
        """Hand an outbox to a thread that writes it; nobody else touches it until `done` has been called.

        Args:
            done: called in the thread. It may raise `RuntimeError`, of a loop that is closed: then the
                outbox is closed.
        """
        self._unfinished += 1
        if self._unfinished > self._running < self._most:
            self._running += 1
            thread = threading.Thread(target=self._run, name="odradek-send", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._work.put((outbox, done))

    def finished(self) -> None:
        """Take note that what was handed over came back; called where `write` is called."""
        self._unfinished -= 1

    def resize(self, most: int) -> None:
        """Change how many threads there may be."""
        self._most = most
        self._end(self._running - most)

    def _end(self, number: int) -> None:
        for _ in range(number):
            self._running -= 1
            self._work.put(None)

    def _run(self) -> None:
        take = self._work.get
        while (work := take()) is not None:
            outbox, done = work
            outbox.write(PATIENCE_MS)
            try:
                done()
            except RuntimeError:
                outbox.close()
            del work, outbox, done  # an idle thread keeps no file open

    def close(self) -> None:
        """End the threads, when they have done what they have."""
        self._end(self._running)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
