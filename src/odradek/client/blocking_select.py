"""Wait for the first of several brokers that owe an answer, over blocking sockets."""

from __future__ import annotations

import select
from collections.abc import Mapping
from contextlib import ExitStack

from odradek.client.blocking import BlockingCluster, BlockingConnection, now_ms
from odradek.client.core.silence import next_look_ms, silent_and_dead
from odradek.client.errors import ConnectionFailedError


def await_any(
    cluster: BlockingCluster, connections: Mapping[int, BlockingConnection], timeout_ms: float
) -> list[int]:
    """As `answering`.

    Raises:
        ConnectionFailedError: as `answering`, and if none does in time.
    """
    ready = answering(cluster, connections, timeout_ms)
    if not ready:
        raise ConnectionFailedError("no broker has answered in time")
    return ready


def answering(
    cluster: BlockingCluster, connections: Mapping[int, BlockingConnection], timeout_ms: float
) -> list[int]:
    """Return which of the brokers answer, by their ids; none if none does in time.

    Raises:
        ConnectionFailedError: a connection is closed, or one of the brokers is dead while all are silent; its
            connection is then closed.
    """
    for connection in connections.values():
        if connection.closed:
            raise ConnectionFailedError(f"the connection to {connection.address} is closed")
    ready = [node for node, connection in connections.items() if connection.has_bytes]
    if ready:
        return ready
    with ExitStack() as using:
        for connection in connections.values():
            using.enter_context(connection.in_use())
        return _select(cluster, connections, timeout_ms)


def _select(
    cluster: BlockingCluster, connections: Mapping[int, BlockingConnection], timeout_ms: float
) -> list[int]:
    nodes = {connection.fileno(): node for node, connection in connections.items()}
    began = now_ms()
    pause_ms = cluster.patience_ms
    while True:
        left_ms = timeout_ms - (now_ms() - began)
        readable, _, _ = select.select(list(nodes), [], [], max(0.0, min(pause_ms, left_ms)) / 1000)
        if readable:
            return [nodes[descriptor] for descriptor in readable]
        if left_ms <= pause_ms:
            return []
        silent_ms = now_ms() - began
        for connection in connections.values():
            connection.tell_of_silence(silent_ms)
        if dead := cluster.dead_of(connections):
            for node in dead:
                connections[node].close()
            raise ConnectionFailedError(silent_and_dead(f"broker {dead[0]}", silent_ms))
        pause_ms = next_look_ms(silent_ms)
