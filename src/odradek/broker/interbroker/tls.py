"""TLS of connections to other brokers: with the configs of the listener that they lead to.

A broker is a client here, and shows the certificate of its own listener. Where that changes, connections that
are made from then on have the new one.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.config.listener_overrides import ListenerSsl
from odradek.security.key_stores import Stamps, stamps_of
from odradek.security.ssl_configs import TlsConfigError
from odradek.security.ssl_contexts import client_context

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.cluster.nodes import Endpoint


class _Made(NamedTuple):
    """A context, and what it was made of."""

    settings: ListenerSsl
    stamps: Stamps
    context: ssl.SSLContext


class InterBrokerTls:
    """Makes the contexts of such connections."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        """
        Args:
            config: of this broker, as it is now.
        """
        self._config = config
        self._made: dict[str, _Made] = {}

    def context_for(self, endpoint: Endpoint) -> ssl.SSLContext | None:
        """Return the context of a connection to a broker; None for one that is not encrypted.

        Raises:
            TlsConfigError: the configs cannot be used.
        """
        protocol, listener = endpoint.security_protocol, endpoint.listener
        if not protocol.endswith("SSL"):
            return None
        settings = ListenerSsl.of(self._config(), listener, protocol)
        stamps = stamps_of(settings.configs)
        current = self._made.get(listener)
        if current is not None and current.settings == settings and current.stamps == stamps:
            return current.context
        try:
            context = client_context(settings.configs)
        except TlsConfigError:
            if current is None:
                raise
            # As the listener does: what cannot be read yet is told there, and what there was still holds.
            return current.context
        self._made[listener] = _Made(settings, stamps, context)
        return context
