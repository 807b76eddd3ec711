"""Puts a listener's logins together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.sasl.gate import SaslListener
from odradek.broker.sasl.settings import ListenerSasl, listener_sasl
from odradek.cluster.paths import sanitize
from odradek.sasl.scram import FindCredential, Known
from odradek.sasl.scram_credentials import ScramCredential
from odradek.sasl.scram_decoys import Decoy, MakeDecoy, Shape, count_shapes, decoy

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.network.dispatch import Dispatcher
    from odradek.broker.services import BrokerServices


def start_logins(broker: BrokerServices, dispatcher: Dispatcher, listener: str) -> SaslListener:
    """The logins at a listener; its settings are read from the broker's configs.

    Raises:
        ConfigError: see `listener_sasl`.
    """
    read = partial(read_settings, broker, listener)
    logins = SaslListener(
        read(broker.config), dispatcher, broker.clock, broker.timers, broker.pauses, broker.loop, read
    )
    kind, tags = "kafka.server:socket-server-metrics", {"listener": listener}
    metrics = logins.metrics
    gauges: dict[str, Callable[[], float]] = {
        "successful-authentication-total": lambda: metrics.successful,
        "failed-authentication-total": lambda: metrics.failed,
        "successful-reauthentication-total": lambda: metrics.successful_again,
        "failed-reauthentication-total": lambda: metrics.failed_again,
        "expired-connections-killed-count": lambda: metrics.expired,
    }
    for name, count in gauges.items():
        broker.metrics.gauge(kind, name, count, **tags)
    return logins


def read_settings(broker: BrokerServices, listener: str, config: BrokerConfig) -> ListenerSasl:
    """See `listener_sasl`; credentials are those of the broker's image of the cluster."""
    has_tokens = bool(config.delegation_token_secret_key or config.delegation_token_master_key)
    return listener_sasl(
        config,
        listener,
        partial(_finder, broker),
        make_decoys=partial(_decoys, broker),
        has_tokens=has_tokens,
    )


def _finder(broker: BrokerServices, mechanism: str) -> FindCredential:
    def find(name: str, is_token: bool) -> Known | None:
        if is_token:
            tokens = broker.delegation_tokens
            return None if tokens is None else tokens.find(name, mechanism)
        text = broker.image.config(f"users/{sanitize(name)}").get(mechanism)
        if text is None:
            return None
        try:
            return Known(ScramCredential.from_text(text), name)
        except ValueError:
            return None  # somebody else wrote it; nobody can log in by it

    return find


def _decoys(broker: BrokerServices, mechanism: str) -> MakeDecoy:
    """Return what names are told that the cluster does not know, by the users that it knows now."""
    counted: Mapping[str, Mapping[str, str]] | None = None
    shapes: Mapping[Shape, int] = {}

    def make(name: str, is_token: bool) -> Decoy:
        nonlocal counted, shapes
        configs = broker.image.configs
        if configs is not counted:
            shapes = count_shapes(_credentials(configs, mechanism))
            counted = configs
        # The credentials of tokens are all made alike.
        return decoy(broker.scram_decoy_key, mechanism, name, {} if is_token else shapes)

    return make


def _credentials(configs: Mapping[str, Mapping[str, str]], mechanism: str) -> Iterator[ScramCredential]:
    for entity, config in configs.items():
        text = config.get(mechanism) if entity.startswith("users/") else None
        if text is not None:
            try:
                yield ScramCredential.from_text(text)
            except ValueError:
                continue
