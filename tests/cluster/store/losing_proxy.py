"""A way to a ZooKeeper that loses answers: what was asked is done, and who asked does not hear of it."""

from __future__ import annotations

import contextlib
import socket
import threading


class LosingProxy:
    """Hands bytes to and fro between clients and one server.

    `lose_next_answer` has it break the connection instead of handing on the next answer to a request; pings
    and events of watches pass. `hold_next_connection` has it take a connection and stay silent, as a server
    does that is about to start or to end.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lose = threading.Event()
        self._hold = threading.Event()
        self.held = threading.Event()
        self.lost = 0
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next_answer(self) -> None:
        """Lose the answer to the next request."""
        self._lose.set()

    def hold_next_connection(self) -> None:
        """Take the next connection, and hand nothing on; `held` says when there is one."""
        self._hold.set()

    def break_connections(self) -> None:
        """Break what stands; new connections are taken."""
        for each in list(self._sockets):
            _end(each)

    def close(self) -> None:
        """End it."""
        _end(self._listener)
        self.break_connections()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._hold.is_set():
                self._hold.clear()
                self._sockets.append(client)
                self.held.set()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                _end(client)
                continue
            self._sockets += [client, server]
            threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answers, args=(client, server), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                server.sendall(data)
        except OSError:
            pass
        _end(client, server)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        # The first answer is that to the connect request, which has no number.
        numbered = False
        try:
            while frame := _frame(server):
                if numbered and self._lose.is_set() and int.from_bytes(frame[4:8], "big", signed=True) > 0:
                    self._lose.clear()
                    self.lost += 1
                    break
                numbered = True
                client.sendall(frame)
        except OSError:
            pass
        _end(client, server)


def _frame(connection: socket.socket) -> bytes:
    size = _exactly(connection, 4)
    return size and size + _exactly(connection, int.from_bytes(size, "big"))


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            return b""
        data += more
    return data


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
