"""Channels as they are between processes: a TCP connection each. See `channel` for the seam."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from odradek.broker.interbroker.channel import ChannelBroken, EndpointOf
from odradek.errors import OdradekError, ProtocolError, UnsupportedVersionError
from odradek.errors.codes import error_name
from odradek.sasl.client_authenticator import RENEW_AT, SaslClientAuthenticator, Work
from odradek.security.explain import explain
from odradek.util.gathered_writes import gathering_write
from odradek.wire.api import ApiKey
from odradek.wire.framing import FrameReceiver, ReceiveBuffers
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from odradek.cluster.nodes import Endpoint
    from odradek.sasl.logins import Login
    from odradek.sasl.mechanisms import ClientMechanism

logger = logging.getLogger(__name__)

TlsOf = Callable[["Endpoint"], "ssl.SSLContext | None"]

MAX_RESPONSE_BYTES = 1 << 30
"""No broker sends a larger frame: the answer to a follower is bounded by its fetch, or is one batch."""


class AsyncioTransport:
    """Makes channels over TCP; see `InterBrokerTransport`. Made in the event loop's thread.

    Args:
        loop: of the channels.
        login: how they log in; None where they need not.
        tls: the context of a connection to an endpoint; without it connections are plain.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, login: Login | None = None, tls: TlsOf | None = None
    ) -> None:
        self._loop = loop
        self._login = login
        self._tls = tls
        self._buffers = ReceiveBuffers()

    def channel(
        self, broker_id: int, endpoint: EndpointOf, client_id: str, timeout_ms: int
    ) -> AsyncioChannel:
        """See `InterBrokerTransport.channel`."""
        return AsyncioChannel(
            self._loop, self._buffers, broker_id, endpoint, client_id, timeout_ms, self._login, self._tls
        )


def _versions_in(answer: ApiVersionsResponse, broker_id: int) -> dict[int, range]:
    if answer.error_code:
        raise ProtocolError(f"broker {broker_id} does not tell its versions: {error_name(answer.error_code)}")
    return {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}


class _Asked:
    """A request that was sent, or waits to be."""

    __slots__ = ("answer", "correlation_id", "deadline", "key", "version")

    def __init__(
        self, answer: asyncio.Future[Any], key: int, version: int, correlation_id: int, deadline: float
    ) -> None:
        self.answer = answer
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.deadline = deadline


class AsyncioChannel:
    """See `InterBrokerChannel`.

    Attributes:
        broker_id: whose channel it is.
        is_connected: whether there is a connection now.
        on_broken: see `InterBrokerChannel`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffers: ReceiveBuffers,
        broker_id: int,
        endpoint: EndpointOf,
        client_id: str,
        timeout_ms: int,
        login: Login | None = None,
        tls: TlsOf | None = None,
    ) -> None:
        self.broker_id = broker_id
        self._login = login
        self.on_broken: Callable[[], object] | None = None
        self._loop = loop
        self._buffers = buffers
        self._endpoint = endpoint
        self._client_id = client_id
        self._tls = tls
        self._timeout_s = timeout_ms / 1000
        self._wire: _Wire | None = None
        """The connection once it is logged in; while there is none, requests wait in `_waiting`."""
        self._connecting: asyncio.Task[None] | None = None
        """The attempt under way, one at a time; None again before anybody is told how it ended."""
        self._waiting: list[tuple[Any, int, asyncio.Future[Any]]] = []
        """Requests that wait for the connection, in order; empty while there is one."""
        self._correlation_id = 0
        """Of the last request. An answer with another one is none of this connection's: see `_take`."""
        self._is_closed = False
        """Set for good. Everything else that ends a connection leaves a channel that connects again."""

    @property
    def is_connected(self) -> bool:
        """See the class."""
        return self._wire is not None

    def send(self, request: Any, version: int) -> asyncio.Future[Any]:
        """See `InterBrokerChannel.send`."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self._is_closed:
            answer.set_exception(ChannelBroken(f"the channel to broker {self.broker_id} is closed"))
        elif self._wire is not None and not self._wire.is_due:
            self._write(self._wire, request, version, answer)
        else:
            if self._wire is not None:
                # Its login ends soon, and nothing is under way: another connection logs in anew.
                self._wire.give_up()
                self._wire = None
            self._waiting.append((request, version, answer))
            if self._connecting is None:
                self._connecting = self._loop.create_task(self._connect())
        return answer

    def send_negotiated(self, request: Any, newest: int) -> asyncio.Future[Any]:
        """See `InterBrokerChannel.send_negotiated`."""
        return self._loop.create_task(self._negotiate(request, newest))

    async def _negotiate(self, request: Any, newest: int) -> Any:
        # Asked once for each connection: a broker that comes back may be another release.
        wire = self._wire
        if wire is None or wire.versions is None:
            # Version 0 is the one that every broker since 0.10 answers (KIP-35).
            served = await self.send(ApiVersionsRequest(), 0)
            wire = self._wire
            if wire is None:
                raise ChannelBroken(f"the connection to broker {self.broker_id} broke")
            wire.versions = _versions_in(served, self.broker_id)
        key = int(request.API_KEY)
        # The newest that both know, as Kafka's `NodeApiVersions.latestUsableVersion`.
        theirs = wire.versions.get(key, range(0))
        version = min(newest, theirs.stop - 1)
        if version not in theirs:
            raise UnsupportedVersionError(
                f"broker {self.broker_id} does not serve {ApiKey(key).api_name} up to version {newest}"
            )
        return await self.send(request, version)

    def reset(self, reason: str) -> None:
        """See `InterBrokerChannel.reset`."""
        self._break(ChannelBroken(f"the channel to broker {self.broker_id} was given up: {reason}"))

    def close(self) -> None:
        """See `InterBrokerChannel.close`."""
        self._is_closed = True
        self.reset("it is closed")

    # ------------------------------------------------------------------ the connection

    async def _connect(self) -> None:
        # For each address that was tried whether it refused. Only who refuses at all of them has no process
        # there; what times out may be a broker that hangs, or a network that is cut (docs/cluster.md).
        refusals: list[bool] = []
        reason = "nobody knows its address"
        try:
            # Asked anew each time: a broker may have come back at another address.
            endpoint = self._endpoint()
            if endpoint is not None:
                reason = f"{endpoint.host}:{endpoint.port}: no address"
                async with asyncio.timeout(self._timeout_s):
                    addresses = await self._loop.getaddrinfo(
                        endpoint.host, endpoint.port, type=socket.SOCK_STREAM
                    )
                    for address in dict.fromkeys(str(address[4][0]) for address in addresses):
                        try:
                            await self._open(address, endpoint)
                        except OSError as error:
                            refusals.append(isinstance(error, ConnectionRefusedError))
                            why = explain(error) if isinstance(error, ssl.SSLError) else error.strerror
                            reason = f"{address}:{endpoint.port}: {why or error}"
                        else:
                            return
        except (OSError, TimeoutError) as error:
            refusals.append(False)
            reason = f"{reason.partition(': ')[0]}: {error or 'no connection in time'}"
        except asyncio.CancelledError:
            return  # given up: `_break` has told everybody
        except Exception as error:
            # A host that is no name, a port that is no number: whoever waits has to learn it all the same.
            refusals.append(False)
            reason = f"{reason.partition(': ')[0]}: {error}"
        # First, or `_break` would cancel this very task.
        self._connecting = None
        self._break(
            ChannelBroken(
                f"broker {self.broker_id} cannot be reached: {reason}",
                refused=bool(refusals) and all(refusals),
            )
        )

    async def _open(self, address: str, endpoint: Endpoint) -> None:
        wire = _Wire(self._buffers, self._on_lost, self._timeout_s, self._loop)
        context = None if self._tls is None else self._tls(endpoint)
        if context is None:
            await self._loop.create_connection(lambda: wire, address, endpoint.port)
        else:
            await self._loop.create_connection(
                lambda: wire, address, endpoint.port, ssl=context, server_hostname=endpoint.host
            )
        if self._login is not None and endpoint.security_protocol.startswith("SASL"):
            try:
                await wire.log_in(self._login.start(endpoint.host), self._client_id, self.broker_id)
            except OdradekError:
                wire.give_up()
                raise
        self._connecting = None
        self._wire = wire
        # Lost since it was made, which `_on_lost` does not tell of a wire that is not the channel's yet.
        if wire.is_lost:
            self._break(ChannelBroken(f"broker {self.broker_id} hung up"))
            return
        waiting, self._waiting = self._waiting, []
        for request, version, answer in waiting:
            # Cancelled meanwhile: a request that nobody waits for changes nothing at the other broker.
            if not answer.done():
                self._write(wire, request, version, answer)

    def _write(self, wire: _Wire, request: Any, version: int, answer: asyncio.Future[Any]) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        key = int(request.API_KEY)
        try:
            parts = encode_request(key, version, self._correlation_id, self._client_id, request)
        except (OdradekError, ValueError) as error:
            answer.set_exception(error)
            return
        wire.write(
            parts,
            _Asked(answer, key, version, self._correlation_id, self._loop.time() + self._timeout_s),
        )

    def _on_lost(self, wire: _Wire, error: OdradekError) -> None:
        # A wire that was given up has told those who waited already.
        if wire is self._wire:
            self._break(
                error
                if isinstance(error, ProtocolError)
                else ChannelBroken(f"the connection to broker {self.broker_id} broke: {error}")
            )
            if self.on_broken is not None and not self._is_closed:
                self.on_broken()

    def _break(self, error: OdradekError) -> None:
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
        # All are taken out before anybody is told: who is told may send again at once, by a new connection.
        wire, self._wire = self._wire, None
        waiting, self._waiting = self._waiting, []
        answers = [answer for _, _, answer in waiting]
        if wire is not None:
            answers = [request.answer for request in wire.give_up()] + answers
        for answer in answers:
            if not answer.done():
                answer.set_exception(error)


class _Wire(asyncio.BufferedProtocol):
    """One connection. Answers come in the order of the requests.

    Attributes:
        versions: what the broker serves, once it was asked.
        is_lost: whether the connection is gone.
    """

    _awaited: asyncio.Future[bytes] | None = None
    """The next frame, during the login."""

    _good_until = math.inf
    """Loop time until which the login is good enough for another request."""

    def __init__(
        self,
        buffers: ReceiveBuffers,
        on_lost: Callable[[_Wire, OdradekError], None],
        timeout_s: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.versions: dict[int, range] | None = None
        self.is_lost = False
        self._receiver = FrameReceiver(MAX_RESPONSE_BYTES, buffers)
        self._on_lost = on_lost
        self._timeout_s = timeout_s
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._under_way: deque[_Asked] = deque()
        """Requests without an answer, in the order in which they were sent, and will be answered."""
        self._timer: asyncio.TimerHandle | None = None
        """Set while something is under way: for the oldest request, whose deadline is the first."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BaseProtocol`."""
        # uvloop's transports are transports without being subclasses.
        self._transport = opened = cast(asyncio.Transport, transport)
        self._writelines = gathering_write(opened)

    @property
    def is_due(self) -> bool:
        """Return whether the login runs out soon, and nothing is under way."""
        return self._loop.time() >= self._good_until and not self._under_way

    async def log_in(self, mechanism: ClientMechanism, client_id: str, broker_id: int) -> None:
        """Log in, before anything else is sent; `versions` are known from then on.

        Raises:
            KafkaError: the broker refuses the login.
            ChannelBroken: the connection broke.
            ProtocolError: an answer cannot be read.
        """
        versions_request = encode_request(ApiKey.API_VERSIONS, 0, 0, client_id, ApiVersionsRequest())
        _, served = decode_response(await self._exchange(versions_request), ApiKey.API_VERSIONS, 0)
        self.versions = _versions_in(cast(ApiVersionsResponse, served), broker_id)
        authenticator = SaslClientAuthenticator(mechanism, client_id, self.versions)
        parts = authenticator.begin()
        while parts:
            step = authenticator.take(await self._exchange(parts))
            # SCRAM hashes thousands of times: in a thread, or the broker would stand still for it.
            parts = await self._loop.run_in_executor(None, step.run) if isinstance(step, Work) else step
        # KIP-368: the other broker closes a connection whose login has run out.
        if authenticator.session_lifetime_ms:
            self._good_until = self._loop.time() + RENEW_AT * authenticator.session_lifetime_ms / 1000

    async def _exchange(self, parts: list[Any]) -> bytes:
        self._awaited = self._loop.create_future()
        self._writelines(parts)
        try:
            return await self._awaited
        finally:
            self._awaited = None

    def write(self, parts: list[Any], request: _Asked) -> None:
        """Send a request whose answer is awaited behind those of the others."""
        self._under_way.append(request)
        self._writelines(parts)
        if self._timer is None:
            self._timer = self._loop.call_at(request.deadline, self._check_deadline)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """See `asyncio.BufferedProtocol`."""
        return self._receiver.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        try:
            for frame in self._receiver.received(nbytes):
                self._take(frame)
        except OdradekError as error:
            self._lose(error)
        except Exception as error:
            logger.exception("an answer of another broker could not be taken")
            self._lose(ProtocolError(str(error)))

    def _take(self, frame: memoryview) -> None:
        if self._awaited is not None and not self._awaited.done():
            # A copy, since who waits is called later, when the memory serves the next read.
            self._awaited.set_result(bytes(frame))
            return
        if not self._under_way:
            raise ProtocolError("an answer to a request that was not sent")
        request = self._under_way[0]
        # Likewise; of all answers only a fetch's has views into the frame, its records.
        kept = self._receiver.own(frame) if request.key == ApiKey.FETCH else frame
        correlation_id, message = decode_response(kept, request.key, request.version)
        if correlation_id != request.correlation_id:
            raise ProtocolError(f"an answer to request {correlation_id}, not to {request.correlation_id}")
        # Only now: where the answer cannot be read, its request is among those that are told so.
        self._under_way.popleft()
        if not request.answer.done():
            request.answer.set_result(message)

    def _check_deadline(self) -> None:
        self._timer = None
        if not self._under_way:
            return
        oldest = self._under_way[0]
        if self._loop.time() >= oldest.deadline:
            self._lose(ChannelBroken(f"no answer in {self._timeout_s:g} s to {ApiKey(oldest.key).api_name}"))
        else:
            self._timer = self._loop.call_at(oldest.deadline, self._check_deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BaseProtocol`."""
        self._lose(ChannelBroken(str(exc) if exc is not None else "it hung up"))

    def _lose(self, error: OdradekError) -> None:
        if not self.is_lost:
            # First, as what follows may come here again.
            self.is_lost = True
            if self._awaited is not None and not self._awaited.done():
                self._awaited.set_exception(error)
            self._on_lost(self, error)
            self.give_up()

    def give_up(self) -> list[_Asked]:
        """Close the connection; what was under way is returned, and no longer awaited here."""
        self.is_lost = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            # Not `close`, which waits until a peer that may hang has taken what is buffered.
            self._transport.abort()
        left = list(self._under_way)
        self._under_way.clear()
        return left
