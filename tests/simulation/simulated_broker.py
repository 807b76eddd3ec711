"""`app.Broker` over virtual time, with stand-ins for sockets, the controller's thread and channels."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from odradek.broker.app import Broker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.membership import ClusterAccess
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.network.peer import Peer
from odradek.cluster.memory import MemoryServer, MemoryStore
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.wire.headers import decode_response, encode_request

from .virtual_loop import VirtualClock, VirtualLoop


class SimulatedListener:
    """Takes frames by a call; see `odradek.broker.network.server.Listener`."""

    def __init__(self, dispatcher: Dispatcher, port: int) -> None:
        self.dispatcher, self.name, self.host, self.port = dispatcher, "PLAINTEXT", "simulated", port
        self.connections: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 0


class SimulatedQueue:
    """See `odradek.broker.controller_thread.ControllerThread`: work runs in the loop, a little later."""

    is_busy = False

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop, self._working, self._free_s = loop, False, 0.0

    def _work(self, work: Callable[[], Any]) -> Any:
        self._working = True
        try:
            return work()
        finally:
            self._working = False

    def _later(self, work: Callable[..., Any]) -> Any:
        self._free_s = max(self._free_s, self._loop.time()) + self._loop.rng.uniform(0.0001, 0.005)
        return self._loop.call_at(self._free_s, work)

    def run(self, work: Callable[[], Any]) -> Any:
        if self._working:
            return work()
        done: asyncio.Future[Any] = self._loop.create_future()

        def do() -> None:
            try:
                done.set_result(self._work(work))
            except Exception as error:
                done.set_exception(error)

        self._later(do)
        return done

    def post(self, work: Callable[[], object]) -> None:
        self._later(lambda: self._work(work))

    def publish(self, image: Any, delta: Any, change: Callable[[], None]) -> None:
        change()

    async def stop(self) -> None:
        pass

    def let_go(self) -> None:
        pass


class SimulatedBroker(Broker):
    """A broker without sockets and threads."""

    def _bind(self, dispatcher: Dispatcher) -> None:
        self.listeners.append(SimulatedListener(dispatcher, 9000 + self.broker_id))  # type: ignore[arg-type]

    def _use_controller_thread(self, replicas: Any) -> None:
        self._controller_thread = SimulatedQueue(self.loop)  # type: ignore[assignment,arg-type]
        self.controller.event_queue = self._controller_thread
        self.controller.rng = self.loop.rng  # type: ignore[attr-defined]


class _Later:
    context: Any = None
    is_gone = False

    def __init__(self, take: Callable[[Any], None]) -> None:
        self._take = take

    def __call__(self, answer: Any) -> None:
        self._take(answer)

    def refuse(self, reason: str) -> None:
        self._take(None)

    def hold(self, held: bool) -> None:
        pass

    def own(self, frame: Any) -> Any:
        return bytes(frame)


class SimulatedChannel:
    """See `InterBrokerChannel`. Requests keep their order, answers may not; there are no faults."""

    def __init__(self, network: Network, to: int, timeout_ms: int) -> None:
        self.on_broken: Callable[[], object] | None = None
        self._network, self._to, self._free_s, self._timeout_s = network, to, 0.0, timeout_ms / 1000

    def send(self, request: Any, version: int) -> asyncio.Future[Any]:
        loop = self._network.loop
        done: asyncio.Future[Any] = loop.create_future()
        key = int(request.API_KEY)
        frame = b"".join(bytes(part) for part in encode_request(key, version, 1, "broker", request))[4:]

        def arrive() -> None:
            self._network.trace.append((loop.time(), self._to, key))

            def answer(given: Any) -> None:
                content = b"".join(bytes(part) for part in given.buffers)[4:]
                loop.call_later(loop.rng.uniform(0.0001, 0.005), receive, content)

            def receive(content: bytes) -> None:
                if not done.done():
                    done.set_result(decode_response(content, key, version)[1])

            dispatcher = self._network.brokers[self._to].listeners[0].dispatcher  # type: ignore[attr-defined]
            at_once = dispatcher.dispatch(Peer("simulated", 1, "c", "PLAINTEXT"), frame, _Later(answer))
            if at_once is not None:
                answer(at_once)

        self._free_s = max(self._free_s, loop.time()) + loop.rng.uniform(0.0001, 0.005)
        loop.call_at(self._free_s, arrive)
        return done

    def send_negotiated(self, request: Any, newest: int) -> asyncio.Future[Any]:
        return self.send(request, newest)

    def reset(self, reason: str) -> None:
        pass

    def close(self) -> None:
        pass


class Network:
    """Brokers that reach each other; see `InterBrokerTransport`.

    Attributes:
        loop, clock: time.
        server: the metadata store.
        brokers: by their ids.
        trace: when a request came, to which broker, and its API key.
    """

    def __init__(self, loop: VirtualLoop, brokers: int) -> None:
        self.loop, self.clock = loop, VirtualClock(loop)
        self.server = MemoryServer(self.clock)
        self.trace: list[tuple[float, int, int]] = []
        self.brokers = [self._make(number) for number in range(brokers)]

    def channel(self, broker_id: int, endpoint: Any, client_id: str, timeout_ms: int) -> SimulatedChannel:
        return SimulatedChannel(self, broker_id, timeout_ms)

    def _make(self, number: int) -> SimulatedBroker:
        config = BrokerConfig(
            {"broker.id": str(number), "log.dirs": "/data", "listeners": "PLAINTEXT://simulated:0"}
        )
        return SimulatedBroker(
            config,
            clock=self.clock,
            files=MemoryFileSystem(random.Random(number)),
            rng=random.Random(number),
            cluster=ClusterAccess(partial(MemoryStore, self.server), self),  # type: ignore[arg-type]
        )
