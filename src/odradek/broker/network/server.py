"""Listening sockets: accepting within Kafka's limits, and what all connections share.

Connections are accepted by a loop of our own rather than by `loop.create_server`, so that at
`max.connections` the broker can stop accepting, as Kafka does, instead of accepting and closing.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.event_loop.loop_timers import LoopTimers
from odradek.broker.network.connection import Connection
from odradek.broker.network.connection import logger as logger_of_connections
from odradek.broker.network.connection_slots import ConnectionSlots
from odradek.broker.network.limits import descriptors_for_connections
from odradek.broker.network.memory_pool import MemoryPool
from odradek.broker.network.outbox import SendingThreads
from odradek.broker.network.socket_protocol import SocketProtocol
from odradek.broker.network.tls import TlsLayer
from odradek.broker.network.write_turn import WriteTurn
from odradek.broker.requests.applications import forget_application
from odradek.broker.requests.peer import Peer
from odradek.util.futures import error_of
from odradek.util.hosts import same_host
from odradek.util.repeats import Repeats
from odradek.wire.framing import ReceiveBuffers

if TYPE_CHECKING:
    from odradek.broker.network.dispatch import Dispatcher
    from odradek.broker.network.limits import NetworkLimits
    from odradek.broker.network.tls_listener import ListenerTls
    from odradek.broker.quotas.connection_quotas import ConnectionQuotas
    from odradek.broker.requests.login_gate import GateKeeper
    from odradek.util.timers import Periodic, Timers

logger = logging.getLogger(__name__)

_ACCEPT_RETRY_S = 0.1
"""What cannot be accepted stays in the kernel's backlog, and the socket readable: without a pause the loop
would do nothing else."""
_OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


MAX_DELAYED = 1000
"""How many connections that came too fast are kept until they have waited; more are closed at once."""


class AddressInUse(Exception):
    """The port to listen on is taken."""


class Listener:
    """One listening socket with its connections.

    Attributes:
        host, port: where it listens; the port is the real one when 0 was asked for.
        receive_buffers: the memory that its connections read through.
        sending_threads: they send long answers; whoever stops the listener closes them.
        memory_pool: counts the bytes of whole requests that are in work.
        write_turn: when answers leave that have come together.
        partial_bytes: bytes of frames that have not arrived whole.
        connections: those that are open.
        monotonic_s: the time by which they are idle.
        accepted, refused: counters, for metrics.
        connection_quotas: how fast connections may come; None for no bound.
        repeats, repeats_of_connections: log lines that peers can cause at will.
        sasl: how its connections log in; None where they need not.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: NetworkLimits,
        *,
        name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        write_turn: WriteTurn | None = None,
        tls: ListenerTls | None = None,
        slots: ConnectionSlots | None = None,
        timers: Timers | None = None,
        monotonic_s: Callable[[], float] | None = None,
    ) -> None:
        """
        Args:
            dispatcher: answers requests.
            limits: of its connections.
            name: the listener's.
            security_protocol: what its peers speak.
            write_turn: shared with the other listeners of the broker.
            tls: how its connections are encrypted; None for plain ones.
            slots: counts the connections of all listeners of the broker.
            timers, monotonic_s: the time by which connections are idle; the event loop's when None.
        """
        self.tls = tls
        self.dispatcher = dispatcher
        self.limits = limits
        self.name = name
        self.sasl: GateKeeper | None = None
        self.security_protocol = security_protocol
        self.loop = asyncio.get_running_loop()
        self._timers: Timers = timers or LoopTimers(self.loop)
        self.monotonic_s = monotonic_s or self.loop.time
        self.receive_buffers = ReceiveBuffers()
        self.sending_threads = SendingThreads(limits.network_threads)
        self.host = ""
        self.port = 0
        self.memory_pool = MemoryPool(limits.queued_max_request_bytes)
        self.write_turn = write_turn or WriteTurn()
        self.partial_bytes = 0
        """The sum of `Connection.partial_bytes`. Above `limits.partial_limit` connections are closed: each
        peer may say that 100 MB are to come, and send them slowly, and no other bound counts them."""
        # In the order of opening, so that those that are closed together are closed in an order.
        self.connections: dict[Connection, None] = {}
        self.accepted = 0
        self.refused = 0
        self.connection_quotas: ConnectionQuotas | None = None
        # Those that came too fast, and are closed when they have waited: a client that is refused at once
        # comes back at once (KIP-612; `throttledSockets` of Kafka's `Acceptor`).
        self._delayed: dict[socket.socket, asyncio.TimerHandle] = {}
        self.slots = slots or ConnectionSlots()
        self.slots.add(self)
        self._limit_slots()
        self._socket: socket.socket | None = None
        """From `bind` to `stop_accepting`; it listens from `start` on."""
        self._accepting: asyncio.Task[None] | None = None
        self._is_cut_off = False
        """Whether a connection that is just being taken up is to end as all others have."""
        # Connections in the middle of a frame, the longest silent first.
        self._partial: dict[Connection, None] = {}
        self._next_id = 0
        self._making_room: set[Connection] = set()
        """Connections that are being closed in favour of others."""
        self.repeats = Repeats(logger)
        self.repeats_of_connections = Repeats(logger_of_connections)
        self._first_reserved = descriptors_for_connections()
        """The first file descriptor that is kept for the broker's own files; the kernel gives out the least
        that is free. None where there is no limit."""
        self._idle_sweeps: Periodic | None = None

    # ------------------------------------------------------------------ start and stop

    def bind(self, host: str, port: int) -> None:
        """Take the port without accepting yet, so that a taken port is found before anything else is done.

        Args:
            host: address or name; empty for all addresses.
            port: 0 for a free one.

        Raises:
            AddressInUse: another process listens there.
            OSError: the address is not ours, or not an address.
        """
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # A name with addresses of both kinds, such as localhost: the kind that every client tries.
        family, _, _, _, address = min(addresses, key=lambda resolved: resolved[0] != socket.AF_INET)
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            # Else a restart would wait for connections in TIME_WAIT.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self.limits.receive_buffer_bytes > 0:
                # Before listen(): accepted sockets inherit it, and the window scale is fixed in the
                # handshake.
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.limits.receive_buffer_bytes)
            listening.bind(address)
        except OSError as error:
            listening.close()
            if error.errno == errno.EADDRINUSE:
                raise AddressInUse(f"port {port} on {host or 'all addresses'} is in use") from error
            raise
        self._socket = listening
        self.host, self.port = host, listening.getsockname()[1]

    def start(self) -> None:
        """Listen and accept."""
        assert self._socket is not None, "bind comes first"
        self._socket.listen(max(1, self.limits.backlog))
        self._accepting = self.loop.create_task(self._accept())
        self._accepting.add_done_callback(self._accepting_ended)
        self._schedule_idle_sweep()

    def update_limits(self, limits: NetworkLimits) -> None:
        """Take over changed limits; they hold for connections and requests that come from now on."""
        self.limits = limits
        self.memory_pool.resize(limits.queued_max_request_bytes)
        self.sending_threads.resize(limits.network_threads)
        self._limit_slots()
        # A listener that waits for room is woken where there is more now.
        self.slots.look_again()

    def _limit_slots(self) -> None:
        limits, slots = self.limits, self.slots
        slots.most = limits.max_connections
        slots.most_per_host = limits.max_connections_per_ip
        slots.most_of_host = dict(limits.max_connections_per_ip_overrides)

    def stop_accepting(self) -> None:
        """Close the listening socket; open connections go on."""
        listening, self._socket = self._socket, None
        if self._accepting is not None:
            # The loop lets go of the socket when the task ends; only then may it be closed.
            self._accepting.cancel()
            if listening is not None:
                # Of its error `_accepting_ended` tells.
                self._accepting.add_done_callback(lambda _: listening.close())
            self._accepting = None
        elif listening is not None:
            listening.close()
        if self._idle_sweeps is not None:
            self._idle_sweeps.stop()
            self._idle_sweeps = None
        for delayed in list(self._delayed):
            self._close_delayed(delayed)

    def close_connections(self) -> None:
        """Close every connection once what has been answered is sent."""
        for connection in list(self.connections):
            connection.close("the broker stops")

    def abort_connections(self) -> None:
        """Close every connection at once, and one that is being taken up."""
        self._is_cut_off = True
        for connection in list(self.connections):
            connection.abort("the broker stops")

    # ------------------------------------------------------------------ accepting

    def _accepting_ended(self, accepting: asyncio.Task[None]) -> None:
        error = error_of(accepting)
        if not isinstance(error, asyncio.CancelledError):
            logger.critical("listener %s accepts no connections any more", self.name, exc_info=error)

    async def _accept(self) -> None:
        assert self._socket is not None
        listening = self._socket
        while True:
            # Kafka's `ConnectionQuotas.waitForConnectionSlot` (KIP-402): clients wait in the backlog.
            while not self.slots.has_room(self.name):
                self.repeats.log(
                    logging.WARNING,
                    self.name,
                    "not accepting: max.connections reached listener=%s connections=%d",
                    self.name,
                    len(self.connections),
                )
                await self.slots.wait()
            try:
                accepted, address = await self._next(listening)
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    # The peer went away between SYN and accept.
                    logger.debug("accept failed: %s", error)
                    continue
                self.repeats.log(
                    logging.ERROR,
                    error.errno,
                    "cannot accept: %s; trying again in %d ms",
                    error,
                    int(_ACCEPT_RETRY_S * 1000),
                )
                retry = self.loop.create_future()
                self.loop.call_later(_ACCEPT_RETRY_S, retry.set_result, None)
                await retry
                continue
            try:
                await self._take(accepted, address)
            except Exception as error:
                # Of this one alone: without the next ones the broker would be there, and reach nobody.
                accepted.close()
                self.repeats.log(
                    logging.ERROR,
                    type(error),
                    "a connection could not be taken up peer=%s:%d",
                    address[0],
                    address[1],
                    exc_info=error,
                )

    async def _next(self, listening: socket.socket) -> tuple[socket.socket, tuple[str, int]]:
        """The next connection. Unlike `loop.sock_accept`, being cancelled never loses one."""
        while True:
            try:
                accepted, address = listening.accept()
            except BlockingIOError:
                await self._readable(listening)
            else:
                accepted.setblocking(False)
                return accepted, address

    async def _readable(self, listening: socket.socket) -> None:
        ready = asyncio.Event()
        self.loop.add_reader(listening, ready.set)
        try:
            await ready.wait()
        finally:
            self.loop.remove_reader(listening)

    async def _take(self, accepted: socket.socket, address: tuple[str, int]) -> None:
        host, port = same_host(address[0]), address[1]
        # The rate first: what has waited for it may find no room any more.
        if self.connection_quotas is not None and not await self._is_in_time(accepted, host, port):
            return
        if not self._has_room(accepted, host, port):
            return
        try:
            await self._connect(accepted, host, port)
        except OSError as error:
            logger.debug("a connection ended before it began peer=%s:%d: %s", host, port, error)
            accepted.close()
            return
        self.accepted += 1

    def _has_room(self, accepted: socket.socket, host: str, port: int) -> bool:
        """Return whether there is room for one more connection; it has been refused if there is not."""
        if self.slots.is_full(host):
            self._refuse(accepted)
            self.repeats.log(
                logging.INFO,
                host,
                "connection refused: max.connections.per.ip reached peer=%s:%d limit=%d",
                host,
                port,
                self.slots.limit_of(host),
            )
            return False
        if self._first_reserved is not None and accepted.fileno() >= self._first_reserved:
            self._refuse(accepted)
            self.repeats.log(
                logging.ERROR,
                None,
                "connection refused: file descriptors run out peer=%s:%d connections=%d. "
                "Raise the limit of open files (ulimit -n, LimitNOFILE=), or lower max.connections",
                host,
                port,
                len(self.connections),
            )
            return False
        return True

    async def _connect(self, accepted: socket.socket, host: str, port: int) -> None:
        """Begin the connection.

        Raises:
            OSError: the peer is gone already.
        """
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.limits.send_buffer_bytes > 0:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)
        local = accepted.getsockname()
        # The form of Kafka's connection ids, without the processor. A port may come again, the last part not.
        self._next_id += 1
        peer = Peer(host, port, f"{local[0]}:{local[1]}-{host}:{port}-{self._next_id}", self.name)
        connecting = self.loop.create_task(
            self.loop.connect_accepted_socket(lambda: self._protocol(peer), accepted)
        )
        # Of an error nobody else may ask: whoever waits may have been cancelled.
        connecting.add_done_callback(error_of)
        # A stop does not break off what has begun: the loop would close the socket and tell nobody, so
        # that the connection would be waited for until those are cut off that do not end by themselves.
        await asyncio.shield(connecting)

    def _protocol(self, peer: Peer) -> SocketProtocol:
        connection = Connection(self, peer)
        return SocketProtocol(connection if self.tls is None else TlsLayer(self.tls, connection))

    async def _is_in_time(self, accepted: socket.socket, host: str, port: int) -> bool:
        """Wait while connections come too fast for the broker or the listener.

        Returns:
            Whether this one is served; else its address has made too many, and it is closed after a while.
        """
        assert self.connection_quotas is not None
        is_protected = self.name == self.slots.protected
        arrival = self.connection_quotas.accepted(self.name, host, is_protected=is_protected)
        # Of all connections, by `max.connection.creation.rate`: nothing else is accepted meanwhile. That of
        # an address alone must not hold up the others, and is refused.
        if arrival.wait_ms:
            try:
                await asyncio.sleep(arrival.wait_ms / 1000)
            except asyncio.CancelledError:
                accepted.close()
                raise
        if not arrival.refused_ms:
            return True
        self.refused += 1
        self.repeats.log(
            logging.INFO,
            host,
            "connection refused: connections come faster than connection_creation_rate peer=%s:%d",
            host,
            port,
        )
        if len(self._delayed) >= MAX_DELAYED or (
            self._first_reserved is not None and accepted.fileno() >= self._first_reserved
        ):
            accepted.close()
        else:
            self._delayed[accepted] = self.loop.call_later(
                arrival.refused_ms / 1000, self._close_delayed, accepted
            )
        return False

    def _close_delayed(self, accepted: socket.socket) -> None:
        self._delayed.pop(accepted).cancel()
        accepted.close()

    def _refuse(self, accepted: socket.socket) -> None:
        self.refused += 1
        accepted.close()

    def opened(self, connection: Connection) -> None:
        """Told by a connection when it begins."""
        self.connections[connection] = None
        self.slots.opened(self.name, connection.peer.host)
        if self._is_cut_off:
            connection.abort("the broker stops")

    def closed(self, connection: Connection) -> None:
        """Told by a connection when it has ended."""
        self.connections.pop(connection, None)
        self.memory_pool.forget(connection)
        self._making_room.discard(connection)
        self.slots.closed(self.name, connection.peer.host)
        forget_application(connection.peer)

    def close_least_recently_used(self) -> bool:
        """See `HasConnections`."""
        # Kafka's `Selector.lowestPriorityChannel`.
        oldest = min(
            (connection for connection in self.connections if connection not in self._making_room),
            key=lambda connection: connection.active_at,
            default=None,
        )
        if oldest is None:
            return False
        self._making_room.add(oldest)
        oldest.abort("max.connections reached: it makes room for a broker, having been silent longest")
        return True

    # ------------------------------------------------------------------ memory

    @property
    def queued_bytes(self) -> int:
        """Bytes of whole requests that are in work."""
        return self.memory_pool.used

    def account_partial(self, connection: Connection, pending: int) -> None:
        """A connection's unfinished frame now holds `pending` bytes."""
        self.partial_bytes += pending - connection.partial_bytes
        connection.partial_bytes = pending
        # Taken out and put in again: it goes behind those that have been silent since.
        self._partial.pop(connection, None)
        if pending:
            self._partial[connection] = None
            if self.partial_bytes > self.limits.partial_limit:
                self._evict_partial()

    def _evict_partial(self) -> None:
        while self.partial_bytes > self.limits.partial_limit and self._partial:
            connection = next(iter(self._partial))
            size = connection.partial_bytes
            # Now, as the connection gives its memory back only when the loop tells it of its end.
            self.account_partial(connection, 0)
            connection.abort(
                f"unfinished requests hold more than {self.limits.partial_limit} bytes, "
                f"and this one ({size} bytes) has been silent longest",
                warn=True,
            )

    # ------------------------------------------------------------------ idle connections

    def _schedule_idle_sweep(self) -> None:
        if self.limits.idle_ms >= 0:
            # A look at all connections costs more than being a tenth too late.
            interval_s = min(30.0, max(0.05, self.limits.idle_ms / 10_000))
            self._idle_sweeps = self._timers.every("idle connections", 1000 * interval_s, self._sweep_idle)

    def _sweep_idle(self) -> None:
        # One whose answer is still to come is not idle: its peer can do nothing but wait.
        deadline = self.monotonic_s() - self.limits.idle_ms / 1000
        for connection in list(self.connections):
            if connection.active_at < deadline and connection.idle:
                connection.abort("idle for longer than connections.max.idle.ms")
