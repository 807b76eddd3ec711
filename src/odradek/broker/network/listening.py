"""The listeners of one broker: opened as the configs say, and changed with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.config.listener_overrides import ListenerSsl, listener_config
from odradek.broker.config.listeners import ALL_ADDRESSES
from odradek.broker.network.connection_slots import NO_BOUND, ConnectionSlots
from odradek.broker.network.limits import network_limits
from odradek.broker.network.server import AddressInUse, Listener
from odradek.broker.network.write_turn import WriteTurn
from odradek.cluster.configs.config_def import ConfigError

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.network.dispatch import Dispatcher
    from odradek.broker.network.handshakes import Handshakes
    from odradek.broker.network.tls_listener import ListenerTls
    from odradek.broker.quotas.connection_quotas import ConnectionQuotas
    from odradek.broker.requests.login_gate import GateKeeper
    from odradek.cluster.nodes import Endpoint
    from odradek.util.timers import Timers
    from odradek.util.undo import Undo

_LOOK_AT_FILES_MS = 5_000
"""How often the files of key stores and trust stores are looked at; Kafka waits to be told."""
_DRAIN_MS = 2_000
"""For how long answers may still leave after a stop, before whoever does not read is cut off."""


class Listening:
    """Opens and changes listeners. Made in the event loop's thread.

    Attributes:
        listeners: in the order of the configs.
        slots: how many connections there are, and may be.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: Callable[[], BrokerConfig],
        quotas: ConnectionQuotas,
        undo: Undo,
        timers: Timers,
        monotonic_s: Callable[[], float],
    ) -> None:
        """
        Args:
            loop: the event loop.
            config: the broker's, as they are now.
            quotas: count how fast connections come.
            undo: gets what closes again what is opened.
            timers, monotonic_s: the time by which connections are idle.
        """
        self._loop = loop
        self._config = config
        self._quotas = quotas
        self._undo = undo
        self._timers = timers
        self._monotonic_s = monotonic_s
        self._handshakes: Handshakes | None = None
        self.listeners: list[Listener] = []
        self.slots = ConnectionSlots()

    def open(self, dispatcher: Dispatcher, start_logins: Callable[[str], GateKeeper]) -> None:
        """Take the ports, without accepting yet.

        Args:
            dispatcher: answers requests.
            start_logins: makes the logins of a listener, by its name.

        Raises:
            AddressInUse: another process listens there.
            ConfigError: an address is none of this machine's, or a listener's TLS cannot be.
        """
        config = self._config()
        limits = network_limits(config)
        write_turn = WriteTurn()
        for endpoint in config.listener_endpoints:
            listener = Listener(
                dispatcher,
                limits,
                name=endpoint.listener,
                security_protocol=endpoint.security_protocol,
                write_turn=write_turn,
                tls=self._tls_of(config, endpoint),
                slots=self.slots,
                timers=self._timers,
                monotonic_s=self._monotonic_s,
            )
            if endpoint.security_protocol.startswith("SASL"):
                listener.sasl = start_logins(endpoint.listener)
            try:
                listener.bind(endpoint.host, endpoint.port)
            except AddressInUse as error:
                raise AddressInUse(
                    f"{error}: another process listens there. "
                    "Stop it, or choose another port (0 takes a free one)."
                ) from error
            except OSError as error:
                raise ConfigError(
                    f"cannot listen on {endpoint.connection_string}: {error.strerror or error}. "
                    "Choose an address of this machine."
                ) from error
            self.listeners.append(listener)
            self._undo.push(f"sending threads {endpoint.listener}", listener.sending_threads.close)
            self._undo.push(f"listener {endpoint.listener}", listener.stop_accepting)
        self._limit_listeners()
        if self._handshakes is not None:
            files = self._timers.every("certificates", _LOOK_AT_FILES_MS, self.reload_certificates)
            self._undo.push("certificates", files.stop)

    def start(self) -> None:
        """Accept connections."""
        # Done where a start fails after this; a stop has none left by then.
        self._undo.push("connections", self._abort_connections)
        for listener in self.listeners:
            listener.start()

    def stop_accepting(self) -> None:
        """Accept no more of them; those that there are go on."""
        for listener in self.listeners:
            listener.stop_accepting()

    async def drain(self) -> None:
        """Close all connections: let what has been answered leave, for a while; then cut off whoever does not
        read."""
        for listener in self.listeners:
            listener.close_connections()
        deadline = self._loop.time() + _DRAIN_MS / 1000
        while any(listener.connections for listener in self.listeners):
            if self._loop.time() > deadline:
                self._abort_connections()
                await asyncio.sleep(0)
                return
            await asyncio.sleep(0.002)

    def abort(self) -> None:
        """Stop as the end of a process does: nothing that has been answered leaves any more."""
        self.stop_accepting()
        self._abort_connections()

    def _abort_connections(self) -> None:
        for listener in self.listeners:
            listener.abort_connections()

    @property
    def host(self) -> str:
        """The first listener's address, as a client on this machine can use it."""
        host = self.listeners[0].host
        if host in ALL_ADDRESSES:
            return "::1" if ":" in host else "127.0.0.1"
        return host or "127.0.0.1"

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.listeners[0].port

    def reconfigure(self) -> None:
        """Take over changed configs; they hold for what comes from now on."""
        config = self._config()
        limits = network_limits(config)
        self._limit_listeners()
        for listener in self.listeners:
            listener.update_limits(limits)
            if listener.sasl is not None:
                listener.sasl.reconfigure(config)

    def _limit_listeners(self) -> None:
        """Take over what holds for single listeners (KIP-402, KIP-612)."""
        config, slots, quotas = self._config(), self.slots, self._quotas
        several = len(self.listeners) > 1
        slots.protected = config.inter_broker_listener if several else None
        quotas.per_second = config.max_connection_creation_rate
        for listener in self.listeners:
            most = listener_config(config, listener.name, "max.connections")
            slots.most_at[listener.name] = NO_BOUND if most is None else int(most)
            rate = listener_config(config, listener.name, "max.connection.creation.rate")
            quotas.limit_listener(listener.name, quotas.per_second if rate is None else int(rate))
            listener.connection_quotas = quotas

    def reload_certificates(self) -> None:
        """Take over changed TLS configs, and what has changed in the files that they name."""
        for listener in self.listeners:
            if listener.tls is not None:
                listener.tls.update(ListenerSsl.of(self._config(), listener.name, listener.security_protocol))

    def check(self, config: BrokerConfig) -> None:
        """Check configs that are to be changed.

        Raises:
            ConfigError: a listener's TLS, or its logins, cannot be.
        """
        for listener in self.listeners:
            if listener.sasl is not None:
                listener.sasl.check(config)
            if listener.tls is not None:
                listener.tls.check(ListenerSsl.of(config, listener.name, listener.security_protocol))

    def _tls_of(self, config: BrokerConfig, endpoint: Endpoint) -> ListenerTls | None:
        if not endpoint.security_protocol.endswith("SSL"):
            return None
        # Not before it is needed: a broker in a test starts in a blink.
        from odradek.broker.network.handshakes import Handshakes
        from odradek.broker.network.tls_listener import ListenerTls

        if self._handshakes is None:
            self._handshakes = Handshakes(self._loop)
            self._undo.push("TLS handshakes", self._handshakes.close)
        settings = ListenerSsl.of(config, endpoint.listener, endpoint.security_protocol)
        return ListenerTls(endpoint.listener, settings, self._handshakes)
