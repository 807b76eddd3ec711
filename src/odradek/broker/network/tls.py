# compiled: mypyc
"""TLS of one connection: a layer between the transport, whose bytes it decrypts, and the `Connection`.

    the loop ─bytes─► TlsLayer.buffer_updated ─► OpenSSL, in memory ─plain─► Connection.buffer_updated
    the loop ◄─bytes─ TlsLayer.writelines     ◄─ OpenSSL, in memory ◄─plain─ Connection

To the loop it is the protocol, to the connection the transport. Of asyncio's own layer it differs in what a
broker needs: handshakes are made in threads (`handshakes`), a connection holds no buffers of its own (the
loop reads for one at a time, so all share one), and what a failed handshake was due to is said.

    NEW ──the first bytes──► IN_THREAD ◄──more bytes── WAITS
                                 │  └──the peer has the word──► (to WAITS)
                                 ├──done──► OPEN: bytes go through
                                 └──failed──► CLOSED

Nothing is read from the socket while a thread is at it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, final

from odradek.broker.network.handshakes import Handshakes
from odradek.security.explain import explain
from odradek.util.gathered_writes import Writelines, gathering_write

if TYPE_CHECKING:
    from odradek.broker.requests.peer import Peer
    from odradek.util.repeats import Repeats

logger = logging.getLogger(__name__)

NEW, IN_THREAD, WAITS, OPEN, CLOSED = range(5)

CIPHERTEXT_BYTES = 256 * 1024
"""The size of the buffer that all connections of a listener read through: as much as one read can give."""

MAX_HANDSHAKE_BYTES = 256 * 1024
"""A peer that has sent more before its handshake ends is refused: chains of certificates take a few KiB."""

_JOINED_BYTES = 64 * 1024
"""The buffers of an answer up to this size are joined first: a record of TLS for each would cost more."""

_CHUNK_BYTES = 128 * 1024
"""Bytes that are encrypted in one call: these are still in the processor's cache when they are copied."""

_HANDSHAKE_RECORD = 0x16
"""The first byte of a client's first record (`ContentType.handshake` of RFC 8446). The first of a plaintext
client is that of its request's size, mostly 0."""


class DecryptsInto(Protocol):
    """The connection above."""

    peer: Peer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BaseProtocol`."""
        ...

    def get_buffer(self, sizehint: int) -> memoryview:
        """See `asyncio.BufferedProtocol`."""
        ...

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        ...

    def eof_received(self) -> bool:
        """See `asyncio.BufferedProtocol`."""
        ...

    def pause_writing(self) -> None:
        """See `asyncio.BaseProtocol`."""
        ...

    def resume_writing(self) -> None:
        """See `asyncio.BaseProtocol`."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BaseProtocol`."""
        ...

    def abort(self, reason: str, *, warn: bool = False) -> None:
        """Close at once."""
        ...


class Encrypts(Protocol):
    """A layer's listener, as the layer knows it.

    Attributes:
        context: for connections that begin now.
        handshakes: those of the broker.
        ciphertext: what has just been read; used by one connection at a time.
        repeats: log lines that peers can cause at will.
        listener_name: for log lines.
    """

    context: ssl.SSLContext
    handshakes: Handshakes
    ciphertext: memoryview
    repeats: Repeats
    listener_name: str

    def principal_of(self, session: ssl.SSLObject) -> str | None:
        """Return who the peer is by its certificate; None where there is none.

        Raises:
            ValueError: its subject cannot be read, or no mapping rule matches it.
        """
        ...


@final
class TlsLayer:
    """See the module. The methods are those of a protocol, then those of a transport."""

    __slots__ = (
        "_connection",
        "_context",
        "_encrypts",
        "_error",
        "_handshake_bytes",
        "_incoming",
        "_is_told",
        "_may_read",
        "_outgoing",
        "_principal",
        "_reads_transport",
        "_session",
        "_state",
        "_transport",
        "_writelines",
    )

    def __init__(self, encrypts: Encrypts, connection: DecryptsInto) -> None:
        self._encrypts = encrypts
        self._connection = connection
        self._context = encrypts.context
        self._state = NEW
        """As drawn above; changed in the loop's thread alone."""
        self._transport: Any = None
        self._writelines: Writelines | None = None
        self._session: Any = None
        self._incoming: Any = None
        self._outgoing: Any = None
        """These three are the thread's while the state is IN_THREAD, and are not touched here meanwhile."""
        self._handshake_bytes = 0
        self._may_read = True
        """Whether the connection wants bytes."""
        self._reads_transport = True
        """What the transport was told last, so that it is told of changes alone."""
        self._error: Exception | None = None
        self._principal: str | None = None
        """Both are left here by `step`, in its thread, for `stepped`, which is called in the loop's."""
        self._is_told = False
        """Whether the log has the reason of the end, or needs none: it is this side's own."""

    # ------------------------------------------------------------------ called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BaseProtocol`."""
        self._transport = transport
        self._writelines = gathering_write(transport)  # type: ignore[arg-type]
        # OpenSSL's session is made with the first bytes, in a thread: a peer that sends nothing costs
        # nothing.
        self._encrypts.handshakes.begin(self)
        self._connection.connection_made(self)  # type: ignore[arg-type]

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """See `asyncio.BufferedProtocol`."""
        return self._encrypts.ciphertext

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        state = self._state
        if state == OPEN:
            self._incoming.write(self._encrypts.ciphertext[:nbytes])
            self._decrypt()
        elif state in (NEW, WAITS):
            self._shake_hands(self._encrypts.ciphertext[:nbytes])

    def eof_received(self) -> bool:
        """See `asyncio.BufferedProtocol`."""
        return self._connection.eof_received()

    def pause_writing(self) -> None:
        """See `asyncio.BaseProtocol`."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """See `asyncio.BaseProtocol`."""
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BaseProtocol`."""
        if self._state != OPEN:
            self._encrypts.handshakes.end(self)
        if self._state in (IN_THREAD, WAITS) and not self._is_told:
            # Some clients that do not trust a certificate hang up without an alert.
            self._tell("the peer hung up during the handshake: does it trust this side's certificate?")
        self._let_go()
        self._connection.connection_lost(exc)

    def _let_go(self) -> None:
        was_in_thread = self._state == IN_THREAD
        self._state = CLOSED
        self._transport = None
        self._writelines = None
        if not was_in_thread:  # it has them until `stepped`
            self._free()

    def _free(self) -> None:
        session, self._session = self._session, None
        self._incoming = self._outgoing = None
        if session is not None:
            # A few in each turn: thousands that go at once would hold the loop while OpenSSL frees them.
            self._encrypts.handshakes.free(session)

    # ------------------------------------------------------------------ the handshake

    def _shake_hands(self, data: memoryview) -> None:
        if self._state == NEW:
            if data[0] != _HANDSHAKE_RECORD:
                self._fail("what came is not TLS: is the client's security.protocol another one?")
                return
            self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._handshake_bytes += len(data)
        if self._handshake_bytes > MAX_HANDSHAKE_BYTES:
            self._fail(f"more than {MAX_HANDSHAKE_BYTES} bytes of a handshake")
            return
        self._incoming.write(data)
        self._state = IN_THREAD
        self._update_reading()
        self._encrypts.handshakes.submit(self, len(data))

    def step(self) -> None:
        """See `ShakesHands.step`."""
        try:
            if self._session is None:
                self._session = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
            self._session.do_handshake()
            self._principal = self._encrypts.principal_of(self._session)
        except Exception as error:
            # The traceback knows this call, which knows the error: a cycle for each failed handshake
            # (docs/decisions/what-lives-long-is-not-looked-at.md).
            self._error = error.with_traceback(None)
        else:
            self._error = None

    def stepped(self) -> None:
        """See `ShakesHands.stepped`."""
        if self._state != IN_THREAD:
            # Closed meanwhile.
            self._free()
            return
        self._send()  # an alert, if it has failed
        error, self._error = self._error, None
        if isinstance(error, ssl.SSLWantReadError):
            self._state = WAITS
            self._update_reading()
            self._encrypts.handshakes.waits(self)
            return
        if error is not None:
            self._fail(explain(error))
            return
        self._encrypts.handshakes.end(self)
        self._encrypts.handshakes.finished += 1
        self._state = OPEN
        # Before any request is taken up, and here, as the peer is the loop's.
        if self._principal is not None:
            self._connection.peer.principal = self._principal
        self._update_reading()
        # What came with the end of the handshake.
        self._decrypt()

    def _fail(self, reason: str) -> None:
        self._encrypts.handshakes.end(self)
        self._tell(reason)
        self._state = CLOSED
        if self._transport is not None:
            # The alert goes first.
            self._transport.close()

    def _tell(self, reason: str) -> None:
        self._is_told = True
        peer = self._connection.peer
        self._encrypts.repeats.log(
            logging.INFO,
            (peer.host, reason),
            "failed authentication peer=%s:%d listener=%s reason=SSL handshake failed: %s",
            peer.host,
            peer.port,
            self._encrypts.listener_name,
            reason,
        )

    def give_up(self, reason: str) -> None:
        """See `ShakesHands.give_up`."""
        self._fail(reason)
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------------ bytes in

    def _decrypt(self) -> None:
        connection, session, incoming = self._connection, self._session, self._incoming
        while self._may_read and self._state == OPEN:
            buffer = connection.get_buffer(-1)
            size, filled = len(buffer), 0
            wants_more = is_farewell = False
            try:
                while filled < size:
                    got: int = session.read(size - filled, buffer[filled:])
                    if not got:
                        is_farewell = True
                        break
                    filled += got
                    if not incoming.pending and not session.pending():
                        wants_more = True
                        break
            except (ssl.SSLWantReadError, ssl.SSLSyscallError):
                wants_more = True
            except ssl.SSLError as error:
                is_farewell = error.reason is None or "ZERO_RETURN" in str(error)
                if not is_farewell:
                    self._send()  # the alert
                    connection.abort(f"malformed TLS: {explain(error)}", warn=True)
                    return
            # Before the farewell is heeded: a producer with acks=0 sends both at once, and goes.
            if filled:
                connection.buffer_updated(filled)
            if is_farewell:
                self._said_goodbye()
                return
            if wants_more:
                break
        if self._state == OPEN and self._outgoing.pending:
            # An answer of TLS's own, as to a wish for new keys.
            self._send()

    def _said_goodbye(self) -> None:
        """The peer will send no more."""
        if self._transport is not None:
            self._transport.close()

    def _update_reading(self) -> None:
        """Read from the socket if the connection wants bytes, and no thread has the session."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        # During the handshake whatever the connection wants: it does not know of it.
        should_read = self._state != IN_THREAD and (self._may_read or self._state != OPEN)
        if should_read != self._reads_transport:
            self._reads_transport = should_read
            if should_read:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def pause_reading(self) -> None:
        """Give the connection nothing more."""
        self._may_read = False
        self._update_reading()

    def resume_reading(self) -> None:
        """Go on giving the connection what comes, and what is here."""
        self._may_read = True
        self._update_reading()
        if self._state == OPEN and (self._incoming.pending or self._session.pending()):
            # Not within the connection's own call.
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._state == OPEN:
            self._decrypt()

    # ------------------------------------------------------------------ bytes out

    def write(self, data: Any) -> None:
        """Encrypt and send."""
        self.writelines((data,))

    def writelines(self, buffers: Sequence[Any]) -> None:
        """Encrypt and send, as one."""
        # Before that nothing was asked, and after it nobody is there.
        if self._state != OPEN:
            return
        session = self._session
        try:
            if len(buffers) == 1 and len(buffers[0]) <= _CHUNK_BYTES:
                session.write(buffers[0])
                self._send()
                return
            if sum(map(len, buffers)) <= _JOINED_BYTES:
                session.write(b"".join(buffers))
                self._send()
                return
            outgoing = self._outgoing
            encrypted: list[Any] = []
            for buffer in buffers:
                size = len(buffer)
                if 0 < size <= _CHUNK_BYTES:
                    session.write(buffer)
                    encrypted.append(outgoing.read())
                elif size:
                    view = memoryview(buffer)
                    for start in range(0, size, _CHUNK_BYTES):
                        session.write(view[start : start + _CHUNK_BYTES])
                        encrypted.append(outgoing.read())
            if encrypted and self._writelines is not None:
                self._writelines(encrypted)
        except ssl.SSLError as error:
            self._connection.abort(f"TLS: {explain(error)}", warn=True)

    def _send(self) -> None:
        """Send what OpenSSL has made."""
        if self._outgoing.pending and self._transport is not None:
            self._transport.write(self._outgoing.read())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See `asyncio.WriteTransport`."""
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_limits(self) -> Any:
        """See `asyncio.WriteTransport`."""
        return self._transport.get_write_buffer_limits() if self._transport is not None else (0, 0)

    def get_write_buffer_size(self) -> int:
        """See `asyncio.WriteTransport`."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def is_closing(self) -> bool:
        """See `asyncio.BaseTransport`."""
        return self._transport is None or bool(self._transport.is_closing())

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See `asyncio.BaseTransport`; `sslcontext` and `ssl_object` are this layer's."""
        if name == "sslcontext":
            return self._context
        if name == "ssl_object":
            return self._session
        return self._transport.get_extra_info(name, default) if self._transport is not None else default

    def close(self) -> None:
        """Say that no more comes, and close when all is sent."""
        self._is_told = True
        transport = self._transport
        if transport is None:
            return
        if self._state == OPEN:
            with suppress(ssl.SSLError):  # it would wait for the peer's farewell
                self._session.unwrap()
            self._send()
        # What a thread has is freed when it is through (`stepped`), which goes by the state.
        if self._state != IN_THREAD:
            self._state = CLOSED
        transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._is_told = True
        if self._transport is not None:
            self._transport.abort()
