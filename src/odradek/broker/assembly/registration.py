"""The registration of a broker: what others are to know of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.cluster.inter_broker_versions import registration_version
from odradek.cluster.nodes import BrokerRegistration

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.network.server import Listener
    from odradek.util.clock import Clock


def broker_registration(
    config: BrokerConfig, listeners: Iterable[Listener], clock: Clock
) -> BrokerRegistration:
    """The registration of a broker whose listeners are bound."""
    ports = {listener.name: listener.port for listener in listeners}
    # Looking the machine's name up may take its time: only where no host is given.
    unnamed = any(not endpoint.host for endpoint in config.advertised_endpoints)
    return BrokerRegistration(
        endpoints=config.registration_endpoints(ports, _default_host() if unnamed else ""),
        rack=config.broker_rack,
        timestamp_ms=clock.now_ms(),
        version=registration_version(config.inter_broker_protocol_version),
    )


def _default_host() -> str:
    import socket

    return socket.getfqdn()
