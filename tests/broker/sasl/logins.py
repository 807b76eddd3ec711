"""Clients that log in at a SASL listener, frame by frame, under a clock of the test's own."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from broker.net import BrokerStandIn, receive, request
from odradek.broker.apis.registry import Handler, Handlers
from odradek.broker.event_loop.slices import Slicer
from odradek.broker.network.connection import Connection
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.network.limits import NetworkLimits
from odradek.broker.network.memory_pool import MemoryPool
from odradek.broker.network.write_turn import WriteTurn
from odradek.broker.requests.peer import Peer
from odradek.broker.sasl.gate import SaslListener
from odradek.broker.sasl.settings import ListenerSasl
from odradek.sasl.mechanisms import ServerMechanism
from odradek.sasl.plain import PlainServer
from odradek.sasl.scram import Known, ScramServer
from odradek.sasl.scram_credentials import ScramCredential
from odradek.util.clock import ManualClock
from odradek.util.promise import Promise
from odradek.util.repeats import Repeats
from odradek.util.timers import ManualTimers
from odradek.wire.api import ApiKey
from odradek.wire.framing import ReceiveBuffers
from odradek.wire.headers import decode_response
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.metadata import MetadataRequest
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest

HOUR_MS = 3_600_000
USERS = {"alice": "secret", "bob": "other"}
CREDENTIAL = ScramCredential.of_password("SCRAM-SHA-256", "secret")


class InThread(NamedTuple):
    """Work in a thread, which ends when and how a test wants it to."""

    work: Callable[[], bytes]
    ended: Promise

    def end(self) -> None:
        self.ended.set_result(self.work())


class Loop:
    """What a connection asks of the event loop."""

    def __init__(self) -> None:
        self.soon: deque[Callable[[], None]] = deque()
        self.in_threads: list[InThread] = []

    def run_in_executor(self, executor: Any, work: Callable[[bytes], bytes], token: bytes) -> Promise:
        loop: Any = self
        self.in_threads.append(InThread(lambda: work(token), Promise(loop)))
        return self.in_threads[-1].ended

    def time(self) -> float:
        return 0.0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        while self.soon:
            self.soon.popleft()()


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_closed = self.is_aborted = False

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, parts: list[Any]) -> None:
        for part in parts:
            self.written += part

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class Lasting(ServerMechanism):
    """Lets everybody in until a moment."""

    name = "LASTING"

    def __init__(self, until_ms: int | None) -> None:
        super().__init__()
        self.expires_at_ms = until_ms

    def evaluate(self, response: bytes) -> bytes:
        self.user, self.is_complete = response.decode(), True
        return b""


class Breaking(ServerMechanism):
    """Has a fault of ours."""

    def evaluate(self, response: bytes) -> bytes:
        raise RuntimeError(f"there is a password in here: {response!r}")


class Waiting(Lasting):
    """Lets everybody in, out of a thread."""

    name = "WAITING"
    blocks = True


class Harness:
    """A SASL listener without sockets."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.loop: Any = Loop()
        self.monotonic_s = self.loop.time
        self.limits = NetworkLimits()
        self.receive_buffers = ReceiveBuffers()
        self.memory_pool = MemoryPool(-1)
        self.write_turn = WriteTurn()
        self.repeats_of_connections = Repeats(__import__("logging").getLogger("test"))
        self.sending_threads: Any = None
        self.open = 0
        self.partial_bytes = 0
        broker: Any = BrokerStandIn()
        broker.timers = self.timers
        broker.clock = self.clock
        from odradek.broker.handlers import sasl

        handlers = {
            ApiKey.API_VERSIONS: lambda context, request: ApiVersionsResponse(
                api_keys=[ApiVersion(api_key=17, min_version=0, max_version=1)]
            ),
            ApiKey.HEARTBEAT: lambda context, request: HeartbeatResponse(error_code=7),
            ApiKey.SASL_HANDSHAKE: sasl.handshake,
            ApiKey.SASL_AUTHENTICATE: sasl.authenticate,
        }
        table = {int(key): Handler(key, range(4), function) for key, function in handlers.items()}
        table[17] = Handler(ApiKey.SASL_HANDSHAKE, range(2), sasl.handshake)
        table[36] = Handler(ApiKey.SASL_AUTHENTICATE, range(3), sasl.authenticate)
        # No loop runs here, which could give others their turn: time stands.
        self.dispatcher = Dispatcher(broker, Handlers({}, table), Slicer(lambda: 0.0))
        mechanisms = {
            "PLAIN": lambda: PlainServer(USERS),
            "SCRAM-SHA-256": lambda: ScramServer(
                "SCRAM-SHA-256", lambda name, token: Known(CREDENTIAL, name) if name == "alice" else None
            ),
            "LASTING": lambda: Lasting(self.clock.now_ms() + HOUR_MS),
            "BREAKING": Breaking,
            "WAITING": lambda: Waiting(None),
        }
        given = {"max_receive_size": 1000, "failure_delay_ms": 100, "timeout_ms": 30_000, "reauth_ms": {}}
        self.sasl = SaslListener(
            ListenerSasl(mechanisms=mechanisms, **(given | settings)),
            self.dispatcher,
            self.clock,
            self.timers,
            self.timers,
            self.loop,
        )

    def opened(self, connection: Connection) -> None:
        self.open += 1

    def closed(self, connection: Connection) -> None:
        self.open -= 1

    def account_partial(self, connection: Connection, pending: int) -> None:
        self.partial_bytes += pending - connection.partial_bytes
        connection.partial_bytes = pending

    def connect(self) -> Client:
        return Client(self)


class Client:
    """One connection."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.peer = Peer("10.0.0.1", 4711, "here-there-1", "SASL")
        self.connection = Connection(harness, self.peer)
        self.transport = Transport()
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def send(self, message: Any, version: int, *more: tuple[Any, int]) -> None:
        data = b"".join(request(one, number, 5) for one, number in [(message, version), *more])
        receive(self.connection, data)
        self.harness.loop.turn()

    def answers(self, key: ApiKey, version: int) -> list[Any]:
        frames = self.frames()
        return [decode_response(frame, key, version)[1] for frame in frames]

    def frames(self) -> list[bytes]:
        written, self.transport.written = bytes(self.transport.written), bytearray()
        found = []
        while written:
            (size,) = struct.unpack_from(">i", written)
            found.append(written[4 : 4 + size])
            written = written[4 + size :]
        return found

    def answer(self, message: Any, version: int) -> Any:
        self.send(message, version)
        (found,) = self.answers(ApiKey(message.API_KEY), version)
        return found

    def shake_hands(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.answer(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        return self.answer(SaslAuthenticateRequest(auth_bytes=token), version)

    def log_in(self, mechanism: str = "PLAIN", token: bytes = b"\0alice\0secret") -> Any:
        assert self.shake_hands(mechanism).error_code == 0
        return self.authenticate(token)

    def lose(self) -> None:
        self.connection.connection_lost(None)

    @property
    def is_served(self) -> bool:
        if self.transport.is_closed:
            return False
        self.send(HeartbeatRequest(group_id="g", generation_id=1), 0)
        return [one.error_code for one in self.answers(ApiKey.HEARTBEAT, 0)] == [7]


METADATA = MetadataRequest(topics=[])
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1)
TOKEN = SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")
