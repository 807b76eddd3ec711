"""A broker that says what a test tells it to: real sockets, real frames, answers by function."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_request_header, encode_response
from odradek.wire.messages import request_class
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from waiting import joined


class HangUp(Exception):
    """Raised by an answer: the connection is closed."""


class Silence(Exception):
    """Raised by an answer: nothing is said, and the next request is read."""


Answer = Callable[[Any, int], Any]


class ScriptedBroker:
    """Listens on loopback.

    Args:
        answers: key → function of (request, version) that gives the response message, or raises.
        versions: what ApiVersions is answered with, lowest and highest by key.
        like: '0.9.0' is silent at ApiVersions, '0.8.2' hangs up at what it does not know, None answers.

    Attributes:
        asked: (key, version) of every request, in order, all connections together.
        connections: how many were made.
    """

    def __init__(
        self,
        answers: Mapping[int, Answer],
        versions: Mapping[int, tuple[int, int]] | None = None,
        like: str | None = None,
    ) -> None:
        self.answers = dict(answers)
        self.versions = dict(versions or {})
        self.like = like
        self.asked: list[tuple[int, int]] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def at(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> ScriptedBroker:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def has_been_called(self, times: int) -> bool:
        """Whether so many connections were made in all; waits for the last of them."""
        with self._changed:
            self._changed.wait_for(lambda: self.connections >= times, 60)
            return self.connections == times

    def die(self) -> None:
        """Hang up on everybody, and take no more calls."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            joined(thread)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self.connections += 1
                self._open.add(connection)
                self._changed.notify_all()
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, HangUp), connection.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(int.from_bytes(size, "big"))
                with contextlib.suppress(Silence):
                    connection.sendall(b"".join(map(bytes, self._answer(frame))))
        self._open.discard(connection)

    def _answer(self, frame: bytes) -> list[Any]:
        key = int.from_bytes(frame[:2], "big")
        if key == ApiKey.API_VERSIONS and self.like is not None:
            self.asked.append((key, int.from_bytes(frame[2:4], "big")))
            raise Silence if self.like == "0.9.0" else HangUp
        header, body = decode_request_header(frame)
        self.asked.append((header.api_key, header.api_version))
        if key == ApiKey.API_VERSIONS:
            keys = [
                ApiVersion(api_key=k, min_version=a, max_version=b) for k, (a, b) in self.versions.items()
            ]
            response: Any = ApiVersionsResponse(api_keys=keys)
        elif key in self.answers:
            request = request_class(key).decode(memoryview(frame)[body:], header.api_version)
            response = self.answers[key](request, header.api_version)
        else:
            raise HangUp
        return list(encode_response(key, header.api_version, header.correlation_id, response))
