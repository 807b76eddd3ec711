"""A relay in front of a broker that notes which APIs, and at which versions, pass through it.

The broker works as it always does: its own request log would take its short cuts away.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from ports import free_port
from waiting import joined

#: The client id of odradek's own clients where they help a test: what they ask is not noted.
OURS = "odradek-beside"

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")  # API, version, correlation id, length of the client id
_ENOUGH = _HEADER.size + len(OURS)


class Requests:
    """Follows one connection's requests: each begins with its size, its API and its version."""

    def __init__(self, note: Callable[[int, int], None]) -> None:
        """
        Args:
            note: called with the API key and the version of each.
        """
        self._note = note
        self._head = b""
        self._wanted = _SIZE.size
        self._rest = 0

    def feed(self, data: bytes) -> None:
        """Note the requests that begin in `data`."""
        at = 0
        while at < len(data):
            if self._rest:
                step = min(self._rest, len(data) - at)
                self._rest -= step
                at += step
                continue
            step = min(self._wanted - len(self._head), len(data) - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == self._wanted:
                self._take()

    def _take(self) -> None:
        (size,) = _SIZE.unpack_from(self._head)
        enough = min(max(size, 0), _ENOUGH)
        if self._wanted < _SIZE.size + enough:
            self._wanted = _SIZE.size + enough
            return
        header = self._head[_SIZE.size :]
        if len(header) >= _HEADER.size:
            key, version, _, length = _HEADER.unpack_from(header)
            if length != len(OURS) or header[_HEADER.size :] != OURS.encode():
                self._note(key, version)
        self._head, self._wanted, self._rest = b"", _SIZE.size, size - enough


class Tap:
    """Listens on a port of its own; `seen` has each API's newest version so far."""

    def __init__(self) -> None:
        self.port = free_port()
        self.seen: dict[int, int] = {}
        self._upstream = 0
        self._listener: socket.socket | None = None
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def _note(self, key: int, version: int) -> None:
        self.seen[key] = max(version, self.seen.get(key, -1))

    def reserve(self) -> int:
        """Take a port, the same one each time; connections are refused until `forward`."""
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        return self.port

    def forward(self, upstream: int) -> None:
        """Relay every connection to that port."""
        assert self._listener is not None
        self._upstream = upstream
        self._listener.listen(100)
        self._start(self._accept, self._listener)

    def refuse(self) -> None:
        """Take no further connections, as a broker that is down."""
        if self._listener is not None:
            # A close alone does not wake the thread that accepts.
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    def close(self) -> None:
        """End all connections and wait for the threads."""
        self.refuse()
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            joined(thread)
        self._threads.clear()

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._upstream))
        except OSError:
            client.close()
            return
        with self._lock:
            self._open |= {client, server}
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self._pump, args=(server, client, None), daemon=True)
        back.start()
        self._pump(client, server, Requests(self._note))
        back.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket, requests: Requests | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if requests is not None:
                    requests.feed(data)
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
