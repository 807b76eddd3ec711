"""A TCP proxy in front of a broker that cuts connections where a test wants it.

It reads frames (four bytes of length, then so many bytes), so that it can cut *between* a request that the
broker has got and its answer: the client then cannot know what became of it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from waiting import joined


def read_frame(sock: socket.socket) -> bytes | None:
    """One frame with its length, None at the end."""
    head = _read(sock, 4)
    if head is None:
        return None
    body = _read(sock, struct.unpack(">i", head)[0])
    return None if body is None else head + body


def _read(sock: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        try:
            data = sock.recv(count - len(parts))
        except OSError:
            return None
        if not data:
            return None
        parts += data
    return bytes(parts)


class Proxy:
    """Listens on a free port of 127.0.0.1 at once; `target` may be set later.

    Attributes:
        on_request, on_response: called with (API key, frame); returning False cuts the connection instead of
            passing the frame on. They run in the proxy's threads.
    """

    def __init__(self) -> None:
        self.target: tuple[str, int] | None = None
        self.on_request: Callable[[int, bytes], bool] = lambda key, frame: True
        self.on_response: Callable[[int, bytes], bool] = lambda key, frame: True
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                assert self.target is not None
                server = socket.create_connection(self.target, 5)
                server.settimeout(None)
            except OSError:
                client.close()
                continue
            with self._lock:
                if self._closed:
                    client.close()
                    server.close()
                    return
                self._sockets |= {client, server}
            keys: list[int] = []
            self._start(self._pump, client, server, keys, True)
            self._start(self._pump, server, client, keys, False)

    def _pump(self, source: socket.socket, sink: socket.socket, keys: list[int], requests: bool) -> None:
        while (frame := read_frame(source)) is not None:
            if requests:
                key = struct.unpack_from(">h", frame, 4)[0]
                keys.append(key)
                good = self.on_request(key, frame)
            else:
                good = self.on_response(keys.pop(0), frame)
            if not good:
                self.cuts += 1
                break
            try:
                sink.sendall(frame)
            except OSError:
                break
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def cut_all(self) -> None:
        """Cut every connection that is open now."""
        with self._lock:
            sockets = list(self._sockets)
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End everything."""
        with self._lock:
            self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()
        for thread in self._threads:
            joined(thread)
        for sock in self._sockets:
            sock.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
