"""What bounds connections and what they hold: over real sockets."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import Any

import pytest

from odradek.broker.apis.registry import Handler, Handlers
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.network.connection import Connection
from odradek.broker.network.connection_slots import ConnectionSlots
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.network.limits import NetworkLimits, network_limits
from odradek.broker.network.memory_pool import MemoryPool
from odradek.broker.network.server import Listener
from odradek.broker.network.socket_protocol import SocketProtocol
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

from ..net import (
    BrokerStandIn,
    answer_heartbeat,
    close_streams,
    connect,
    heartbeat,
    listening,
    read_eof,
    read_response,
    run,
    settle,
)


def test_requests_in_work_are_bounded_per_connection() -> None:
    async def main() -> None:
        waiting: list[Promise[Any]] = []

        def handle(context: Any, message: HeartbeatRequest) -> Any:
            waiting.append(Promise(asyncio.get_running_loop()))
            return waiting[-1]

        async with listening({ApiKey.HEARTBEAT: handle}) as listener:
            reader, writer = await connect(listener)
            writer.write(b"".join(heartbeat(number) for number in range(700)))
            for done in range(700):
                await settle(lambda done=done: len(waiting) >= min(done + 256, 700))  # type: ignore[misc]
                assert len(waiting) <= done + 256
                waiting[done].set_result(HeartbeatResponse())
            for number in range(700):
                assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == number
            # The last frame that waited had reached the bound: the socket is read again all the same.
            writer.write(heartbeat(700))
            await settle(lambda: len(waiting) == 701)
            waiting[700].set_result(HeartbeatResponse())
            assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 700
            writer.close()

    run(main)


def test_queued_max_request_bytes_holds_other_connections_back() -> None:
    async def main() -> None:
        waiting: list[Promise[Any]] = []

        def handle(context: Any, message: HeartbeatRequest) -> Any:
            waiting.append(Promise(asyncio.get_running_loop()))
            return waiting[-1]

        size = len(heartbeat(0)) - 4
        limits = NetworkLimits(queued_max_request_bytes=3 * size)
        async with listening({ApiKey.HEARTBEAT: handle}, limits) as listener:
            clients = [await connect(listener) for _ in range(5)]
            for _, writer in clients:
                writer.write(heartbeat(1))
            for number in range(5):
                await settle(lambda number=number: len(waiting) >= min(number + 3, 5))  # type: ignore[misc]
                assert len(waiting) <= number + 3
                assert listener.queued_bytes <= limits.queued_max_request_bytes
                waiting[number].set_result(HeartbeatResponse())
            for reader, writer in clients:
                assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 1
                writer.close()
            assert listener.queued_bytes == 0

    run(main)


def test_who_waits_for_room_goes_on_when_the_bound_is_lifted() -> None:
    class Waits:
        told = 0

        def resume_soon(self) -> None:
            self.told += 1

    for limit, told in ((50, 0), (200, 1), (0, 1), (-1, 1)):
        pool, waits = MemoryPool(100), Waits()
        pool.used = 150
        assert not pool.has_room(waits)
        pool.resize(limit)
        assert waits.told == told


def test_max_connections_per_ip() -> None:
    async def main() -> None:
        limits = NetworkLimits(max_connections_per_ip=2)
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}, limits) as listener:
            first, second = await connect(listener), await connect(listener)
            await settle(lambda: len(listener.connections) == 2)
            third = await connect(listener)
            assert await read_eof(third[0]) == b""
            assert listener.refused == 1
            first[1].close()
            await settle(lambda: len(listener.connections) == 1)
            fourth = await connect(listener)
            fourth[1].write(heartbeat(4))
            assert (await read_response(fourth[0], ApiKey.HEARTBEAT, 0))[0] == 4
            for _, writer in (second, third, fourth):
                writer.close()

    run(main)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6 here")
def test_an_ipv4_address_is_one_by_whichever_socket_it_comes() -> None:
    async def main() -> None:
        config = BrokerConfig({"max.connections.per.ip.overrides": "127.0.0.1:1,0:0:0:0:0:0:0:1:1"})
        async with listening({}, network_limits(config), host="::") as listener:
            first = await connect(listener)
            await settle(lambda: len(listener.connections) == 1)
            assert next(iter(listener.connections)).peer.host == "127.0.0.1"
            second = await connect(listener)
            assert await read_eof(second[0]) == b""
            third = await asyncio.open_connection("::1", listener.port)
            await settle(lambda: len(listener.connections) == 2)
            fourth = await asyncio.open_connection("::1", listener.port)
            assert await read_eof(fourth[0]) == b""
            assert listener.refused == 2
            for _, writer in (first, second, third, fourth):
                writer.close()

    run(main)


def test_limits_may_change_while_it_runs() -> None:
    async def main() -> None:
        async with listening({}, NetworkLimits(max_connections=1)) as listener:
            first, second = await connect(listener), await connect(listener)
            await settle(lambda: listener.accepted == 1)
            listener.update_limits(NetworkLimits(max_connections=3, max_connections_per_ip=2))
            await settle(lambda: listener.accepted == 2)
            third = await connect(listener)
            assert await read_eof(third[0]) == b""
            for _, writer in (first, second, third):
                writer.close()

    run(main)


def test_max_connections_stops_accepting_until_one_closes() -> None:
    async def main() -> None:
        limits = NetworkLimits(max_connections=1)
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}, limits) as listener:
            first = await connect(listener)
            await settle(lambda: len(listener.connections) == 1)
            second = await connect(listener)
            second[1].write(heartbeat(2))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(second[0].readexactly(1)), 0.05)
            assert listener.accepted == 1
            first[1].close()
            await settle(lambda: listener.accepted == 2)
            second[1].close()

    run(main)


def test_listeners_of_a_broker_share_its_slots() -> None:
    """The broker's number, a listener's own, and an address's; the listener between brokers comes before."""

    async def main() -> None:
        slots = ConnectionSlots()
        slots.protected = "INTERNAL"
        limits = NetworkLimits(max_connections=2, max_connections_per_ip=5)
        broker: Any = BrokerStandIn()
        table = {int(ApiKey.HEARTBEAT): Handler(ApiKey.HEARTBEAT, range(20), answer_heartbeat)}
        dispatcher = Dispatcher(broker, Handlers({}, table))
        outer, inner = (
            Listener(dispatcher, limits, name=name, slots=slots) for name in ("CLIENTS", "INTERNAL")
        )
        for listener in (outer, inner):
            listener.bind("127.0.0.1", 0)
            listener.start()
        clients = [await connect(outer) for _ in range(3)]
        await settle(lambda: len(outer.connections) == 2)
        now = asyncio.get_running_loop().time
        began = now()
        await settle(lambda: now() > began)  # the loop's time has steps
        # The longest silent one goes for each broker that comes; the third client still has to wait.
        clients[0][1].write(heartbeat(1))
        await read_response(clients[0][0], ApiKey.HEARTBEAT, 0)
        broker_connection = await connect(inner)
        assert await read_eof(clients[1][0]) == b""
        await settle(lambda: slots.total == 2)
        assert (len(outer.connections), len(inner.connections)) == (1, 1)
        another = await connect(inner)
        assert await read_eof(clients[0][0]) == b""
        # Where nobody is left to go, brokers are let in all the same, up to their listener's own number.
        slots.most_at["INTERNAL"] = 3
        third, fourth = await connect(inner), await connect(inner)
        await settle(lambda: len(inner.connections) == 3)
        assert slots.total == 3 and not outer.connections
        broker_connection[1].close()
        fourth[1].write(heartbeat(4))
        await read_response(fourth[0], ApiKey.HEARTBEAT, 0)
        for _, writer in (another, third):
            writer.close()
        await settle(lambda: len(inner.connections) == 1 and len(outer.connections) == 1)
        # All of one address, over both listeners.
        for listener in (outer, inner):
            listener.update_limits(NetworkLimits(max_connections_per_ip=2))
        too_many = await connect(outer)
        assert await read_eof(too_many[0]) == b""
        for _, writer in (*clients, fourth, too_many):
            writer.close()
        for listener in (outer, inner):
            close_streams(listener.port)
            listener.stop_accepting()
            listener.abort_connections()
        await settle(lambda: slots.total == 0)
        assert not slots.per_host
        for listener in (outer, inner):
            listener.sending_threads.close()

    run(main)


def test_idle_connections_are_closed_but_not_those_that_wait_for_an_answer() -> None:
    async def main() -> None:
        waiting: list[Promise[Any]] = []

        def handle(context: Any, message: HeartbeatRequest) -> Any:
            waiting.append(Promise(asyncio.get_running_loop()))
            return waiting[-1]

        async with listening({ApiKey.HEARTBEAT: handle}, NetworkLimits(idle_ms=100)) as listener:
            idle, busy = await connect(listener), await connect(listener)
            busy[1].write(heartbeat(1))
            assert await read_eof(idle[0]) == b""
            assert len(listener.connections) == 1
            waiting[0].set_result(HeartbeatResponse())
            assert (await read_response(busy[0], ApiKey.HEARTBEAT, 0))[0] == 1
            idle[1].close()
            busy[1].close()

    run(main)


def test_unfinished_frames_are_bounded_together_and_the_longest_silent_goes() -> None:
    async def main() -> None:
        size = 400_000
        limits = NetworkLimits(max_request_bytes=10_000_000, partial_frames_bytes=int(2.5 * size))
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}, limits) as listener:
            clients = []
            for number in range(4):
                reader, writer = await connect(listener)
                writer.write(struct.pack(">i", 9_000_000) + bytes(size - 4))
                clients.append((reader, writer))
                if number >= 2:
                    assert await read_eof(clients[number - 2][0]) == b""
                held = min(number + 1, 2) * size
                await settle(lambda held=held: listener.partial_bytes == held)  # type: ignore[misc]
            assert len(listener.connections) == 2
            for _, writer in clients:
                writer.close()
            await settle(lambda: not listener.connections)
            assert listener.partial_bytes == 0

    run(main)


def test_a_declared_size_alone_takes_no_memory() -> None:
    async def main() -> None:
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}) as listener:
            clients = [await connect(listener) for _ in range(50)]
            for _, writer in clients:
                writer.write(struct.pack(">i", 100_000_000) + b"x")
            await settle(lambda: listener.partial_bytes == 5 * 50)
            for _, writer in clients:
                writer.close()

    run(main)


def test_a_connection_that_cannot_be_taken_up_is_closed_and_the_next_one_is_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong with one, the listener goes on: a broker that accepts nobody says nothing else."""
    made: list[str] = []

    async def main() -> None:
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}) as listener:

            def protocol(connection: Connection) -> SocketProtocol:
                made.append(connection.peer.host)
                if len(made) == 1:
                    raise RuntimeError("a bug")
                return SocketProtocol(connection)

            monkeypatch.setattr("odradek.broker.network.server.SocketProtocol", protocol)
            first, _ = await connect(listener)
            assert await read_eof(first) == b""
            reader, writer = await connect(listener)
            writer.write(heartbeat(7))
            assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 7
            assert len(made) == 2
            writer.close()

    with caplog.at_level(logging.ERROR):
        run(main)
    assert "RuntimeError: a bug" in caplog.text
