"""Dynamic configs judged as a whole: before a change is written, and when what is stored is taken over.

Each value has been looked at alone before (`BrokerConfig.validate_dynamic`). Here the configs are looked at
as they would be with all of them: by what a start asks (`BrokerConfig.check`), and by what holds while a
broker runs. Kafka: `DynamicBrokerConfig.processReconfiguration`, with each `validateReconfiguration`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.broker.config.listener_overrides import listener_config, listener_prefix
from odradek.broker.config.names import base_name, find_key
from odradek.broker.config.protection import is_kept_class
from odradek.cluster.configs.config_def import ConfigError, ConfigType

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig

logger = logging.getLogger(__name__)

Layer = Mapping[str, str]

_POOLS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
"""Sizes that are doubled or halved at most at a time; a typing error does not make a billion threads."""

_POOL = "Dynamic thread count update validation failed for"
_ABOVE_ZERO_AT_LISTENERS = ("max.connections", "max.connection.creation.rate")


def check_change(config: BrokerConfig, changed: Layer, *, per_broker: bool) -> BrokerConfig:
    """Check what is to be the dynamic configs of this broker, or of all, and return the configs with it.

    Args:
        config: as it is now.
        changed: all configs of the entity after the change, passwords in clear.
        per_broker: whether they are for one broker, not for all.

    Raises:
        ConfigError: a broker could not go on with them, or not start.
    """
    config.validate_dynamic(changed, per_broker=per_broker)
    trial = config.after_change(changed, per_broker=per_broker)
    _check_whole(config, trial)
    _check_pools(config, trial)
    return trial


def update_dynamic(config: BrokerConfig, default: Layer, own: Layer) -> set[str]:
    """Take over the dynamic configs that stand in the store.

    What may not be dynamic, is no valid value, or does not go with the others is passed over, and told once,
    so that a bad node brings no broker down, be it by a start or while it runs.

    Args:
        config: the broker's.
        default: `brokers/<default>`, of all brokers.
        own: `brokers/<id>`, stronger.

    Returns:
        The names whose values have changed.
    """
    refused: dict[str, str] = {}
    if default or own:
        # Else nothing has to be decoded, and most brokers need not load what does; nor to be checked, as the
        # start has checked what stands in the file.
        decode = config.dynamic_passwords.decode
        default, own, refused = _usable_layers(config, decode(default), decode(own))
    for name, why in sorted(refused.items()):
        if config.passed_over.get(name) != why:
            logger.error("a dynamic config is passed over name=%s: %s", name, why)
    config.passed_over = refused
    return config.put_layers(default, own)


def _usable_layers(config: BrokerConfig, default: Layer, own: Layer) -> tuple[Layer, Layer, dict[str, str]]:
    """Choose from stored configs those that this broker can go on with.

    Returns:
        What is left of both, and for each name that is not why.
    """
    refused: dict[str, str] = {}
    layers: tuple[dict[str, str], dict[str, str]] = (
        _valid_alone(config, default, False, refused),
        _valid_alone(config, own, True, refused),
    )
    if _problem(config, layers) is None:
        return *layers, refused
    # Some are only valid together, so each gets another turn when one more is in.
    valid: tuple[dict[str, str], dict[str, str]] = {}, {}
    waiting = [(at, name) for at in (0, 1) for name in sorted(layers[at])]
    goes_on = True
    while goes_on:
        goes_on = False
        for at, name in list(waiting):
            valid[at][name] = layers[at][name]
            problem = _problem(config, valid)
            if problem is None:
                waiting.remove((at, name))
                refused.pop(name, None)
                goes_on = True
            else:
                del valid[at][name]
                refused[name] = problem
    return *valid, refused


def _valid_alone(
    config: BrokerConfig, layer: Layer, per_broker: bool, refused: dict[str, str]
) -> dict[str, str]:
    valid: dict[str, str] = {}
    for name, text in layer.items():
        try:
            config.validate_dynamic({name: text}, per_broker=per_broker)
        except ConfigError as error:
            refused[name] = str(error)
        else:
            valid[name] = text
    return valid


def _problem(config: BrokerConfig, layers: tuple[Layer, Layer]) -> str | None:
    trial = config.with_layers(*layers)
    try:
        _check_whole(config, trial)
    except ConfigError as error:
        return str(error)
    return None


def _check_whole(config: BrokerConfig, trial: BrokerConfig) -> None:
    """Check configs against what holds for every start, and while a broker runs.

    Raises:
        ConfigError: they do not hold to it.
    """
    names = tuple(trial.dynamic_names())
    _check_classes(trial, names)
    trial.check()
    _check_listeners(config, trial)
    for name in _POOLS:
        if name in names and (value := trial.get(name)) is not None and int(str(value)) < 1:
            raise ConfigError(f"{_POOL} {name}={value}, value should be at least 1")


def _check_classes(trial: BrokerConfig, names: Iterable[str]) -> None:
    """Refuse classes of somebody else's, which are not loaded here.

    Raises:
        ConfigError: a config names such a class.
    """
    for name in names:
        key, text = find_key(name), trial.text_of(name)
        if (
            key is not None
            and key.type is ConfigType.CLASS
            and not is_kept_class(base_name(name), text or "")
        ):
            raise ConfigError.invalid(name, text, f"Class {text} could not be found.")


def _check_listeners(config: BrokerConfig, trial: BrokerConfig) -> None:
    """Check that what is listened on stays what it was at the start, and that its bounds leave room for
    somebody.

    Raises:
        ConfigError: a listener would change, or would let nobody in any more.
    """
    opened = {endpoint.listener: endpoint for endpoint in config.static_endpoints}
    trial_endpoints = {endpoint.listener: endpoint for endpoint in trial.listener_endpoints}
    for name, endpoint in opened.items():
        other = trial_endpoints.get(name)
        if other is not None and other.security_protocol != endpoint.security_protocol:
            raise ConfigError(
                f"Security protocol cannot be updated for existing listener ListenerName({name})"
            )
    if opened != trial_endpoints:
        raise ConfigError(
            "listeners cannot be changed while this broker runs: give them in server.properties, and start "
            f"it again. It listens on {','.join(endpoint.connection_string for endpoint in opened.values())}"
        )
    for name in opened:
        for base in _ABOVE_ZERO_AT_LISTENERS:
            names = (base, listener_prefix(name) + base)
            # 0 in server.properties is the operator's own doing; by a dynamic config nobody could mend it.
            if any(name in trial.dynamic_names() for name in names):
                text = listener_config(trial, name, base)
                if text is not None and int(text) <= 0:
                    raise ConfigError(f"Invalid {base} {int(text)}: nobody could connect to {name} any more")


def _check_pools(config: BrokerConfig, trial: BrokerConfig) -> None:
    """Check that a pool grows to its double at most, and shrinks to its half, at a time.

    Raises:
        ConfigError: one would change by more.
    """
    for name in _POOLS:
        before, after = int(str(config.get(name))), int(str(trial.get(name)))
        if after == before:
            continue
        if after < before // 2:
            raise ConfigError(
                f"{_POOL} {name}={after}, value should be at least half the current value {before}"
            )
        if after > before * 2:
            raise ConfigError(
                f"{_POOL} {name}={after}, value should not be greater than double the current value {before}"
            )
