"""The client ids of what brokers ask of each other: `broker-3-fetcher-0`, as Kafka's brokers call themselves.

By them a broker that passes for an older release knows what is asked by another one of its cluster, and
answers that whatever the release has (`odradek.broker.kafka_versions`). Nobody may do more because of such an
id: what only brokers may do is authorized.
"""

from __future__ import annotations

import re

_BROKER = re.compile(r"broker-([0-9]{1,10})-(.+)")


def client_id_of(broker_id: int, purpose: str) -> str:
    """Return the client id of a broker's requests to another.

    Args:
        broker_id: who asks.
        purpose: what for; each has a connection of its own.
    """
    return f"broker-{broker_id}-{purpose}"


def purpose_of(client_id: str | None) -> tuple[int, str] | None:
    """Return which broker asks by this client id, and what for; None for anybody else's."""
    match = None if client_id is None else _BROKER.fullmatch(client_id)
    return None if match is None else (int(match[1]), match[2])
